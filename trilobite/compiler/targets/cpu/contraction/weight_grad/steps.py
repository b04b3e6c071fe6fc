"""Sizes of the weight gradient: how it is cut into units, and the words of its step."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.channelwise.gradient import FilterGrad
from trilobite.compiler.targets.cpu.contraction.direct.steps import (
    axis_words,
    flat_table,
    group_words,
    prepared,
    tap_table,
)
from trilobite.compiler.targets.cpu.contraction.finish import epilogue_words
from trilobite.compiler.targets.cpu.contraction.gather import table_bytes
from trilobite.compiler.targets.cpu.contraction.problem import Problem, weight_problem
from trilobite.compiler.targets.cpu.contraction.tiling import ROWS, Tiling, tiling, widened
from trilobite.compiler.targets.cpu.contraction.weight_grad.kernel import WeightGrad
from trilobite.compiler.targets.cpu.contraction.words import Words
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation
from trilobite.ir.primitives.common import count
from trilobite.ir.types import Dim
from trilobite.native.host import Host

Array = np.ndarray[Any, Any]
_PIXELS = 64  # of a block: rows of several taps and packed filters share a first-level cache
_PIXELS_OF_ONE_TAP = 128
_ROWS_BYTES = 128 << 10
_SUMS_BYTES = 160 << 10
_UNITS = 4  # at least, two for each of two threads; bits do not depend on it


def lower_weight_grad(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_last_weight_grad` whose operands are these inputs of the fusion."""
    dtype = e.inputs[0].type.dtype
    tile = widened(tiling(host, dtype, e.attributes["dtype"]))
    p, steps, temporaries, source = prepared(weight_problem(e), tile, Operand("in", inputs[0]), host)
    part = p.parts[0]
    steps = (*steps, weight_step(p, tile, epilogue, (source, Operand("in", inputs[1]), 0), host))
    constants: tuple[Array, ...] = (
        np.zeros(max(p.depth, 1), tile.operand), tap_table(p, part),
        flat_table(p, part, tile.operand.itemsize),
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
    words = Words()
    words.add("x", buffers[0])
    words.add("y", buffers[1])
    for i, name in enumerate(("zeros", "table", "flat")):
        words.add(name, Operand("constant", buffers[2] + i))
    epilogue_words(words, epilogue, result)
    numbers: dict[str, Dim] = {
        "errors_at": errors, "places_at": places, "runs": runs, "run": run, "panels": panels,
        "panel_runs": panel_runs, "panel_run": panel_run,
        "pixels": pixels, "block": block, "taps": taps, "depth": p.depth, "columns": p.columns,
        **group_words(p), "group_rows": p.depth if p.apart else 0,
        "group_pixels": p.apart,
        "image": math.prod(p.source) * p.channels, "image_rows": math.prod(p.out), **axis_words(p, part),
    }  # fmt: skip
    if begins is not None:
        numbers["begins"] = int(begins)
    for name, value in numbers.items():
        words.add(name, value)
    text = _text(host, tile, len(part.axes), epilogue, tuple(words.names), begins is not None)
    kernel = NativeKernel("conv_weight_grad", text, scratch=places + table_bytes(block, taps))
    work = 2.0 * count(pixels) * taps * p.depth * p.columns * p.groups
    units = p.groups * panel_runs * runs if p.depth * p.columns * taps else 0
    return Step(kernel, tuple(words.contents), units, work)


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
def _text(host: Host, tile: Tiling, rank: int, epilogue: Epilogue, names: tuple[str, ...], adds: bool) -> str:
    return WeightGrad(host, tile, rank, epilogue, names, adds).text()


# -- one filter per channel --------------------------------------------------------------------------------

_FEW_PIXELS = 64
_RUN = 4  # chunks of a unit: the places of rows are written down once for all of them


def lower_filter_grad(e: Equation, epilogue: Epilogue, inputs: tuple[int, int], host: Host) -> Lowering:
    """A `conv_last_weight_grad` with as many groups as channels and filters."""
    dtype, p = e.inputs[0].type.dtype, weight_problem(e)
    tile, part = tiling(host, dtype, e.attributes["dtype"]), p.parts[0]
    taps, chunks = part.tap_count, -(-p.channels // tile.columns)
    run = min(_RUN, -(-chunks // min(max(chunks, 1), _UNITS)))
    block = max(8, min(_FEW_PIXELS, (16 << 10) // (8 * max(taps, 1))))
    words = Words()
    for name, operand in (
        ("x", Operand("in", inputs[0])), ("y", Operand("in", inputs[1])),
        ("zeros", Operand("constant", 0)), ("table", Operand("constant", 1)),
        ("flat", Operand("constant", 2)),
    ):  # fmt: skip
        words.add(name, operand)
    epilogue_words(words, epilogue)
    places = taps * run * tile.columns * tile.size
    numbers: dict[str, Dim] = {
        "places_at": places, "run": run * tile.columns, "chunks": run, "pixels": p.batch * part.positions,
        "block": block, "taps": taps, "width": p.channels,
        "image": math.prod(p.source) * p.channels, "image_rows": math.prod(p.out), **axis_words(p, part),
    }  # fmt: skip
    for name, value in numbers.items():
        words.add(name, value)
    text = _filter_text(host, tile, len(part.axes), epilogue, tuple(words.names))
    kernel = NativeKernel("conv_filter_grad", text, scratch=places + table_bytes(block, taps))
    work = 2.0 * count(p.batch) * part.positions * taps * p.channels
    step = Step(kernel, tuple(words.contents), -(-chunks // run) if chunks else 0, work)
    constants: tuple[Array, ...] = (
        np.zeros(max(p.channels, 1), dtype), tap_table(p, part), flat_table(p, part, dtype.itemsize),
    )  # fmt: skip
    return Lowering((step,), (), constants, why="one filter per channel: sums over pixels by taps")


@lru_cache(maxsize=64)
def _filter_text(host: Host, tile: Tiling, rank: int, epilogue: Epilogue, names: tuple[str, ...]) -> str:
    return FilterGrad(host, tile, rank, epilogue, names).text()
