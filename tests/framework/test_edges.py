"""At the edge of what is allowed: the last that is taken beside the first that is refused, and values that
stand in tables.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import distributions as d
from trilobite import nn, optim
from trilobite.base.errors import ArgumentError, IndexingError, ShapeError, TrilobiteError
from trilobite.compiler.targets.registry import executable
from trilobite.framework.optim.line_search import Point, cubic_minimum

F = nn.functional
R = np.random.default_rng(4)


def test_the_body_of_a_scan_returns_two() -> None:
    for result in (3.0, (1.0,), (1.0, 2.0, 3.0)):
        with pytest.raises(ArgumentError, match="did not return a pair"):
            tb.scan(lambda c, x, r=result: r, tb.tensor(0.0), tb.zeros(3))


def test_an_index_equal_to_the_size_is_outside() -> None:
    x = tb.arange(4.0)
    assert x[np.array([3, -4])].tolist() == [3.0, 0.0]
    for wrong in (4, -5):
        with pytest.raises(IndexingError):
            x[np.array([0, wrong])]


@pytest.mark.parametrize("size", [-1, (2, -3), 1.5, (1, 2, 3)])
def test_adaptive_pooling_to_what_is_no_size(size: Any) -> None:
    with pytest.raises(ArgumentError, match="adaptive_avg_pool2d to"):
        F.adaptive_avg_pool2d(tb.zeros((1, 2, 4, 4)), size)


def test_variances_of_a_gaussian_have_one_of_three_shapes() -> None:
    x, y = tb.asarray(R.normal(size=(3, 4))), tb.asarray(R.normal(size=(3, 4)))
    row = R.uniform(0.5, 2, (3,))
    wanted = F.gaussian_nll_loss(x, y, tb.asarray(np.broadcast_to(row[:, None], (3, 4)).copy())).item()
    for var in (row, row[:, None]):
        assert F.gaussian_nll_loss(x, y, tb.asarray(var)).item() == pytest.approx(wanted, rel=1e-12)
    for shape in ((4,), (3, 2), (4, 3)):
        with pytest.raises(ShapeError, match="gaussian_nll_loss of shape"):
            F.gaussian_nll_loss(x, y, tb.ones(shape))


def test_groups_of_an_optimiser_are_all_groups() -> None:
    p, q = (tb.tensor([1.0], requires_grad=True) for _ in range(2))
    with pytest.raises(TrilobiteError):
        optim.SGD([p, {"params": [q]}], lr=0.1)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 2, 3), (2, 3, 2), (2, 2, 3)])
def test_cross_takes_the_first_axis_of_three(shape: tuple[int, ...]) -> None:
    a, b = R.normal(size=shape), R.normal(size=shape)
    found = tb.cross(tb.asarray(a), tb.asarray(b)).numpy()
    np.testing.assert_allclose(found, np.cross(a, b, axis=shape.index(3)), rtol=1e-12)


ZETA = {3: 1.2020569031595942, 5: 1.0369277551433699}
POLYGAMMA = [
    (1, 1.0, math.pi**2 / 6),
    (1, 0.5, math.pi**2 / 2),
    (1, -0.5, math.pi**2 / 2 + 4),
    (2, 1.0, -2 * ZETA[3]),
    (2, 0.5, -14 * ZETA[3]),
    (3, 1.0, math.pi**4 / 15),
    (3, 2.0, math.pi**4 / 15 - 6),
    (4, 1.0, -24 * ZETA[5]),
]


@pytest.mark.parametrize(("n", "x", "wanted"), POLYGAMMA)
def test_polygamma_where_it_is_known(n: int, x: float, wanted: float) -> None:
    found = tb.special.polygamma(n, tb.tensor(x, dtype=tb.float64)).item()
    assert found == pytest.approx(wanted, rel=1e-12)


def test_wishart_of_one_dimension_is_a_gamma() -> None:
    x = tb.tensor([0.3, 1.0, 4.2], dtype=tb.float64)
    df, scale = tb.tensor(3.5, dtype=tb.float64), tb.tensor([[0.7]], dtype=tb.float64)
    found = d.Wishart(df, covariance_matrix=scale).log_prob(x.reshape(3, 1, 1))
    wanted = d.Gamma(df / 2, 1 / (2 * scale[0, 0])).log_prob(x)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12)


def test_wishart_of_two_dimensions_at_the_unit_matrix() -> None:
    df = tb.tensor(5.0, dtype=tb.float64)
    eye = tb.eye(2, dtype=tb.float64)
    x = tb.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=tb.float64)
    wanted = (
        (5 - 3) / 2 * math.log(1.75) - 3.0 / 2 - 5 * math.log(2)
        - (math.log(math.pi) / 2 + math.lgamma(2.5) + math.lgamma(2.0))
    )  # fmt: skip
    assert d.Wishart(df, covariance_matrix=eye).log_prob(x).item() == pytest.approx(wanted, rel=1e-12)


def test_a_chain_can_be_undone_if_each_of_its_parts_can() -> None:
    t = d.transforms
    assert t.ComposeTransform([t.ExpTransform(), t.AffineTransform(0.0, 2.0)]).bijective
    assert not t.ComposeTransform([t.ExpTransform(), t.AbsTransform()]).bijective


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["value", "slope"])
def test_a_cubic_through_what_is_no_number_has_no_least_place(wrong: float, field: str) -> None:
    a, b = Point(0.0, 1.0, -1.0, np.zeros(1)), Point(1.0, 0.5, 2.0, np.zeros(1))
    assert 0 < cubic_minimum(a, b, 9.0) < 1
    assert cubic_minimum(a._replace(**{field: wrong}), b, 9.0) == 9.0
    assert cubic_minimum(a, b._replace(**{field: wrong}), 9.0) == 9.0


def test_vectors_have_no_columns_in_adafactor() -> None:
    p, w = tb.ones((5,), requires_grad=True), tb.ones((4, 3), requires_grad=True)
    o = optim.Adafactor([p, w], lr=0.1)
    ((p * p).sum() + (w * w).sum()).backward()
    o.step()
    state = o.state_dict()["state"]
    shapes = [{k: tuple(np.shape(v)) for k, v in state[i].items()} for i in (0, 1)]
    assert shapes[0]["rows"] == (5,) and shapes[0]["columns"] == (0,)
    assert shapes[1]["rows"] == (4, 1) and shapes[1]["columns"] == (1, 3)


def test_an_executable_looks_at_what_it_is_given() -> None:
    graph = tb.make_graph(lambda x: x + 1.0)(tb.zeros(3))
    for target in ("reference", "cpu"):
        run = executable(graph, target)
        assert run([np.ones(3, np.float32)])[0].tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(TrilobiteError):
            run([np.ones(4, np.float32)])


def test_a_division_behind_a_convolution_goes_into_its_weights() -> None:
    w, s = tb.asarray(R.normal(size=(5, 3, 3, 3))), tb.asarray(R.uniform(0.5, 3, (1, 5, 1, 1)))
    x = tb.asarray(R.normal(size=(2, 3, 9, 7)))

    def f(x: Any) -> Any:
        return F.relu(F.conv2d(x, w) / s)

    with tb.no_grad():
        np.testing.assert_allclose(tb.jit(f)(x).numpy(), f(x).numpy(), rtol=1e-11, atol=1e-11)


def test_integers_of_a_pickle_have_at_most_4000_digits() -> None:
    from trilobite.framework.checkpoint.pickle_reader import PickleReader

    reader = PickleReader.__new__(PickleReader)
    assert reader._integer("9" * 4000) == int("9" * 4000)
    reader._where = "a file"
    with pytest.raises(TrilobiteError):
        reader._integer("9" * 4001)
