"""Sizes of the kernels that keep channels apart: their units, and the words of their steps."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.gather import table_bytes
from trilobite.compiler.targets.cpu.contraction.problem import Part, Problem
from trilobite.compiler.targets.cpu.contraction.rowwise.kernel import Rowwise, RowWords
from trilobite.compiler.targets.cpu.contraction.rowwise.tile import Combine
from trilobite.compiler.targets.cpu.contraction.tables import Array, axis_words, even_block, tables, tap_words
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, contents, forms, read
from trilobite.compiler.targets.cpu.epilogue import Epilogue, numbers_apart
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.tuning.choices import choice
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text

_PIXELS = 96
_TABLE_BYTES = 32 << 10
_WORK = 1 << 17  # elements read by a unit: some ten microseconds
_SERIAL = 1 << 14


@dataclass(frozen=True)
class Rows:
    """What is computed: which problem, how rows combine, what a place outside counts as."""

    problem: Problem
    combine: Combine
    outside: Any
    inputs: tuple[int, ...]  # of the fusion: the source, and the weight of a filter


def lower_rowwise(rows: Rows, tile: Tiling, epilogue: Epilogue, host: Host) -> Lowering:
    p = rows.problem
    # A filter's epilogue runs for every few products: its numbers stay in registers.
    after, numbers = (epilogue, ()) if rows.combine == "filter" else numbers_apart(epilogue)
    constants: list[Array] = [np.full(max(p.channels, 1), rows.outside, tile.operand), *numbers]
    apart = tuple(Operand("constant", 1 + i) for i, _ in enumerate(numbers))
    steps = []
    for part in p.parts:
        if part.positions == 0 or p.batch == 0 or p.channels == 0:
            continue
        constants += tables(p, part, tile.operand.itemsize)
        steps.append(_step(rows, part, tile, after, apart, len(constants) - 2, host))
    why = f"rows of {p.channels} channels, {rows.combine} over {len(p.parts)} set(s) of taps"
    return Lowering(tuple(steps), (), tuple(constants), why=why)


def _step(
    rows: Rows,
    part: Part,
    tile: Tiling,
    epilogue: Epilogue,
    numbers: tuple[Operand, ...],
    table: int,
    host: Host,
) -> Step:
    p, taps = rows.problem, part.tap_count
    images, outer = p.images
    pixels = part.positions * images
    cut = choice("rows", lambda: description(rows.combine, p, part, tile, pixels), pixels=_PIXELS, work=_WORK)
    work_most = max(ROWS, cut["work"] // max(p.channels * taps, 1))
    block = even_block(pixels, min(cut["pixels"], _TABLE_BYTES // (8 * max(taps, 1)), work_most))
    blocks = -(-pixels // block)
    tiles = -(-block // ROWS) + 1
    rows_at = ROWS * tile.columns * tile.size
    places_at = rows_at + tiles * ROWS * 8
    words: RowWords[Content] = RowWords(
        Operand("in", rows.inputs[0]), Operand("in", rows.inputs[1]) if rows.combine == "filter" else None,
        tap_words(0, table),
        epilogue_words(epilogue, None, numbers),
        rows_at=rows_at, places_at=places_at, blocks=blocks, block=block,
        pixels=pixels, taps=taps, width=p.channels, image=p.image, image_rows=math.prod(p.out),
        axes=axis_words(p, part),
    )  # fmt: skip
    text = _text(host, tile, rows.combine, epilogue, forms(words))
    name = "conv_channelwise" if rows.combine == "filter" else f"window_{rows.combine}"
    kernel = NativeKernel(name, text, scratch=places_at + table_bytes(tiles * ROWS, taps))
    work = 2.0 * pixels * taps * p.channels
    return Step(kernel, contents(words), outer * blocks, work, work < 2 * _SERIAL)


def description(combine: Combine, p: Problem, part: Part, tile: Tiling, pixels: int) -> str:
    """For tuning: what the cost of a cut depends on."""
    axes = " ".join(f"{a.count}of{a.extent}x{len(a.offsets)}by{a.step}" for a in part.axes)
    return f"{combine} {pixels} x {p.channels} {tile.operand} to {tile.result} {axes}"


@lru_cache(maxsize=256)
def _text(host: Host, tile: Tiling, combine: Combine, epilogue: Epilogue, words: RowWords[Form]) -> str:
    t = Text(host)
    Rowwise(t, tile, epilogue, read(t, words), combine).emit()
    return t.module()
