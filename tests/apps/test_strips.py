"""Pictures in strips are those of one run over the whole: no seams, statistics of the whole picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from trilobite.apps import assets
from trilobite.apps.style import pictures, real_time, strips, training
from trilobite.apps.style.layers import multistyle_layers, transform_layers
from trilobite.apps.style.strips import LEAST, Layer
from trilobite.base.errors import ArgumentError, FileError
from trilobite.framework.nn import functional as F

RNG = np.random.default_rng(5)


def picture(height: int, width: int) -> np.ndarray:
    """Smooth, and darker to one side: strips that took statistics of their own would show."""
    base = pictures.resized(RNG.random((5, 4, 3)).astype(np.float32), height, width)
    return base * np.linspace(0.2, 1, height, dtype=np.float32)[:, None, None]


@pytest.fixture(scope="module")
def network() -> tb.nn.Module:
    tb.manual_seed(2)
    return tb.zoo.create("style_transform", width=6, blocks=2).eval()


def whole(network: tb.nn.Module, pixels: np.ndarray) -> np.ndarray:
    with tb.no_grad():
        out = network(tb.tensor(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])))
    return out.numpy()[0].transpose(1, 2, 0)


@pytest.mark.parametrize(("height", "width"), [(40, 36), (300, 260), (700, 48)])
def test_a_transform_network_in_strips(network: tb.nn.Module, height: int, width: int) -> None:
    pixels = picture(height, width)
    found = strips.paint(pixels, transform_layers(network), 4 * LEAST)
    assert np.abs(found - whole(network, pixels)).max() * 255 < 0.05


def test_strips_are_many_and_their_files_hold_what_memory_does_not(
    network: tb.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "LEAST", 1 << 14)
    counted: list[int] = []
    plain = strips._strips

    def counting(*args: object, **more: object) -> list[tuple[int, int]]:
        found = list(plain(*args, **more))  # type: ignore[arg-type]
        counted.append(len(found))
        return found

    monkeypatch.setattr(strips, "_strips", counting)
    pixels = picture(152, 100)
    found = strips.paint(pixels, transform_layers(network), 1 << 18)
    assert max(counted) > 8
    assert np.abs(found - whole(network, pixels)).max() * 255 < 0.05


@pytest.mark.parametrize("frame", ["reflect", "zeros"])
@pytest.mark.parametrize("enlarge", ["", "repeat", "zeros"])
@pytest.mark.parametrize("stride", [1, 2])
def test_one_layer_of_every_kind(
    frame: str, enlarge: str, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "LEAST", 1 << 10)
    weight = RNG.standard_normal((4, 3, 5, 5)).astype(np.float32) / 8
    layer = Layer(weight, RNG.standard_normal(4).astype(np.float32), stride, enlarge, frame)
    pixels = picture(37, 22)
    x = tb.tensor(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))
    if enlarge == "repeat":
        x = F.interpolate(x, scale_factor=2, mode="nearest")
    if enlarge == "zeros":
        spread = np.zeros((1, 3, 74, 44), np.float32)
        spread[:, :, ::2, ::2] = x.numpy()
        x = tb.tensor(spread)
    x = F.pad(x, (2, 2, 2, 2), mode="reflect" if frame == "reflect" else "constant")
    wanted = F.conv2d(x, tb.tensor(weight), tb.tensor(layer.bias), stride=stride).numpy()[0]
    found = strips.paint(pixels, [layer], 1 << 14).transpose(2, 0, 1)
    np.testing.assert_allclose(found, wanted, atol=2e-5)


def test_the_network_of_26_styles_in_strips() -> None:
    if not assets.place_of("multistyle26").is_file():
        pytest.skip("the network of 26 styles was not fetched; `make demo` does")
    pixels, shares = picture(90, 71), "3:0.6,18:0.4"
    wanted = real_time.Multistyle()(pixels, shares)
    found = real_time.Multistyle(memory=LEAST)(pixels, shares)
    assert found.shape == pixels.shape
    assert np.abs(found - wanted).max() * 255 < 0.05
    layers = multistyle_layers(assets.fetch("multistyle26"), real_time.style_weights(3))
    assert len(layers) == 18 and layers[1].stride == 2 and layers[4].adds == 2


def test_a_trained_network_comes_back_from_its_file(network: tb.nn.Module, tmp_path: Path) -> None:
    training.save_network(tmp_path / "net.safetensors", network)
    pixels = picture(41, 30)  # no multiples of four
    found = real_time.Transform(tmp_path / "net.safetensors")(pixels)
    in_strips = real_time.Transform(tmp_path / "net.safetensors", memory=LEAST)(pixels)
    filled = np.pad(pixels, ((0, 3), (0, 2), (0, 0)), mode="edge")
    np.testing.assert_allclose(found, whole(network, filled)[:41, :30], atol=2e-4)
    np.testing.assert_allclose(in_strips, found, atol=2e-4)


def test_files_without_a_network_and_too_little_memory_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(FileError, match=r"(?s)no transform network.*style-train"):
        real_time.Transform(tmp_path / "other.npz")
    with pytest.raises(ArgumentError, match="1000 bytes for strips"):
        strips.paint(picture(8, 8), [], 1000)
