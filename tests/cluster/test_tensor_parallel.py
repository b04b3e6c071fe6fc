"""Layers split by columns, rows and vocabulary, sequences, rings: a transformer as one process trains it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cluster_models import (
    BATCH,
    GPT,
    LENGTH,
    STEPS,
    VOCABULARY,
    Trained,
    adam,
    apart,
    attend,
    case,
    check_equal,
    made,
    one_process,
)  # fmt: skip
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import ClusterError

Parts = dict[str, tuple[int, int]]  # of a split parameter: its axis, and how many blocks its rows are


SPLIT = (("attention.qkv", 0, 3), ("up", 0, 1), ("attention.out", 1, 1), ("down", 1, 1))


def split_model(group: c.Group, sequence: bool) -> tuple[GPT, Parts]:
    """The transformer with this rank's parts of its layers, and which parameters are split."""
    model, parts = made("gpt"), {"tokens.weight": (0, 1), "head.weight": (0, 1)}
    column = c.SequenceColumnLinear if sequence else c.ColumnLinear
    row = c.SequenceRowLinear if sequence else c.RowLinear
    for k, b in enumerate(model.blocks):
        b.attention.qkv = column.of(b.attention.qkv, group, blocks=3)
        b.attention.out = row.of(b.attention.out, group)
        b.up, b.down = column.of(b.up, group), row.of(b.down, group)
        for name, axis, blocks in (
            ("attention.qkv", 0, 3),
            ("up", 0, 1),
            ("attention.out", 1, 1),
            ("down", 1, 1),
        ):
            parts[f"blocks.{k}.{name}.weight"] = (axis, blocks)
            if axis == 0:
                parts[f"blocks.{k}.{name}.bias"] = (axis, blocks)
        if sequence:
            b.first, b.second = c.share_parameters(b.first, group), c.share_parameters(b.second, group)
            for m in (b.attention.qkv, b.up):
                m.length = LENGTH
    model.tokens = c.VocabularyEmbedding.of(model.tokens, group)
    model.head = c.ColumnLinear.of(model.head, group)
    if sequence:
        model.norm = c.share_parameters(model.norm, group)
    return model, parts


def forward(model: Any, tokens: Any, group: c.Group, sequence: bool) -> Any:
    """As GPT.forward, with the sequence split between the layers if `sequence` says so."""
    x = model.tokens(tokens) + model.places(tb.arange(tokens.shape[1]))
    if not sequence:
        for block in model.blocks:
            x = block(x)
        return model.head(model.norm(x))
    x = c.part(x, 1, group=group)
    with c.one_randomness(group, total=LENGTH, axis=1):
        for block in model.blocks:
            x = block(x)
    return model.head(c.all_gather(model.norm(x), 1, group=group, size=LENGTH, shared=True))


