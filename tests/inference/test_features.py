"""Operators of other domains that ONNX Runtime does not run on a CPU, or whose features are words: each
beside what it is defined as.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest

import trilobite as tb
from tests.inference.conftest import model, node
from trilobite.base.errors import ArgumentError

rng = np.random.default_rng(12)


def f(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def run(op: str, domain: str, operands: list[Any], count: int = 1, **attributes: Any) -> list[Any]:
    """What one operator gives; an operand that is a dictionary comes through ZipMap."""
    names = [f"x{i}" for i in range(len(operands))]
    outputs = [f"y{i}" for i in range(count)]
    one = node(op, " ".join(names), " ".join(outputs), domain=domain, **attributes)
    inputs = {n: (v.dtype, list(v.shape)) for n, v in zip(names, operands, strict=True)}
    proto = model([one], inputs, outputs, opset=17, ir_version=10)
    proto.opset_import.append(onnx.helper.make_opsetid(domain, 1 if domain == "com.microsoft" else 4))
    session = tb.inference.load(proto, target="reference")
    found = session.run(dict(zip(names, operands, strict=True)))
    return [found[name] for name in outputs]


def ml(op: str, *operands: Any, **attributes: Any) -> Any:
    return run(op, "ai.onnx.ml", list(operands), **attributes)[0]


def ms(op: str, *operands: Any, **attributes: Any) -> Any:
    return run(op, "com.microsoft", list(operands), **attributes)[0]


WORDS = np.array([["pear", "fig"], ["kiwi", "pear"]], object)


@pytest.mark.parametrize(
    ("op", "x", "attributes", "expected"),
    [
        ("OneHotEncoder", np.array([2, 9, 5]), {"cats_int64s": [5, 2]}, [[0, 1], [0, 0], [1, 0]]),
        ("OneHotEncoder", np.array([2.0, 5.0]), {"cats_int64s": [5, 2], "zeros": 0}, [[0, 1], [1, 0]]),
        ("OneHotEncoder", WORDS[:, 0], {"cats_strings": ["pear", "kiwi"]}, [[1, 0], [0, 1]]),
        (
            "CategoryMapper",
            WORDS,
            {"cats_strings": ["fig", "pear"], "cats_int64s": [4, 7]},
            [[7, 4], [-1, 7]],
        ),
        (
            "CategoryMapper",
            WORDS,
            {"cats_strings": ["fig"], "cats_int64s": [4], "default_int64": 8},
            [[8, 4], [8, 8]],
        ),
        (
            "CategoryMapper",
            np.array([7, 1, 4]),
            {"cats_strings": ["fig", "pear"], "cats_int64s": [4, 7]},
            ["pear", "_Unused", "fig"],
        ),
        (
            "LabelEncoder",
            np.array([3, 5, 4]),
            {"keys_int64s": [3, 4], "values_floats": [0.5, 2.5]},
            [0.5, 0, 2.5],
        ),
        (
            "LabelEncoder",
            np.array([3, 5]),
            {"keys_int64s": [3, 4], "values_int64s": [30, 40]},
            [30, -1],
        ),
        (
            "LabelEncoder",
            np.array([1.5, np.nan, 2.0], np.float32),
            {"keys_floats": [1.5, math.nan], "values_strings": ["a", "b"]},
            ["a", "b", "_Unused"],
        ),
        (
            "LabelEncoder",
            np.array([0.1, 0.2], np.float32),
            {"keys_floats": [0.1], "values_int64s": [6], "default_int64": 9},
            [6, 9],
        ),
        ("LabelEncoder", WORDS, {"keys_strings": ["fig"], "values_int64s": [6]}, [[-1, 6], [-1, -1]]),
        ("ArrayFeatureExtractor", None, {}, None),
        (
            "Imputer",
            np.array([[1.0, np.nan]], np.float32),
            {"imputed_value_floats": [7.0], "replaced_value_float": math.nan},
            [[1.0, 7.0]],
        ),
        (
            "Imputer",
            np.array([[1, 0, 3]]),
            {"imputed_value_int64s": [7], "replaced_value_int64": 3},
            [[1, 0, 7]],
        ),
        ("Imputer", np.array([[1, 0, 3]]), {"imputed_value_int64s": [7]}, [[1, 7, 3]]),
        ("Normalizer", np.zeros((1, 2), np.float32), {"norm": "L1"}, [[0, 0]]),
        ("Normalizer", np.array([[3.0, -4.0]], np.float32), {"norm": "L2"}, [[0.6, -0.8]]),
        ("Normalizer", np.array([[2.0, -4.0]], np.float32), {}, [[1, -2]]),
        ("Scaler", np.array([[3.0, 5.0]], np.float32), {"offset": [1.0]}, [[2, 4]]),
        ("Scaler", np.array([[3.0, 5.0]], np.float32), {"scale": [2.0]}, [[6, 10]]),
        ("Binarizer", np.array([[0.0, 0.5]], np.float32), {}, [[0, 1]]),
    ],
)
def test_a_feature(op: str, x: Any, attributes: dict[str, Any], expected: Any) -> None:
    if op == "ArrayFeatureExtractor":
        wide = np.arange(12.0, dtype=np.float32).reshape(3, 4)
        assert np.array_equal(ml(op, wide, np.array([3, 1])), wide[:, [3, 1]])
        assert np.array_equal(ml(op, wide[0], np.array([2])), [[2.0]])
        return
    found = ml(op, x, **attributes)
    if isinstance(np.ravel(np.asarray(expected, object))[0], str):
        assert found.tolist() == expected
    else:
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=1e-6)
        assert found.shape == np.shape(expected)


def test_an_unknown_category_is_an_error_where_zeros_are_not_allowed() -> None:
    with pytest.raises(ArgumentError, match="met a category that it does not know"):
        ml("OneHotEncoder", np.array([2, 9]), cats_int64s=[5, 2], zeros=0)


def test_a_label_encoder_without_keys_is_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"has no keys(?s:.*)one of the attributes keys_\*"):
        ml("LabelEncoder", np.array([2, 9]), values_int64s=[5])


def test_an_unknown_transform_is_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"the transform 'SOFT'(?s:.*)NONE, LOGISTIC, SOFTMAX"):
        ml("LinearRegressor", f(2, 3), coefficients=[1.0, 2.0, 3.0], post_transform="SOFT")


def test_features_are_joined() -> None:
    a, b = f(3, 2), f(3, 4)
    assert np.array_equal(ml("FeatureVectorizer", a, b, inputdimensions=[2, 3]), np.hstack([a, b[:, :3]]))
    assert np.array_equal(ml("FeatureVectorizer", a[0], b[0]), np.hstack([a[0], b[0]])[None])


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("DictVectorizer", {"int64_vocabulary": [7, 5, 9]}, [[0.5, 0.25, 0.0]]),
        ("CastMap", {"map_form": "DENSE"}, [[0.25, 0.5]]),
        ("CastMap", {"map_form": "SPARSE", "max_map": 8}, [[0, 0, 0, 0, 0, 0.25, 0, 0.5]]),
        ("CastMap", {"cast_to": "TO_STRING"}, [["0.25", "0.5"]]),
        ("CastMap", {"cast_to": "TO_INT64", "map_form": "DENSE"}, [[0, 0]]),
    ],
)
def test_maps_become_rows(op: str, attributes: dict[str, Any], expected: Any) -> None:
    """The first row of what ZipMap makes of scores."""
    nodes = [
        node("ZipMap", "x", "maps", domain="ai.onnx.ml", classlabels_int64s=[7, 5]),
        node("SequenceAt", "maps i", "one"),
        node(op, "one", "y", domain="ai.onnx.ml", **attributes),
    ]
    proto = model(nodes, {"x": (np.float32, [2, 2])}, ["y"], {"i": np.array(0)}, opset=17)
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
    x = np.array([[0.5, 0.25], [0.75, 1.0]], np.float32)
    assert tb.inference.load(proto, target="reference").run({"x": x})["y"].tolist() == expected


def test_maps_of_words() -> None:
    (maps,) = run("ZipMap", "ai.onnx.ml", [np.array([0.5, 0.25], np.float32)], classlabels_strings=["a", "b"])
    assert maps == [{"a": 0.5, "b": 0.25}]


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def test_fused_additions() -> None:
    x, bias, skip = f(2, 5, 16), f(16), f(2, 5, 16)
    np.testing.assert_allclose(ms("BiasAdd", x, bias, skip), x + bias + skip, rtol=1e-6)
    left, right = np.split(x + bias, 2, axis=-1)
    np.testing.assert_allclose(ms("BiasSplitGelu", x, bias), left * gelu(right), rtol=1e-5, atol=1e-6)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Of (batch, length, heads, features) each; the heads joined again."""
    score = np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    weight = np.exp(score - score.max(-1, keepdims=True))
    out = np.einsum("bhqk,bkhd->bqhd", weight / weight.sum(-1, keepdims=True), v)
    return out.reshape(*out.shape[:2], -1)


