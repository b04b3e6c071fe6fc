"""Sizes of the tiled 3x3 convolution of bytes: chunks of tiles, each three steps, and the words of those.

Enters: `conv_integer_tiles` or `conv_integer_points`. Leaves: steps. A chunk is transformed, multiplied and
transformed back before the next, so what lies between stays in the cache that cores share.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from trilobite.base.dtypes import int32
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.panels import WeightWords
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words, plain_epilogue
from trilobite.compiler.targets.cpu.contraction.integer.steps import integer_step
from trilobite.compiler.targets.cpu.contraction.integer_tiled.transforms import (
    PointsWords,
    ResultsWords,
    points_text,
    result_text,
    source_text,
)
from trilobite.compiler.targets.cpu.contraction.problem import Part, Problem
from trilobite.compiler.targets.cpu.contraction.tables import chunks, most, tables
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.winograd.steps import (
    LEAST_TILES,
    TILE_ROWS,
    source_words,
    tiles_of,
)
from trilobite.compiler.targets.cpu.contraction.winograd.transforms import (
    RESULT_AT,
    ResultWords,
    SourceWords,
)
from trilobite.compiler.targets.cpu.contraction.words import Content, contents, forms
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.primitives.conv_integer import outside_of, panel_words, quads
from trilobite.compiler.targets.cpu.primitives.conv_integer_tiles import WHOLE
from trilobite.ir.graph import Equation
from trilobite.native.host import Host

# Of points before and after the products of a chunk: more than a core's cache holds, because threads meet
# behind each of its three steps, which costs more than points that come from the cache they share.
_CHUNK_BYTES = 6 << 20


def lower_integer_tiles(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_integer_tiles` whose operands are these inputs of the fusion."""
    x, columns = e.inputs[0].type, int(e.outputs[0].type.shape[-1])
    plain = Tiling(int32, int32, int32, e.attributes["lanes"] // 2)
    tile, whole = e.attributes["tile"], WHOLE[e.attributes["tile"]]
    kept = replace(plain, result=e.attributes["dtype"], lanes=host.lanes(4))  # of transforms
    p, part = tiles_of(e, tile, whole.side)
    width = 4 * quads(p.channels)
    total = part.positions * int(x.shape[0]) if columns else 0
    before, after = 2 * whole.points * width, 4 * whole.points * columns
    pieces = chunks(total, _CHUNK_BYTES, before + after, LEAST_TILES)
    constants = (
        np.full(max(p.channels, 1), outside_of(e), np.uint8),
        *tables(p, part, 1),
        *(np.zeros((1, 2), np.int64), np.zeros(4, np.int64)),  # a row of a product is one tap
    )
    source, weight = (Operand("in", i) for i in inputs)
    v, m = Operand("temporary", 0), Operand("temporary", 1)
    middle = Problem(0, whole.points, p.channels, p.channels, columns, (), (TILE_ROWS,))
    steps: list[Step] = []
    for first, count in pieces:
        rows = replace(middle, batch=count, apart=count + 1)
        steps.append(_source(tile, source_words(p, (source, v, 0), first, count, width), count, host))
        buffers = (v, v, weight)
        steps.append(
            integer_step(rows, TILE_ROWS, plain, plain_epilogue(int32), buffers, (2,), (3, 1), host, m)
        )
        steps.append(_result(e, kept, part, epilogue, m, first, count, host))
    why = f"bytes by tiles of {tile}x{tile} outputs, {whole.points} products instead of {9 * tile * tile}"
    return Lowering(tuple(steps), (most(pieces) * before, most(pieces) * after), constants, why=why)


def _source(tile: int, words: SourceWords[Content], count: int, host: Host) -> Step:
    kernel = NativeKernel("conv_integer_source", _source_text(host, tile, forms(words)), scratch=RESULT_AT)
    return Step(kernel, contents(words), count)


def _result(
    e: Equation, kept: Tiling, part: Part, epilogue: Epilogue, m: Operand, first: int, count: int, host: Host
) -> Step:
    """The step that makes results of points, for the tiles from `first` on."""
    height, across, width = (int(n) for n in e.outputs[0].type.shape[1:])
    down, right = (axis.count for axis in part.axes)
    tiles: ResultWords[Content] = ResultWords(first, count + 1, width, height, across, down, right)
    words: ResultsWords[Content] = ResultsWords(m, epilogue_words(epilogue), tiles)
    text = _result_text(host, kept, e.attributes["tile"], epilogue, forms(words))
    return Step(NativeKernel("conv_integer_result", text, scratch=RESULT_AT + 8192), contents(words), count)


def lower_integer_points(e: Equation, host: Host) -> Lowering:
    w, lanes = e.inputs[0].type, e.attributes["lanes"]
    filters, depth = (int(n) for n in w.shape[:2])
    panels = -(-filters // lanes)
    weight: WeightWords[Content] = WeightWords(
        Operand("in", 0), Operand("out", 0), panels, filters, depth, 9, 0, depth * 9, 9
    )
    words: PointsWords[Content] = PointsWords(weight, e.attributes["zero"], panel_words(depth, 1, lanes, 2))
    text = _points_text(host, w.dtype, e.attributes["tile"], lanes, forms(words))
    step = Step(NativeKernel("conv_integer_points", text, scratch=RESULT_AT), contents(words), max(panels, 1))
    return Lowering((step,), why="a 3x3 weight of bytes at the points of its tiles, in panels")


_source_text = lru_cache(maxsize=16)(source_text)
_result_text = lru_cache(maxsize=64)(result_text)
_points_text = lru_cache(maxsize=16)(points_text)
