"""Operands and attributes for the table test: matrices in panels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trilobite.base.dtypes import int4, uint4
from trilobite.compiler.targets.cpu import primitives  # noqa: F401  the CPU's own enter the table
from trilobite.ir.primitive import table

Array = np.ndarray[Any, Any]
Rows = Iterable[tuple[list[Array], dict[str, Any]]]
Rng = np.random.Generator


def _gemm_pack(rng: Rng) -> Rows:
    for k, n in ((3, 7), (5, 4), (2, 1)):
        for contract in (0, 1):
            shape = (k, n) if contract == 0 else (n, k)
            yield [rng.standard_normal(shape)], {"contract": contract, "width": 4}


def _dot_packed(rng: Rng) -> Rows:
    for lead, k, n in (((3,), 5, 7), ((), 4, 4), ((2, 3), 2, 9)):
        panels = table["gemm_pack"].evaluate(rng.standard_normal((k, n)), contract=0, width=4)
        x = rng.standard_normal((*lead, k))
        yield [x, panels], {"columns": n, "dtype": np.dtype(np.float64)}


def _codes(rng: Rng, columns: int, dtype: Any) -> Array:
    low = -8 if dtype == int4 else 0
    found: Array = rng.integers(low, low + 16, (3, columns)).astype(dtype)
    return found


def _nibble_pack(rng: Rng) -> Rows:
    for columns in (1, 16, 21):
        for dtype in (int4, uint4):
            yield [_codes(rng, columns, dtype)], {}


def _nibble_unpack(rng: Rng) -> Rows:
    for (q,), _ in _nibble_pack(rng):
        yield [table["nibble_pack"].evaluate(q)], {"columns": q.shape[-1], "dtype": q.dtype}


def _dot_quantised(rng: Rng) -> Rows:
    for contract, axis in ((0, None), (0, 1), (1, 0), (1, 1)):
        q = _codes(rng, 21, int4)
        k, scales = q.shape[contract], () if axis is None else (q.shape[axis],)
        x, scale = rng.uniform(0.5, 1.5, (2, k)), rng.uniform(0.1, 1.0, scales)
        zero = np.full(scales, -8, np.int8).astype(int4)  # so that nothing cancels
        settings = {"contract": contract, "axis": axis, "dtype": np.dtype(np.float64)}
        yield [x, q, scale, zero], {**settings, "columns": None}
        yield [x, table["nibble_pack"].evaluate(q), scale, zero], {**settings, "columns": 21}


def _conv_integer_panels(rng: Rng) -> Rows:
    for dtype, low, high in ((np.int8, -64, 65), (np.int8, -128, 128), (np.uint8, 0, 256)):
        for shape, groups in (((6, 5, 3, 2), 2), ((3, 4), 1), ((5, 6, 2), 1)):
            w = rng.integers(low, high, shape).astype(dtype)
            settings = {"groups": groups, "lanes": 4, "zero": 128, "limit": 128 if high < 128 else 0}
            yield [w], {**settings, "transposed": False}
            if len(shape) == 2:
                yield [w], {**settings, "transposed": True}


def _conv_integer(rng: Rng) -> Rows:
    for small in (True, False):
        low, high = (-64, 65) if small else (-128, 128)
        packing = {"lanes": 4, "zero": 128, "limit": 256, "transposed": False}
        for x, w, groups in (((2, 5, 6, 4), (6, 2, 3, 2), 2), ((2, 3, 7), (5, 7), 1)):
            weight = rng.integers(low, high, w).astype(np.int8)
            words = table["conv_integer_panels"].evaluate(weight, groups=groups, **packing)
            settings: dict[str, Any] = {
                "columns": w[0] // groups, "kernel": w[2:], "groups": groups, "lanes": 4, "zero": 128,
                "dtype": np.dtype(np.int32),
            }  # fmt: skip
            if w[2:]:
                settings |= {"stride": (1, 2), "low": (1, 0), "high": (0, 1)}
                settings |= {"x_dilation": (1, 1), "w_dilation": (1, 1)}
            yield [rng.integers(0, 256, x).astype(np.uint8), words], settings


def _conv_integer_points(rng: Rng) -> Rows:
    for tile in (2, 4):
        for dtype, low, high in ((np.int8, -128, 128), (np.uint8, 0, 256)):
            w = rng.integers(low, high, (6, 5, 3, 3)).astype(dtype)
            yield [w], {"tile": tile, "lanes": 4, "zero": 128}


def _conv_integer_tiles(rng: Rng) -> Rows:
    for (w,), packing in _conv_integer_points(rng):
        words = table["conv_integer_points"].evaluate(w, **packing)
        settings = {"columns": 6, "low": (1, 0), "high": (2, 1), "dtype": np.dtype(np.int32)}
        yield [rng.integers(0, 256, (2, 4, 5, 5)).astype(np.uint8), words], {**packing, **settings}


samples = {
    "conv_integer": _conv_integer,
    "conv_integer_panels": _conv_integer_panels,
    "conv_integer_points": _conv_integer_points,
    "conv_integer_tiles": _conv_integer_tiles,
    "dot_quantised": _dot_quantised,
    "nibble_pack": _nibble_pack,
    "nibble_unpack": _nibble_unpack,
    "gemm_pack": _gemm_pack,
    "dot_packed": _dot_packed,
}
