"""Sizes of the weight gradient: how it is cut into units, and the words of its step."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.channelwise.gradient import FilterGrad, FilterGradWords
from trilobite.compiler.targets.cpu.contraction.direct.steps import prepared
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.gather import table_bytes
from trilobite.compiler.targets.cpu.contraction.gathering import Gathering
from trilobite.compiler.targets.cpu.contraction.problem import Problem, weight_problem
from trilobite.compiler.targets.cpu.contraction.tables import Array, axis_words, groups_of, tables, tap_words
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling, tiling_of, widened
from trilobite.compiler.targets.cpu.contraction.weight_grad.kernel import WeightGrad, WeightGradWords
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, Words, contents, forms, read
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation
from trilobite.ir.primitives.common import count
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text

_PIXELS = 64  # of a block: rows of several taps and packed filters share a first-level cache
_PIXELS_OF_ONE_TAP = 128
_ROWS_BYTES = 128 << 10
_SUMS_BYTES = 160 << 10
_UNITS = 4  # at least, two for each of two threads; bits do not depend on it


def lower_weight_grad(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_last_weight_grad` whose operands are these inputs of the fusion."""
    dtype = e.inputs[0].type.dtype
    p = weight_problem(e)
    tile = widened(tiling_of(host, dtype, e.attributes["dtype"], p.columns))
    p, steps, temporaries, source = prepared(p, tile, Operand("in", inputs[0]), host)
    part = p.parts[0]
    steps = (*steps, weight_step(p, tile, epilogue, (source, Operand("in", inputs[1]), 0), host))
    constants: tuple[Array, ...] = (
        np.zeros(max(p.depth, 1), tile.operand), *tables(p, part, tile.operand.itemsize),
    )  # fmt: skip
    why = f"sums over pixels by taps, tiles of {ROWS} channels x {tile.columns} filters"
    return Lowering(steps, temporaries, constants, why=why)


def weight_step(
    p: Problem, tile: Tiling, epilogue: Epilogue, buffers: tuple[Operand, Operand, int], host: Host,
    result: Operand | None = None, begins: bool | None = None,
) -> Step:  # fmt: skip
    """`buffers`: x, y, and the first of three constants: zeros and the two tables of taps. Unless `begins` is
    None, sums go on from the result where it is false.
    """
    part = p.parts[0]
    taps, panels = part.tap_count, -(-p.columns // tile.columns)
    run, panel_run = _runs(p, taps, panels, tile)
    runs, panel_runs = -(-p.depth // run), -(-panels // panel_run)
    pixels = p.batch * part.positions
    block = _block(p, taps, tile)
    errors = taps * run * panel_run * tile.columns * tile.size
    places = errors + block * tile.columns * tile.size
    apart = groups_of(p)
    words: WeightGradWords[Content] = WeightGradWords(
        buffers[0], buffers[1], tap_words(buffers[2], buffers[2] + 1),
        epilogue_words(epilogue, result), errors_at=errors, places_at=places, runs=runs, run=run,
        panels=panels, panel_runs=panel_runs, panel_run=panel_run, pixels=pixels, block=block, taps=taps,
        depth=p.depth, columns=p.columns, group_x=apart.x, group_columns=apart.columns,
        group_rows=p.depth if p.apart else 0, width=apart.width, group_pixels=p.apart, image=p.image,
        image_rows=math.prod(p.out), axes=axis_words(p, part),
        begins=None if begins is None else int(begins),
    )  # fmt: skip
    text = _text(WeightGrad, host, tile, epilogue, forms(words))
    kernel = NativeKernel("conv_weight_grad", text, scratch=places + table_bytes(block, taps))
    work = 2.0 * count(pixels) * taps * p.depth * p.columns * p.groups
    units = p.groups * panel_runs * runs if p.depth * p.columns * taps else 0
    return Step(kernel, contents(words), units, work)


def _runs(p: Problem, taps: int, panels: int, tile: Tiling) -> tuple[int, int]:
    """Channels and panels of a unit: their sums stay in the second-level cache, units are enough for all
    threads, and of the ways to cut so the one that reads x and y least.
    """
    room = _SUMS_BYTES // (max(taps, 1) * tile.columns * tile.size)
    best = (1, max(panels, 1))
    least = float("inf")
    for pieces in range(1, panels + 1):
        panel_run = -(-panels // pieces)
        wanted = -(-_UNITS // (p.groups * pieces))
        runs = max(-(-p.depth * panel_run // max(room, 1)), min(wanted, -(-p.depth // ROWS)), 1)
        run = max(-(-p.depth // runs), 1)
        runs = max(-(-p.depth // run), 1)
        read = (pieces * p.depth + runs * p.columns) * max(1.0, _UNITS / (p.groups * pieces * runs))
        if read < least:
            best, least = (run, panel_run), read
    return best


def _block(p: Problem, taps: int, tile: Tiling) -> int:
    rows = _ROWS_BYTES // max(p.depth * tile.operand.itemsize, 1)
    return max(16, min(_PIXELS if taps > 1 else _PIXELS_OF_ONE_TAP, rows))


@lru_cache(maxsize=64)
def _text(kind: type[Gathering], host: Host, tile: Tiling, epilogue: Epilogue, words: Words[Form]) -> str:
    t = Text(host)
    kind(t, tile, epilogue, read(t, words)).emit()
    return t.module()


# -- one filter per channel --------------------------------------------------------------------------------

_FEW_PIXELS = 64
_RUN = 4  # chunks of a unit: the places of rows are written down once for all of them


def lower_filter_grad(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_last_weight_grad` with as many groups as channels and filters."""
    dtype, p = e.inputs[0].type.dtype, weight_problem(e)
    tile, part = tiling_of(host, dtype, e.attributes["dtype"], p.channels), p.parts[0]
    taps, chunks = part.tap_count, -(-p.channels // tile.columns)
    run = min(_RUN, -(-chunks // min(max(chunks, 1), _UNITS)))
    block = max(8, min(_FEW_PIXELS, (16 << 10) // (8 * max(taps, 1))))
    places = taps * run * tile.columns * tile.size
    words: FilterGradWords[Content] = FilterGradWords(
        Operand("in", inputs[0]), Operand("in", inputs[1]), tap_words(0, 1),
        epilogue_words(epilogue), places_at=places, run=run * tile.columns, chunks=run,
        pixels=p.batch * part.positions, block=block, taps=taps, width=p.channels, image=p.image,
        image_rows=math.prod(p.out), axes=axis_words(p, part),
    )  # fmt: skip
    text = _text(FilterGrad, host, tile, epilogue, forms(words))
    kernel = NativeKernel("conv_filter_grad", text, scratch=places + table_bytes(block, taps))
    work = 2.0 * count(p.batch) * part.positions * taps * p.channels
    step = Step(kernel, contents(words), -(-chunks // run) if chunks else 0, work)
    constants: tuple[Array, ...] = (np.zeros(max(p.channels, 1), dtype), *tables(p, part, dtype.itemsize))
    return Lowering((step,), (), constants, why="one filter per channel: sums over pixels by taps")
