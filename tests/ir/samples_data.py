"""Operands for primitives that move, choose, reduce and arrange data, and for those with regions or
effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from samples_elementwise import WORDS, Sample, bools, integers, plane, wide

from trilobite.base import dtypes as dt
from trilobite.ir.graph import Dense

Rng = np.random.Generator

# -- creation and identity -----------------------------------------------------------------------------------


def _constants(rng: Rng) -> Iterator[Sample]:
    for array in (
        wide(rng, (3, 2)),
        integers(rng, (4,), dt.int4),
        np.array(True),
        np.empty((0, 2), np.float32),
    ):
        yield [], {"value": Dense(array)}


def _fills(rng: Rng) -> Iterator[Sample]:
    yield [], {"shape": (2, 3), "dtype": dt.float32, "value": 0.1}
    yield [], {"shape": (), "dtype": dt.complex64, "value": 1 - 2j}
    yield [], {"shape": (0,), "dtype": dt.int4, "value": -3}
    yield [], {"shape": (3,), "dtype": dt.float8_e5m2, "value": float("nan")}


def _iotas(rng: Rng) -> Iterator[Sample]:
    yield [], {"shape": (2, 5), "dtype": dt.int64, "axis": 1}
    yield [], {"shape": (3, 1), "dtype": dt.float16, "axis": 0}
    yield [], {"shape": (0,), "dtype": dt.uint8, "axis": 0}


def _any(rng: Rng) -> Iterator[Sample]:
    for shape in ((), (5,), (2, 3), (0, 2)):
        yield [wide(rng, shape)], {}
    yield [plane(rng, (3,))], {}


def _casts(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (2, 3))], {"dtype": dt.float64}
    yield [wide(rng, (2, 3))], {"dtype": dt.complex128}
    yield [plane(rng, (3,))], {"dtype": dt.float64}
    yield [wide(rng, (7,))], {"dtype": dt.int8}
    yield [wide(rng, ())], {"dtype": dt.float8_e4m3fn}
    yield [integers(rng, (5,), dt.int64)], {"dtype": dt.int4}
    yield [bools(rng, (5,))], {"dtype": dt.bfloat16}


# -- shapes --------------------------------------------------------------------------------------------------


def _broadcasts(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (3,))], {"shape": (2, 3, 4), "axes": (1,)}
    yield [wide(rng, (1, 3))], {"shape": (2, 3), "axes": (0, 1)}
    yield [plane(rng, ())], {"shape": (2, 0), "axes": ()}
    yield [integers(rng, (1,), dt.int4)], {"shape": (5,), "axes": (0,)}


def _reshapes(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (2, 6))], {"shape": (3, 4)}
    yield [wide(rng, (1, 1))], {"shape": ()}
    yield [wide(rng, (0, 3))], {"shape": (2, 0)}


def _transposes(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (2, 3, 4))], {"axes": (2, 0, 1)}
    yield [plane(rng, ())], {"axes": ()}
    yield [wide(rng, (0, 3))], {"axes": (1, 0)}


def _slices(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (7, 5))], {"start": (1, 0), "stop": (6, 5), "step": (2, 3)}
    yield [wide(rng, (4,))], {"start": (2,), "stop": (2,), "step": (1,)}
    yield [plane(rng, (3, 2))], {"start": (0, 1), "stop": (3, 2), "step": (1, 1)}


def _pads(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (3, 4))], {"low": (1, 0), "high": (2, 1), "between": (0, 2), "value": -1.5}
    yield [wide(rng, (6, 2))], {"low": (-1, 3), "high": (-2, 0), "between": (0, 0), "value": 0.0}
    yield [wide(rng, (5,))], {"low": (-2,), "high": (-1,), "between": (1,), "value": 7.0}
    yield [wide(rng, (2,))], {"low": (5,), "high": (-6,), "between": (0,), "value": 1.0}
    yield [integers(rng, (2,), dt.uint4)], {"low": (1,), "high": (0,), "between": (0,), "value": 3}


def _updates(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (7, 3)), wide(rng, (3, 3))], {"start": (1, 0), "stop": (6, 3), "step": (2, 1)}
    yield [plane(rng, (4,)), plane(rng, (0,))], {"start": (4,), "stop": (4,), "step": (1,)}


def _joins(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (2, 3)), wide(rng, (2, 1)), wide(rng, (2, 0))], {"axis": 1}
    yield [plane(rng, (4,))], {"axis": 0}


def _reversals(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (3, 4))], {"axes": (0,)}
    yield [wide(rng, (2, 3, 0))], {"axes": (0, 2)}


# -- reductions and order ------------------------------------------------------------------------------------


def _reductions(*, cplx: bool, words: bool, floats: bool = True) -> Callable[[Rng], Iterator[Sample]]:
    def make(rng: Rng) -> Iterator[Sample]:
        shapes = (((), ()), ((7,), (0,)), ((2, 3, 4), (0, 2)), ((3, 5), ()), ((0, 3), (0,)), ((4, 3), (0, 1)))
        for shape, axes in shapes if floats else ():
            yield [wide(rng, shape)], {"axes": axes}
        if cplx:
            yield [plane(rng, (3, 4))], {"axes": (1,)}
        for dtype in WORDS if words else ():
            yield [integers(rng, (3, 4), dtype)], {"axes": (0,)}
        if not cplx and words:
            yield [bools(rng, (2, 5))], {"axes": (1,)}

    return make


def _products(rng: Rng) -> Iterator[Sample]:
    for shape, axes in (((), ()), ((5,), (0,)), ((2, 3, 2), (0, 2)), ((0, 2), (0,))):
        yield [rng.normal(size=shape) * 2], {"axes": axes}
    zeros = rng.normal(size=(4, 5))
    zeros[1, 2] = zeros[2, 0] = zeros[2, 3] = zeros[3, 1] = zeros[3, 2] = zeros[3, 4] = 0.0
    yield [zeros], {"axes": (1,)}
    yield [plane(rng, (3, 3))], {"axes": (0,)}
    yield [integers(rng, (3, 4), dt.int8)], {"axes": (1,)}
    yield [integers(rng, (3, 4), dt.uint4)], {"axes": (1,)}


def _places(rng: Rng) -> Iterator[Sample]:
    for axis in (0, 1):
        yield [wide(rng, (4, 5))], {"axis": axis}
    yield [np.array([1.0, np.nan, np.nan, 3.0])], {"axis": 0}
    yield [np.array([[2, 2, 1], [1, 1, 2]])], {"axis": 1}
    yield [bools(rng, (6,))], {"axis": 0}
    yield [integers(rng, (2, 6), dt.int4)], {"axis": 1}


def _running(rng: Rng) -> Iterator[Sample]:
    for kind in ("sum", "prod", "max", "min", "logsumexp"):
        for reverse in (False, True):
            yield [rng.normal(size=(3, 7)) * 2], {"axis": 1, "kind": kind, "reverse": reverse}
            yield [rng.normal(size=(5, 2)) * 2], {"axis": 0, "kind": kind, "reverse": reverse}
        yield [np.empty((0, 3))], {"axis": 0, "kind": kind, "reverse": False}
        yield [np.empty((2, 0))], {"axis": 1, "kind": kind, "reverse": False}
    zeros = rng.normal(size=(2, 6))
    zeros[0, 2] = zeros[1, 1] = zeros[1, 4] = 0.0
    yield [zeros], {"axis": 1, "kind": "prod", "reverse": True}
    yield [plane(rng, (4,))], {"axis": 0, "kind": "prod", "reverse": False}
    yield [plane(rng, (4,))], {"axis": 0, "kind": "sum", "reverse": True}
    yield [integers(rng, (6,), dt.int4)], {"axis": 0, "kind": "prod", "reverse": False}


def _sorts(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (3, 6))], {"axis": 1, "keys": 1}
    yield [wide(rng, (4, 2)), plane(rng, (4, 2)), integers(rng, (4, 2), dt.int8)], {"axis": 0, "keys": 1}
    yield [rng.integers(0, 3, (9,)), wide(rng, (9,)), np.arange(9)], {"axis": 0, "keys": 2}
    yield (
        [np.array([3, np.nan, -np.inf, 1.0, np.nan, 1.0]).astype(dt.bfloat16), np.arange(6)],
        {"axis": 0, "keys": 1},
    )
    yield [integers(rng, (7,), dt.uint4)], {"axis": 0, "keys": 1}
    yield [np.empty((2, 0))], {"axis": 1, "keys": 1}


def _tops(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (3, 6))], {"k": 2, "axis": -1}
    yield [wide(rng, (5, 2))], {"k": 5, "axis": 0}
    yield [wide(rng, (4,))], {"k": 0, "axis": -1}
    yield [np.array([3, 1, 3, 2, 3])], {"k": 3, "axis": 0}
    yield [integers(rng, (2, 5), dt.int4)], {"k": 3, "axis": 1}


# -- computed places -----------------------------------------------------------------------------------------


def _gathers(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (4, 3)), rng.integers(0, 4, (2, 5))], {"axis": 0}
    yield [wide(rng, (2, 5, 2)), rng.integers(-3, 8, (4,)).astype(np.int8)], {"axis": 1}
    yield [plane(rng, (3, 2)), np.array(1)], {"axis": 1}
    yield [wide(rng, (3,)), np.empty((0,), np.uint64)], {"axis": 0}
    yield [wide(rng, (3,)), np.array([2**63 + 5, 1], np.uint64)], {"axis": 0}


def _points(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (4, 3)), rng.integers(0, 3, (5, 2))], {"axes": (0, 1)}
    yield [wide(rng, (2, 5, 3)), rng.integers(-2, 7, (2, 3, 1)).astype(np.int16)], {"axes": (1,)}
    yield [plane(rng, (4, 3, 2)), rng.integers(0, 4, (6, 2))], {"axes": (2, 0)}


def _lanes(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (4, 3)), rng.integers(-1, 6, (2, 3))], {"axis": 0}
    yield [plane(rng, (2, 5)), rng.integers(0, 5, (2, 7)).astype(np.uint8)], {"axis": 1}


def _scattered(*kinds: str) -> Callable[[Rng], Iterator[Sample]]:
    """Points with repetitions and outside of the range."""

    def make(rng: Rng) -> Iterator[Sample]:
        for kind in kinds:
            yield (
                [wide(rng, (4, 3)), rng.integers(-1, 6, (7, 1)), wide(rng, (7, 3))],
                {"axes": (0,), "kind": kind},
            )
            yield [
                rng.normal(size=(3, 2, 4)), rng.integers(0, 3, (2, 5, 2)).astype(np.int32),
                rng.normal(size=(2, 5, 2))
            ], {"axes": (2, 0), "kind": kind}  # fmt: skip
            yield [wide(rng, (3,)), np.empty((0, 1), np.int64), wide(rng, (0,))], {"axes": (0,), "kind": kind}
            x, u = integers(rng, (3,), dt.int4), integers(rng, (5,), dt.int4)
            yield [x, rng.integers(0, 3, (5, 1)), u], {"axes": (0,), "kind": kind}
            if kind not in ("max", "min"):
                yield (
                    [plane(rng, (3,)), rng.integers(0, 3, (6, 1)), plane(rng, (6,))],
                    {"axes": (0,), "kind": kind},
                )

    return make


def _scattered_lanes(*kinds: str) -> Callable[[Rng], Iterator[Sample]]:
    def make(rng: Rng) -> Iterator[Sample]:
        for kind in kinds:
            yield (
                [wide(rng, (4, 3)), rng.integers(-1, 6, (5, 3)), wide(rng, (5, 3))],
                {"axis": 0, "kind": kind},
            )
            yield (
                [rng.normal(size=(2, 3)), rng.integers(0, 3, (2, 4)), rng.normal(size=(2, 4))],
                {"axis": 1, "kind": kind},
            )
            yield [wide(rng, (2, 3)), np.empty((2, 0), np.int8), wide(rng, (2, 0))], {"axis": 1, "kind": kind}

    return make


def _products_at(lanes: bool) -> Callable[[Rng], Iterator[Sample]]:
    """Products with zeros among the factors."""

    def make(rng: Rng) -> Iterator[Sample]:
        yield from (_scattered_lanes if lanes else _scattered)("mul", "max", "min")(rng)
        x, updates = rng.normal(size=(3,)), rng.normal(size=(8,))
        x[1] = updates[2] = updates[5] = 0.0
        at = np.array([0, 1, 1, 2, 0, 1, 2, 0])
        yield (
            [x, at if lanes else at[:, None], updates],
            {"axis": 0, "kind": "mul"} if lanes else {"axes": (0,), "kind": "mul"},
        )

    return make


def _windows(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (5, 4)), np.array(2), np.array(9, np.int8)], {"sizes": (2, 3)}
    yield [plane(rng, (3,)), np.array(-4)], {"sizes": (3,)}
    yield [wide(rng, ())], {"sizes": ()}
    yield [wide(rng, (4,)), np.array(2**63 + 1, np.uint64)], {"sizes": (1,)}


def _window_updates(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (5, 4)), wide(rng, (2, 4)), np.array(2), np.array(1, np.uint8)], {}
    yield [plane(rng, (3,)), plane(rng, (2,)), np.array(-4)], {}
    yield [wide(rng, ()), wide(rng, ())], {}


def _dots(rng: Rng) -> Iterator[Sample]:
    f, z = dt.float64, dt.complex128
    yield [wide(rng, (3, 4)), wide(rng, (4, 2))], {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": f}
    yield (
        [wide(rng, (2, 3, 4)), wide(rng, (4, 2, 5))],
        {"contract": ((2,), (0,)), "batch": ((0,), (1,)), "dtype": f},
    )
    yield (
        [wide(rng, (2, 3, 4)), wide(rng, (4, 3))],
        {"contract": ((1, 2), (1, 0)), "batch": ((), ()), "dtype": f},
    )
    yield [wide(rng, (3,)), wide(rng, (2,))], {"contract": ((), ()), "batch": ((), ()), "dtype": f}
    yield [wide(rng, (2, 0)), wide(rng, (0, 3))], {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": f}
    yield [plane(rng, (3, 2)), plane(rng, (2,))], {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": z}
    x, y = integers(rng, (2, 3), dt.int8), integers(rng, (3, 2), dt.int8)
    yield [x, y], {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": dt.int32}


_SUMS, _EXTREMES = _reductions(cplx=True, words=True), _reductions(cplx=False, words=True)
_BITS = _reductions(cplx=False, words=True, floats=False)

samples: dict[str, Callable[[Rng], Any]] = {
    "constant": _constants, "full": _fills, "iota": _iotas, "stop_gradient": _any, "barrier": _any,
    "cast": _casts,
    "broadcast": _broadcasts, "reshape": _reshapes, "transpose": _transposes, "slice": _slices, "pad": _pads,
    "update_slice": _updates, "concatenate": _joins, "reverse": _reversals,
    "reduce_sum": _SUMS, "reduce_max": _EXTREMES, "reduce_min": _EXTREMES, "reduce_prod": _products,
    "reduce_and": _BITS, "reduce_or": _BITS, "argmax": _places, "argmin": _places, "cumulative": _running,
    "sort": _sorts, "top_k": _tops, "gather": _gathers, "gather_nd": _points, "take_along": _lanes,
    "scatter": _scattered("set", "add"), "scatter_along": _scattered_lanes("set", "add"),
    "scatter_reduce": _products_at(False), "scatter_reduce_along": _products_at(True),
    "dynamic_slice": _windows, "dynamic_update_slice": _window_updates, "dot": _dots,
}  # fmt: skip
