"""Sizes of the tiled 3x3 convolution of bytes: chunks of tiles, each three steps, and the words of those.

Enters: `conv_integer_tiles` or `conv_integer_points`. Leaves: steps. A chunk is transformed, multiplied and
transformed back before the next, so what lies between stays in the caches and takes little memory.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from trilobite.base.dtypes import int32
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.steps import axis_words, flat_table, tap_table
from trilobite.compiler.targets.cpu.contraction.finish import plain_epilogue
from trilobite.compiler.targets.cpu.contraction.integer.steps import integer_step
from trilobite.compiler.targets.cpu.contraction.integer_tiled.transforms import (
    points_text,
    result_text,
    source_text,
)
from trilobite.compiler.targets.cpu.contraction.problem import Part, Problem
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.winograd.steps import result_step, tiles_of
from trilobite.compiler.targets.cpu.contraction.winograd.transforms import RESULT_AT
from trilobite.compiler.targets.cpu.contraction.words import Words
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.primitives.conv_integer import panel_words, quads
from trilobite.compiler.targets.cpu.primitives.conv_integer_tiles import WHOLE
from trilobite.ir.graph import Equation
from trilobite.ir.types import Dim
from trilobite.native.host import Host

_CHUNK_BYTES = 2 << 20  # of points before and after the products of a chunk
_LEAST_TILES = 48  # so that products have rows enough for each pass over the weight
_ROWS = Part((), (), ())  # a tile at a point is a row of a product


def lower_integer_tiles(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_integer_tiles` whose operands are these inputs of the fusion."""
    x, columns = e.inputs[0].type, int(e.outputs[0].type.shape[-1])
    plain = Tiling(int32, int32, int32, e.attributes["lanes"] // 2)
    tile, whole = e.attributes["tile"], WHOLE[e.attributes["tile"]]
    kept = replace(plain, result=e.attributes["dtype"])
    p, part = tiles_of(e, tile, whole.side)
    width = 4 * quads(p.channels)
    total = part.positions * int(x.shape[0]) if columns else 0
    before, after = 2 * whole.points * width, 4 * whole.points * columns
    chunk = max(_LEAST_TILES, _CHUNK_BYTES // max(before + after, 1))
    chunk = -(-total // -(-total // chunk)) if total else 0
    constants = (
        np.full(max(p.channels, 1), e.attributes["zero"], np.uint8),
        *(tap_table(p, part), flat_table(p, part, 1)),
        *(np.zeros((1, 2), np.int64), np.zeros(4, np.int64)),  # a row of a product is one tap
    )
    source, weight = (Operand("in", i) for i in inputs)
    v, m = Operand("temporary", 0), Operand("temporary", 1)
    middle = Problem(0, whole.points, p.channels, p.channels, columns, (), (_ROWS,))
    steps: list[Step] = []
    for first in range(0, total, max(chunk, 1)):
        count = min(chunk, total - first)
        # Points lie `count + 1` rows apart: a whole number of pages would put a tile's in one cache set.
        rows = replace(middle, batch=count, apart=count + 1)
        steps.append(_source(p, tile, (source, v), width, first, count, host))
        buffers = (v, v, weight)
        steps.append(integer_step(rows, _ROWS, plain, plain_epilogue(int32), buffers, (2,), (3, 1), host, m))
        named = ("conv_integer_result", _result_text)
        steps.append(result_step(e, kept, part, epilogue, m, first, count, host, named))
    why = f"bytes by tiles of {tile}x{tile} outputs, {whole.points} products instead of {9 * tile * tile}"
    return Lowering(tuple(steps), ((chunk + 1) * before, (chunk + 1) * after), constants, why=why)


def _source(
    p: Problem, tile: int, buffers: tuple[Operand, Operand], width: int, first: int, count: int, host: Host
) -> Step:
    words, (part,) = Words(), p.parts
    for name, buffer in zip(("x", "v"), buffers, strict=True):
        words.add(name, buffer)
    for i, name in enumerate(("zeros", "table", "flat")):
        words.add(name, Operand("constant", i))
    image = int(p.source[0]) * int(p.source[1]) * p.channels
    numbers: dict[str, Dim] = {
        "tile": first, "tiles": count + 1, "width": width, "channels": p.channels, "taps": part.tap_count,
        "image": image, "image_rows": 0, **axis_words(p, part),
    }  # fmt: skip
    for name, value in numbers.items():
        words.add(name, value)
    kernel = NativeKernel(
        "conv_integer_source", _source_text(host, tile, tuple(words.names)), scratch=RESULT_AT
    )
    return Step(kernel, tuple(words.contents), count)


def lower_integer_points(e: Equation, host: Host) -> Lowering:
    w, lanes = e.inputs[0].type, e.attributes["lanes"]
    filters, depth = (int(n) for n in w.shape[:2])
    panels = -(-filters // lanes)
    words = Words()
    words.add("w", Operand("in", 0))
    words.add("out", Operand("out", 0))
    for name, value in (
        ("panels", panels), ("columns", filters), ("depth", depth), ("group", 0),
        ("column_stride", depth * 9), ("depth_stride", 9), ("zero", e.attributes["zero"]),
        ("size", panel_words(depth, 1, lanes, 2)),
    ):  # fmt: skip
        words.add(name, value)
    text = _points_text(host, w.dtype, e.attributes["tile"], lanes, tuple(words.names))
    step = Step(
        NativeKernel("conv_integer_points", text, scratch=RESULT_AT), tuple(words.contents), max(panels, 1)
    )
    return Lowering((step,), why="a 3x3 weight of bytes at the points of its tiles, in panels")


_source_text = lru_cache(maxsize=16)(source_text)
_result_text = lru_cache(maxsize=64)(result_text)
_points_text = lru_cache(maxsize=16)(points_text)
