"""Sizes of one filter per channel: tiles along lines of pixels, and the words of their steps.

Enters: a `Problem` whose groups have one channel and one filter. Leaves: a step for each part. Parts that
have no last axis, or few pixels or many taps along it, are for `rowwise_steps`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.channelwise.filter import Filter, FilterWords, Line
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.gather import table_bytes
from trilobite.compiler.targets.cpu.contraction.problem import Part, Problem
from trilobite.compiler.targets.cpu.contraction.rowwise.steps import description
from trilobite.compiler.targets.cpu.contraction.tables import Array, axis_words, tables, tap_words
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, contents, forms, read
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.tuning.choices import choice
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text

_PIXELS = 8  # of a tile at most: as many sums as hide the latency of a fused multiply-add
_FEWEST = 4
_TAPS = 7  # of a line at most: their weights stay in registers
_SPAN = 32
_LINES = 64
_BLOCK = 768  # pixels of a unit
_WORK = 1 << 17  # elements read by a unit: some ten microseconds
_SERIAL = 1 << 14


def fits(p: Problem) -> bool:
    """Is every part made of lines of pixels?"""
    return all(_line(part) is not None for part in p.parts)


def _line(part: Part) -> Line | None:
    """The tile of a part: pixels so that tiles of a line are of about equal size."""
    if not part.axes or part.axes[-1].count < _FEWEST or not 1 <= len(part.axes[-1].offsets) <= _TAPS:
        return None
    axis = part.axes[-1]
    pixels = -(-axis.count // -(-axis.count // _PIXELS))
    line = Line(pixels, axis.step, tuple(o - min(axis.offsets) for o in axis.offsets))
    lines = part.tap_count // len(axis.offsets)
    return line if line.span <= _SPAN and 1 <= lines <= _LINES else None


def lower_filter(
    p: Problem, tile: Tiling, epilogue: Epilogue, inputs: tuple[int, int], host: Host, outside: int = 0
) -> Lowering:
    constants: list[Array] = [np.full(max(p.channels, 1), outside, tile.operand)]
    steps = []
    for part in p.parts:
        line = _line(part)
        if part.positions == 0 or p.batch == 0 or p.channels == 0 or line is None:
            continue
        under = _under(part, line)
        constants += [*tables(p, under, tile.operand.itemsize), _numbers(p, part)]
        steps.append(_step(p, part, under, line, tile, epilogue, (*inputs, len(constants) - 3), host))
    why = f"one filter per channel, {len(p.parts)} set(s) of taps over lines of pixels"
    return Lowering(tuple(steps), (), tuple(constants), why=why)


def _under(part: Part, line: Line) -> Part:
    """Tiles as pixels, the positions under a tile as taps."""
    axis = part.axes[-1]
    least = min(axis.offsets)
    tiles = replace(
        axis, count=-(-axis.count // line.pixels), every=axis.every * line.pixels,
        step=axis.step * line.pixels, taps=tuple(range(line.span)),
        offsets=tuple(least + i for i in range(line.span)),
    )  # fmt: skip
    return Part((*part.axes[:-1], tiles), part.out, (*part.kernel[:-1], line.span))


def _numbers(p: Problem, part: Part) -> Array:
    """Where the weights of each tap begin, line of taps by line."""
    return part.tap_rows()[1] * p.channels


def _step(
    p: Problem, part: Part, under: Part, line: Line, tile: Tiling, epilogue: Epilogue,
    inputs: tuple[int, int, int], host: Host,
) -> Step:  # fmt: skip
    """`inputs`: source and weight among the fusion's, and the first of the part's three constants."""
    images, outer = p.images
    tiles, pixels = under.positions * images, part.positions * images
    cut = choice("rows", lambda: description("filter", p, part, tile, pixels), pixels=_BLOCK, work=_WORK)
    most = min(cut["pixels"] // line.pixels, cut["work"] // max(line.pixels * p.channels * part.tap_count, 1))
    block = _block(tiles, max(most, 1))
    places_at = _PIXELS * tile.lanes * tile.size
    words: FilterWords[Content] = FilterWords(
        Operand("in", inputs[0]), Operand("in", inputs[1]), tap_words(0, inputs[2]),
        Operand("constant", inputs[2] + 2), epilogue_words(epilogue),
        places_at=places_at, blocks=-(-tiles // block), block=block, tiles=tiles, taps=under.tap_count,
        lines=part.tap_count // len(line.offsets), pixels=part.axes[-1].count, apart=part.axes[-1].every,
        width=p.channels, image=p.image, image_rows=math.prod(p.out), axes=axis_words(p, under),
    )  # fmt: skip
    text = _text(host, tile, line, epilogue, forms(words))
    kernel = NativeKernel("conv_channelwise", text, scratch=places_at + table_bytes(1, under.tap_count))
    work = 2.0 * pixels * part.tap_count * p.channels
    return Step(kernel, contents(words), outer * -(-tiles // block), work, work < 2 * _SERIAL)


def _block(tiles: int, most: int) -> int:
    """Tiles of a unit, in an even number of units, for two threads."""
    units = -(-tiles // most)
    units += units & (units > 1)
    return -(-tiles // max(units, 1))


@lru_cache(maxsize=256)
def _text(host: Host, tile: Tiling, line: Line, epilogue: Epilogue, words: FilterWords[Form]) -> str:
    t = Text(host)
    Filter(t, tile, epilogue, read(t, words), line).emit()
    return t.module()