def test_heads_whose_operands_are_packed() -> None:
    packed = f(2, 6, 4, 3, 5)
    expected = attended(*(packed[:, :, :, i] for i in range(3)))
    np.testing.assert_allclose(ms("MultiHeadAttention", packed, num_heads=4), expected, rtol=1e-4, atol=1e-5)
    q, pair = f(2, 6, 20), f(2, 7, 4, 2, 5)
    expected = attended(q.reshape(2, 6, 4, 5), pair[:, :, :, 0], pair[:, :, :, 1])
    np.testing.assert_allclose(ms("MultiHeadAttention", q, pair, num_heads=4), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm(last: int, activation: int) -> None:
    x, scale, bias = f(2, 6, 3, 4), f(6), f(6)
    parts = x.reshape(2, 2, 3 * 12).astype(np.float64)
    centred = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    expected = centred.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]
    expected = expected / (1 + np.exp(-expected)) if activation else expected
    given = np.moveaxis(x, 1, -1).copy() if last else x
    found = ms("GroupNorm", given, scale, bias, groups=2, activation=activation, channels_last=last)
    np.testing.assert_allclose(np.moveaxis(found, -1, 1) if last else found, expected, rtol=1e-4, atol=1e-5)


def test_a_real_spectrum() -> None:
    x = f(3, 8)
    z = np.fft.rfft(x)
    np.testing.assert_allclose(ms("Rfft", x), np.stack([z.real, z.imag], -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("axes", "keep"), [([1], 0), ([0, 2], 1)])
def test_a_quantised_mean(axes: list[int], keep: int) -> None:
    q = rng.integers(0, 255, (3, 4, 5)).astype(np.uint8)
    real = (q.astype(np.float64) - 128) * 0.05
    mean = real.mean(tuple(axes), keepdims=bool(keep))
    expected = np.clip(np.rint(mean / 0.03) + 110, 0, 255)
    s = [np.float32(0.05), np.uint8(128), np.float32(0.03), np.uint8(110)]
    found = ms("QLinearReduceMean", q, *map(np.asarray, s), axes=axes, keepdims=keep)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1


def on_a_grid(x: np.ndarray) -> np.ndarray:
    """What DynamicQuantizeLinear leaves of numbers."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = np.float32(high - low) / np.float32(255)
    if step == 0:
        return x
    point = np.clip(np.rint(-np.float32(low) / step), 0, 255)
    return (np.clip(np.rint(x / step) + point, 0, 255) - point) * step


def lstm_on_grids(x: np.ndarray, w: np.ndarray, r: np.ndarray, lengths: Any = None) -> np.ndarray:
    """Weights (features, gates); the input, and the result before each step, go to grids of their own."""
    ends = np.full(x.shape[1], len(x)) if lengths is None else lengths
    rows, h = on_a_grid(x[: ends.max()]) @ w, np.zeros((x.shape[1], r.shape[0]))
    c, out = np.zeros_like(h), np.zeros((*x.shape[:2], r.shape[0]))
    for t, row in enumerate(rows):
        i, o, f, g = np.split(row + on_a_grid(h.astype(np.float32)) @ r, 4, axis=1)
        i, o, f = (1 / (1 + np.exp(-v)) for v in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = out[t] = np.where(t < ends[:, None], o * np.tanh(c), 0)
    return out


def turned(x: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Each sequence back to front, as far as it goes."""
    out = x.copy()
    for b, n in enumerate(ends):
        out[:n, b] = x[:n, b][::-1]
    return out


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("ends", [[4], [4, 4], [2], [3, 1, 2], [1, 4, 4]])
@pytest.mark.parametrize("per_gate", [False, True])
def test_an_lstm_of_eight_bits_rounds_inputs_and_states(per_gate: bool, ends: list[int], target: str) -> None:
    length, features, hidden, batch = 4, 3, 5, len(ends)
    lengths = np.array(ends, np.int32)
    x = f(length, batch, features)
    w = rng.integers(-90, 90, (2, features, 4 * hidden)).astype(np.int8)
    r = rng.integers(-90, 90, (2, hidden, 4 * hidden)).astype(np.int8)
    scales = [
        (0.001 * rng.integers(5, 15, (2, 4 * hidden) if per_gate else (2,))).astype(np.float32) for _ in "wr"
    ]
    zeros = [rng.integers(-5, 6, s.shape).astype(np.int8) for s in scales]
    names = ["x", "w", "r", "-", "n", "-", "-", "-", "ws", "wz", "rs", "rz"]
    two = {"hidden_size": hidden, "direction": "bidirectional"}
    one = node("DynamicQuantizeLSTM", " ".join(names), "y", domain="com.microsoft", **two)
    held = {"w": w, "r": r, "ws": scales[0], "wz": zeros[0], "rs": scales[1], "rz": zeros[1]}
    held["n"] = lengths
    proto = model([one], {"x": (np.float32, list(x.shape))}, ["y"], held, opset=17)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    found = tb.inference.load(proto, target=target).run({"x": x})["y"]
    wide = [
        (q.astype(np.float64) - z.reshape(2, 1, -1)) * s.reshape(2, 1, -1)
        for q, s, z in zip((w, r), scales, zeros, strict=True)
    ]
    forward = lstm_on_grids(x, wide[0][0], wide[1][0], lengths)
    back = turned(lstm_on_grids(turned(x, lengths), wide[0][1], wide[1][1], lengths), lengths)
    expected = np.stack([forward, back], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(expected).max() > 0.01
