"""Operands for quantisers, random bits, and primitives with regions or effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from samples_elementwise import Sample, wide

from trilobite.base import dtypes as dt
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.primitives.effects import Routine, register_routine
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

Rng = np.random.Generator


def _quantised(rng: Rng) -> Iterator[Sample]:
    for dtype in (dt.int8, dt.uint8, dt.int4, dt.int32, dt.float8_e4m3fn, dt.float4_e2m1fn):
        scale = rng.uniform(0.05, 2, (3,)).astype(np.float32)
        zero = np.array([0, 0, 0] if not dt.is_integer(dtype) else [1, 3, 2]).astype(dtype)
        x = wide(rng, (2, 3, 2)).astype(np.float32)
        yield [x, scale, zero], {"axis": 1, "dtype": dtype}
        yield [x, scale[0].reshape(()), zero[0].reshape(())], {"axis": None, "dtype": dtype}


def _requantised(rng: Rng) -> Iterator[Sample]:
    for dtype, wide_dtype in ((dt.int8, np.int32), (dt.uint8, np.int32), (dt.int16, np.int64)):
        scale = rng.uniform(1e-5, 2e-3, (3,)).astype(np.float32)
        zero = np.array([1, 0, 2]).astype(dtype)
        x = rng.integers(-300000, 300000, (2, 3, 2)).astype(wide_dtype)
        yield [x, scale, zero], {"axis": 1, "dtype": dtype}
        yield [x, scale[0].reshape(()), zero[0].reshape(())], {"axis": None, "dtype": dtype}


def _requantised_single(rng: Rng) -> Iterator[Sample]:
    for operands, attributes in _requantised(rng):
        if operands[0].dtype == np.int32:
            yield operands, attributes


def _quantised_product(rng: Rng) -> Iterator[Sample]:
    for zero in (-7, 100):
        x, grid = wide(rng, (2, 3)).astype(np.float32), (np.array(0.25, np.float32), np.array(zero, np.int8))
        yield [x, *grid], {"axis": None, "dtype": dt.int8, "factor": 4.0, "rest": 0.0}


def _looked_up(rng: Rng) -> Iterator[Sample]:
    for dtype, kept in ((dt.int8, dt.uint8), (dt.uint8, dt.int8)):
        x = rng.integers(0, 256, (3, 5)).astype(np.uint8).view(dtype)
        yield [x, rng.integers(0, 256, 256).astype(np.uint8).view(kept)], {}


def _dequantised(rng: Rng) -> Iterator[Sample]:
    for dtype in (dt.int8, dt.uint4, dt.int32, dt.float8_e5m2):
        q = rng.integers(0, 8, (2, 3)).astype(dtype)
        zero = rng.integers(0, 3, (3,)).astype(dtype)
        yield [q, rng.uniform(0.1, 2, (3,)), zero], {"axis": 1}
        yield [q, np.array(0.25), zero[0].reshape(())], {"axis": None}


def _random(rng: Rng) -> Iterator[Sample]:
    key, counter = rng.integers(0, 2**32, (2, 2), np.uint32)
    yield [key, counter], {"shape": (3, 5), "stream": 2}
    yield [key, counter], {"shape": (), "stream": 0}


def _graph(fn: Any, *shapes: tuple[int, ...], name: str = "body") -> Graph:
    return record_graph(fn, [TensorType(s, dt.float64) for s in shapes], name)


def _wave(x: Any, y: Any) -> list[Any]:
    return [table["sin"](table["mul"](x, y)), table["add"](x, y)]


def _calls(rng: Rng) -> Iterator[Sample]:
    yield [rng.normal(size=(3,)), rng.normal(size=(3,))], {"graph": _graph(_wave, (3,), (3,)), "name": "wave"}


def _branches(rng: Rng) -> Iterator[Sample]:
    other = _graph(lambda x, y: [table["mul"](x, x), table["exp"](y)], (3,), (3,))
    for index in (0, 1, 5):
        yield (
            [np.array(index, np.int32), rng.normal(size=(3,)), rng.normal(size=(3,))],
            {"branches": (_graph(_wave, (3,), (3,)), other)},
        )


def _loops(rng: Rng) -> Iterator[Sample]:
    """Multiply by a constant until the sum of squares passes another."""

    def test(limit: Any, x: Any) -> list[Any]:
        return [table["lt"](table["reduce_sum"](table["mul"](x, x), axes=(0,)), limit)]

    body = _graph(lambda k, x: [table["mul"](k, x)], (3,), (3,))
    yield [np.array(50.0), rng.uniform(1.4, 1.6, (3,)), rng.uniform(0.4, 0.6, (3,))], {
        "test": _graph(test, (), (3,)), "body": body, "consts": (1, 1)
    }  # fmt: skip


def _scans(rng: Rng) -> Iterator[Sample]:
    def body(k: Any, carry: Any, x: Any) -> list[Any]:
        new = table["tanh"](table["add"](table["mul"](k, carry), x))
        return [new, table["mul"](new, x)]

    graph = _graph(body, (3,), (3,), (3,))
    for reverse in (False, True):
        yield [rng.normal(size=(3,)), rng.normal(size=(3,)), rng.normal(size=(5, 3))], {
            "body": graph, "consts": 1, "carries": 1, "length": 5, "reverse": reverse
        }  # fmt: skip


def _prints(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (2,)), np.array(3)], {"fmt": "x = {0} after {1} steps"}


def _halves(x: Any) -> Any:
    return [x / 2, np.asarray(np.sum(x))]


def _callbacks(rng: Rng) -> Iterator[Sample]:
    results = (TensorType((2, 3), dt.float64), TensorType((), dt.float64))
    yield [wide(rng, (2, 3))], {"fn": _halves, "results": results}


def _scaled_rule(primals: Any, tangents: Any, config: Any) -> Any:
    (x,), (t,) = primals, tangents
    return table["custom_call"](x, name="test.scaled", config=config), table["custom_call"](
        t, name="test.scaled", config=config
    )


register_routine(
    Routine(
        "test.scaled",
        type=lambda x, config: [x],
        evaluate=lambda x, config: [x * config[0]],
        jvp=_scaled_rule,
        vjp=lambda cts, inputs, outs, config: table["custom_call"](cts[0], name="test.scaled", config=config),
        batch=lambda size, values, mapped, config: table["custom_call"](
            *values, name="test.scaled", config=config
        ),
    )
)


def _routines(rng: Rng) -> Iterator[Sample]:
    yield [wide(rng, (2, 3))], {"name": "test.scaled", "config": (2.5,)}


def _fusions(rng: Rng) -> Iterator[Sample]:
    for operands, attributes in _calls(rng):
        yield operands, {"kind": "loops", "region": attributes["graph"]}


samples: dict[str, Callable[[Rng], Any]] = {
    "quantise": _quantised, "requantise": _requantised, "dequantise": _dequantised, "random_bits": _random,
    "requantise_single": _requantised_single, "quantise_product": _quantised_product,
    "lookup": _looked_up,
    "call": _calls, "fusion": _fusions, "cond": _branches, "while": _loops, "scan": _scans,
    "print": _prints, "callback": _callbacks, "custom_call": _routines,
}  # fmt: skip