def whole(t: Any, name: str, parts: Parts, group: c.Group) -> Any:
    """A parameter or gradient as one process has it."""
    t = t.detach()
    if name not in parts:
        return t.numpy()
    axis, blocks = parts[name]
    rows = t.moveaxis(axis, 0)
    stacked = rows.reshape((blocks, -1, *rows.shape[1:]))
    line = c.all_gather(stacked, 1, group=group, size=SHAPES[name][axis] // blocks)
    return np.moveaxis(line.numpy().reshape((-1, *line.shape[2:])), 0, axis)


SHAPES = {n: tuple(p.shape) for n, p in made("gpt").named_parameters()}


def renamed(name: str) -> str:
    return (
        name.replace("first.module", "first")
        .replace("second.module", "second")
        .replace("norm.module", "norm")
    )


def train(
    shape: tuple[int, int], sequence: bool = False, clip: float | None = None, mistake: str = ""
) -> Trained:
    """Data × model ranks."""
    mesh = c.mesh(shape, ("data", "model"))
    group, at = mesh["model"], case("gpt")
    model, parts = split_model(group, sequence)
    opt = adam(model.parameters())
    named = {renamed(n): p for n, p in model.named_parameters()}
    tb.manual_seed(3)
    begin, end = c.part_of(BATCH, mesh["data"])
    x, y = tb.tensor(at.x[begin:end]), tb.tensor(at.y[begin:end])
    losses, grads = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        with c.one_randomness(mesh["data"], total=BATCH):
            logits = forward(model, x, group, sequence)
        loss = c.vocabulary_cross_entropy(logits, y, VOCABULARY, group)
        loss.backward()
        c.reduce_gradients(model.parameters(), group if mistake == "wrong group" else mesh["data"])
        if clip is not None:
            halves = [p for n, p in named.items() if n in parts]
            c.clip_grad_norm_([p for n, p in named.items() if n not in parts], clip, split={group: halves})
        losses.append(c.all_reduce(loss.detach(), "mean").item())
        grads.append({n: whole(p.grad, n, parts, group) for n, p in named.items()})
        opt.step()
    final = {n: whole(p, n, parts, group) for n, p in named.items()}
    return Trained(losses, grads[0], grads[-1], final)


def reordered(found: Trained) -> Trained:
    """By name: modules that were replaced stand at the end."""
    names = list(one_process("gpt").parameters)
    first, last, final = ({n: d[n] for n in names} for d in (found.first, found.last, found.parameters))
    return Trained(found.losses, first, last, final)


LONG = pytest.mark.long


@pytest.mark.parametrize("shape", [(2, 2), *(pytest.param(s, marks=LONG) for s in ((1, 2), (1, 4), (2, 4)))])
@pytest.mark.parametrize("sequence", [True, pytest.param(False, marks=LONG)])
def test_a_split_transformer_trains_as_one_process(shape: tuple[int, int], sequence: bool) -> None:
    """The vocabulary of 11, the width of 12 over 4 and the sequence of 6 over 4 do not divide evenly."""
    for found in c.lockstep(train, shape[0] * shape[1], shape, sequence):
        check_equal(reordered(found), one_process("gpt"))


def test_clipping_counts_whole_parameters_once() -> None:
    for found in c.lockstep(train, 2, (1, 2), False, 0.1):
        check_equal(reordered(found), one_process("gpt", 0.1))


def test_a_wrong_group_is_caught() -> None:
    """Parts of different parameters have no sum: the exchange itself refuses."""
    with pytest.raises(ClusterError, match=r"float64\[740\] .*\n.*float64\[724\]"):
        c.lockstep(train, 4, (2, 2), False, None, "wrong group")


@pytest.mark.parametrize("left", ["share", pytest.param("all_reduce", marks=LONG)])
def test_a_collective_left_out_of_a_layer_is_caught(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from trilobite.cluster import collectives

    plain: Callable[..., Any] = lambda x, *args, **kwargs: x  # noqa: E731
    monkeypatch.setattr(collectives, left, plain)
    found = reordered(c.lockstep(train_without_means, 2)[0])
    assert apart(found, one_process("gpt"))[0] > 1e-3


def train_without_means() -> Trained:
    return train((1, 2))


# -- pieces --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [6, 7])
def test_a_ring_attends_as_one_process(n: int, causal: bool, length: int) -> None:
    rng = np.random.default_rng(length)
    data = [rng.normal(size=(2, 3, length, 4)) * 2 for _ in range(4)]

    def one() -> Any:
        q, k, v = (tb.tensor(a, requires_grad=True) for a in data[:3])
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        tb.sum(out * tb.tensor(data[3])).backward()
        return [t.numpy() for t in (out.detach(), q.grad, k.grad, v.grad)]

    def rank() -> Any:
        begin, end = c.part_of(length, c.world())
        q, k, v, u = (tb.tensor(a[:, :, begin:end], requires_grad=True) for a in data)
        out = c.ring_attention(q, k, v, causal=causal, length=length)
        tb.sum(out * u).backward()
        return [t.numpy() for t in (out.detach(), q.grad, k.grad, v.grad)]

    want = one()
    found = c.lockstep(rank, n)
    for i, w in enumerate(want):
        np.testing.assert_allclose(np.concatenate([f[i] for f in found], axis=2), w, rtol=1e-11, atol=1e-13)


def test_vocabulary_loss_of_large_logits_is_finite() -> None:
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(5, 7)) * 900, rng.integers(0, 7, 5)
    want = F.cross_entropy(tb.tensor(logits), tb.tensor(y)).item()

    def rank() -> float:
        begin, end = c.part_of(7, c.world())
        return c.vocabulary_cross_entropy(tb.tensor(logits[:, begin:end]), tb.tensor(y), 7).item()

    np.testing.assert_allclose(c.lockstep(rank, 3), want, rtol=1e-12)
    with pytest.raises(ValueError, match="logits of 7 classes"):
        c.lockstep(lambda: c.vocabulary_cross_entropy(tb.tensor(logits), tb.tensor(y), 7), 2)


def test_a_column_layer_gathers_uneven_parts() -> None:
    tb.manual_seed(0)
    layer, x = tb.nn.Linear(4, 7).double(), tb.tensor(np.random.default_rng(1).normal(size=(3, 4)))
    outs = c.lockstep(lambda: c.ColumnLinear.of(layer, gather=True)(x).detach().numpy(), 3)
    for out in outs:
        np.testing.assert_allclose(out, layer(x).detach().numpy(), rtol=1e-14)


def test_meshes() -> None:
    def rank() -> Any:
        mesh = c.mesh((2, 3), ("data", "model"))
        return mesh["data"].members, mesh["model"].members, mesh["model", "data"].size, mesh.place["model"]

    assert c.lockstep(rank, 6)[4] == ((1, 4), (3, 4, 5), 6, 1)
    with pytest.raises(ValueError, match="2 × 2 = 4 ranks in a run of 6"):
        c.lockstep(lambda: c.mesh((2, 2), ("data", "model")), 6)
    with pytest.raises(ValueError, match="some of"):
        c.lockstep(lambda: c.mesh((6,), ("data",))["model"], 6)


def test_attend_is_causal_attention() -> None:
    rng = np.random.default_rng(3)
    qkv = tb.tensor(rng.normal(size=(2, 5, 24)))
    q, k, v = (h.reshape((2, 5, 4, 2)).transpose(1, 2) for h in tb.split(qkv, 8, -1))
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape((2, 5, 8))
    np.testing.assert_allclose(attend(qkv).numpy(), want.numpy(), rtol=1e-12)
