"""Operators of com.microsoft that ONNX Runtime has no kernel for on CPUs, beside what defines them."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trilobite as tb
from tests.inference.cases_contributed import GQA, HEADS, NONE, Operands, grouped, i32, one_node
from tests.inference.cases_microsoft import choice, f, i8, ids, u8

Array = np.ndarray[Any, Any]


def run(op: str, operands: Operands, outs: list[int], **attributes: Any) -> list[Array]:
    proto, feeds = one_node(op, operands, outs, attributes)
    return list(tb.inference.load(proto, target="reference").run(feeds).values())


def one(op: str, operands: Operands, kind: int = 1, **attributes: Any) -> Array:
    return run(op, operands, [kind], **attributes)[0]


def close(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def sigmoid(x: Array) -> Array:
    return 0.5 + 0.5 * np.tanh(x / 2)  # which cannot overflow


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_convolutions_with_channels_last() -> None:
    from trilobite.framework.nn import functional as F

    x, w, b, more = f(1, 7, 6, 4), f(6, 2, 3, 3), f(6), f(1, 3, 2, 6)
    plain = F.conv2d(tb.asarray(np.moveaxis(x, -1, 1)), tb.asarray(w), tb.asarray(b), stride=2, groups=2)
    expected = np.moveaxis(np.asarray(plain), 1, -1)
    close(one("NhwcConv", [x, w, b], strides=[2, 2], group=2), expected)
    found = one("NhwcFusedConv", [x, w, b, more], strides=[2, 2], group=2, activation="Relu")
    close(found, np.maximum(expected + more, 0))


LENGTHS = i32(1, 2, 4)
OFFSETS = np.array([[0, 4, 5, 8], [9, 10, 11, 1], [2, 3, 6, 7]], np.int32)
ENDS = i32(0, 1, 3, 7)


def test_padding_goes_and_comes_back() -> None:
    x = f(3, 4, 8)
    packed, offsets, ends, longest = run("RemovePadding", [x, LENGTHS], [1, 6, 6, 6])
    close(packed, np.concatenate([x[i, :n] for i, n in enumerate(LENGTHS)]))
    assert (offsets == OFFSETS).all() and (ends == ENDS).all() and longest.tolist() == [4]
    back = one("RestorePadding", [packed, OFFSETS])
    close(back, np.where(np.arange(4)[:, None] < LENGTHS[:, None, None], x, 0))


@pytest.mark.parametrize("biased", [False, True])
def test_packed_attention_is_that_of_each_sequence(biased: bool) -> None:
    x, w, b, added = f(7, 16), f(16, 56), f(56), f(1, 4, 4, 4)
    q, k, v = np.split(x @ w + b, [16, 32], axis=1)
    expected = np.zeros((7, 24), np.float32)
    for a, z in itertools.pairwise(ENDS):
        n = z - a
        heads = [p[a:z].reshape(n, 4, -1).transpose(1, 0, 2) for p in (q, k, v)]
        scores = heads[0] @ heads[1].transpose(0, 2, 1) / 2 + (added[0, :, :n, :n] if biased else 0)
        expected[a:z] = (softmax(scores) @ heads[2]).transpose(1, 0, 2).reshape(n, 24)
    bias = [added] if biased else []
    found = one("PackedAttention", [x, w, b, OFFSETS, ENDS, *bias], **HEADS, qkv_hidden_sizes=[16, 16, 24])
    close(found, expected)
    close(one("PackedMultiHeadAttention", [q - b[:16], k - b[16:32], v - b[32:], b, OFFSETS, ENDS, *bias],
              **HEADS), expected)  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_heads_side_by_side(packed: bool) -> None:
    """(batch, length, heads, 3 or 2, features), with the bias of a projection before."""
    q, k, v, b = f(2, 5, 16), f(2, 5, 16), f(2, 5, 16), f(48)
    expected = one("MultiHeadAttention", [q, k, v, b], **HEADS)
    apart = [x.reshape(2, 5, 4, 4) for x in (q, k, v)]
    if packed:
        found = one("MultiHeadAttention", [np.stack(apart, 3), None, None, b], **HEADS)
    else:
        found = one("MultiHeadAttention", [q, np.stack(apart[1:], 3), None, b], **HEADS)
    close(found, expected)


def test_a_decoder_without_a_buffer_appends() -> None:
    q, k, v, mask = f(2, 1, 16), f(2, 1, 16), f(2, 1, 16), choice(2, 6)
    past = [f(2, 4, 5, 4), f(2, 4, 5, 4)]
    found = run("DecoderMaskedMultiHeadAttention", [q, k, v, mask, None, *past], [1, 1, 1], **HEADS)
    expected = run("MultiHeadAttention", [q, k, v, None, mask, None, *past], [1, 1, 1], **HEADS)
    for a, b in zip(found, expected, strict=True):
        close(a, b)
    packed = run(
        "DecoderMaskedMultiHeadAttention", [np.concatenate([q, k, v], 2), None, None, mask, None, *past],
        [1, 1, 1], **HEADS,
    )  # fmt: skip
    close(packed[0], expected[0])


def test_norms_of_queries_and_keys() -> None:
    """Per head, before anything else."""
    q, k, *rest = grouped(5)
    scale = [f(8), f(8)]

    def normed(x: Array, w: Array) -> Array:
        heads = x.reshape(1, 5, -1, 8)
        return (heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6) * w).reshape(x.shape)

    assert q is not None and k is not None
    expected = run("GroupQueryAttention", [normed(q, scale[0]), normed(k, scale[1]), *rest], [1, 1, 1], **GQA)
    found = run("GroupQueryAttention", [q, k, *rest, *NONE * 7, *scale], [1, 1, 1], **GQA)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


def test_rows_of_a_prompt_that_end_early() -> None:
    """What stands behind a row's end is not seen: its results are those of the row alone."""
    q, k, v, *_ = grouped(5, batch=2)
    assert q is not None and k is not None and v is not None
    found = run(
        "GroupQueryAttention", [q, k, v, None, None, i32(4, 2), np.array(5, np.int32)], [1, 1, 1], **GQA
    )
    alone = run(
        "GroupQueryAttention", [q[1:, :3], k[1:, :3], v[1:, :3], None, None, i32(2), np.array(3, np.int32)],
        [1, 1, 1], **GQA,
    )  # fmt: skip
    close(found[0][1, :3], alone[0][0])
    close(found[1][1, :, :3], alone[1][0])


