"""Keras's layers one by one, with settings that the saved networks do not have, beside NumPy's loops.

And what is refused: each with the words that name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.keras.archive import Saved
from trilobite.inference.formats.keras.convert import from_saved

pytest.importorskip("onnx")
Array = np.ndarray[Any, np.dtype[Any]]


class Weight:
    def __init__(self, array: Array) -> None:
        self._array = array

    def array(self) -> Array:
        return self._array


def network(
    kind: str, config: dict[str, Any], shape: Sequence[int | None], weights: Sequence[Array] = ()
) -> Any:
    """One layer behind an input, as a file before Keras 3 holds it."""
    rows = [
        {"class_name": "InputLayer", "config": {"batch_shape": [None, *shape], "name": "x"}},
        {"class_name": kind, "config": {"name": "l", **config}},
    ]
    kept = {"l": {f"w{n}": Weight(w) for n, w in enumerate(weights)}}
    saved = {"class_name": "Sequential", "config": {"name": "s", "layers": rows}}
    return from_saved(Saved(saved, None, "a network", kept), "Keras")


def applied(kind: str, config: dict[str, Any], x: Array, *weights: Array) -> Array:
    made = network(kind, config, x.shape[1:], weights)
    (found,) = load(made, target="reference").run({"x": x}).values()
    return np.asarray(found)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def ends(size: int, window: int, stride: int, dilation: int, padding: str) -> tuple[int, int]:
    """Elements before and behind, as Keras pads: SAME has the odd one behind."""
    if padding == "valid":
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def convolved(
    x: Array, kernel: Array, strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[tuple[int, int]], groups: int = 1,
) -> Array:  # fmt: skip
    """Channels last; kernel (*window, channels of a group, filters)."""
    x = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    window, each = kernel.shape[:-2], kernel.shape[-1] // groups
    space = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[1:-1], window, strides, dilations, strict=True)
    ]
    out = np.zeros((len(x), *space, kernel.shape[-1]))
    for at in product(*map(range, window)):
        here = tuple(
            slice(a * d, a * d + (n - 1) * s + 1, s)
            for a, d, s, n in zip(at, dilations, strides, space, strict=True)
        )
        part = x[(slice(None), *here)]
        for g in range(groups):
            width = kernel.shape[-2]
            rows = part[..., g * width : (g + 1) * width] @ kernel[at][:, g * each : (g + 1) * each]
            out[..., g * each : (g + 1) * each] += rows
    return out


CONVOLUTIONS = [
    {"strides": [2, 1], "padding": "same"}, {"strides": 2, "padding": "valid", "use_bias": False},
    {"dilation_rate": [1, 2], "padding": "same", "activation": "relu"}, {"groups": 2, "padding": "valid"},
    {"dilation_rate": 2, "groups": 2, "padding": "same", "use_bias": False, "activation": "tanh"},
]  # fmt: skip


def two(config: dict[str, Any], name: str) -> list[int]:
    found = config.get(name, 1)
    return [found] * 2 if isinstance(found, int) else found


def close(got: Array, want: Array) -> None:
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def activated(config: dict[str, Any], y: Array) -> Array:
    return {"relu": lambda y: np.maximum(y, 0), "tanh": np.tanh, "": lambda y: y}[
        config.get("activation", "")
    ](y)


@pytest.mark.parametrize("config", CONVOLUTIONS, ids=str)
def test_convolutions(config: dict[str, Any]) -> None:
    x, groups = random(2, 7, 8, 4), config.get("groups", 1)
    kernel, bias = random(3, 2, 4 // groups, 6, seed=1), random(6)
    has_bias = config.get("use_bias", True)
    strides, dilations = two(config, "strides"), two(config, "dilation_rate")
    pads = [
        ends(n, k, s, d, config["padding"])
        for n, k, s, d in zip((7, 8), (3, 2), strides, dilations, strict=True)
    ]
    want = convolved(x, kernel, strides, dilations, pads, groups) + (bias if has_bias else 0.0)
    weights = [kernel, bias] if has_bias else [kernel]
    close(applied("Conv2D", config, x, *weights), activated(config, want))


@pytest.mark.parametrize(("dilation", "stride"), [(1, 1), (2, 1), (1, 2), (3, 1)])
def test_causal_convolutions_see_nothing_that_comes_later(dilation: int, stride: int) -> None:
    x, kernel, bias = random(2, 9, 3), random(3, 3, 5, seed=1), random(5)
    config = {"padding": "causal", "dilation_rate": dilation, "strides": [stride]}
    want = convolved(x, kernel, [stride], [dilation], [(2 * dilation, 0)]) + bias
    close(applied("Conv1D", config, x, kernel, bias), want)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_depthwise_and_separable(padding: str, has_bias: bool) -> None:
    x, kernel, point = random(2, 6, 5, 3), random(3, 2, 3, 2, seed=1), random(1, 1, 6, 4, seed=2)
    config = {"padding": padding, "use_bias": has_bias, "strides": [1, 1], "dilation_rate": [2, 1]}
    pads = [ends(6, 3, 1, 2, padding), ends(5, 2, 1, 1, padding)]
    inner = convolved(x, kernel.reshape(3, 2, 1, 6), [1, 1], [2, 1], pads, groups=3)
    first, second = random(6), random(4)
    plain = applied("DepthwiseConv2D", config, x, kernel, *[first][:has_bias])
    close(plain, inner + (first if has_bias else 0.0))
    both = applied("SeparableConv2D", config, x, kernel, point, *[second][:has_bias])
    close(both, inner @ point[0, 0] + (second if has_bias else 0.0))


@pytest.mark.parametrize(("size", "stride", "padding", "has_bias"), [
    (3, 2, "same", True), (3, 2, "valid", True), (4, 2, "same", True), (2, 2, "valid", False),
    (2, 3, "same", False), (2, 3, "valid", False), (3, 1, "same", True),
])  # fmt: skip
def test_transposed_convolutions(size: int, stride: int, padding: str, has_bias: bool) -> None:
    """Each element adds its window; SAME cuts what is beyond input times stride, VALID keeps all of it."""
    x, kernel, bias = random(2, 4, 3, 2), random(size, size, 5, 2, seed=1), random(5)
    long = [(n - 1) * stride + max(size, stride) for n in (4, 3)]
    want = np.zeros((2, *long, 5))
    for i, j in product(range(4), range(3)):
        here = slice(i * stride, i * stride + size), slice(j * stride, j * stride + size)
        want[:, here[0], here[1]] += np.einsum("bc,hwfc->bhwf", x[:, i, j], kernel)
    if padding == "same":
        cut = max(size - stride, 0) // 2
        want = want[:, cut : cut + 4 * stride, cut : cut + 3 * stride]
    config = {"padding": padding, "strides": stride, "use_bias": has_bias}
    got = applied("Conv2DTranspose", config, x, kernel, *[bias][:has_bias])
    close(got, want + (bias if has_bias else 0.0))


POOLS = [
    ({"pool_size": 2}, 2, 2, "valid"), ({"pool_size": [3, 3], "strides": 1, "padding": "same"}, 3, 1, "same"),
    ({"pool_size": 3, "strides": None, "padding": "same"}, 3, 3, "same"), ({}, 2, 2, "valid"),
    ({"pool_size": 2, "strides": 3}, 2, 3, "valid"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "size", "stride", "padding"), POOLS, ids=str)
@pytest.mark.parametrize("kind", ["MaxPooling2D", "AveragePooling2D"])
def test_pooling(kind: str, config: dict[str, Any], size: int, stride: int, padding: str) -> None:
    x = random(2, 7, 6, 3)
    pads = [ends(n, size, stride, 1, padding) for n in (7, 6)]
    wide = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)], constant_values=np.nan)
    count = [(n - size) // stride + 1 for n in wide.shape[1:3]]
    take = np.nanmax if kind.startswith("Max") else np.nanmean
    want = np.stack([
        np.stack(
            [take(wide[:, i : i + size, j : j + size], axis=(1, 2)) for j in _steps(count[1], stride)], 1
        )
        for i in _steps(count[0], stride)
    ], 1)  # fmt: skip
    close(applied(kind, config, x), want)


def _steps(count: int, stride: int) -> range:
    return range(0, count * stride, stride)


@pytest.mark.parametrize("keeps", [True, False])
def test_global_pooling(keeps: bool) -> None:
    x, y = random(2, 4, 5, 3), random(2, 5, 3)
    config = {"keepdims": keeps}
    close(applied("GlobalMaxPooling2D", config, x), x.max((1, 2), keepdims=keeps))
    close(applied("GlobalAveragePooling2D", config, x), x.mean((1, 2), keepdims=keeps))
    close(applied("GlobalAveragePooling1D", config, y), y.mean(1, keepdims=keeps))


def test_edges_are_added_and_cut() -> None:
    x, y = random(2, 5, 6, 3), random(2, 7, 3)
    for amounts, pads in (
        (1, [(1, 1), (1, 1)]),
        ([1, 2], [(1, 1), (2, 2)]),
        ([[0, 1], [2, 0]], [(0, 1), (2, 0)]),
    ):
        close(applied("ZeroPadding2D", {"padding": amounts}, x), np.pad(x, [(0, 0), *pads, (0, 0)]))
        (a, b), (c, d) = pads
        close(applied("Cropping2D", {"cropping": amounts}, x), x[:, a : 5 - b, c : 6 - d])
    for amount, (a, b) in ((2, (2, 2)), ([2], (2, 2)), ([1, 3], (1, 3))):
        if amount != [2]:
            close(applied("ZeroPadding1D", {"padding": amount}, y), np.pad(y, [(0, 0), (a, b), (0, 0)]))
            close(applied("Cropping1D", {"cropping": amount}, y), y[:, a : 7 - b])


def test_enlarging() -> None:
    x, y = random(1, 3, 4, 2), random(2, 3, 2)
    close(applied("UpSampling2D", {"size": [2, 3]}, x), x.repeat(2, 1).repeat(3, 2))
    close(applied("UpSampling2D", {}, x), x.repeat(2, 1).repeat(2, 2))
    close(applied("UpSampling1D", {"size": 3}, y), y.repeat(3, 1))
    close(applied("UpSampling1D", {}, y), y.repeat(2, 1))
    got = applied("UpSampling2D", {"size": 2, "interpolation": "bilinear"}, x)
    places = np.clip((np.arange(6) + 0.5) / 2 - 0.5, 0, 2)
    low = np.minimum(places.astype(int), 1)
    rows = x[:, low] + (x[:, low + 1] - x[:, low]) * (places - low)[None, :, None, None]
    across = np.clip((np.arange(8) + 0.5) / 2 - 0.5, 0, 3)
    low = np.minimum(across.astype(int), 2)
    want = rows[:, :, low] + (rows[:, :, low + 1] - rows[:, :, low]) * (across - low)[None, None, :, None]
    close(got, want)


@pytest.mark.parametrize(("scale", "center"), [(True, True), (True, False), (False, True), (False, False)])
def test_normalisations(scale: bool, center: bool) -> None:
    x, gamma, beta = random(2, 3, 4, 5) + 1, random(5, seed=1), random(5, seed=2)
    mean, spread = random(5, seed=3), random(5, seed=4) ** 2
    learned = [*[gamma][:scale], *[beta][:center]]
    config = {"scale": scale, "center": center}
    for more, epsilon in (({}, 1e-3), ({"epsilon": 0.5, "axis": [3]}, 0.5), ({"axis": 3}, 1e-3)):
        want = (x - mean) / np.sqrt(spread + epsilon)
        want = want * (gamma if scale else 1.0) + (beta if center else 0.0)
        close(applied("BatchNormalization", {**config, **more}, x, *learned, mean, spread), want)
        if learned:
            want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
            want = want * (gamma if scale else 1.0) + (beta if center else 0.0)
            close(applied("LayerNormalization", {**config, **more}, x, *learned), want)


def test_activations_and_their_settings() -> None:
    x = random(3, 8) * 4
    rows: list[tuple[str, dict[str, Any], Array]] = [
        ("ReLU", {}, np.maximum(x, 0)), ("ReLU", {"max_value": 2.5}, np.clip(x, 0, 2.5)),
        ("ReLU", {"negative_slope": 0.25}, np.where(x < 0, x * 0.25, x)),
        ("ReLU", {"negative_slope": 0.25, "max_value": 2.0}, np.minimum(np.where(x < 0, x * 0.25, x), 2.0)),
        ("LeakyReLU", {}, np.where(x < 0, x * 0.3, x)),
        ("LeakyReLU", {"alpha": 0.1}, np.where(x < 0, x * 0.1, x)),
        ("LeakyReLU", {"negative_slope": 0.2, "alpha": 0.1}, np.where(x < 0, x * 0.2, x)),
        ("ELU", {}, np.where(x < 0, np.expm1(x), x)),
        ("ELU", {"alpha": 0.5}, np.where(x < 0, 0.5 * np.expm1(x), x)),
        ("Softmax", {}, np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        ("Softmax", {"axis": [-1]}, np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        ("Rescaling", {"scale": 0.5, "offset": -3.0}, x * 0.5 - 3), ("Rescaling", {"scale": 2.0}, x * 2),
        ("Rescaling", {"offset": 0.25}, x + 0.25), ("Activation", {"activation": "tanh"}, np.tanh(x)),
        ("Activation", {"activation": {"class_name": "function", "config": "sigmoid"}}, 1 / (1 + np.exp(-x))),
        ("Activation", {"activation": {"class_name": "relu"}}, np.maximum(x, 0)),
        ("Activation", {"activation": {"config": {"name": "tanh"}, "class_name": "relu"}}, np.tanh(x)),
        ("RepeatVector", {"n": 3}, np.repeat(x[:, None], 3, 1)), ("RepeatVector", {}, x[:, None]),
        ("Reshape", {"target_shape": [2, 4]}, x.reshape(3, 2, 4)), ("Dropout", {"rate": 0.5}, x),
    ]  # fmt: skip
    for kind, config, want in rows:
        close(applied(kind, config, x), want)
    y, slopes = random(2, 3, 4), random(3, 4, seed=1)
    close(applied("PReLU", {}, y, slopes), np.where(y < 0, y * slopes, y))
    close(applied("Permute", {"dims": [2, 1]}, y), y.transpose(0, 2, 1))
    close(applied("Flatten", {}, y), y.reshape(2, 12))
    kernel, bias = random(4, 5), random(5, seed=7)
    inner = {"class_name": "Dense", "config": {"activation": "relu", "name": "d"}}
    close(applied("TimeDistributed", {"layer": inner}, y, kernel, bias), np.maximum(y @ kernel + bias, 0))
    close(applied("Dense", {"use_bias": False}, y, kernel), y @ kernel)


REFUSED = [
    ("Conv2D", {"data_format": "channels_first"}, "Conv2D with channels first"),
    ("Conv2D", {"padding": "reflect"}, "Conv2D with padding reflect"),
    ("Conv2D", {"padding": "valid", "strides": [1, 1, 1]}, r"Conv2D with strides \[1, 1, 1\]"),
    ("Conv2D", {"padding": "valid", "strides": 0}, "Conv2D with strides 0"),
    ("Conv2D", {"padding": "valid", "strides": [1 << 20, 1]}, r"Conv2D with strides \[1048576, 1\]"),
    ("Conv2D", {"padding": "valid", "dilation_rate": [1.5, 1]}, r"Conv2D with dilation_rate \[1.5, 1\]"),
    ("Conv2DTranspose", {"output_padding": [1, 1]}, "Conv2DTranspose with output padding"),
    ("Conv2DTranspose", {"strides": 5}, "Conv2DTranspose whose strides are wider than its window"),
    ("MaxPooling2D", {"padding": "causal"}, "MaxPooling2D with padding causal"),
    ("UpSampling2D", {"interpolation": "bicubic"}, "UpSampling2D by bicubic"),
    ("BatchNormalization", {"axis": 1}, "BatchNormalization along axis 1"),
    ("BatchNormalization", {"axis": [1, 2]}, r"BatchNormalization along axis \[1, 2\]"),
    ("BatchNormalization", {"scale": True, "center": True}, "BatchNormalization without statistics"),
    ("LayerNormalization", {"axis": 2}, "LayerNormalization along axis 2"),
    ("ReLU", {"threshold": 0.5}, "ReLU with a threshold"),
    ("Softmax", {"axis": 1}, "Softmax along another axis than the last"),
    ("TimeDistributed", {"layer": {"class_name": "Conv2D"}}, "TimeDistributed of Conv2D"),
    ("Bidirectional", {"layer": {"class_name": "Dense"}}, "Bidirectional of Dense joined by None"),
    ("LSTM", {"activation": "relu"}, "LSTM with other activations, states that are kept or given"),
    ("GRU", {"stateful": True}, "GRU with other activations, states"),
    ("LSTM", {"recurrent_activation": "hard_sigmoid"}, "LSTM with other activations"),
    ("SimpleRNN", {"return_state": True}, "SimpleRNN with other activations"),
    ("SimpleRNN", {"time_major": True}, "SimpleRNN with other activations"),
    ("Magic", {}, "Magic"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "config", "message"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_is_not_converted_is_named(kind: str, config: dict[str, Any], message: str) -> None:
    weights = [random(3, 3, 4, 4), random(4), random(4)]
    with pytest.raises(FileError, match=message):
        network(kind, config, (6, 6, 4), weights)


def test_weights_that_are_missing_are_named() -> None:
    for kind, count in (("Dense", 0), ("Dense", 1), ("Conv2D", 1), ("SeparableConv2D", 2), ("PReLU", 0)):
        with pytest.raises(FileError, match=f"{kind} 'l' without its weight {count}"):
            network(kind, {}, (6, 6, 4), [random(3, 3, 4, 4)] * count)
    with pytest.raises(FileError, match="LayerNormalization without weights"):
        network("LayerNormalization", {}, (4,))
