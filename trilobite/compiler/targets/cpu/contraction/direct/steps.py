"""Sizes of the direct convolution: how it is cut into units, and the words of its steps.

Enters: a channels-last convolution or input gradient and its epilogue. Leaves: kernels and steps. One
kernel text serves all sizes of a combination of dtypes, rank and epilogue; sizes are words of the step.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.grouped import Grouped, Spread
from trilobite.compiler.targets.cpu.contraction.direct.kernel import Direct, scratch_of
from trilobite.compiler.targets.cpu.contraction.direct.margin import margin_step
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.gather import line_places
from trilobite.compiler.targets.cpu.contraction.problem import (
    Part,
    Problem,
    as_rows,
    margins,
    pointwise,
    problem,
    with_long_rows,
)
from trilobite.compiler.targets.cpu.contraction.tiling import DEPTH, ROWS, Tiling, shortened, tiling, widened
from trilobite.compiler.targets.cpu.contraction.words import Words
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.tuning.choices import choice
from trilobite.ir.graph import Equation
from trilobite.ir.types import Affine, Dim
from trilobite.native.host import Host

Array = np.ndarray[Any, Any]
Form = tuple[bool, Spread | None]  # of a kernel of many groups: see `Grouped`
_PIXELS = 192  # of a block, if the rows of so many stay in the second-level cache
_ROWS_BYTES = 256 << 10
_TABLE_BYTES = 64 << 10
_FAR_BYTES = 64 << 10  # of weights: as many are not in the first caches when a unit begins with them
_FEW = 16  # channels of a group that are multiplied without a loop
_GROUPED = (
    48  # pixels that a block of many groups has at least: what finds their rows is shared by the groups
)
_UNITS = 16  # wanted, so that threads share the work evenly
_SERIAL = 1 << 15  # multiplications: below, waking another thread costs more than it brings


def lower_direct(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_last` or `conv_last_input_grad` whose operands are these inputs of the fusion."""
    p = problem(e)
    dtype, source = e.inputs[0].type.dtype, Operand("in", inputs[0])
    tile = widened(tiling(host, dtype, e.attributes["dtype"]))
    p, before, temporaries, source = prepared(p, tile, source, host)
    tile = shortened(tile, p.columns) if in_groups(p) else tile
    steps = list(before)
    constants: list[Array] = [np.zeros(max(p.channels if in_groups(p) else p.depth, 1), tile.operand)]
    for part in p.parts:
        if part.positions == 0 or p.batch == 0 or p.columns == 0:
            continue
        constants += [tap_table(p, part), flat_table(p, part, tile.operand.itemsize)]
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


def group_words(p: Problem) -> dict[str, Dim]:
    """How far groups are apart in elements of x, in columns and rows of the result; a row's columns."""
    if p.apart:
        x = p.apart * p.channels
        return {"group_x": x, "group_columns": 0, "group_rows": p.apart, "width": p.columns}
    whole = p.columns * p.groups
    return {"group_x": p.depth * p.merged, "group_columns": p.columns, "group_rows": 0, "width": whole}


def axis_words(p: Problem, part: Part) -> dict[str, Dim]:
    """What `Gather` asks for each axis."""
    numbers: dict[str, Dim] = {}
    for i, (axis, stride) in enumerate(zip(part.axes, _strides(p), strict=True)):
        numbers |= {
            f"count{i}": axis.count, f"first{i}": axis.first, f"every{i}": axis.every, f"step{i}": axis.step,
            f"extent{i}": axis.extent, f"stride{i}": stride, f"out_rows{i}": math.prod(p.out[i + 1 :]),
            f"least{i}": min(axis.offsets, default=0), f"most{i}": max(axis.offsets, default=0),
        }  # fmt: skip
    return numbers


def tap_table(p: Problem, part: Part) -> Array:
    strides = _strides(p)
    rows = [
        (*offsets, sum(o * s for o, s in zip(offsets, strides, strict=True)), number * p.depth)
        for offsets, number in part.tap_rows()
    ]
    return np.array(rows or [(0,) * (len(strides) + 2)], np.int64)


def flat_table(p: Problem, part: Part, itemsize: int) -> Array:
    """Byte offsets of the taps, with room to the end of a line of places."""
    offsets = tap_table(p, part)[:, len(p.source)] * itemsize
    out: Array = np.zeros(line_places(part.tap_count), np.int64)
    out[: part.tap_count] = offsets[: part.tap_count]
    return out


def _strides(p: Problem) -> list[int]:
    return [math.prod(p.source[a + 1 :]) * p.channels for a in range(len(p.source))]