@pytest.mark.parametrize("both", [0, 1])
def test_biases_of_relative_positions(both: int) -> None:
    table = f(32, 4)
    found = one(
        "RelativePositionBias", [table, np.array(50), np.array(50)], is_bidirectional=both, max_distance=30
    )
    assert found.shape == (1, 4, 50, 50)
    count = 16 if both else 32
    for query, key in ((0, 0), (3, 9), (9, 3), (40, 2), (2, 40), (49, 0), (20, 12), (12, 28)):
        away = key - query
        far, first = (abs(away), count * (away > 0)) if both else (max(-away, 0), 0)
        half = count // 2
        if far >= half:
            far = min(half + int(np.log(far / half) / np.log(30 / half) * (count - half)), count - 1)
        np.testing.assert_array_equal(found[0, :, query, key], table[first + far])


def test_gated_biases_of_positions() -> None:
    q, qb, places, w, b, eco = f(2, 5, 16), f(16), f(1, 4, 5, 5), f(4, 6), f(6), f(1, 4, 1, 1)
    gates = (q + qb).reshape(2, 5, 4, 4).transpose(0, 2, 1, 3) @ w + b
    u, r = (sigmoid(gates[..., i : i + 3].sum(-1, keepdims=True)) for i in (0, 3))
    found = one("GatedRelativePositionBias", [q, qb, places, w, b, eco], num_heads=4)
    close(found, (u * (r * eco - 1) + 2) * places)


