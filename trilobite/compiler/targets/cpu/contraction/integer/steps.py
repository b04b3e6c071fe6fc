"""Sizes of integer convolutions: how they are cut into units, and the words of their steps.

Enters: a `conv_integer` and its epilogue. Leaves: kernels and steps. One kernel text serves all sizes of a
combination of rank, result and epilogue; sizes are words of the step, those that count 32-bit words of a row
once for each form that a weight may have.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from trilobite.base.dtypes import int32
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.kernel import scratch_of
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.integer.kernel import FormWords, IntegerWords, integer_text
from trilobite.compiler.targets.cpu.contraction.integer.rows import rows_step
from trilobite.compiler.targets.cpu.contraction.multiply import neighbours_limit
from trilobite.compiler.targets.cpu.contraction.problem import (
    Part,
    Problem,
    as_rows,
    gathered,
    margins,
    pointwise,
    with_long_rows,
)
from trilobite.compiler.targets.cpu.contraction.tables import (
    Array,
    axis_words,
    depth_blocks,
    groups_of,
    runs_of,
    tables,
    tap_words,
)
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling
from trilobite.compiler.targets.cpu.contraction.words import Content, contents, forms
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.primitives.conv_integer import outside_of, panel_words, quads
from trilobite.ir.graph import Equation
from trilobite.ir.types import Dim, size_of
from trilobite.native.host import Host

_PIXELS = 192  # of a block, if the rows of so many stay in the second-level cache
_ROWS_BYTES = 128 << 10  # of form 1; of form 2 twice as many
_TABLE_BYTES = 64 << 10
_DEPTH = 512  # words of a block of depth: 16 columns of it are 32 KiB, and sums rarely leave registers
_UNITS = 16  # wanted, so that threads share the work evenly
_UNEVEN = 128  # of so many parts of all pixels, blocks may miss one
_SERIAL = 1 << 16  # multiplications: below, waking another thread costs more than it brings
_LINE = 16  # positions that a unit makes words of where there are no lines


def lower_integer(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_integer` whose operands are these inputs of the fusion."""
    p = _problem(e)
    around, taps = outside_of(e), math.prod(e.attributes["kernel"])
    tile = Tiling(int32, e.attributes["dtype"], int32, e.attributes["lanes"] // 2)
    source, weight, target = Operand("in", inputs[0]), Operand("in", inputs[1]), Operand("temporary", 0)
    positions = p.batch * math.prod(p.source)
    each, units = _lines(p)
    margin = _margin(p)
    where = source, weight, target
    steps = [rows_step(host, where, positions, each, units, p.groups, p.depth, around, margin or (0, 0))]
    copied, real = p.depth % 4 != 0, 1.0  # also of form 1; how much of the depth is not filled up
    room = (positions + units * sum(margin or ())) * (p.groups * quads(p.depth) * 8)
    kinds = (1, 2) if neighbours_limit(host) else (2,)
    if margin is not None:
        taps //= p.parts[0].kernel[-1]
        real = p.depth / (4 * quads(p.depth))
        p = with_long_rows(replace(p, depth=4 * quads(p.depth), channels=4 * quads(p.depth)), *margin)
    line = max(quads(p.depth) * 4, 1)
    constants: list[Array] = [np.full(line, around, t) for t in (np.uint8, np.uint16)]
    if pointwise(p):
        p = as_rows(p)
    for part in p.parts:
        if part.positions == 0 or p.batch == 0 or p.columns == 0:
            continue
        first = len(constants)
        for form in kinds:
            constants += tables(_in_words(p, form), part, 4)
        buffers = (target if copied else source, target, weight)
        step = integer_step(p, part, tile, epilogue, buffers, kinds, (first, taps), host)
        steps.append(step._replace(flops=step.flops * real))
    why = f"bytes, {p.depth} channels by {len(p.parts)} set(s) of taps, tiles of {ROWS} x {tile.columns}"
    return Lowering(tuple(steps), (room,), tuple(constants), why=why)


def _problem(e: Equation) -> Problem:
    """Without spatial axes, every row of a product is an image."""
    x, kernel = e.inputs[0].type, e.attributes["kernel"]
    if kernel:
        return gathered(e, kernel)
    channels = int(x.shape[-1])
    rows = size_of(x.shape[:-1])
    return Problem(rows, 1, channels, channels, e.attributes["columns"], (), (Part((), (), ()),))


def _lines(p: Problem) -> tuple[int, Dim]:
    """Positions of a unit that makes words of bytes, and how many units: lines where there are any."""
    if p.source:
        return p.source[-1], p.batch * math.prod(p.source[:-1])
    return _LINE, -(-int(p.batch) // _LINE)


def _margin(p: Problem) -> tuple[int, int] | None:
    """What lines need around them so that a row of taps is one run of words; None if that is not worth it: of
    whole fours, bytes are read where they are.
    """
    found = margins(p)
    return None if found is None or (any(found) and p.depth % 4 == 0) else found


def _in_words(p: Problem, form: int) -> Problem:
    """The same with 32-bit words for channels. Long rows are deeper than a position has channels."""
    side_by_side = 1 if p.apart else p.groups
    position = quads(p.channels // side_by_side) * form * side_by_side
    return replace(p, depth=quads(p.depth) * form, channels=position)


def integer_step(
    p: Problem, part: Part, tile: Tiling, epilogue: Epilogue, buffers: tuple[Operand, Operand, Operand],
    kinds: tuple[int, ...], first_table: tuple[int, int], host: Host, result: Operand | None = None,
) -> Step:  # fmt: skip
    """`buffers`: rows of form 1, of form 2, the weight. `kinds`: the forms that a weight may have.
    `first_table`: which constant it is, and how many taps a panel has.
    """
    first, taps = first_table
    panels = -(-p.columns // tile.columns)
    images, outer = p.images
    pixels = part.positions * images
    block = _block(pixels, p, part)
    blocks = -(-pixels // block)
    runs, run = runs_of(panels, -(-_UNITS // (blocks * p.groups)))
    scratch, apart = scratch_of(tile, block, part.tap_count), groups_of(p)
    own = tuple(
        _form_words(p, part, tile, form, taps, buffers[form - 1], first + 2 * i)
        for i, form in enumerate(kinds)
    )
    words: IntegerWords[Content] = IntegerWords(
        buffers[2], epilogue_words(epilogue, result), rows_at=scratch.rows, places_at=scratch.places,
        runs=runs, run=run, panels=panels, groups=p.groups, blocks=blocks, block=block, pixels=pixels,
        taps=part.tap_count, columns=p.columns, image_rows=math.prod(p.out), group_columns=apart.columns,
        group_rows=apart.rows, width=apart.width, forms=own,
    )  # fmt: skip
    text = _text(host, tile, epilogue, kinds, forms(words))
    kernel = NativeKernel(epilogue.named("conv_integer"), text, scratch=scratch.end)
    work = 2.0 * pixels * part.tap_count * p.depth * p.columns * p.groups
    return Step(kernel, contents(words), outer * (blocks * p.groups * runs), work, work < 2 * _SERIAL)


def _form_words(
    p: Problem, part: Part, tile: Tiling, form: int, taps: int, x: Operand, table: int
) -> FormWords[Content]:
    q = _in_words(p, form)
    tap_block, depth_block = depth_blocks(q.depth, part.tap_count, _DEPTH, 2)
    return FormWords(
        x, tap_words(form - 1, table), tap_block=tap_block, depth=q.depth, depth_block=depth_block,
        panel_size=panel_words(p.depth, taps, tile.columns, form), group_x=groups_of(q).x, image=q.image,
        axes=axis_words(q, part),
    )  # fmt: skip


def _block(pixels: int, p: Problem, part: Part) -> int:
    """Pixels of a unit: as many as caches hold, in blocks of about equal size; whole tiles fill them unless
    the last block, and with it one of two threads, would get much less then.
    """
    most = min(_PIXELS, _ROWS_BYTES // max(p.depth, 1), _TABLE_BYTES // (8 * max(part.tap_count, 1)))
    most = max(most // ROWS * ROWS, ROWS)
    blocks = -(-pixels // most)
    if blocks <= 1:
        return pixels
    blocks += blocks & 1  # an even number, for two threads
    equal = -(-pixels // blocks)
    whole = -(-equal // ROWS) * ROWS
    return whole if (whole * blocks - pixels) * _UNEVEN <= pixels else equal


_text = lru_cache(maxsize=256)(integer_text)
