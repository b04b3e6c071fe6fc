"""Sizes of the tiled 3x3 convolution and of its weight's gradient: chunks of tiles, and the words of steps.

Enters: `conv_winograd` or `conv_winograd_weight_grad`. Leaves: steps. A chunk is transformed and multiplied
before the next, so what lies between stays in the caches and takes little memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words, plain_epilogue
from trilobite.compiler.targets.cpu.contraction.problem import Axis, Part, Problem
from trilobite.compiler.targets.cpu.contraction.tables import axis_words, chunks, most, tables, tap_words
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling, tiling_for, tiling_of
from trilobite.compiler.targets.cpu.contraction.weight_grad.steps import weight_step
from trilobite.compiler.targets.cpu.contraction.winograd.product import (
    BLOCK,
    Product,
    ProductWords,
    Room,
    points_table,
)
from trilobite.compiler.targets.cpu.contraction.winograd.transforms import (
    RESULT_AT,
    GradientWords,
    SourceWords,
    gradient_text,
    source_text,
)
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, contents, forms
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.primitives.conv_winograd import TRANSFORMS
from trilobite.ir.graph import Equation
from trilobite.ir.types import Dim
from trilobite.native.host import Host

_CHUNK_BYTES = 4 << 20  # of points before and after the products of a chunk
LEAST_TILES = 48  # so that products have rows enough for each pass over the weight
# Points lie `count + 1` rows apart: a whole number of pages would put all points of a tile in one cache set.
TILE_ROWS = Part((), (), ())  # a tile at a point is a row of a product


def lower_winograd(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_winograd` whose operands are these inputs of the fusion."""
    x, tile = e.inputs[0].type, e.attributes["tile"]
    kept = tiling_for(host, x.dtype, e.attributes["dtype"], int(e.inputs[1].type.shape[-1]))
    side = len(TRANSFORMS[tile].source)
    p, part = tiles_of(e, tile, side)
    points, total = side * side, part.positions * int(x.shape[0])
    each = points * kept.size * p.channels
    pieces = chunks(total if p.channels and p.columns else 0, _CHUNK_BYTES, each, LEAST_TILES)
    constants = (
        np.zeros(max(p.channels, 1), x.dtype), *tables(p, part, x.dtype.itemsize), points_table(kept, tile),
    )  # fmt: skip
    v = Operand("temporary", 0)
    steps: list[Step] = []
    for first, count in pieces:
        steps.append(_source(kept, tile, p, (Operand("in", inputs[0]), v, 0), first, count, host))
        buffers = (v, Operand("in", inputs[1]), Operand("constant", 3))
        steps.append(_product(e, kept, p, epilogue, buffers, first, count, host))
    why = f"tiles of {tile}x{tile} outputs by {points} products instead of {9 * tile * tile}"
    return Lowering(tuple(steps), (most(pieces) * each,), constants, why=why)


