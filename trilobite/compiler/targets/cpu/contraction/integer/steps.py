"""Sizes of integer convolutions: how they are cut into units, and the words of their steps.

Enters: a `conv_integer` and its epilogue. Leaves: kernels and steps. One kernel text serves all sizes of a
combination of rank, result and epilogue; sizes are words of the step, those that count 32-bit words of a row
once for each form that a weight may have.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.base.dtypes import int32
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.kernel import scratch_of
from trilobite.compiler.targets.cpu.contraction.direct.steps import (
    axis_words,
    flat_table,
    group_words,
    tap_table,
)
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.integer.kernel import integer_text
from trilobite.compiler.targets.cpu.contraction.integer.rows import rows_step
from trilobite.compiler.targets.cpu.contraction.pairs import multiplies_bytes
from trilobite.compiler.targets.cpu.contraction.problem import Part, Problem, as_rows, gathered, pointwise
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling
from trilobite.compiler.targets.cpu.contraction.words import Words
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.primitives.conv_integer import panel_words, quads
from trilobite.ir.graph import Equation
from trilobite.ir.types import Affine, Dim, size_of
from trilobite.native.host import Host

Array = np.ndarray[Any, Any]
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
    zero, taps = e.attributes["zero"], math.prod(e.attributes["kernel"])
    tile = Tiling(int32, e.attributes["dtype"], int32, e.attributes["lanes"] // 2)
    source, weight, target = Operand("in", inputs[0]), Operand("in", inputs[1]), Operand("temporary", 0)
    positions = p.batch * math.prod(p.source)
    each, units = _lines(p)
    steps = [rows_step(host, (source, weight, target), positions, each, units, p.groups, p.depth)]
    room = positions * (p.groups * quads(p.depth) * 8)
    forms = (1, 2) if multiplies_bytes(host) else (2,)
    line = max(quads(p.depth) * 4, 1)
    constants: list[Array] = [np.full(line, zero, t) for t in (np.uint8, np.uint16)]
    if pointwise(p):
        p = as_rows(p)
    for part in p.parts:
        if part.positions == 0 or p.batch == 0 or p.columns == 0:
            continue
        first = len(constants)
        for form in forms:
            constants += [tap_table(_in_words(p, form), part), flat_table(_in_words(p, form), part, 4)]
        buffers = (source if p.depth % 4 == 0 else target, target, weight)
        steps.append(integer_step(p, part, tile, epilogue, buffers, forms, (first, taps), host))
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


def _in_words(p: Problem, form: int) -> Problem:
    """The same with 32-bit words for channels."""
    words = quads(p.depth) * form
    return replace(p, depth=words, channels=words if p.apart else p.groups * words)


def integer_step(
    p: Problem, part: Part, tile: Tiling, epilogue: Epilogue, buffers: tuple[Operand, Operand, Operand],
    forms: tuple[int, ...], tables: tuple[int, int], host: Host, result: Operand | None = None,
) -> Step:  # fmt: skip
    """`buffers`: rows of form 1, of form 2, the weight. `tables`: which constant is the first table, and how
    many taps a panel has.
    """
    first, taps = tables
    panels = -(-p.columns // tile.columns)
    symbolic = isinstance(p.batch, Affine)
    pixels = part.positions if symbolic else part.positions * int(p.batch)
    block = _block(pixels, p, part)
    blocks = -(-pixels // block)
    runs = min(panels, max(1, -(-_UNITS // (blocks * p.groups))))
    run = -(-panels // runs)
    runs = -(-panels // run)
    scratch = scratch_of(tile, block, part.tap_count)
    words = Words()
    words.add("w", buffers[2])
    epilogue_words(words, epilogue, result)
    apart = group_words(p)
    common: dict[str, Dim] = {
        "rows_at": scratch.rows, "places_at": scratch.places, "runs": runs, "run": run, "panels": panels,
        "groups": p.groups, "blocks": blocks, "block": block, "pixels": pixels, "taps": part.tap_count,
        "columns": p.columns, "image_rows": math.prod(p.out),
        **{name: apart[name] for name in ("group_columns", "group_rows", "width")},
    }  # fmt: skip
    for name, value in common.items():
        words.add(name, value)
    for i, form in enumerate(forms):
        words.add(f"x@{form}", buffers[form - 1])
        words.add(f"zeros@{form}", Operand("constant", form - 1))
        words.add(f"table@{form}", Operand("constant", first + 2 * i))
        words.add(f"flat@{form}", Operand("constant", first + 2 * i + 1))
        for name, value in _form_words(p, part, tile, form, taps).items():
            words.add(f"{name}@{form}", value)
    text = _text(host, tile, len(part.axes), epilogue, forms, tuple(words.names))
    after = [e.primitive.name for e in epilogue.body.equations]
    kernel = NativeKernel("_".join(["conv_integer", *dict.fromkeys(after)][:5]), text, scratch=scratch.end)
    outer = p.batch if symbolic else 1
    work = 2.0 * pixels * part.tap_count * p.depth * p.columns * p.groups
    return Step(kernel, tuple(words.contents), outer * (blocks * p.groups * runs), work, work < 2 * _SERIAL)


def _form_words(p: Problem, part: Part, tile: Tiling, form: int, taps: int) -> dict[str, Dim]:
    """What is counted in words of a form."""
    q = _in_words(p, form)
    tap_block, depth_block = _depth_blocks(q.depth, part.tap_count)
    return {
        "tap_block": tap_block, "depth": q.depth, "depth_block": depth_block,
        "panel_size": panel_words(p.depth, taps, tile.columns, form), "group_x": group_words(q)["group_x"],
        "image": math.prod(q.source) * q.channels, **axis_words(q, part),
    }  # fmt: skip


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


def _depth_blocks(words: int, taps: int) -> tuple[int, int]:
    """Taps and words of a block of depth: several taps, or a part of one."""
    if words <= _DEPTH:
        wanted = max(1, _DEPTH // max(words, 1))
        pieces = -(-max(taps, 1) // wanted)
        return -(-max(taps, 1) // pieces), max(words, 1)
    pieces = -(-words // _DEPTH)
    return 1, (-(-words // pieces) + 1) // 2 * 2


@lru_cache(maxsize=256)
def _text(
    host: Host, tile: Tiling, rank: int, epilogue: Epilogue, forms: tuple[int, ...], names: tuple[str, ...]
) -> str:
    return integer_text(host, tile, rank, epilogue, forms, names)
