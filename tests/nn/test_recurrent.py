"""Sequences of different lengths, first states, dropout between layers, and agreement with cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gradcheck import check_gradients

import trilobite as tb
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.framework import nn, random

RNG = np.random.default_rng(5)
LENGTHS = [3, 5, 1]
KINDS = [nn.RNN, nn.GRU, nn.LSTM]


def layer(kind: type, **kw: Any) -> Any:
    random.manual_seed(1)
    return kind(4, 3, **kw).double()


def states(h: Any) -> list[np.ndarray]:
    return [t.detach().numpy() for t in (h if isinstance(h, tuple) else (h,))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "kw", [{}, {"num_layers": 2, "bidirectional": True}, {"bidirectional": True, "batch_first": True}]
)
def test_a_padded_batch_is_its_sequences_one_by_one(kind: type, kw: dict[str, Any]) -> None:
    m = layer(kind, **kw)
    x = RNG.standard_normal((5, 3, 4))  # steps, batch, features
    first = kw.get("batch_first", False)
    given = x.transpose(1, 0, 2) if first else x
    out, h = m(tb.tensor(given), lengths=LENGTHS)
    out = out.detach().numpy()
    out = out.transpose(1, 0, 2) if first else out
    for i, n in enumerate(LENGTHS):
        alone, h1 = m(tb.tensor(x[:n, i]))
        np.testing.assert_allclose(out[:n, i], alone.detach().numpy(), rtol=1e-10)
        assert not out[n:, i].any()
        for whole, one in zip(states(h), states(h1), strict=True):
            np.testing.assert_allclose(whole[:, i], one, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_behind_the_end_has_no_influence(kind: type) -> None:
    m = layer(kind, bidirectional=True)
    x = RNG.standard_normal((5, 3, 4))
    grad = tb.grad(lambda t: (m(t, lengths=LENGTHS)[0] ** 2).sum())(tb.tensor(x)).detach().numpy()
    for i, n in enumerate(LENGTHS):
        assert not grad[n:, i].any() and grad[n - 1, i].any()
    check_gradients(lambda t: m(t, lengths=LENGTHS), x)


def test_a_mask_says_the_same_as_lengths_and_may_have_gaps() -> None:
    m = layer(nn.GRU)
    x = RNG.standard_normal((5, 3, 4))
    mask = np.arange(5)[:, None] < np.array(LENGTHS)
    a, b = (
        m(tb.tensor(x), **kw)[0].detach().numpy()
        for kw in ({"lengths": tb.tensor(LENGTHS)}, {"mask": tb.tensor(mask)})
    )
    np.testing.assert_array_equal(a, b)
    gaps = np.array([True, False, True, True, False])
    out, h = m(tb.tensor(x[:, :1]), mask=tb.tensor(gaps[:, None]))
    alone, h1 = m(tb.tensor(x[gaps, 0]))
    np.testing.assert_allclose(out.detach().numpy()[gaps, 0], alone.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(h.detach().numpy()[:, 0], h1.detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "cell"), [(nn.RNN, nn.RNNCell), (nn.GRU, nn.GRUCell), (nn.LSTM, nn.LSTMCell)]
)
def test_a_layer_is_its_cell_step_by_step(kind: type, cell: type) -> None:
    m, c = layer(kind), cell(4, 3).double()
    c.load_state_dict({k.removesuffix("_l0"): v for k, v in m.state_dict().items()})
    x = RNG.standard_normal((4, 2, 4))
    out, last = m(tb.tensor(x))
    h: Any = None
    for t in range(4):
        h = c(tb.tensor(x[t]), h)
        np.testing.assert_allclose(out.detach().numpy()[t], states(h)[0], rtol=1e-12)
    for a, b in zip(states(last), states(h), strict=True):
        np.testing.assert_allclose(a[0], b, rtol=1e-12)


def test_a_sequence_can_be_continued() -> None:
    m = layer(nn.LSTM, num_layers=2)
    x = RNG.standard_normal((6, 2, 4))
    whole, _ = m(tb.tensor(x))
    first, state = m(tb.tensor(x[:4]))
    second, _ = m(tb.tensor(x[4:]), state)
    joined = np.concatenate([first.detach().numpy(), second.detach().numpy()])
    np.testing.assert_allclose(joined, whole.detach().numpy(), rtol=1e-12)


def test_dropout_acts_between_layers_in_training_only() -> None:
    m = layer(nn.GRU, num_layers=2, dropout=0.5)
    x = tb.tensor(RNG.standard_normal((4, 2, 4)))
    random.manual_seed(0)
    runs = [m(x)[0].detach().numpy() for _ in range(2)]
    assert not np.array_equal(*runs)
    m.eval()
    np.testing.assert_array_equal(m(x)[0].detach().numpy(), m(x)[0].detach().numpy())
    one = layer(nn.GRU, dropout=0.5)
    np.testing.assert_array_equal(one(x)[0].detach().numpy(), one(x)[0].detach().numpy())


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_symbolic_length_serves_many(target: str) -> None:
    m = layer(nn.LSTM)
    n = tb.dim("n", max=16)
    f = tb.jit(lambda x: m(x)[0], target=target, shapes=[(n, None, None)])
    for steps in (2, 5, 9):
        x = tb.tensor(RNG.standard_normal((steps, 2, 4)))
        bound = 0 if target == "reference" else 1e-12
        np.testing.assert_allclose(f(x).detach().numpy(), m(x)[0].detach().numpy(), rtol=bound, atol=bound)
    assert f.recompilations == []


def test_the_step_is_one_call_in_a_graph() -> None:
    m = layer(nn.LSTM)
    with tb.no_grad():
        graph = tb.make_graph(lambda x: m(x)[0])(tb.tensor(RNG.standard_normal((3, 2, 4))))
    scan = next(e for e in graph.equations if e.primitive.name == "scan")
    names = [
        e.attributes.get("name") for e in scan.attributes["body"].equations if e.primitive.name == "call"
    ]
    assert names == ["lstm_cell"]


def test_wrong_inputs_are_refused_by_name() -> None:
    m = layer(nn.LSTM)
    with pytest.raises(ShapeError, match=r"LSTM of shape \(3, 2, 5\)") as e:
        m(tb.ones((3, 2, 5), dtype="float64"))
    assert "expected: (steps, batch, features) or (steps, features), with 4 features" in str(e.value)
    x = tb.ones((3, 2, 4), dtype="float64")
    with pytest.raises(ShapeError, match=r"LSTM with a first state of \(1, 2, 3\)") as e:
        m(x, tb.ones((1, 2, 3)))
    assert "expected: (1, 2, 3) and (1, 2, 3)" in str(e.value)
    with pytest.raises(ShapeError, match=r"lengths of shape \(3,\)"):
        m(x, lengths=[1, 2, 3])
    with pytest.raises(ArgumentError, match="lengths and mask"):
        m(x, lengths=[1, 2], mask=tb.ones((3, 2), dtype="bool"))
    with pytest.raises(ShapeError, match=r"a mask float64\[3, 2\]"):
        m(x, mask=tb.ones((3, 2), dtype="float64"))
    with pytest.raises(ArgumentError, match="a nonlinearity 'sin'"):
        nn.RNN(2, 2, nonlinearity="sin")
    with pytest.raises(ShapeError, match="GRUCell with a state of"):
        nn.GRUCell(2, 3)(tb.ones((4, 2)), tb.ones((4, 2)))
