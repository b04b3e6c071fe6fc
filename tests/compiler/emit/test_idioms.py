"""Equations with a cheaper form together: that the form is found, where it is not, and how exact it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.emit.accuracy import EXACT
from tests.compiler.emit.native import plain_host, run_scalars, scalar_graph
from trilobite.base.dtypes import DType, float8_e4m3fn, float32, float64
from trilobite.compiler.targets.cpu.emit.idioms import Idioms, OneAndErf, Weighted
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.native.host import features

CUBE, SCALE = 0.044715, 0.7978845608028654
EDGES = [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e30, -1e30, 3e38, -3e38, -9.2, 1e-40, -1e-40, -6.0]


def number(x: Any, value: float) -> Any:
    return table["full"](shape=(), dtype=x.dtype, value=value)


def gelu(x: Any, swapped: bool = False) -> Any:
    """x/2·(1 + tanh(s·x·(1 + c·x²))), or with every product and sum the other way round."""

    def op(name: str, a: Any, b: Any) -> Any:
        return table[name](*((b, a) if swapped else (a, b)))

    cubic = op("add", op("mul", op("mul", x, x), number(x, CUBE)), number(x, 1.0))
    inner = op("mul", op("mul", x, cubic), number(x, SCALE))
    return op("mul", op("mul", x, number(x, 0.5)), op("add", table["tanh"](inner), number(x, 1.0)))


def graph(dtype: DType, swapped: bool = False) -> Graph:
    return scalar_graph(lambda x: [gelu(x, swapped)], [dtype])


@pytest.mark.parametrize("swapped", [False, True])
def test_gelu_is_found_whichever_way_it_is_written(swapped: bool) -> None:
    body = graph(float32, swapped)
    idioms = Idioms(body)
    (form,) = idioms.found.values()
    assert isinstance(form, Weighted)
    assert form.x is body.inputs[0]
    assert form.factor == -2 * float(np.float32(SCALE))
    made = {e.outputs[0]: e.primitive.name for e in body.equations}
    assert sorted(made[v] for v in idioms.inside) == ["add", "mul", "mul", "tanh"]


def test_what_others_read_is_computed() -> None:
    def build(x: Any) -> list[Any]:
        t = table["tanh"](x)
        return [table["mul"](table["mul"](x, number(x, 0.5)), table["add"](t, number(x, 1.0))), t]

    assert not Idioms(scalar_graph(build, [float32])).found


def test_other_numbers_and_short_formats_stay() -> None:
    def build(x: Any) -> list[Any]:
        more = table["add"](table["tanh"](x), number(x, 1.0))
        return [table["mul"](table["mul"](x, number(x, 0.25)), more)]

    assert not Idioms(scalar_graph(build, [float32])).found
    assert not Idioms(graph(float8_e4m3fn)).found


def above(x: Any) -> Any:
    """1 + erf(x)."""
    return table["add"](number(x, 1.0), table["erf"](x))


@pytest.mark.parametrize("plain", [False, True], ids=["host", "plain"])
def test_one_and_erf_is_as_exact_as_the_sum(plain: bool) -> None:
    """Nothing is left far below, and nothing lacks far above."""
    body = scalar_graph(lambda x: [above(x)], [float32])
    (form,) = Idioms(body).found.values()
    assert isinstance(form, OneAndErf)
    x = np.concatenate([np.random.default_rng(2).uniform(-6, 6, 32_000), EDGES, EDGES]).astype(np.float32)
    x = x[: len(x) // 16 * 16]
    (found,) = run_scalars(body, [x], 8, plain_host() if plain else features())
    want = EXACT["erfc"](-x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    assert np.nanmax(np.abs(found - want) / np.spacing(np.maximum(want, 1).astype(np.float32))) <= 1.25
    assert np.all(found[x < -10] == 0)
    assert np.all(found[x > 10] == 2)


def test_one_and_erf_of_doubles_stays_one_by_one() -> None:
    assert not Idioms(scalar_graph(lambda x: [above(x)], [float64])).found


@pytest.mark.parametrize("plain", [False, True], ids=["host", "plain"])
@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
def test_gelu_is_exact_to_two_units_of_its_operand(dtype: DType, plain: bool) -> None:
    """Above -1 to four units of itself; limits as one by one."""
    x = np.concatenate([np.random.default_rng(1).uniform(-12, 12, 32_000), EDGES, EDGES]).astype(dtype)
    x = x[: len(x) // 16 * 16]
    (found,) = run_scalars(graph(dtype), [x], 8, plain_host() if plain else features())
    wide = x.astype(np.longdouble)
    cube, scale = (np.longdouble(np.array(c, dtype)) for c in (CUBE, SCALE))
    with np.errstate(all="ignore"):
        want = wide / (1 + np.exp(-2 * scale * wide * (1 + cube * wide * wide)))
        error = np.abs(found - want)
        same = (found == want) | (np.isnan(found) & np.isnan(want))
    assert np.all(same | (error <= 2 * np.spacing(np.abs(x))))
    above = x > -1
    assert np.all((same | (error <= 4 * np.spacing(np.abs(want).astype(dtype))))[above])
    zero = found == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(x[zero]))
