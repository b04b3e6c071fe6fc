"""Sizes of the direct convolution: how it is cut into units, and the words of its steps.

Enters: a channels-last convolution or input gradient and its epilogue. Leaves: kernels and steps. One
kernel text serves all sizes of a combination of dtypes, rank and epilogue; sizes are words of the step.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.grouped import Grouped, Spread
from trilobite.compiler.targets.cpu.contraction.direct.kernel import Asks, Direct, DirectWords, scratch_of
from trilobite.compiler.targets.cpu.contraction.direct.margin import margin_step
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.problem import (
    Part,
    Problem,
    as_rows,
    margins,
    pointwise,
    problem,
    with_long_rows,
)
from trilobite.compiler.targets.cpu.contraction.tables import (
    Array,
    axis_words,
    depth_blocks,
    even_block,
    groups_of,
    runs_of,
    tables,
    tap_words,
)
from trilobite.compiler.targets.cpu.contraction.tiling import (
    DEPTH,
    ROWS,
    Tiling,
    shortened,
    tiling_for,
    widened,
)
from trilobite.compiler.targets.cpu.contraction.words import Content, contents, forms, read
from trilobite.compiler.targets.cpu.contraction.words import Form as WordForm
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.tuning.choices import choice
from trilobite.ir.graph import Equation
from trilobite.ir.types import Dim
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text

Form = tuple[bool, Spread | None]  # of a kernel of many groups: see `Grouped`
_PIXELS = 192  # of a block, if the rows of so many stay in the second-level cache
_ROWS_BYTES = 256 << 10
_TABLE_BYTES = 64 << 10
_FAR_BYTES = 64 << 10  # of weights: as many are not in the first caches when a unit begins with them
_FEW = 16  # channels of a group that are multiplied without a loop
# Pixels that a block of many groups has at least: what finds their rows is shared by the groups
_GROUPED = 48
_UNITS = 16  # wanted, so that threads share the work evenly
_SERIAL = 1 << 15  # multiplications: below, waking another thread costs more than it brings


def lower_direct(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_last` or `conv_last_input_grad` whose operands are these inputs of the fusion."""
    p = problem(e)
    dtype, source = e.inputs[0].type.dtype, Operand("in", inputs[0])
    tile = widened(tiling_for(host, dtype, e.attributes["dtype"], int(e.inputs[1].type.shape[-1])))
    p, before, temporaries, source = prepared(p, tile, source, host)
    tile = shortened(tile, p.columns) if in_groups(p) else tile
    steps = list(before)
    constants: list[Array] = [np.zeros(max(p.channels if in_groups(p) else p.depth, 1), tile.operand)]
    for part in p.parts:
        if part.positions == 0 or p.batch == 0 or p.columns == 0:
            continue
        constants += tables(p, part, tile.operand.itemsize)
        weights = Operand("in", inputs[1])
        steps.append(direct_step(p, part, tile, epilogue, (source, weights, len(constants) - 2), host))
    why = f"rows of {p.depth} channels by {len(p.parts)} set(s) of taps, tiles of {ROWS} x {tile.columns}"
    return Lowering(tuple(steps), temporaries, tuple(constants), why=why)


def in_groups(p: Problem) -> bool:
    """Do several groups lie side by side in every row?"""
    return p.groups * p.merged > 1 and not p.apart


def prepared(
    p: Problem, tile: Tiling, source: Operand, host: Host
) -> tuple[Problem, tuple[Step, ...], tuple[Dim, ...], Operand]:
    """The problem in its simplest form, with the copy that this takes: steps, temporaries, what to read."""
    margin = (0, 0)
    if pointwise(p):
        simple = as_rows(p)
    elif (found := margins(p)) is not None:
        margin, simple = found, with_long_rows(p, *found)
    else:
        simple = p
    if not any(margin) and tile.stored is None:
        return simple, (), (), source
    line = p.source[-1] * p.channels
    lines = p.batch * math.prod(p.source[:-1])
    around = [m * p.channels for m in margin]
    target = Operand("temporary", 0)
    step = margin_step(host, (tile.panel, tile.operand), source, target, lines, line, *around)
    return simple, (step,), (lines * (line + sum(around)) * tile.operand.itemsize,), target


