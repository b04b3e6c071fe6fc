"""Operands and attributes for the table test: the channels-last forms of convolution and windows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import samples_heavy

from trilobite.compiler.targets.cpu import primitives  # noqa: F401  the CPU's own enter the table
from trilobite.ir.primitive import table

Array = np.ndarray[Any, Any]
Rows = Iterable[tuple[list[Array], dict[str, Any]]]
Rng = np.random.Generator


def _last(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def _plain(w: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))


def _panels(w: Array, groups: int, transposed: bool) -> Array:
    found: Array = table["conv_panels"].evaluate(w, groups=groups, lanes=4, transposed=transposed)
    return found


def _conv_panels(rng: Rng) -> Rows:
    for (_, w), settings in samples_heavy.samples["conv"](rng):
        for transposed in (False, True):
            yield [w], {"groups": settings["groups"], "lanes": 4, "transposed": transposed}


def _conv_last(rng: Rng) -> Rows:
    for (x, w), settings in samples_heavy.samples["conv"](rng):
        columns = w.shape[0] // settings["groups"]
        for weight in (_plain(w), _panels(w, settings["groups"], False)):
            yield [_last(x), weight], {**settings, "columns": columns}


def _conv_planes(rng: Rng) -> Rows:
    for (x, w), settings in samples_heavy.samples["conv"](rng):
        rest = {k: v for k, v in settings.items() if k != "groups"}
        if settings["groups"] == 1:
            packed = table["gemm_pack"].evaluate(w.reshape(len(w), -1), contract=1, width=4)
            yield [x, packed], {**rest, "kernel": w.shape[2:], "filters": len(w)}


def _conv_last_input_grad(rng: Rng) -> Rows:
    for (y, w), settings in samples_heavy.samples["conv_input_grad"](rng):
        for weight in (_plain(w), _panels(w, settings["groups"], True)):
            yield [_last(y), weight], {**settings, "columns": w.shape[1]}


def _conv_last_weight_grad(rng: Rng) -> Rows:
    for (x, y), settings in samples_heavy.samples["conv_weight_grad"](rng):
        yield [_last(x), _last(y)], settings


# In float32: sums of both signs inside leave no size that a bound for all dtypes could refer to; the tests of
# the compiler hold the error to float64's.


def _conv_winograd(rng: Rng) -> Rows:
    for tile, low, high, back in (
        (2, (1, 1), (1, 1), False),
        (4, (0, 2), (1, 0), False),
        (4, (1, 1), (1, 1), True),
    ):
        w = rng.standard_normal((3, 5, 3, 3) if back else (5, 3, 3, 3)).astype("f")
        weight = table["conv_panels"].evaluate(w, groups=1, lanes=4, transposed=back)
        window = {"tile": tile, "low": low, "high": high, "columns": 5, "transposed": back, "dtype": w.dtype}
        yield [rng.standard_normal((2, 6, 7, 3)).astype("f"), weight], {**window, "factor": (1, 1)}
    w = rng.standard_normal((5, 12, 3, 3)).astype("f")  # 6x6 taps of 3 channels
    weight = table["conv_panels"].evaluate(w, groups=1, lanes=4, transposed=False)
    window = {"tile": 2, "factor": (2, 2), "low": (0, 0), "high": (-1, -3), "columns": 5, "transposed": False}
    yield [rng.standard_normal((2, 13, 13, 3)).astype("f"), weight], {**window, "dtype": w.dtype}


def _conv_winograd_weight_grad(rng: Rng) -> Rows:
    for tile in (2, 4):
        x, y = (rng.standard_normal(s).astype("f") for s in ((2, 6, 7, 3), (2, 6, 5, 4)))
        yield [x, y], {"tile": tile, "low": (1, 0), "high": (1, 0), "dtype": x.dtype}


_POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 6, 8, 3), {"size": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), "dilation": (1, 1)}),
    ((7, 6, 2), {"size": (3, 2), "stride": (2, 1), "low": (1, 0), "high": (1, 1), "dilation": (1, 2)}),
    ((2, 2, 11, 3), {"size": (4,), "stride": (3,), "low": (0,), "high": (2,), "dilation": (1,)}),
]


def _window_last_reduce(rng: Rng) -> Rows:
    for shape, window in _POOLS:
        for kind in ("max", "min", "sum"):
            yield [rng.standard_normal(shape)], {**window, "kind": kind}


def _window_last_argmax(rng: Rng) -> Rows:
    for shape, window in _POOLS:
        yield [rng.standard_normal(shape)], dict(window)


def _window_last_gather(rng: Rng) -> Rows:
    yield [rng.standard_normal((2, 4, 5, 3)), rng.integers(-1, 20, (2, 3, 2, 3))], {"rank": 2}


def _window_last_scatter(rng: Rng) -> Rows:
    places = rng.integers(-1, 20, (2, 3, 2, 3))
    yield [rng.standard_normal((2, 3, 2, 3)), places], {"plane": (4, 5), "disjoint": False}


def _pooled(shape: tuple[int, ...], window: dict[str, Any]) -> tuple[int, ...]:
    return table["window_last_reduce"].evaluate(np.zeros(shape), **window, kind="sum").shape


def _window_last_max_grad(rng: Rng) -> Rows:
    for shape, window in _POOLS:
        yield [rng.standard_normal(shape), rng.standard_normal(_pooled(shape, window))], dict(window)


def _window_last_spread(rng: Rng) -> Rows:
    for shape, window in _POOLS:
        plane = shape[len(shape) - 1 - len(window["size"]) : -1]
        yield [rng.standard_normal(_pooled(shape, window))], {**window, "plane": plane}


samples = {
    "conv_panels": _conv_panels,
    "conv_last": _conv_last,
    "conv_planes": _conv_planes,
    "conv_last_input_grad": _conv_last_input_grad,
    "conv_last_weight_grad": _conv_last_weight_grad,
    "conv_winograd": _conv_winograd,
    "conv_winograd_weight_grad": _conv_winograd_weight_grad,
    "window_last_reduce": _window_last_reduce,
    "window_last_argmax": _window_last_argmax,
    "window_last_gather": _window_last_gather,
    "window_last_scatter": _window_last_scatter,
    "window_last_max_grad": _window_last_max_grad,
    "window_last_spread": _window_last_spread,
}

BOUNDS: dict[str, tuple[float, str]] = {
    "conv_last": (8, "terms"),
    "conv_planes": (8, "terms"),
    "conv_last_input_grad": (8, "terms"),
    "conv_last_weight_grad": (8, "terms"),
    "window_last_reduce": (4, "terms"),
    "window_last_spread": (4, "terms"),
}
