"""Samples of the processor's own primitives, which stand in the table once its target is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import trilobite.compiler.targets.dlp.primitives  # noqa: F401  their place in the table
from trilobite.base import dtypes as dt

Array = np.ndarray[Any, Any]
SHAPES = ((7,), (3, 5), (0, 2))


def _scales(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.exp2(rng.uniform(-9, 2, shape)).astype(np.float32)


def _of_integers(rng: np.random.Generator, grids: Any) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    for source, zero, dtype in grids:
        for shape in SHAPES:
            x = rng.integers(-120, 120, shape).astype(source)
            yield [x, _scales(rng, shape), rng.integers(-9, 9, shape).astype(zero)], {"dtype": dtype}


def _rescale(rng: np.random.Generator) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    yield from _of_integers(rng, ((dt.int32, dt.int8, dt.int8), (dt.int32, dt.int16, dt.int16)))


def _scaled(rng: np.random.Generator) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    yield from _of_integers(rng, ((dt.int8, dt.int8, dt.float32), (dt.int32, dt.int32, dt.float32)))


def _to_grid(rng: np.random.Generator) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    for dtype in (dt.int8, dt.int16):
        for shape in SHAPES:
            x = (rng.standard_normal(shape) * 30).astype(np.float32)
            yield [x, _scales(rng, shape), rng.integers(-9, 9, shape).astype(dtype)], {"dtype": dtype}


def _join(rng: np.random.Generator) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    for dtype, relu in ((dt.int8, True), (dt.int16, False), (dt.float32, True)):
        for shape in SHAPES:
            a = rng.standard_normal(shape).astype(np.float32)
            numbers = {"b_zero": 3.0, "b_scale": 0.125, "out_scale": 7.5, "out_zero": -2.0}
            yield (
                [a, rng.integers(-120, 120, shape).astype(np.int8)],
                {**numbers, "relu": relu, "dtype": dtype},
            )


samples = {"join": _join, "rescale": _rescale, "scaled": _scaled, "to_grid": _to_grid}