def direct_step(
    p: Problem, part: Part, tile: Tiling, epilogue: Epilogue, buffers: tuple[Operand, Operand, int],
    host: Host, result: Operand | None = None,
) -> Step:  # fmt: skip
    """The step of one part. `buffers`: source, weights, and which constants the two tables of taps are."""
    taps, panels = part.tap_count, -(-p.columns // tile.columns)
    symbolic = isinstance(p.batch, Affine)
    pixels = part.positions if symbolic else part.positions * int(p.batch)
    most = min(_PIXELS, _ROWS_BYTES // max(p.depth * tile.operand.itemsize, 1))
    cut = choice("conv", lambda: _description(p, part, tile, pixels), pixels=most, depth=DEPTH, units=_UNITS)
    most = cut["pixels"]
    if in_groups(p):  # rather fewer pixels in a unit than fewer groups
        most = min(most, max(_GROUPED, -(-pixels // cut["units"])))
    block = _block(pixels, part, most)
    blocks = -(-pixels // block)
    shared, least = (p.groups, blocks) if in_groups(p) else (panels, blocks * p.groups)
    runs = min(shared, max(1, -(-cut["units"] // least)))
    run = -(-shared // runs)
    runs = -(-shared // run)
    scratch = scratch_of(tile, block, taps)
    tap_block, depth_block = _depth_blocks(p.depth, taps, cut["depth"])
    words = _buffers(epilogue, buffers, result)
    numbers: dict[str, Dim] = {
        "rows_at": scratch.rows, "places_at": scratch.places, "runs": runs, "run": run, "panels": panels,
        "groups": p.groups, "blocks": blocks, "block": block, "pixels": pixels, "taps": taps,
        "tap_block": tap_block, "depth": p.depth, "depth_block": depth_block,
        "panel_size": math.prod(part.kernel) * p.depth * tile.columns,
        "columns": p.columns, **group_words(p),
        "image": math.prod(p.source) * p.channels, "image_rows": math.prod(p.out),
    }  # fmt: skip
    numbers |= axis_words(p, part)
    for name, value in numbers.items():
        words.add(name, value)
    streams = math.prod(part.kernel) * p.depth * p.columns * tile.panel.itemsize >= _FAR_BYTES
    form = _form(p, tile)
    kernel = _kernel(host, tile, len(part.axes), epilogue, tuple(words.names), scratch.end, streams, form)
    outer = p.batch if symbolic else 1
    units = blocks * runs if in_groups(p) else blocks * p.groups * runs
    work = 2.0 * pixels * taps * p.depth * p.columns * p.groups
    return Step(kernel, tuple(words.contents), outer * units, work, work < 2 * _SERIAL)


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


def _block(pixels: int, part: Part, most: int) -> int:
    """Pixels of a unit: at most as many as are given, in blocks of about equal size that whole tiles fill."""
    most = min(most, _TABLE_BYTES // (8 * max(part.tap_count, 1)))
    most = max(most // ROWS * ROWS, ROWS)
    blocks = -(-pixels // most)
    blocks += blocks & (blocks > 1)  # an even number, for two threads
    return -(-pixels // (blocks * ROWS)) * ROWS if blocks > 1 else pixels


def _depth_blocks(depth: int, taps: int, deepest: int) -> tuple[int, int]:
    """Taps and channels of a block of depth: several taps, or a part of one."""
    if depth <= deepest:
        wanted = max(1, deepest // max(depth, 1))
        pieces = -(-max(taps, 1) // wanted)
        return -(-max(taps, 1) // pieces), max(depth, 1)
    pieces = -(-depth // deepest)
    return 1, (-(-depth // pieces) + 3) // 4 * 4


def _buffers(epilogue: Epilogue, buffers: tuple[Operand, Operand, int], result: Operand | None) -> Words:
    source, weights, table = buffers
    words = Words()
    for name, operand in (
        ("x", source), ("w", weights),
        ("zeros", Operand("constant", 0)), ("table", Operand("constant", table)),
        ("flat", Operand("constant", table + 1)),
    ):  # fmt: skip
        words.add(name, operand)
    epilogue_words(words, epilogue, result)
    return words


def _kernel(
    host: Host, tile: Tiling, rank: int, epilogue: Epilogue, names: tuple[str, ...], scratch: int,
    streams: bool, form: Form | None,
) -> NativeKernel:  # fmt: skip
    after = [e.primitive.name for e in epilogue.body.equations]
    name = "_".join(["conv", *dict.fromkeys(after)][:5])
    return NativeKernel(name, _text(host, tile, rank, epilogue, names, streams, form), scratch=scratch)


@lru_cache(maxsize=256)
def _text(
    host: Host, tile: Tiling, rank: int, epilogue: Epilogue, names: tuple[str, ...], streams: bool,
    form: Form | None,
) -> str:  # fmt: skip
    if form is not None:
        return Grouped(host, tile, rank, epilogue, names, *form).text()
    return Direct(host, tile, rank, epilogue, names, streams).text()
