"""Why a product stays in floating point, which sums are added as integers, and what is made of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.framework.quantization.plan import _adds_up, _count, _stored_at_joins, make_plan
from trilobite.framework.quantization.prepare import prepare
from trilobite.framework.quantization.scheme import Scheme

nn, F = tb.nn, tb.nn.functional
X = tb.tensor(np.random.default_rng(2).standard_normal((2, 4, 6, 6)).astype(np.float32))


class Several(nn.Module):
    """A convolution, a product of two computed values, one with batches of weights, a weight set by hand."""

    def __init__(self, broken: float = 1.0) -> None:
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.many = nn.Parameter(tb.ones((2, 6, 6)) * 0.1)
        self.odd = nn.Linear(6, 6, bias=False)
        self.odd.weight.data[0, 0] = broken

    def forward(self, x: Any) -> Any:
        y = F.relu(self.conv(x))
        pooled = F.avg_pool2d(y, 3, 1, 1)
        mixed = tb.matmul(y, tb.matrix_transpose(pooled))
        batched = tb.matmul(tb.reshape(mixed, (-1, 2, 12, 6)).mean(0), self.many)
        return self.odd(batched).sum() + F.max_pool2d(y, 2).sum()


def plan_of(model: Any, **settings: Any) -> tuple[Any, Any]:
    p = prepare(model.eval(), (X,))
    return p, make_plan(model, p, Scheme(**settings))


def test_reasons_are_told_layer_by_layer() -> None:
    _, plan = plan_of(Several(float("inf")))
    assert {why.partition(";")[0] for why in plan.stays.values()} == {
        "both operands are computed", "its weight has batches", "its weight is not finite",
    }  # fmt: skip
    assert [p.layer for p in plan.products.values()] == ["conv"]


@pytest.mark.parametrize("keep", ["conv", "co*", nn.Conv2d])
def test_what_the_scheme_keeps_stays(keep: Any) -> None:
    _, plan = plan_of(Several(), keep=keep)
    assert plan.stays["conv"] == "the scheme keeps it"
    _, whole = plan_of(Several(), keep="other")
    layers = {p.layer for p in plan.products.values()}
    assert layers and {p.layer for p in whole.products.values()} == layers | {"conv"}


@pytest.mark.parametrize(
    ("pool", "wanted"),
    [(lambda y: F.avg_pool2d(y, 3, 1, 1), True), (lambda y: y.sum((2, 3)), True),
     (lambda y: F.max_pool2d(y, 2), False),
     (lambda y: F.relu(y), False)],
)  # fmt: skip
def test_sums_behind_a_product_are_added_as_integers(pool: Any, wanted: bool) -> None:
    class One(nn.Module):
        def __init__(self) -> None:
            self.conv = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return pool(self.conv(x))

    p, plan = plan_of(One())
    sums = [e for e in p.graph.equations if e.outputs and e.outputs[0] in plan.sums]
    assert bool(sums) == wanted and all(_adds_up(e) for e in sums)
    assert all(_count(e) in (9, 36) for e in sums)
    windows = [e for e in p.graph.equations if e.primitive.name == "window_reduce"]
    assert all(_adds_up(e) == (e.attributes["kind"] == "sum") for e in windows)


def test_what_is_made_of_weights_alone_is_known() -> None:
    class Made(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter(tb.tensor(np.arange(36, dtype=np.float32).reshape(6, 6) / 9))

        def forward(self, x: Any) -> Any:
            return tb.matmul(x, tb.matrix_transpose(self.w) * 2 + 1)

    p, plan = plan_of(Made())
    (product,) = plan.products.values()
    weight = p.array(product.equation.inputs[product.side])
    assert weight is not None
    np.testing.assert_allclose(np.sort(weight.ravel()), np.sort(np.arange(36) / 9 * 2 + 1), rtol=1e-6)
    assert p.array(p.graph.inputs[0]) is None  # an argument
    assert p.array(product.equation.outputs[0]) is None


@pytest.mark.parametrize(
    ("limit", "known"),
    [(6.0, 6.0), ("one", 2.5), ("of a shape", 2.5), ("several", None), ("computed", None), (np.nan, None)],
)
@pytest.mark.parametrize("side", ["min", "max"])
def test_a_limit_that_is_one_number_makes_a_clamp(limit: Any, known: float | None, side: str) -> None:
    class Clipped(nn.Module):
        def __init__(self) -> None:
            self.conv = nn.Conv2d(4, 4, 1)
            self.one = nn.Parameter(
                tb.tensor(np.full((1, 1) if limit == "of a shape" else (), 2.5, np.float32))
            )
            self.several = nn.Parameter(tb.tensor(np.asarray([1, 2, 3, 4, 5, 6], np.float32)))

        def forward(self, x: Any) -> Any:
            bound = (
                self.several if limit == "several" else x.mean() if limit == "computed"
                else self.one if isinstance(limit, str) else tb.full((6,), limit)
            )  # fmt: skip
            return (tb.minimum if side == "max" else tb.maximum)(self.conv(x), bound)

    _, plan = plan_of(Clipped())
    want = [] if known is None else [(-np.inf, known) if side == "max" else (known, np.inf)]
    assert [(c.low, c.high) for c in plan.clamps.values()] == want


@pytest.mark.parametrize(
    ("second", "stored"),
    [("conv", True), ("conv with a shift", True), ("sum of two", False), ("plain", False), ("relu", False)],
)
def test_of_two_convolutions_that_are_added_one_is_stored_as_codes(second: str, stored: bool) -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            self.a, self.b, self.c = (nn.Conv2d(4, 4, 1, bias=False) for _ in range(3))
            self.shift = nn.Parameter(tb.ones((4, 1, 1)))

        def forward(self, x: Any) -> Any:
            other = {
                "conv": lambda: self.b(x), "conv with a shift": lambda: self.b(x) + self.shift,
                "sum of two": lambda: self.b(x) + self.c(x), "plain": lambda: x,
                "relu": lambda: F.relu(self.b(x)),
            }[second]()  # fmt: skip
            return self.a(x) + other

    p, plan = plan_of(Joined())
    joins = _stored_at_joins(p, plan)
    outer = p.makers[p.graph.outputs[0]]
    assert (outer.inputs[1] in joins) == stored
    assert len(joins) == (1 if stored or second == "sum of two" else 0)