def test_softmax_and_dropout_with_a_bias() -> None:
    x, inner, outer = f(2, 3, 5, 6), f(2, 1, 1, 6), f(5, 6)
    close(one("BiasSoftmax", [x, inner], axis=3, is_inner_broadcast=1), softmax(x + inner))
    both = softmax((x + outer).reshape(2, 3, 30)).reshape(x.shape)
    close(one("BiasSoftmax", [x, outer], axis=2, is_inner_broadcast=0), both)
    close(one("BiasDropout", [x, f(6) * 0, x]), x + x)


def test_group_norm_of_a_sum() -> None:
    x, skip, scale, shift, bias = f(2, 4, 5, 8), f(2, 8), f(8), f(8), f(8)
    y, total = run("SkipGroupNorm", [x, scale, shift, skip, bias], [1, 1], groups=4, activation=1)
    expected = x + skip[:, None, None] + bias
    close(total, expected)
    groups = expected.reshape(2, 20, 4, 2)
    normed = (groups - groups.mean((1, 3), keepdims=True)) / np.sqrt(groups.var((1, 3), keepdims=True) + 1e-5)
    z = normed.reshape(x.shape) * scale + shift
    close(y, z * sigmoid(z))


@pytest.mark.parametrize("past", [0, 2])
def test_a_query_sees_no_more_keys_than_stand_before_it(past: int) -> None:
    """Of keys that are more than the queries, too."""
    q, k, v = f(2, 3, 16), f(2, 5, 16), f(2, 5, 16)
    cache = [f(2, 4, past, 4), f(2, 4, past, 4)] if past else []
    found = one("MultiHeadAttention", [q, k, v, *NONE * 3, *cache], num_heads=4, unidirectional=1)
    apart = [x.reshape(2, -1, 4, 4).transpose(0, 2, 1, 3) for x in (q, k, v)]
    if past:
        apart[1:] = [np.concatenate(pair, 2) for pair in zip(cache, apart[1:], strict=True)]
    seen = np.arange(5 + past) <= np.arange(3)[:, None] + past
    weights = softmax(np.where(seen, apart[0] @ apart[1].swapaxes(-1, -2) / 2, -np.inf))
    close(found, (weights @ apart[2]).transpose(0, 2, 1, 3).reshape(2, 3, 16))


NBITS = {"K": 64, "bits": 4, "block_size": 32}


