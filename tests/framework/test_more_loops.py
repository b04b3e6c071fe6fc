"""Loops of our own for what NumPy has no ufunc for: places, order, windows, random words, special functions.
Bits are those of the rules.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.framework.test_inner_loops import FLOATS, check, values
from trilobite.ir.primitives import table

ORDERED = (np.bool_, np.uint8, np.int32, np.int64, np.float32, np.float64)
ANY = (*ORDERED, np.int16, np.complex64)
LANES = ((5,), (4, 4), (2, 3, 4), (7, 1, 3), (1, 33))


def places(shape: tuple[int, ...], size: int, dtype: Any = np.int64, seed: int = 0) -> np.ndarray[Any, Any]:
    """Indices, some of them outside: they mean the nearest place."""
    return np.random.default_rng(seed).integers(-2, size + 2, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ANY)
@pytest.mark.parametrize("shape", LANES)
def test_reading_at_places(shape: tuple[int, ...], dtype: Any) -> None:
    x = values(shape, dtype)
    for axis, of in product(range(len(shape)), (np.int64, np.int32)):
        for index in ((), (3,), (2, 3)):
            at = places(index, shape[axis], of)
            check(lambda v, i, axis=axis: [table["gather"](v, i, axis=axis)], x, at)
        lanes = (*shape[:axis], 6, *shape[axis + 1 :])
        at = places(lanes, shape[axis], of)
        check(lambda v, i, axis=axis: [table["take_along"](v, i, axis=axis)], x, at)
    for axes in ((0,), (len(shape) - 1, 0), (0, 1, 2)):
        if len(set(axes)) == len(axes) and max(axes) < len(shape):
            at = places((2, 5, len(axes)), min(shape))
            check(lambda v, i, axes=axes: [table["gather_nd"](v, i, axes=axes)], x, at)


@pytest.mark.parametrize("kind", ("set", "add"))
@pytest.mark.parametrize("dtype", (np.int32, np.int64, *FLOATS))
@pytest.mark.parametrize("shape", LANES)
def test_writing_at_places(shape: tuple[int, ...], dtype: Any, kind: str) -> None:
    x = values(shape, dtype)
    for axis in range(len(shape)):
        lanes = (*shape[:axis], 6, *shape[axis + 1 :])
        at, new = places(lanes, shape[axis]), values(lanes, dtype, 1)
        check(lambda v, i, u, a=axis: [table["scatter_along"](v, i, u, axis=a, kind=kind)], x, at, new)
        at, new = places((5, 1), shape[axis]), values((5, *shape[:axis], *shape[axis + 1 :]), dtype, 1)
        check(lambda v, i, u, a=axis: [table["scatter"](v, i, u, axes=(a,), kind=kind)], x, at, new)
    if len(shape) > 1:
        at, new = places((9, 2), min(shape)), values((9, *shape[1:-1]), dtype, 1)
        axes = (len(shape) - 1, 0)
        check(lambda v, i, u: [table["scatter"](v, i, u, axes=axes, kind=kind)], x, at, new)


@pytest.mark.parametrize("dtype", ORDERED)
@pytest.mark.parametrize("shape", LANES)
def test_order(shape: tuple[int, ...], dtype: Any) -> None:
    x = values(shape, dtype)
    x.reshape(-1)[: x.size // 2] = x.reshape(-1)[x.size - x.size // 2 :]  # some are equal
    for axis in range(len(shape)):
        check(lambda v, a=axis: [table["argmax"](v, axis=a)], x)
        check(lambda v, a=axis: [table["argmin"](v, axis=a)], x)
        check(lambda v, a=axis: list(table["sort"](v, axis=a, keys=1)), x)
        check(lambda v, w, a=axis: list(table["sort"](v, w, axis=a, keys=1)), x, values(shape, np.float32, 3))
        for k in {1, shape[axis] // 2 or 1, shape[axis]}:
            check(lambda v, a=axis, k=k: list(table["top_k"](v, k=k, axis=a)), x)


def test_only_zeros_and_nan_are_ordered_as_numpy_orders_them() -> None:
    for special in ((0.0, -0.0, 0.0), (np.nan, -np.nan, 1.0), (np.inf, np.nan, -np.inf), (-0.0, 0.0, -0.0)):
        x = np.array([special, special[::-1]], np.float32)
        for axis in (0, 1):
            check(lambda v, a=axis: list(table["sort"](v, axis=a, keys=1)), x)
            check(lambda v, a=axis: list(table["top_k"](v, k=2, axis=a)), x)
            check(lambda v, a=axis: [table["argmax"](v, axis=a), table["argmin"](v, axis=a)], x)


@pytest.mark.parametrize("total", (1, 3, 4, 5, 16, 17, 63))
@pytest.mark.parametrize("stream", (0, 1, 7))
def test_random_words(total: int, stream: int) -> None:
    for key, counter in (
        ((1, 2), (0, 0)),
        ((0xFFFFFFFF, 0x80000000), (0xFFFFFFFE, 5)),
        ((0, 0), (2**32 - 1,) * 2),
    ):
        words = np.array(key, np.uint32), np.array(counter, np.uint32)
        check(lambda k, c: [table["random_bits"](k, c, shape=(total,), stream=stream)], *words)
        check(lambda k, c: [table["random_bits"](k, c, shape=(1, total), stream=stream)], *words)


WINDOWS = (
    ((2, 2), (2, 2), (0, 0), (0, 0), (1, 1)),
    ((3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    ((3, 2), (1, 2), (0, 1), (2, 0), (1, 2)),
    ((1, 3), (1, 1), (0, 0), (0, 0), (1, 2)),
    ((2, 2), (3, 3), (-1, 0), (0, -1), (1, 1)),
    ((1, 1), (1, 1), (0, 0), (0, 0), (1, 1)),
)


@pytest.mark.parametrize("dtype", (*FLOATS, np.int32, np.int64))
@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window: Any, dtype: Any) -> None:
    names = ("size", "stride", "low", "high", "dilation")
    settings = dict(zip(names, window, strict=True))
    for shape in ((7, 6), (3, 8, 8), (2, 1, 5, 9)):
        x = values(shape, dtype)
        for kind in ("max", "min", "sum"):
            check(lambda v, kind=kind: [table["window_reduce"](v, kind=kind, **settings)], x)
        if not any(settings["low"]) and max(settings["high"]) <= 0:
            check(lambda v: [table["window_argmax"](v, **settings)], x)
    y, at = values((3, 4, 5), dtype), places((3, 4, 5), 20)
    at = np.where(at < 20, at, -1)
    for disjoint in (True, False):
        check(lambda v, i, d=disjoint: [table["window_scatter"](v, i, plane=(6, 4), disjoint=d)], y, at)


CONVOLUTIONS = (
    ((1, 3, 8, 8), (4, 3, 3, 3), (1, 1), (0, 0), (0, 0), (1, 1), (1, 1), 1),
    ((2, 4, 7, 6), (6, 2, 3, 2), (2, 1), (1, 0), (1, 2), (1, 1), (1, 2), 2),
    ((2, 4, 5, 5), (3, 4, 1, 1), (1, 1), (0, 0), (0, 0), (1, 1), (1, 1), 1),
    ((1, 2, 4, 4), (2, 1, 3, 3), (1, 1), (1, 1), (1, 1), (2, 2), (1, 1), 2),
    ((2, 3, 9), (5, 3, 4), (3,), (2,), (-1,), (1,), (1,), 1),
    ((1, 2, 6, 6), (2, 2, 2, 2), (1, 1), (-1, 0), (0, -1), (1, 1), (1, 1), 1),
)  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_small_convolutions(case: Any, dtype: Any) -> None:
    xs, ws, stride, low, high, x_dilation, w_dilation, groups = case
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(dtype) for s in (xs, ws))
    settings = {
        "stride": stride, "low": low, "high": high, "x_dilation": x_dilation, "w_dilation": w_dilation,
        "groups": groups, "dtype": np.dtype(dtype),
    }  # fmt: skip
    check(lambda v, u: [table["conv"](v, u, **settings)], x, w)
    y = np.asarray(table["conv"](x, w, **settings))
    check(lambda v, u: [table["conv_input_grad"](v, u, space=xs[2:], **settings)], y, w)
    check(lambda v, u: [table["conv_weight_grad"](v, u, kernel=ws[2:], **settings)], x, y)


@pytest.mark.parametrize("dtype", (*FLOATS, np.int64))
@pytest.mark.parametrize("shape", LANES)
def test_running(shape: tuple[int, ...], dtype: Any) -> None:
    x = values(shape, dtype)
    kinds = ("sum", "prod", "max", "min") + (("logsumexp",) if x.dtype.kind == "f" else ())
    for axis, kind, reverse in product(range(len(shape)), kinds, (False, True)):
        check(lambda v, a=axis, k=kind, r=reverse: [table["cumulative"](v, axis=a, kind=k, reverse=r)], x)


@pytest.mark.parametrize("dtype", (np.bool_, np.int32, np.uint8))
def test_words_reduced(dtype: Any) -> None:
    for shape in LANES:
        for axes in ((0,), tuple(range(len(shape))), (len(shape) - 1,)):
            for name in ("reduce_and", "reduce_or"):
                check(lambda v, n=name, a=axes: [table[n](v, axes=a)], values(shape, dtype))


@pytest.mark.parametrize("name", "erf erfc lgamma".split())
@pytest.mark.parametrize("dtype", FLOATS)
def test_rules_written_in_ufuncs(name: str, dtype: Any) -> None:
    def numbers(v: Any) -> list[Any]:
        """What becomes of NaN is NaN; its sign is not NumPy's own from one length to the other."""
        out = table[name](v)
        return [table["select"](table["eq"](v, v), out, v), table["is_nan"](out)]

    for shape in LANES:
        check(numbers, values(shape, dtype))
    special = np.array([0.5, 1, -1, 2, 8.5, 1.5, 40, -40, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30], dtype)
    check(numbers, special)


def test_part_written() -> None:
    x, y = values((4, 6), np.float32), values((2, 3), np.float32, 1)
    ends = {"start": (1, 0), "stop": (4, 6), "step": (2, 2)}
    check(lambda v, u: [table["update_slice"](v, u, **ends)], x, y)