def direct_step(
    p: Problem, part: Part, tile: Tiling, epilogue: Epilogue, buffers: tuple[Operand, Operand, int],
    host: Host, result: Operand | None = None,
) -> Step:  # fmt: skip
    """The step of one part. `buffers`: source, weights, and which constants the two tables of taps are."""
    taps, panels = part.tap_count, -(-p.columns // tile.columns)
    images, outer = p.images
    pixels = part.positions * images
    most = min(_PIXELS, _ROWS_BYTES // max(p.depth * tile.operand.itemsize, 1))
    cut = choice("conv", lambda: _description(p, part, tile, pixels), pixels=most, depth=DEPTH, units=_UNITS)
    most = cut["pixels"]
    if in_groups(p):  # rather fewer pixels in a unit than fewer groups
        most = min(most, max(_GROUPED, -(-pixels // cut["units"])))
    block = even_block(pixels, min(most, _TABLE_BYTES // (8 * max(taps, 1))))
    blocks = -(-pixels // block)
    shared, least = (p.groups, blocks) if in_groups(p) else (panels, blocks * p.groups)
    runs, run = runs_of(shared, -(-cut["units"] // least))
    scratch, apart = scratch_of(tile, block, taps), groups_of(p)
    tap_block, depth_block = depth_blocks(p.depth, taps, cut["depth"], 4)
    source, weights, table = buffers
    weight_size = math.prod(part.kernel) * p.depth
    words: DirectWords[Content] = DirectWords(
        source, weights, tap_words(0, table),
        epilogue_words(epilogue, result), rows_at=scratch.rows, places_at=scratch.places, runs=runs, run=run,
        panels=panels, groups=p.groups, blocks=blocks, block=block, pixels=pixels, taps=taps,
        tap_block=tap_block, depth=p.depth, depth_block=depth_block, panel_size=weight_size * tile.columns,
        columns=p.columns, group_x=apart.x, group_columns=apart.columns, group_rows=apart.rows,
        width=apart.width, image=p.image, image_rows=math.prod(p.out), axes=axis_words(p, part),
    )  # fmt: skip
    asks = _asks(p, weight_size * p.columns * tile.panel.itemsize, tile, host)
    text = _text(host, tile, epilogue, forms(words), asks, _form(p, tile))
    kernel = NativeKernel(epilogue.named("conv"), text, scratch=scratch.end)
    units = blocks * runs if in_groups(p) else blocks * p.groups * runs
    work = 2.0 * pixels * taps * p.depth * p.columns * p.groups
    return Step(kernel, contents(words), outer * units, work, work < 2 * _SERIAL)


def _asks(p: Problem, weights: int, tile: Tiling, host: Host) -> Asks:
    """What comes from far away: weights of some size, else a source that no cache of a core holds."""
    if weights >= _FAR_BYTES:
        return "weights"
    images, _ = p.images
    return "rows" if images * p.image * tile.operand.itemsize > host.l2 else ""


def _form(p: Problem, tile: Tiling) -> Form | None:
    """Of a convolution in groups: whether its columns fit into one vector, and how groups share it."""
    if not in_groups(p):
        return None
    narrow = p.columns <= tile.lanes
    few = narrow and p.depth <= _FEW
    return narrow, Spread(p.merged, p.depth, p.columns // p.merged) if few else None


def _description(p: Problem, part: Part, tile: Tiling, pixels: int) -> str:
    axes = " ".join(f"{a.count}of{a.extent}x{len(a.offsets)}by{a.step}" for a in part.axes)
    return f"{pixels} x {p.depth} to {p.columns} in {p.groups} {tile.operand} to {tile.result} {axes}"


@lru_cache(maxsize=256)
def _text(
    host: Host, tile: Tiling, epilogue: Epilogue, words: DirectWords[WordForm], asks: Asks,
    form: Form | None,
) -> str:  # fmt: skip
    t = Text(host)
    w = read(t, words)
    if form is not None:
        Grouped(t, tile, epilogue, w, *form).emit()
    else:
        Direct(t, tile, epilogue, w, asks).emit()
    return t.module()
