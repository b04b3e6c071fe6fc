"""Pretrained networks that stylise in one pass: 26 painted styles in one network, and a pair for any style.

Enters: pixels (H, W, 3) between 0 and 1, and a style. Leaves: stylised pixels of the same size. The networks
are ONNX files that `apps.assets` fetches; they run on any target of the inference engine.

- `Multistyle`: Dumoulin, Shlens and Kudlur, "A learned representation for artistic style", 2017. Any size.
- `AnyStyle`: Ghiasi and others, "Exploring the structure of a real-time, arbitrary neural artistic
  stylization network", 2017; two networks with 8-bit weights, for pictures of fixed sizes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps import assets
from trilobite.apps.style.layers import multistyle_layers, transform_layers
from trilobite.apps.style.pictures import Pixels, resized
from trilobite.apps.style.strips import Layer, paint
from trilobite.base.errors import ArgumentError

STYLES = 26
STEP = 4  # networks halve their picture twice, so sides are filled up to a multiple
VALUES = 5  # of the widest layer's size: what a run over the whole picture holds at once


def _load(name: str, target: Any) -> Any:
    package: Any = tb
    return package.inference.load(assets.fetch(name), target=target)


def style_weights(style: int | str | Mapping[int, float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A number from 0 to 25, or a mixture: "3:0.7,11:0.3" or {3: 0.7, 11: 0.3}. Shares come to 1 in sum."""
    parts = _parts(style)
    weights = np.zeros(STYLES, np.float32)
    for number, share in parts.items():
        if not 0 <= number < STYLES:
            raise ArgumentError(f"style {number}", expected=f"a number from 0 to {STYLES - 1}")
        if not (np.isfinite(share) and share >= 0):
            raise ArgumentError(f"a share of {share} for style {number}", expected="a number of at least 0")
        weights[number] += share
    if weights.sum() <= 0:
        raise ArgumentError(f"a mixture {style!r} of nothing", expected="at least one share above 0")
    return np.asarray(weights / weights.sum(), np.float32)


def _parts(style: int | str | Mapping[int, float]) -> Mapping[int, float]:
    if isinstance(style, Mapping):
        return style
    if isinstance(style, int):
        return {style: 1.0}
    try:
        pairs = [part.partition(":") for part in style.split(",")]
        return {int(number): float(share or 1) for number, _, share in pairs}
    except ValueError:
        raise ArgumentError(
            f"a style {style!r}",
            expected='a number such as 7, a mixture such as "3:0.7,11:0.3", or the path of a picture',
        ) from None


def free_memory() -> int:
    """Half of the bytes that are free on this machine, or 1 GiB where it does not tell."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 1 << 30


def _fits(pixels: Pixels, channels: int, memory: int) -> bool:
    return bool(pixels.shape[0] * pixels.shape[1] * channels * 4 * VALUES <= memory)


def _filled(pixels: Pixels) -> Pixels:
    below, right = (-n % STEP for n in pixels.shape[:2])
    return np.pad(pixels, ((0, below), (0, right), (0, 0)), mode="edge")


def _cut(out: Pixels, like: Pixels) -> Pixels:
    return np.ascontiguousarray(out[: like.shape[0], : like.shape[1]], np.float32)


class Multistyle:
    """The network of 26 styles, on a target of `tb.inference.load`. Pictures that take more than `memory`
    bytes (left out: half of what is free) are painted in strips, without seams.
    """

    CHANNELS = 32  # of its widest layer

    def __init__(self, target: Any = "cpu", memory: int | None = None) -> None:
        self.session, self.target, self.memory = _load("multistyle26", target), target, memory

    def __call__(self, pixels: Pixels, style: int | str | Mapping[int, float]) -> Pixels:
        whole, shares = _filled(pixels), style_weights(style)
        memory = free_memory() if self.memory is None else self.memory
        if not _fits(whole, self.CHANNELS, memory):
            layers = multistyle_layers(assets.fetch("multistyle26"), shares)
            return _cut(paint(whole, layers, memory, self.target), pixels)
        out = self.session.run(self.feeds(pixels, style))["stylized"]
        return _cut(np.asarray(out)[0].transpose(1, 2, 0), pixels)

    @staticmethod
    def feeds(pixels: Pixels, style: int | str | Mapping[int, float]) -> dict[str, np.ndarray[Any, Any]]:
        """What the network is given for a picture."""
        image = np.ascontiguousarray(_filled(pixels).transpose(2, 0, 1)[None], np.float32)
        return {"image": image, "style_weights": style_weights(style)}


class Transform:
    """A transform network that `training.py` trained, from its file."""

    def __init__(self, path: str | Path, target: Any = "cpu", memory: int | None = None) -> None:
        from trilobite.apps.style.training import load_network

        self.network, self.target, self.memory = load_network(path), target, memory
        self._jitted = tb.jit(self.network, target=target)
        self._layers: list[Layer] = transform_layers(self.network)

    def __call__(self, pixels: Pixels) -> Pixels:
        whole = _filled(pixels)
        memory = free_memory() if self.memory is None else self.memory
        if not _fits(whole, self._layers[0].weight.shape[0] * 2, memory):
            return _cut(paint(whole, self._layers, memory, self.target), pixels)
        with tb.no_grad():
            out = self._jitted(tb.tensor(np.ascontiguousarray(whole.transpose(2, 0, 1)[None]))).numpy()
        return _cut(np.asarray(out)[0].transpose(1, 2, 0), pixels)


class AnyStyle:
    """Any picture as the style: one network reads it, the other paints with what was read."""

    STYLE_SIDE, CONTENT_SIDE = 256, 384

    def __init__(self, target: Any = "cpu") -> None:
        self.reader = _load("arbitrary_predict", target)
        self.painter = _load("arbitrary_transform", target)

    def read_style(self, style: Pixels) -> np.ndarray[Any, Any]:
        """The hundred numbers that describe a style picture."""
        side = self.STYLE_SIDE
        (name,) = (i.name for i in self.reader.inputs)
        (found,) = self.reader.run({name: resized(style, side, side)[None]}).values()
        return np.asarray(found)

    def __call__(self, pixels: Pixels, style: Pixels, strength: float = 1.0) -> Pixels:
        """`strength` below 1 mixes the style with the picture's own."""
        return self.paint(pixels, self.read_style(style), strength)

    def paint(self, pixels: Pixels, code: np.ndarray[Any, Any], strength: float = 1.0) -> Pixels:
        """The same of a style that was read before."""
        if not 0 <= strength <= 1:
            raise ArgumentError(f"a strength of {strength}", expected="a number from 0 to 1")
        if strength < 1:
            code = np.float32(strength) * code + np.float32(1 - strength) * self.read_style(pixels)
        side = self.CONTENT_SIDE
        content, described = (i.name for i in self.painter.inputs)
        feeds = {content: resized(pixels, side, side)[None], described: code}
        (out,) = self.painter.run(feeds).values()
        return resized(np.ascontiguousarray(np.asarray(out)[0], np.float32), *pixels.shape[:2])
