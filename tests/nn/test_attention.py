"""Attention: masks in both senses, causality, shared heads, rows that see nothing, rotary positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gradcheck import check_gradients

import trilobite as tb
import trilobite.framework.nn.functional as F
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.framework import nn, random

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def reference(
    q: Any, k: Any, v: Any, allowed: Any = True, bias: Any = 0.0, scale: float | None = None
) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale) + bias
    scores = np.where(allowed, scores, -np.inf)
    top = np.where(np.isfinite(scores.max(-1, keepdims=True)), scores.max(-1, keepdims=True), 0)
    e = np.exp(scores - top)
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def sdpa(*args: Any, **kw: Any) -> np.ndarray:
    tensors = [tb.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    mask = kw.get("attn_mask")
    if isinstance(mask, np.ndarray):
        kw["attn_mask"] = tb.tensor(mask)
    return F.scaled_dot_product_attention(*tensors, **kw).numpy()


def test_plain_causal_and_scaled() -> None:
    q, k, v = normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 7)
    np.testing.assert_allclose(sdpa(q, k, v), reference(q, k, v), rtol=1e-10)
    causal = np.tril(np.ones((4, 6), bool))
    np.testing.assert_allclose(sdpa(q, k, v, is_causal=True), reference(q, k, v, causal), rtol=1e-10)
    np.testing.assert_allclose(sdpa(q, k, v, scale=0.3), reference(q, k, v, scale=0.3), rtol=1e-10)
    np.testing.assert_allclose(sdpa(q[0, 0], k[0, 0], v[0, 0]), reference(q, k, v)[0, 0], rtol=1e-10)


def test_boolean_and_float_masks_broadcast() -> None:
    q, k, v = normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 5)
    for mask in (RNG.random((4, 6)) > 0.4, RNG.random((2, 1, 1, 6)) > 0.4, RNG.random((2, 3, 4, 6)) > 0.4):
        np.testing.assert_allclose(sdpa(q, k, v, attn_mask=mask), reference(q, k, v, mask), rtol=1e-10)
        bias = np.where(mask, normal(*mask.shape), -np.inf)
        np.testing.assert_allclose(sdpa(q, k, v, attn_mask=bias), reference(q, k, v, True, bias), rtol=1e-10)


def test_a_query_that_may_attend_to_nothing_gives_zero_and_no_nan() -> None:
    q, k, v = normal(1, 3, 4), normal(1, 5, 4), normal(1, 5, 4)
    mask = np.ones((3, 5), bool)
    mask[1] = False
    out = sdpa(q, k, v, attn_mask=mask)
    assert not out[0, 1].any() and out[0, 0].any()
    check_gradients(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, tb.tensor(mask)), q, k, v)


def test_query_heads_share_key_heads() -> None:
    q, k, v = normal(2, 6, 4, 5), normal(2, 2, 3, 5), normal(2, 2, 3, 5)
    expected = reference(q, np.repeat(k, 3, 1), np.repeat(v, 3, 1))
    np.testing.assert_allclose(sdpa(q, k, v, enable_gqa=True), expected, rtol=1e-10)
    mask = np.tril(np.ones((4, 3), bool))
    expected = reference(q, np.repeat(k, 3, 1), np.repeat(v, 3, 1), mask)
    np.testing.assert_allclose(sdpa(q, k, v, is_causal=True, enable_gqa=True), expected, rtol=1e-10)
    check_gradients(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, enable_gqa=True), q, k, v)
    one = normal(2, 1, 3, 5)
    np.testing.assert_allclose(sdpa(q, one, one), reference(q, one, one), rtol=1e-10)


def test_dropout_of_weights_keeps_the_mean_and_the_bits_under_jit() -> None:
    q, k, v = (tb.tensor(normal(1, 2, 40, 8).astype(np.float32)) for _ in range(3))
    random.manual_seed(4)

    def f() -> tb.Tensor:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)

    runs = np.stack([f().numpy() for _ in range(200)])
    exact = F.scaled_dot_product_attention(q, k, v).numpy()
    assert np.abs(runs.mean(0) - exact).max() < 0.2 and not np.array_equal(runs[0], runs[1])
    random.manual_seed(4)
    np.testing.assert_array_equal(tb.jit(f, target="reference")().numpy(), runs[0])
    assert not F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).numpy().any()


def test_large_scores_do_not_overflow() -> None:
    q = np.full((1, 2, 4), 1e4, np.float32)
    out = sdpa(q, q, np.ones((1, 2, 3), np.float32))
    np.testing.assert_allclose(out, 1.0, rtol=1e-6)


def test_it_stays_one_call_in_a_graph() -> None:
    q = tb.tensor(normal(1, 2, 3, 4))
    graph = tb.make_graph(lambda x: F.scaled_dot_product_attention(x, x, x))(q)
    assert [e.attributes["name"] for e in graph.equations if e.primitive.name == "call"] == ["attention"]


# -- multi-head --------------------------------------------------------------------------------------------


def attention(**kw: Any) -> nn.MultiheadAttention:
    random.manual_seed(1)
    return nn.MultiheadAttention(6, 3, batch_first=True, **kw).double()


def test_masks_say_where_not_to_attend() -> None:
    m = attention()
    x = tb.tensor(normal(2, 4, 6))
    blocked = np.triu(np.ones((4, 4), bool), 1)
    out, weights = m(x, x, x, attn_mask=tb.tensor(blocked))
    assert not weights.detach().numpy()[:, blocked].any()
    causal, _ = m(x, x, x, is_causal=True, need_weights=False)
    np.testing.assert_allclose(out.detach().numpy(), causal.detach().numpy(), rtol=1e-10)
    as_float = nn.Transformer.generate_square_subsequent_mask(4, "float64")
    added, _ = m(x, x, x, attn_mask=as_float)
    np.testing.assert_allclose(added.detach().numpy(), causal.detach().numpy(), rtol=1e-10)


def test_padded_keys_do_not_matter() -> None:
    m = attention()
    x = normal(2, 5, 6)
    padding = np.array([[False] * 3 + [True] * 2, [False] * 5])
    changed = x.copy()
    changed[0, 3:] += 100
    runs = [
        m(tb.tensor(x), *(tb.tensor(k),) * 2, key_padding_mask=tb.tensor(padding))[0] for k in (x, changed)
    ]
    np.testing.assert_allclose(runs[0].detach().numpy(), runs[1].detach().numpy(), rtol=1e-10)
    short = m(tb.tensor(x[:1]), *(tb.tensor(x[:1, :3]),) * 2)[0]
    np.testing.assert_allclose(runs[0].detach().numpy()[:1], short.detach().numpy(), rtol=1e-10)


def test_masks_per_head_and_mixed_kinds() -> None:
    m = attention()
    x = tb.tensor(normal(2, 3, 6))
    per_head = RNG.random((6, 3, 3)) > 0.7
    per_head[:, :, 0] = False
    padding = np.array([[0.0, -np.inf, 0.0], [0.0, 0.0, -1.5]])
    _, weights = m(
        x,
        x,
        x,
        attn_mask=tb.tensor(per_head),
        key_padding_mask=tb.tensor(padding),
        average_attn_weights=False,
    )
    w = weights.detach().numpy()
    assert not w[per_head.reshape(2, 3, 3, 3)].any() and not w[0, :, :, 1].any() and w[1, :, :, 2].any()


def test_rotary_scores_depend_on_distance_alone() -> None:
    q, k = normal(1, 1, 8), normal(1, 1, 8)

    def score(i: int, j: int, **kw: Any) -> float:
        a, b = (F.rotary_embedding(tb.tensor(x), tb.tensor([p]), **kw).numpy() for x, p in ((q, i), (k, j)))
        return float((a * b).sum())

    for kw in ({}, {"interleaved": True}, {"base": 100.0}):
        assert score(3, 1, **kw) == pytest.approx(score(12, 10, **kw), rel=1e-9)
        assert score(3, 1, **kw) != pytest.approx(score(3, 2, **kw), rel=1e-3)
    np.testing.assert_allclose(F.rotary_embedding(tb.tensor(q), tb.tensor([0])).numpy(), q)


def test_wrong_shapes_are_refused_by_name() -> None:
    x = tb.ones((2, 3, 4, 5))
    with pytest.raises(ShapeError, match=r"attention of query \(2, 3, 4, 5\), key \(2, 3, 4, 6\)") as e:
        F.scaled_dot_product_attention(x, tb.ones((2, 3, 4, 6)), x)
    assert "expected: as many features in queries as in keys, as many keys as values" in str(e.value)
    with pytest.raises(ArgumentError, match="with is_causal and attn_mask"):
        F.scaled_dot_product_attention(x, x, x, tb.ones((4, 4)), is_causal=True)
    with pytest.raises(DTypeError, match="an attention mask of int64"):
        F.scaled_dot_product_attention(x, x, x, tb.zeros((4, 4), dtype="int64"))
    with pytest.raises(ShapeError, match="with enable_gqa"):
        F.scaled_dot_product_attention(x, tb.ones((2, 2, 4, 5)), tb.ones((2, 2, 4, 5)), enable_gqa=True)
    m = attention()
    y = tb.ones((2, 4, 6), dtype="float64")
    with pytest.raises(ShapeError, match=r"attn_mask bool\[3, 3\]") as e:
        m(y, y, y, attn_mask=tb.zeros((3, 3), dtype="bool"))
    assert "expected: booleans or floats of shape (4, 4) or (6, 4, 4)" in str(e.value)
    with pytest.raises(ShapeError, match="MultiheadAttention of an input of shape"):
        m(y, tb.ones((4, 6), dtype="float64"), y)
    with pytest.raises(ArgumentError, match="MultiheadAttention of 6 features, 4 heads, 4 key heads"):
        nn.MultiheadAttention(6, 4)
    with pytest.raises(ShapeError, match="rotary_embedding of shape"):
        F.rotary_embedding(tb.ones((3, 5)))


# -- stacks ------------------------------------------------------------------------------------------------


def test_a_stack_has_layers_of_its_own() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4))
    assert len(list(stack.parameters())) == 2 * len(list(layer.parameters())) + 2
    x = tb.ones((3, 1, 4))
    expected = stack.norm(stack.layers[1](stack.layers[0](x)))
    np.testing.assert_array_equal(stack(x).detach().numpy(), expected.detach().numpy())


def test_a_causal_decoder_does_not_see_ahead() -> None:
    random.manual_seed(2)
    stack = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2
    ).double()
    memory, x = tb.tensor(normal(1, 3, 4)), normal(1, 5, 4)
    later = x.copy()
    later[0, 3:] += 1
    a, b = (stack(tb.tensor(t), memory, tgt_is_causal=True).detach().numpy() for t in (x, later))
    np.testing.assert_allclose(a[0, :3], b[0, :3], rtol=1e-12)
    assert not np.allclose(a[0, 3:], b[0, 3:])


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_symbolic_length_serves_many(target: str) -> None:
    n = tb.dim("n", max=32)
    m = nn.MultiheadAttention(8, 4, num_kv_heads=2, batch_first=True, rotary=True).double().eval()
    f = tb.jit(lambda x: m(x, x, x, need_weights=False, is_causal=True)[0], target=target,
               shapes=[(None, n, None)])  # fmt: skip
    g = tb.jit(lambda x: F.scaled_dot_product_attention(x, x, x), target=target,
               shapes=[(None, None, n, None)])  # fmt: skip
    for length in (2, 5, 11):
        x, y = tb.tensor(normal(2, length, 8)), tb.tensor(normal(2, 3, length, 4))
        bound = 0 if target == "reference" else 1e-5
        pairs = (f(x), m(x, x, x, is_causal=True)[0]), (g(y), F.scaled_dot_product_attention(y, y, y))
        for a, b in pairs:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=bound, atol=bound)
    assert f.recompilations == g.recompilations == []


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    ("query", "key", "value", "right"),
    [
        ((2, 3, 6), (2, 5, 4), (2, 5, 8), True), ((2, 3, 6), (2, 5, 4), (2, 4, 8), False),
        ((2, 3, 6), (1, 5, 4), (1, 5, 8), False), ((1, 3, 6), (2, 5, 4), (2, 5, 8), False),
        ((2, 3, 4), (2, 5, 4), (2, 5, 8), False), ((2, 3, 6), (2, 5, 6), (2, 5, 8), False),
        ((2, 3, 6), (2, 5, 4), (2, 5, 6), False),
    ],
)  # fmt: skip
def test_sizes_of_query_key_and_value(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], right: bool, batch_first: bool
) -> None:
    net = tb.nn.MultiheadAttention(6, 2, kdim=4, vdim=8, batch_first=batch_first)
    given = [tb.ones(s if batch_first else (s[1], s[0], s[2])) for s in (query, key, value)]
    if right:
        assert net(*given)[0].shape == given[0].shape
        return
    with pytest.raises(ShapeError, match=r"MultiheadAttention of .* features") as e:
        net(*given)
    assert "(6, 4, 8) features, one batch, a value per key" in str(e.value)


@pytest.mark.parametrize("averaged", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_the_function_of_weights_gives_what_it_attended_to_if_asked(
    need_weights: bool, averaged: bool, causal: bool
) -> None:
    """The result is the same with and without the weights, which sum to one and are those of the formula."""
    length, batch, features, heads = 5, 2, 6, 2
    x, w, b = normal(length, batch, features), normal(3 * features, features), normal(3 * features)
    last, shift = normal(features, features), normal(features)
    t = tb.tensor
    out, how = F.multi_head_attention_forward(
        t(x), t(x), t(x), features, heads, t(w), t(b), None, None, False, 0.0, t(last), t(shift),
        need_weights=need_weights, average_attn_weights=averaged, is_causal=causal,
    )  # fmt: skip
    q, k, v = np.split(x @ w.T + b, 3, axis=-1)
    each = [a.reshape(length, batch, heads, -1).transpose(1, 2, 0, 3) for a in (q, k, v)]
    allowed = np.tri(length, dtype=bool) if causal else np.True_
    made = reference(*each, allowed).transpose(2, 0, 1, 3).reshape(length, batch, features)
    np.testing.assert_allclose(out.numpy(), made @ last.T + shift, rtol=1e-9, atol=1e-12)
    assert (how is not None) == need_weights
    if how is None:
        return
    wanted = reference(each[0], each[1], np.eye(length), allowed)
    np.testing.assert_allclose(how.numpy(), wanted.mean(1) if averaged else wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(how.numpy().sum(-1), 1, rtol=1e-12)