def test_layers_of_few_bits_that_share_their_input() -> None:
    x, skip, norm = f(2, 64), f(2, 64), f(64)
    total = x + skip
    rows = total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5) * norm
    gate, up = [u8(20, 2, 16), f(40)], [u8(20, 2, 16), f(40)]
    bias = f(20)
    left, right = (one("MatMulNBits", [rows, *w], **NBITS, N=20) for w in (gate, up))
    y, shown = run(
        "MatMulNBitsMlp", [x, skip, norm, *gate, None, *up, bias], [1, 1], **NBITS, N=20, activation="silu",
        epsilon=1e-5,
    )  # fmt: skip
    np.testing.assert_allclose(y, left * sigmoid(left) * (right + bias), rtol=1e-4, atol=1e-2)
    close(shown, total)
    layers = [[u8(n, 2, 16), f(2 * n), b] for n, b in ((20, None), (12, f(12)), (12, None))]
    operands = [x, None, norm, *(part for layer in layers for part in layer)]
    found = run("MatMulNBitsQkv", operands, [1, 1, 1], **NBITS, Nq=20, Nkv=12, epsilon=1e-5)
    rows = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * norm
    for y, (w, scales, b) in zip(found, layers, strict=True):
        plain = one("MatMulNBits", [rows, w, scales, *(NONE * 2), b], **NBITS, N=w.shape[0])
        np.testing.assert_allclose(y, plain, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize(("axis", "along"), [(0, 1), (1, 1), (1, 0), (0, 0), (-1, -2)])
def test_rows_of_a_table_of_four_bits(dtype: Any, axis: int, along: int) -> None:
    data = (u8(20, 40) % 8).astype(dtype)
    at = np.array([[3, 1, -2], [17, 0, 4]])
    blocks = [-(-n // 16) if a == along % 2 else n for a, n in enumerate(data.shape)]
    scales, zeros = f(*blocks), (u8(*blocks) % 8).astype(dtype)
    wide = [np.repeat(x.astype(np.float32), 16, along)[:20, :40] for x in (scales, zeros)]
    whole = (data.astype(np.float32) - wide[1]) * wide[0]
    how = {"block_size": 16, "gather_axis": axis, "quantize_axis": along}
    close(one("GatherBlockQuantized", [data, at, scales, zeros], **how), np.take(whole, at, axis))
    plain = data.astype(np.float32) * wide[0]
    close(one("GatherBlockQuantized", [data, at, scales], **how), np.take(plain, at, axis))


def test_rows_that_a_table_does_not_have_are_zero() -> None:
    data, scales = u8(9, 32), f(9, 2)
    found = one("GatherBlockQuantized", [data, np.array([2, 9, -10, 8]), scales], block_size=16, bits=8)
    assert not found[1:3].any() and found[[0, 3]].any(axis=1).all()


def test_experts_with_a_gate_in_a_layer_of_its_own() -> None:
    """Three layers, and two whose first holds gate and line side by side, give the same."""
    x, router, w2, b2 = f(5, 8), f(5, 4), f(4, 8, 12), f(4, 8)
    gate, line = [f(4, 12, 8), f(4, 12)], [f(4, 12, 8), f(4, 12)]
    how = {"k": 2, "activation_type": "swiglu", "activation_alpha": 1.3}
    apart = one("MoE", [x, router, *gate, w2, b2, *line], **how, swiglu_fusion=0)
    joined = [np.concatenate([a, b], 1) for a, b in zip(gate, line, strict=True)]
    close(one("MoE", [x, router, *joined, w2, b2], **how, swiglu_fusion=2), apart)
    turns = [np.stack([a, b], 2).reshape(4, 24, *a.shape[2:]) for a, b in zip(gate, line, strict=True)]
    close(one("MoE", [x, router, *turns, w2, b2], **how, swiglu_fusion=1), apart)


def test_transforms_and_complex_numbers() -> None:
    x = f(3, 16)
    z = np.fft.rfft(x)
    parts = np.stack([z.real, z.imag], -1).astype(np.float32)
    how = {"signal_ndim": 1, "normalized": 0, "onesided": 1}
    close(one("Rfft", [x], **how), parts)
    close(one("Irfft", [parts], **how), x)
    other = f(3, 9, 2)
    w = other[..., 0] + 1j * other[..., 1]
    for op, product in (("ComplexMul", z * w), ("ComplexMulConj", z * w.conj())):
        close(one(op, [parts, other]), np.stack([product.real, product.imag], -1).astype(np.float32))


def test_integers() -> None:
    a, b = u8(3, 4), u8(4)
    found = one("MulInteger", [a, np.array(7, np.uint8), b, np.array(200, np.uint8)], 6)
    assert (found == (a.astype(int) - 7) * (b.astype(int) - 200)).all()
    x = i8(3, 4, 5)
    assert (one("ReduceSumInteger", [x], 6, axes=[0, 2], keepdims=1) == x.sum((0, 2), keepdims=True)).all()


def test_products_with_activations() -> None:
    a, b, c = f(3, 4), f(4, 5), f(5)
    from trilobite.framework.nn import functional as F

    close(one("GemmFastGelu", [a, b, c]), np.asarray(F.gelu(tb.asarray(a @ b + c), "tanh")))
    close(one("FusedMatMulActivation", [a, b], activation="Softmax", alpha=0.5), softmax(a @ b * 0.5))
    close(one("FusedMatMulActivation", [a, b.T.copy()], activation="Relu", transB=1), np.maximum(a @ b, 0))
    close(one("TorchEmbedding", [a, ids(3, 2, 2).astype(np.int64) * 0 + 2]), np.broadcast_to(a[2], (2, 2, 4)))


def test_angles_of_gemma() -> None:
    angles, parts = f(2, 5, 8), [f(2, 3, 5, 8) for _ in range(4)]
    found = run("GemmaRotaryEmbedding", [angles, *parts], [1, 1])
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    for y, (x, turned) in zip(found, (parts[:2], parts[2:]), strict=True):
        close(y, x * cos + turned * sin)


def test_are_all_finite() -> None:
    x = f(3, 4)
    x[1, 1] = np.inf
    asked: list[dict[str, int]] = [{}, {"isnan_only": 1}, {"isinf_only": 1}]
    assert [bool(one("IsAllFinite", [f(2), x], 9, **how)) for how in asked] == [False, True, False]


def test_words_that_are_cut_in_no_way_or_two() -> None:
    x = np.array(["a b"], dtype=object)
    for how in ({}, {"separators": [" "], "tokenexp": "a"}):
        with pytest.raises(tb.errors.ArgumentError, match="tokenexp or separators"):
            one("Tokenizer", [x], 8, mark=0, mincharnum=1, pad_value="", **how)
    with pytest.raises(tb.errors.ArgumentError, match="a pattern that is none"):
        one("Tokenizer", [x], 8, mark=0, mincharnum=1, pad_value="", tokenexp="(")
    for shape, expected in (((0,), (0,)), ((3, 0), (3, 0))):
        none = np.zeros(shape, dtype=object)
        assert one("Tokenizer", [none], 8, mark=1, mincharnum=1, pad_value="", tokenexp="a").shape == expected


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "said"),
    [
        ("GroupQueryAttention", grouped(5), {**GQA, "sliding_window_cache": 1}, "sliding_window_cache = 1"),
        ("GroupQueryAttention", [*grouped(5), *NONE * 5, f(1), f(1)], GQA, "an operand at place 12"),
        ("RotaryEmbedding", [f(2, 5, 16), np.array([3]), f(12, 2), f(12, 2)], {"scale": 2.0}, "scale = 2.0"),
        ("Attention", [f(2, 6, 16), f(16, 48), f(48)], {**HEADS, "do_rotary": 1}, "do_rotary = 1"),
        ("MatMulNBits", [f(3, 64), u8(20, 2, 16), f(40)], {**NBITS, "N": 20, "weight_prepacked": 1},
         "weight_prepacked = 1"),
        ("QMoE", [f(5, 32), f(5, 4), u8(4, 64, 16), f(4, 64), None, u8(4, 32, 16), f(4, 32)],
         {"quant_type": "fp4"}, "quant_type = 'fp4'"),
    ],
)  # fmt: skip
def test_what_a_row_does_not_do_is_refused_before_anything_runs(
    op: str, operands: Operands, attributes: dict[str, Any], said: str
) -> None:
    with pytest.raises(tb.errors.ArgumentError, match=f"nodes that are not supported:\n.*{op}.* with {said}"):
        run(op, operands, [1], **attributes)


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(tb.errors.ArgumentError, match="the activation 'Cosine'"):
        one("FusedGemm", [f(5, 6), f(6, 7), f(7)], activation="Cosine")
    with pytest.raises(tb.errors.ArgumentError, match="the activation 'tanh' of experts"):
        one("MoE", [f(5, 8), f(5, 4), f(4, 12, 8), None, f(4, 8, 12)], activation_type="tanh")


@pytest.mark.parametrize(
    ("domain", "op", "said"),
    [
        ("com.microsoft.nchwc", "ReorderInput", "lower level"),
        ("com.microsoft", "BeamSearch", "decoder alone"),
    ],
)
def test_what_has_no_meaning_here_is_refused_with_a_way_out(domain: str, op: str, said: str) -> None:
    proto, _ = one_node("Gelu", [f(3)], [1], {})
    proto.graph.node[0].op_type, proto.graph.node[0].domain = op, domain
    with pytest.raises(tb.errors.ArgumentError, match=f"{op}.*{said}"):
        tb.inference.load(proto)
