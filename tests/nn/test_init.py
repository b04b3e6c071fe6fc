"""Initialisers: the moments and the structure that each promises, and that a seed fixes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.framework import nn, random
from trilobite.framework.nn import init


def filled(
    fn: object, shape: tuple[int, ...], *args: object, dtype: str = "float32", **kwargs: object
) -> np.ndarray:
    random.manual_seed(0)
    t = nn.Parameter(tb.zeros(shape, dtype=dtype))
    assert fn(t, *args, **kwargs) is t
    return t.detach().numpy()


def test_uniform_and_normal() -> None:
    u = filled(init.uniform_, (300, 300), -2.0, 3.0)
    assert u.min() >= -2 and u.max() < 3 and abs(u.mean() - 0.5) < 0.03
    n = filled(init.normal_, (300, 300), 4.0, 0.5)
    assert abs(n.mean() - 4) < 0.01 and abs(n.std() - 0.5) < 0.01


def test_truncated_normal_stays_inside_and_has_the_right_spread() -> None:
    t = filled(init.trunc_normal_, (400, 400), 1.0, 2.0, -1.0, 2.0)
    assert t.min() >= -1 and t.max() <= 2
    # Moments of a normal cut at (-1, 0.5) standard deviations around its mean.
    phi = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (-1, 0.5)]
    mass = 0.5 * (math.erf(0.5 / math.sqrt(2)) - math.erf(-1 / math.sqrt(2)))
    assert abs(t.mean() - (1 + 2 * (phi[0] - phi[1]) / mass)) < 0.01


def test_constants() -> None:
    assert (filled(init.constant_, (3,), 2.5) == 2.5).all()
    assert (filled(init.ones_, (3,)) == 1).all() and (filled(init.zeros_, (3,)) == 0).all()
    assert (filled(init.eye_, (2, 3)) == np.eye(2, 3)).all()


def test_dirac_passes_channels() -> None:
    conv = nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False)
    init.dirac_(conv.weight, 2)
    x = random.randn(1, 4, 5, 5)
    out = conv(x).detach().numpy()
    np.testing.assert_array_equal(out[0, [0, 1, 3, 4]], x.numpy()[0])
    assert not out[0, [2, 5]].any()


@pytest.mark.parametrize(("fn", "args", "variance"), [
    (init.xavier_uniform_, (1.7,), 1.7**2 * 2 / (200 * 9 + 300 * 9)),
    (init.xavier_normal_, (), 2 / (200 * 9 + 300 * 9)),
    (init.kaiming_uniform_, (0.2,), 2 / (1 + 0.04) / (200 * 9)),
    (init.kaiming_normal_, (0, "fan_out", "relu"), 2 / (300 * 9)),
    (init.kaiming_normal_, (0, "fan_in", "tanh"), (5 / 3) ** 2 / (200 * 9)),
])  # fmt: skip
def test_fans_decide_the_variance(fn: object, args: tuple[object, ...], variance: float) -> None:
    x = filled(fn, (300, 200, 3, 3), *args)
    assert abs(x.var() / variance - 1) < 0.02 and abs(x.mean()) < 0.02 * math.sqrt(variance)


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (4, 2, 3)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]) -> None:
    x = filled(init.orthogonal_, shape, 2.0, dtype="float64").reshape(shape[0], -1)
    gram = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(gram, 4 * np.eye(min(x.shape)), atol=1e-12)


def test_sparse_has_the_same_number_of_zeros_in_each_column() -> None:
    x = filled(init.sparse_, (20, 30), 0.3, 0.5)
    assert ((x == 0).sum(0) == 6).all() and abs(x[x != 0].std() - 0.5) < 0.05
    assert len({tuple(c) for c in (x == 0).T}) > 10


def test_gains() -> None:
    for name, gain in {
        "linear": 1,
        "conv2d": 1,
        "sigmoid": 1,
        "tanh": 5 / 3,
        "relu": 2**0.5,
        "selu": 0.75,
    }.items():
        assert init.calculate_gain(name) == pytest.approx(gain)
    assert init.calculate_gain("leaky_relu", 0.5) == pytest.approx(math.sqrt(2 / 1.25))
    with pytest.raises(ArgumentError, match="a nonlinearity 'gelu2'"):
        init.calculate_gain("gelu2")


def test_a_seed_fixes_a_network_and_a_key_a_tensor() -> None:
    random.manual_seed(9)
    a = nn.Linear(3, 4)
    random.manual_seed(9)
    b = nn.Linear(3, 4)
    np.testing.assert_array_equal(a.weight.detach().numpy(), b.weight.detach().numpy())
    assert not np.array_equal(a.weight.detach().numpy(), nn.Linear(3, 4).weight.detach().numpy())
    state = random.get_state().tolist()
    k = random.key(5)
    xs = [init.normal_(tb.zeros((4,)), key=k).tolist() for _ in range(2)]
    assert xs[0] == xs[1] and random.get_state().tolist() == state


@pytest.mark.parametrize(
    "layer", [nn.Linear(64, 32), nn.Conv2d(8, 16, 3), nn.LSTM(8, 16), nn.ConvTranspose1d(6, 8, 5)]
)
def test_layers_begin_within_their_bounds(layer: nn.Module) -> None:
    fan = {"Linear": 64, "Conv2d": 72, "LSTM": 16, "ConvTranspose1d": 40}[type(layer).__name__]
    for p in layer.parameters():
        x = np.abs(p.detach().numpy())
        assert x.max() <= 1 / math.sqrt(fan) and x.max() > 0.8 / math.sqrt(fan)


def test_shapes_without_fans_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"the fans of a tensor of shape \(3,\)"):
        init.xavier_uniform_(tb.zeros((3,)))
    with pytest.raises(ArgumentError, match="mode 'fan'"):
        init.kaiming_normal_(tb.zeros((3, 3)), mode="fan")
    with pytest.raises(ShapeError, match="orthogonal_ of shape"):
        init.orthogonal_(tb.zeros((3,)))
    with pytest.raises(ShapeError, match="dirac_ of shape"):
        init.dirac_(tb.zeros((3, 3)))


def test_initialising_while_recording_draws_anew_each_run() -> None:
    f = tb.jit(lambda: init.normal_(tb.zeros((3,))))
    random.manual_seed(2)
    runs = [f().tolist() for _ in range(2)]
    random.manual_seed(2)
    eager = [init.normal_(tb.zeros((3,))).tolist() for _ in range(2)]
    assert runs == eager and runs[0] != runs[1]


def test_skipped_draws_nothing_and_ends_with_the_block() -> None:
    tb.manual_seed(4)
    expected = tb.rand((5,)).numpy()
    tb.manual_seed(4)
    x = tb.full((3, 4), 7.0)
    with tb.nn.init.skipped():
        for fill in (tb.nn.init.uniform_, tb.nn.init.normal_, tb.nn.init.trunc_normal_):
            fill(x)
        tb.nn.init.kaiming_normal_(x)
    assert (x.numpy() == 7).all()
    np.testing.assert_array_equal(tb.rand((5,)).numpy(), expected)
    tb.nn.init.uniform_(x)
    assert (x.numpy() < 1).all()
