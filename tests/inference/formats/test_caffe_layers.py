"""Layers of Caffe without weights, one at a time, beside what they are defined as."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.caffe import convert

pytest.importorskip("onnx")
FILES = Path(__file__).parent / "files"
rng = np.random.default_rng(5)
X = rng.standard_normal((2, 6, 5, 4)).astype(np.float32)
Y = rng.standard_normal((2, 6, 3, 2)).astype(np.float32)
Z = rng.standard_normal((6, 5)).astype(np.float32)
Array = np.ndarray


def windowed(x: Array, size: int) -> Array:
    """The mean of a window around each place, with zeros around the picture counted."""
    wide = np.pad(x, ((0, 0), (0, 0), (size // 2,) * 2, (size // 2,) * 2))
    return np.lib.stride_tricks.sliding_window_view(wide, (size, size), (2, 3)).mean((-1, -2))


def across(x: Array, size: int) -> Array:
    """The sum of the channels around each one."""
    wide = np.pad(x, ((0, 0), (size // 2,) * 2, (0, 0), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(wide, size, 1).sum(-1)


def normal(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred / (np.sqrt((centred**2).mean(axes, keepdims=True)) + eps)


LAYERS: dict[str, tuple[str, str, Callable[[], Array | list[Array]]]] = {
    "exp": ("Exp", "exp_param { scale: 0.5 shift: 0.25 }", lambda: np.exp(0.5 * X + 0.25)),
    "exp of two": ("Exp", "exp_param { base: 2 scale: 0.5 shift: 0.25 }", lambda: 2 ** (0.5 * X + 0.25)),
    "log": ("Log", "log_param { shift: 9 scale: 2 }", lambda: np.log(9 + 2 * X)),
    "log of ten": ("Log", "log_param { base: 10 shift: 9 }", lambda: np.log10(9 + X)),
    "power": (
        "Power",
        "power_param { power: 2 scale: 3 shift: -1 }",
        lambda: (3 * X - 1) ** 2,
    ),
    "power of nothing": ("Power", "", lambda: X),
    "lrn": (
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.3 beta: 0.6 k: 2 }",
        lambda: X / (2 + 0.3 / 3 * across(X**2, 3)) ** 0.6,
    ),
    "lrn as it is": ("LRN", "", lambda: X / (1 + 1 / 5 * across(X**2, 5)) ** 0.75),
    "lrn within": (
        "LRN",
        "lrn_param { local_size: 3 alpha: 0.3 beta: 0.6 norm_region: WITHIN_CHANNEL }",
        lambda: X / (1 + 0.3 * windowed(X**2, 3)) ** 0.6,
    ),
    "mvn": ("MVN", "", lambda: normal(X, (2, 3), 1e-9)),
    "mvn of all": ("MVN", "mvn_param { across_channels: true eps: 0.5 }", lambda: normal(X, (1, 2, 3), 0.5)),
    "mean alone": (
        "MVN",
        "mvn_param { normalize_variance: false }",
        lambda: X - X.mean((2, 3), keepdims=True),
    ),
    "elu": ("ELU", "elu_param { alpha: 0.5 }", lambda: np.where(X > 0, X, 0.5 * np.expm1(X))),
    "leaky": ("ReLU", "relu_param { negative_slope: 0.25 }", lambda: np.where(X > 0, X, 0.25 * X)),
    "six": ("ReLU6", "", lambda: np.clip(X, 0, 6)),
    "threshold": ("Threshold", "threshold_param { threshold: 0.5 }", lambda: (X > 0.5).astype(np.float32)),
    "slice": ("Slice", "slice_param { axis: 1 }", lambda: [X[:, :3], X[:, 3:]]),
    "slice at": ("Slice", "slice_param { axis: 2 slice_point: 1 }", lambda: [X[:, :, :1], X[:, :, 1:]]),
    "slice by default": ("Slice", "slice_param { slice_point: 4 }", lambda: [X[:, :4], X[:, 4:]]),
    "flatten": ("Flatten", "", lambda: X.reshape(2, -1)),
    "flatten between": ("Flatten", "flatten_param { axis: 1 end_axis: 2 }", lambda: X.reshape(2, 30, 4)),
    "flatten the last": ("Flatten", "flatten_param { axis: -2 }", lambda: X.reshape(2, 6, 20)),
    "reshape": (
        "Reshape",
        "reshape_param { shape { dim: 0 dim: -1 dim: 10 } }",
        lambda: X.reshape(2, -1, 10),
    ),
    "permute": ("Permute", "permute_param { order: 0 order: 2 order: 3 }", lambda: X.transpose(0, 2, 3, 1)),
    "argmax": ("ArgMax", "argmax_param { axis: 1 }", lambda: X.argmax(1, keepdims=True).astype(np.float32)),
    "tile": ("Tile", "tile_param { axis: 2 tiles: 3 }", lambda: np.tile(X, (1, 1, 3, 1))),
    "tile by default": ("Tile", "tile_param { tiles: 2 }", lambda: np.tile(X, (1, 2, 1, 1))),
    "softmax": ("Softmax", "", lambda: np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    "softmax of rows": (
        "Softmax",
        "softmax_param { axis: 3 }",
        lambda: np.exp(X) / np.exp(X).sum(3, keepdims=True),
    ),
    "largest": (
        "Pooling",
        "pooling_param { kernel_size: 2 stride: 2 }",
        lambda: np.stack(
            [np.stack([X[:, :, i : i + 2, j : j + 2].max((2, 3)) for j in (0, 2)], -1) for i in (0, 2, 4)], 2
        ),
    ),
    "largest inside": (
        "Pooling",
        "pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }",
        lambda: np.stack(
            [np.stack([X[:, :, i : i + 2, j : j + 2].max((2, 3)) for j in (0, 2)], -1) for i in (0, 2)], 2
        ),
    ),
    "global largest": (
        "Pooling",
        "pooling_param { global_pooling: true }",
        lambda: X.max((2, 3), keepdims=True),
    ),
    "global mean": (
        "Pooling",
        "pooling_param { pool: AVE global_pooling: true }",
        lambda: X.mean((2, 3), keepdims=True),
    ),
    **{
        f"{kind} from {axis}": (
            "Reduction",
            f"reduction_param {{ operation: {kind} axis: {axis} coeff: 1.5 }}",
            lambda made=made, axis=axis: 1.5 * made(X, tuple(range(axis % 4, 4))),
        )
        for kind, made in {
            "SUM": np.sum,
            "MEAN": np.mean,
            "ASUM": lambda x, axes: np.abs(x).sum(axes),
            "SUMSQ": lambda x, axes: (x**2).sum(axes),
        }.items()
        for axis in (1, -1)
    },
}

BOTH: dict[str, tuple[str, str, list[Array], Callable[[], Array]]] = {
    "sum": ("Eltwise", "", [X, X[::-1]], lambda: X + X[::-1]),
    "weighted sum": (
        "Eltwise",
        "eltwise_param { coeff: 0.5 coeff: -1 }",
        [X, X[::-1]],
        lambda: 0.5 * X - X[::-1],
    ),
    "product": ("Eltwise", "eltwise_param { operation: PROD }", [X, X[::-1]], lambda: X * X[::-1]),
    "maximum": ("Eltwise", "eltwise_param { operation: MAX }", [X, X[::-1]], lambda: np.maximum(X, X[::-1])),
    "concat": ("Concat", "", [X, X[:, :2]], lambda: np.concatenate([X, X[:, :2]], 1)),
    "concat of rows": (
        "Concat",
        "concat_param { axis: 2 }",
        [X, X[:, :, :2]],
        lambda: np.concatenate([X, X[:, :, :2]], 2),
    ),
    "scale": ("Scale", "", [X, Z], lambda: X * Z[:, :, None]),
    "scale from the front": ("Scale", "scale_param { axis: 0 }", [X, X], lambda: X * X),
    "bias": ("Bias", "", [X, Z], lambda: X + Z[:, :, None]),
    "crop": ("Crop", "", [X, Y], lambda: X[:, :, :3, :2]),
    "crop from": ("Crop", "crop_param { axis: 2 offset: 1 offset: 2 }", [X, Y], lambda: X[:, :, 1:4, 2:]),
    "crop from one": ("Crop", "crop_param { axis: -2 offset: 2 }", [X, Y], lambda: X[:, :, 2:, 2:]),
}


def given(arrays: list[Array]) -> str:
    dims = [" ".join(f"dim: {d}" for d in a.shape) for a in arrays]
    return "".join(f'input: "x{i}" input_shape {{ {d} }}\n' for i, d in enumerate(dims))


def run(text: str, arrays: list[Array], tmp_path: Path) -> dict[str, Array]:
    path = tmp_path / "m.prototxt"
    path.write_text(text)
    session = load(convert(path, FILES / "caffe_v1.caffemodel"), target="reference")
    return session.run({f"x{i}": a for i, a in enumerate(arrays)})


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name: str, tmp_path: Path) -> None:
    kind, settings, made = LAYERS[name]
    expected = made()
    wanted = expected if isinstance(expected, list) else [expected]
    tops = " ".join(f'top: "y{i}"' for i in range(len(wanted)))
    text = given([X]) + f'layer {{ name: "a" type: "{kind}" bottom: "x0" {tops} {settings} }}'
    found = run(text, [X], tmp_path)
    for i, want in enumerate(wanted):
        assert found[f"y{i}"].shape == want.shape
        np.testing.assert_allclose(found[f"y{i}"], want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", BOTH)
def test_a_layer_of_two(name: str, tmp_path: Path) -> None:
    kind, settings, arrays, made = BOTH[name]
    text = (
        given(arrays) + f'layer {{ name: "a" type: "{kind}" bottom: "x0" bottom: "x1" top: "y" {settings} }}'
    )
    found, want = run(text, arrays, tmp_path)["y"], made()
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("BatchNorm", "batch_norm_param { use_global_stats: false }", "by the statistics of the batch"),
        ("Eltwise", "eltwise_param { operation: MIN }", "Eltwise by MIN"),
        ("Reduction", "reduction_param { operation: PROD }", "Reduction by PROD"),
        ("Reshape", "reshape_param { axis: 1 shape { dim: 0 } }", "Reshape of some axes alone"),
        ("Reshape", "reshape_param { num_axes: 1 shape { dim: 0 } }", "Reshape of some axes alone"),
        ("ArgMax", "", "ArgMax of several, with values or over everything"),
        ("ArgMax", "argmax_param { axis: 1 top_k: 2 }", "ArgMax of several"),
        ("ArgMax", "argmax_param { axis: 1 out_max_val: true }", "ArgMax of several"),
        ("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }", "Pooling by STOCHASTIC"),
        ("", "", "a layer without a type"),
    ],
)
def test_settings_that_are_not_known_are_named(
    kind: str, settings: str, message: str, tmp_path: Path
) -> None:
    text = given([X]) + f'layer {{ name: "a" type: "{kind}" bottom: "x0" top: "y" {settings} }}'
    with pytest.raises(FileError, match=message):
        run(text, [X], tmp_path)


@pytest.mark.parametrize(
    ("phase", "runs"),
    [
        ("", True),
        ("include { phase: TEST }", True),
        ("include { phase: TRAIN }", False),
        ("exclude { phase: TRAIN }", True),
        ("exclude { phase: TEST }", False),
        ("include { phase: TRAIN } include { phase: TEST }", True),
    ],
)
def test_layers_of_the_test_phase_alone(phase: str, runs: bool, tmp_path: Path) -> None:
    doubled = f'layer {{ name: "a" type: "Power" bottom: "x0" top: "x0" power_param {{ scale: 2 }} {phase} }}'
    last = 'layer { name: "b" type: "Power" bottom: "x0" top: "y" power_param { shift: 1 } }'
    found = run(given([X]) + doubled + last, [X], tmp_path)["y"]
    np.testing.assert_allclose(found, (2 * X if runs else X) + 1, rtol=1e-6)


@pytest.mark.parametrize("form", ["dims", "layer", "one shape for two"])
def test_inputs_in_each_form(form: str, tmp_path: Path) -> None:
    dims = " ".join(f"dim: {d}" for d in X.shape)
    text = {
        "dims": 'input: "x0" input: "x1" ' + "".join(f"input_dim: {d} " for _ in range(2) for d in X.shape),
        "layer": "".join(
            f'layer {{ name: "i{k}" type: "Input" top: "x{k}" input_param {{ shape {{ {dims} }} }} }}'
            for k in range(2)
        ),
        "one shape for two": 'layer { name: "i" type: "Input" top: "x0" top: "x1" '
        f"input_param {{ shape {{ {dims} }} }} }}",
    }[form]
    added = 'layer { name: "a" type: "Eltwise" bottom: "x0" bottom: "x1" top: "y" '
    added += "eltwise_param { coeff: 1 coeff: 2 } }"
    found = run(text + added, [X, X[::-1].copy()], tmp_path)["y"]
    np.testing.assert_allclose(found, X + 2 * X[::-1], rtol=1e-5, atol=1e-6)


def test_a_split_gives_the_same_twice(tmp_path: Path) -> None:
    text = given([X]) + 'layer { name: "a" type: "AbsVal" bottom: "x0" top: "a" }'
    text += 'layer { name: "b" type: "Split" bottom: "a" top: "y" top: "z" }'
    found = run(text, [X], tmp_path)
    assert np.array_equal(found["y"], np.abs(X)) and np.array_equal(found["z"], np.abs(X))
