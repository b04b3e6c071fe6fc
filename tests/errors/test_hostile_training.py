"""Training attacked: second derivatives, modules as trees, tied weights, small floats, checkpoints."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn

from .hostile import draw, near, same_bits, slopes

jit = partial(tb.jit, target="reference")  # whose bits are those of eager

F = nn.functional


def test_a_module_with_counters_is_a_tree() -> None:
    m = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 1))
    x = tb.tensor(draw(5, 3))

    def f(mm, v):
        return (mm(v) ** 2).mean()

    g = tb.grad(f)(copy.deepcopy(m), x)
    g2 = jit(tb.grad(f))(copy.deepcopy(m), x)
    for (n, p), (n2, q) in zip(g.named_parameters(), g2.named_parameters(), strict=False):
        assert n == n2
        same_bits(p, q)
    mm = copy.deepcopy(m)
    f(mm, x).backward()
    for (_, p), q in zip(g.named_parameters(), mm.parameters(), strict=False):
        same_bits(p, q.grad)
    ps = {k: v.detach().clone() for k, v in m.named_parameters()}

    def h(p):
        return (nn.functional_call(copy.deepcopy(m), p, x) ** 2).mean()

    gg = tb.grad(h)(ps)
    for k, p in g.named_parameters():
        same_bits(gg[k], p)
    gj = jit(tb.grad(lambda p: (nn.functional_call(m, p, x) ** 2).mean()))(ps)
    for k, p in g.named_parameters():
        same_bits(gj[k], p)
    near(m[2].running_mean, mm[2].running_mean, 1e-06)


def test_tied_weights_train_alike() -> None:

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(7, 5)
            s.o = nn.Linear(5, 7, bias=False)
            s.o.weight = s.e.weight

        def forward(s, i):
            return s.o(s.e(i))

    def run(j):
        tb.manual_seed(0)
        m = M()
        o = tb.optim.AdamW(m.parameters(), lr=0.01)
        i = tb.tensor([1, 2, 3, 1])

        def step():
            loss = F.cross_entropy(m(i), i)
            o.zero_grad()
            loss.backward()
            o.step()
            return loss

        st = jit(step) if j else step
        ls = [st().item() for _ in range(5)]
        assert m.o.weight is m.e.weight
        return (m.e.weight, ls)

    a, b = (run(0), run(1))
    same_bits(a[0], b[0])
    assert a[1] == b[1]


def test_a_step_with_everything_in_it() -> None:

    def run(compiled):
        tb.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
        o = tb.optim.Adam(m.parameters(), lr=0.05)
        s = tb.optim.CosineAnnealingLR(o, 10)
        X = tb.tensor(np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32))
        Y = tb.tensor([0, 1, 0, 1, 1, 0])

        def step(x, y):
            loss = F.cross_entropy(m(x), y)
            o.zero_grad()
            loss.backward()
            tb.optim.clip_grad_norm_(m.parameters(), 1.0)
            o.step()
            s.step()
            return loss

        f = jit(step) if compiled else step
        ls = [f(X, Y).item() for _ in range(12)]
        return (ls, [p.detach().numpy().copy() for p in m.parameters()], o.param_groups[0]["lr"])

    a, b = (run(0), run(1))
    assert a[0] == b[0], (a[0], b[0])
    [same_bits(p, q) for p, q in zip(a[1], b[1], strict=False)]
    assert float(a[2]) == float(b[2])


def test_resumed_in_the_middle() -> None:
    import os
    import tempfile

    def make(seed):
        tb.manual_seed(seed)
        m = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 2))
        o = tb.optim.AdamW(m.parameters(), lr=0.05)
        s = tb.optim.StepLR(o, 3, gamma=0.5)

        def step(x, y):
            loss = F.cross_entropy(m(x), y)
            o.zero_grad()
            loss.backward()
            o.step()
            s.step()
            return loss

        return (m, o, s, jit(step))

    X = tb.tensor(draw(6, 4))
    Y = tb.tensor([0, 1, 0, 1, 1, 0])
    m, o, s, f = make(0)
    [f(X, Y) for _ in range(4)]
    d = os.path.join(tempfile.mkdtemp(), "ck")
    tb.save(d, {"m": m.state_dict(), "o": o.state_dict(), "s": s.state_dict(), "r": tb.random.get_state()})
    a = [f(X, Y).item() for _ in range(4)]
    m2, o2, s2, f2 = make(99)
    [f2(X, Y) for _ in range(2)]
    c = tb.load(d)
    m2.load_state_dict(c["m"])
    o2.load_state_dict(c["o"])
    s2.load_state_dict(c["s"])
    tb.random.set_state(c["r"])
    b = [f2(X, Y).item() for _ in range(4)]
    assert a == b, (a, b)


LAYERS = {
    "linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "conv": (lambda: nn.Conv2d(2, 3, 2), (1, 2, 4, 4)),
    "layer_norm": (lambda: nn.LayerNorm(3), (2, 3)),
    "gru": (lambda: nn.GRUCell(3, 2), (2, 3)),
    "batch_norm": (lambda: nn.BatchNorm1d(3), (5, 3)),
    "gelu": (lambda: nn.GELU(), (2, 3)),
    "attention": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), (1, 3, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_second_derivatives_of_layers(name: str) -> None:
    make, shape = LAYERS[name]
    layer, x = make().double(), tb.tensor(draw(*shape, dtype=np.float64))

    def f(v):
        out = layer(v, v, v)[0] if name == "attention" else layer(v)
        return (out**3).sum()

    def steepness(v):
        return (tb.grad(f)(v) ** 2).sum()

    expected = tb.grad(steepness)(x)
    near(expected, slopes(steepness, x.numpy()), 1e-3)
    y = x.clone().requires_grad_()
    f(y).backward(create_graph=True)
    first, y.grad = y.grad, None
    (first**2).sum().backward()
    near(y.grad, expected, 1e-6)


@pytest.mark.parametrize("dtype", [tb.float16, tb.bfloat16])
def test_training_in_sixteen_bits(dtype) -> None:
    def run(compiled: bool):
        tb.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2)).to(dtype)
        o = tb.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        x = tb.tensor(np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)).astype(dtype)
        y = tb.tensor([0, 1, 0, 1, 1, 0])

        def step(x, y):
            loss = F.cross_entropy(m(x), y)
            o.zero_grad()
            loss.backward()
            o.step()
            return loss

        f = jit(step) if compiled else step
        return [f(x, y).item() for _ in range(15)], [p.detach() for p in m.parameters()]

    (losses, ps), (again, qs) = run(False), run(True)
    assert losses == again and losses[-1] < losses[0]
    for p, q in zip(ps, qs, strict=True):
        assert p.dtype == dtype
        same_bits(p, q)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_a_checkpointed_block_draws_and_counts_once(norm: bool, compiled: bool) -> None:
    def run(checkpointed: bool, compiled: bool):
        tb.manual_seed(0)
        parts = [nn.Linear(4, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.Dropout(0.4), nn.Tanh()]
        block, head = nn.Sequential(*parts), nn.Linear(8, 1)
        ps = [*block.parameters(), *head.parameters()]
        o = tb.optim.SGD(ps, lr=0.1)
        x = tb.tensor(np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32))

        def step(x):
            loss = (head(tb.checkpoint(block)(x) if checkpointed else block(x)) ** 2).mean()
            o.zero_grad()
            loss.backward()
            o.step()
            return loss

        f = jit(step) if compiled else step
        losses = [f(x) for _ in range(4)]
        return [*losses, *ps, *block.buffers(), tb.rand((3,))]

    for p, q in zip(run(False, False), run(True, compiled), strict=True):
        same_bits(p, q)


@pytest.mark.parametrize("name", ["sequence", "transformer", "lstm"])
def test_backward_through_a_compiled_module_has_the_bits_of_the_plain_one(name: str) -> None:
    mixed = [nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.3), nn.Softmax(-1)]
    layers = {
        "sequence": lambda: nn.Sequential(*mixed),
        "transformer": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        "lstm": lambda: nn.LSTM(8, 6, 2, bidirectional=True),
    }
    m, x = layers[name](), tb.tensor(draw(5, 2, 8))
    found = []
    for f in (m, jit(m)):
        tb.manual_seed(2)
        m.zero_grad()
        out = f(x)
        ((out[0] if name == "lstm" else out) ** 2).sum().backward()
        found.append([p.grad.numpy().copy() for p in m.parameters()])
    for a, b in zip(*found, strict=True):
        same_bits(a, b)


def test_grad_changes_no_counter_of_the_module_it_is_given() -> None:
    m = nn.BatchNorm1d(3)
    tb.grad(lambda m, v: (m(v) ** 3).sum())(m, tb.tensor(draw(5, 3)))
    assert m.num_batches_tracked.item() == 0 and not m.running_mean.numpy().any()
