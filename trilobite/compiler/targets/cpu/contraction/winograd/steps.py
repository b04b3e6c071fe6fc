"""Sizes of the tiled 3x3 convolution and of its weight's gradient: chunks of tiles, and the words of steps.

Enters: `conv_winograd` or `conv_winograd_weight_grad`. Leaves: steps. A chunk is transformed and multiplied
before the next, so what lies between stays in the caches and takes little memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain

import numpy as np

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words, plain_epilogue
from trilobite.compiler.targets.cpu.contraction.problem import Axis, Part, Problem
from trilobite.compiler.targets.cpu.contraction.tables import axis_words, chunks, most, tables, tap_words
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling, tiling_for, tiling_of
from trilobite.compiler.targets.cpu.contraction.weight_grad.steps import weight_step
from trilobite.compiler.targets.cpu.contraction.winograd.product import (
    BLOCK,
    DEPTH,
    Product,
    ProductWords,
    Room,
    points_table,
)
from trilobite.compiler.targets.cpu.contraction.winograd.transforms import (
    RESULT_AT,
    GradientWords,
    LineWords,
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
_OWN_BYTES = 16 << 20  # of points that a unit makes for itself: what two cores share is slow
_ALONE = 36  # tiles of a unit that makes their points: those and the sums fill a quarter of a cache each
LEAST_TILES = 48  # so that products have rows enough for each pass over the weight
# Points lie `count + 1` rows apart: a whole number of pages would put all points of a tile in one cache set.
TILE_ROWS = Part((), (), ())  # a tile at a point is a row of a product


def lower_winograd(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_winograd` whose operands are these inputs of the fusion."""
    x, tile = e.inputs[0].type, e.attributes["tile"]
    kept = tiling_for(host, x.dtype, e.attributes["dtype"], int(e.inputs[1].type.shape[-1]))
    points = len(TRANSFORMS[tile].source) ** 2
    found = _Steps(e, kept, epilogue, inputs, host)
    total, depth = found.tiles * int(x.shape[0]), found.p.depth
    constants = (np.zeros(max(found.p.channels, 1), x.dtype), *found.tables, points_table(kept, tile))
    why = f"tiles of {tile}x{tile} outputs by {points} products instead of {9 * tile * tile}"
    panels = -(-found.p.columns // kept.columns)
    each, v = points * kept.size * depth, Operand("temporary", 0)
    if depth * panels <= DEPTH or (total > BLOCK and BLOCK * each <= _OWN_BYTES):
        steps = (found.product(None, 0, total),) if total and depth and panels else ()
        return Lowering(steps, (), constants, why=why)
    pieces = chunks(total, _CHUNK_BYTES, each, LEAST_TILES)
    both = ((found.source(v, *piece), found.product(v, *piece)) for piece in pieces)
    return Lowering(tuple(chain(*both)), (most(pieces) * each,), constants, why=why)


class _Steps:
    """The steps of a `conv_winograd`. `tables`: of the taps under a tile, constants from 1 on."""

    def __init__(
        self, e: Equation, kept: Tiling, epilogue: Epilogue, inputs: tuple[int, int], host: Host
    ) -> None:
        self.e, self.kept, self.epilogue, self.host = e, kept, epilogue, host
        self.x, self.w = (Operand("in", i) for i in inputs)
        self.tile, self.factor = e.attributes["tile"], e.attributes["factor"]
        self.p, part = tiles_of(e, self.tile, len(TRANSFORMS[self.tile].source))
        self.counts = tuple(axis.count for axis in part.axes)
        self.tiles = math.prod(self.counts) * math.prod(self.factor)
        self.tables = tables(self.p, part, e.inputs[0].type.dtype.itemsize)

    def source(self, v: Operand, first: int, count: int) -> Step:
        return _source(self.kept, self.tile, self._source_words(v, first, count), count, self.host)

    def _source_words(self, v: Operand | None, first: int, count: int) -> SourceWords[Content]:
        words = source_words(self.p, (self.x, v, 0), first, count)
        if self.factor == (1, 1):
            return words
        (down, across), (below, right) = words.axes, self.factor  # no tap of any tile is outside
        line: LineWords[Content] = LineWords(right * self.p.channels, below, down.stride)
        within = (replace(a, count=f, step=1) for a, f in zip(words.axes, self.factor, strict=True))
        return replace(words, width=self.p.depth, axes=(down, *within, across), lines=line)

    def product(self, v: Operand | None, first: int, count: int) -> Step:
        """From the points of some tiles to their results. Without such (None) each unit makes them."""
        e, p, kept, alone = self.e, self.p, self.kept, v is None
        height, across = (int(n) for n in e.outputs[0].type.shape[1:3])
        keeps = alone and p.depth * -(-p.columns // kept.columns) <= DEPTH
        room, (blocks, block) = Room(kept, self.tile), _blocks(count, _ALONE if keeps else BLOCK)
        if alone and not keeps:
            block += block & 1  # points lie an odd number of rows apart, in many cache sets
            blocks = -(-count // block)
        words: ProductWords[Content] = ProductWords(
            v, self.w, Operand("constant", 3), epilogue_words(self.epilogue), tile=first,
            tiles=(block if alone else count) + 1, count=count,
            blocks=blocks if blocks % 2 else blocks // 2, block=block, depth=p.depth, width=p.columns,
            height=height, across=across, count0=self.counts[0], count1=self.counts[1],
            every=None if self.factor == (1, 1) else self.factor,
            source=self._source_words(None, first, block) if alone else None,
        )  # fmt: skip
        turned = e.attributes["transposed"]
        text = _product_text(self.host, kept, self.tile, turned, self.epilogue, forms(words), keeps)
        scratch = room.end + room.of_source(block, p.depth * kept.size) * alone
        kernel = NativeKernel("winograd" if alone else "winograd_product", text, scratch=scratch)
        units = blocks if alone else blocks * -(-p.columns // kept.columns)
        return Step(kernel, contents(words), units, 2.0 * count * room.points * p.depth * p.columns)


def _blocks(count: int, most: int) -> tuple[int, int]:
    """How many blocks there are, and their tiles: an even number where they are few, for two threads."""
    blocks = -(-count // most)
    block = -(-count // (blocks + (blocks & (blocks > 1))))
    return -(-count // block), block


def tiles_of(e: Equation, tile: int, points: int) -> tuple[Problem, Part]:
    """Tiles as pixels, the places under a tile as taps."""
    x = e.inputs[0].type
    y = e.inputs[1].type if e.primitive.name == "conv_winograd_weight_grad" else e.outputs[0].type
    source, out = (tuple(int(n) for n in t.shape[1:3]) for t in (x, y))
    factor = e.attributes.get("factor", (1, 1))
    axes = tuple(
        Axis(
            -(-o // (tile * f)), 0, 1, tile * f, s, tuple(range(points)),
            tuple(f * i - lo for i in range(points)),
        )
        for o, s, lo, f in zip(out, source, e.attributes["low"], factor, strict=True)
    )  # fmt: skip
    part = Part(axes, tuple(a.count for a in axes), (points, points))
    channels, columns = int(x.shape[-1]), int(y.shape[-1])
    return Problem(x.shape[0], 1, channels, channels * math.prod(factor), columns, source, (part,)), part


def _source(
    kept: Tiling, tile: int, words: SourceWords[Content], count: int, host: Host, errors: bool = False
) -> Step:
    text = _source_text(host, kept, tile, errors, forms(words))
    name = "winograd_errors" if errors else "winograd_source"
    return Step(NativeKernel(name, text, scratch=8192), contents(words), count)


def source_words(
    p: Problem, buffers: tuple[Operand, Operand | None, int], first: int, count: int, width: int | None = None
) -> SourceWords[Content]:
    """`buffers`: what is read, what is made (None: in scratch), the first of three constants (zeros, tables
    of taps). `width`: of a row, where that is more than its channels.
    """
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
        words = source_words(p, (Operand("in", inputs[0]), v, 0), first, count)
        steps.append(_source(kept, tile, words, count, host))
        words = source_words(q, (Operand("in", inputs[1]), z, 3), first, count)
        steps.append(_source(kept, tile, words, count, host, errors=True))
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
    host: Host, tiling: Tiling, tile: int, turned: bool, epilogue: Epilogue, words: ProductWords[Form],
    keeps: bool,
) -> str:  # fmt: skip
    return Product(host, tiling, tile, turned, epilogue, words, keeps).text()