def _product(
    e: Equation, kept: Tiling, p: Problem, epilogue: Epilogue, buffers: tuple[Operand, Operand, Operand],
    first: int, count: int, host: Host,
) -> Step:  # fmt: skip
    """From the points of some tiles to their results. `buffers`: points, weight, where points of it lie."""
    y, tile, (part,) = e.outputs[0].type, e.attributes["tile"], p.parts
    blocks = -(-count // BLOCK)
    words: ProductWords[Content] = ProductWords(
        *buffers, epilogue_words(epilogue), tile=first, tiles=count + 1, count=count, blocks=blocks,
        block=-(-count // blocks), depth=p.channels, width=p.columns, height=int(y.shape[1]),
        across=int(y.shape[2]), count0=part.axes[0].count, count1=part.axes[1].count,
    )  # fmt: skip
    text = _product_text(host, kept, tile, e.attributes["transposed"], epilogue, forms(words))
    room = Room(kept, tile)
    work = 2.0 * count * room.points * p.channels * p.columns
    kernel = NativeKernel("winograd_product", text, scratch=room.end)
    return Step(kernel, contents(words), blocks * -(-p.columns // kept.columns), work)


def tiles_of(e: Equation, tile: int, points: int) -> tuple[Problem, Part]:
    """Tiles as pixels, the places under a tile as taps."""
    x = e.inputs[0].type
    y = e.inputs[1].type if e.primitive.name == "conv_winograd_weight_grad" else e.outputs[0].type
    source, out = (tuple(int(n) for n in t.shape[1:3]) for t in (x, y))
    axes = tuple(
        Axis(-(-o // tile), 0, 1, tile, s, tuple(range(points)), tuple(i - lo for i in range(points)))
        for o, s, lo in zip(out, source, e.attributes["low"], strict=True)
    )
    part = Part(axes, tuple(a.count for a in axes), (points, points))
    channels = int(x.shape[-1])
    return Problem(x.shape[0], 1, channels, channels, int(y.shape[-1]), source, (part,)), part


def _source(
    kept: Tiling, tile: int, p: Problem, buffers: tuple[Operand, Operand, int], first: int, count: int,
    host: Host, errors: bool = False,
) -> Step:  # fmt: skip
    """`buffers`: what is read, what is made, the first of three constants (zeros, tables of taps)."""
    words = source_words(p, buffers, first, count)
    text = _source_text(host, kept, tile, errors, forms(words))
    name = "winograd_errors" if errors else "winograd_source"
    return Step(NativeKernel(name, text, scratch=8192), contents(words), count)


def source_words(
    p: Problem, buffers: tuple[Operand, Operand, int], first: int, count: int, width: int | None = None
) -> SourceWords[Content]:
    """`width`: of a row, where that is more than its channels."""
    (part,) = p.parts
    return SourceWords(
        buffers[0], buffers[1], tap_words(buffers[2], buffers[2] + 1), tile=first,
        tiles=count + 1, width=p.channels if width is None else width,
        channels=None if width is None else p.channels, taps=part.tap_count, image=p.image, image_rows=0,
        axes=axis_words(p, part),
    )  # fmt: skip


# -- the gradient of the weight ----------------------------------------------------------------------------


def lower_winograd_grad(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_winograd_weight_grad`: both operands are transformed chunk by chunk, their products summed over
    tiles at every point, and the sums transformed back at the end.
    """
    x, y, tile = e.inputs[0].type, e.inputs[1].type, e.attributes["tile"]
    kept = tiling_of(host, x.dtype, e.attributes["dtype"], int(y.shape[-1]))
    points = len(TRANSFORMS[tile].source)
    p, part = tiles_of(e, tile, points)
    q = _error_tiles(y.shape[1:3], int(y.shape[-1]), tile)
    channels, columns, square = p.channels, int(y.shape[-1]), points * points
    total, each = part.positions * int(x.shape[0]), square * kept.size
    # Sums at all points are read and written once for each chunk: it should not be smaller than they are.
    room = max(2 * _CHUNK_BYTES, each * channels * columns)
    pieces = chunks(total, room, each * (channels + columns), LEAST_TILES)
    v, z, u = (Operand("temporary", i) for i in range(3))
    steps: list[Step] = []
    middle = Problem(0, square, channels, channels, columns, (), (TILE_ROWS,))
    plain = plain_epilogue(kept.accumulator)
    for first, count in pieces:
        steps.append(_source(kept, tile, p, (Operand("in", inputs[0]), v, 0), first, count, host))
        steps.append(
            _source(kept, tile, q, (Operand("in", inputs[1]), z, 3), first, count, host, errors=True)
        )
        rows = replace(middle, batch=count, apart=count + 1)
        steps.append(weight_step(rows, kept, plain, (v, z, 6), host, u, begins=first == 0))
    steps.append(_gradient(kept, tile, channels, columns, epilogue, u, host))
    constants = tuple(
        c
        for width, one in ((channels, p), (columns, q))
        for c in (np.zeros(width, x.dtype), *tables(one, one.parts[0], x.dtype.itemsize))
    )
    ends = (np.zeros(channels, x.dtype), np.zeros((1, 2), np.int64), np.zeros(4, np.int64))
    rows_most = most(pieces) * each
    sizes = (rows_most * channels, rows_most * columns, each * channels * columns)
    why = f"sums over tiles of {tile}x{tile} errors at {square} points"
    return Lowering(tuple(steps), sizes, (*constants, *ends), why=why)


def _error_tiles(out: Sequence[Dim], channels: int, tile: int) -> Problem:
    """Tiles of errors as pixels, the errors of a tile as taps."""
    sizes = tuple(int(n) for n in out)
    axes = tuple(Axis(-(-n // tile), 0, 1, tile, n, tuple(range(tile)), tuple(range(tile))) for n in sizes)
    part = Part(axes, tuple(a.count for a in axes), (tile, tile))
    return Problem(1, 1, channels, channels, channels, sizes, (part,))


def _gradient(
    kept: Tiling, tile: int, channels: int, columns: int, epilogue: Epilogue, u: Operand, host: Host
) -> Step:
    words: GradientWords[Content] = GradientWords(u, epilogue_words(epilogue), columns, channels)
    text = _gradient_text(host, kept, tile, epilogue, forms(words))
    kernel = NativeKernel("winograd_gradient", text, scratch=RESULT_AT + 8192)
    return Step(kernel, contents(words), channels)


_gradient_text = lru_cache(maxsize=16)(gradient_text)
_source_text = lru_cache(maxsize=16)(source_text)


@lru_cache(maxsize=64)
def _product_text(
    host: Host, tiling: Tiling, tile: int, turned: bool, epilogue: Epilogue, words: ProductWords[Form]
) -> str:
    return Product(host, tiling, tile, turned, epilogue, words).text()
