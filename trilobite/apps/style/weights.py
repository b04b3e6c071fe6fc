"""A feature network's weights from the files that people have: .pth, .safetensors, .npz, MatConvNet's .mat.

Enters: a path. Leaves: arrays by torchvision's names. Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.apps.style.matlab import load_mat
from trilobite.base.errors import FileError

Array = np.ndarray[Any, Any]
# Where torchvision's VGG19 has the convolutions that everybody else calls conv1_1, conv1_2, ...
VGG19_PLACES = {
    f"conv{stage}_{number + 1}": place
    for stage, places in enumerate(
        ((0, 2), (5, 7), (10, 12, 14, 16), (19, 21, 23, 25), (28, 30, 32, 34)), start=1
    )
    for number, place in enumerate(places)
}


def load_weights(path: str | Path) -> dict[str, Array]:
    """Arrays by name, whichever of the four forms the ending tells."""
    suffix = Path(path).suffix.lower()
    if suffix == ".mat":
        return _matconvnet(path)
    if suffix in (".pth", ".pt"):
        from trilobite.framework.checkpoint.pth import load_pth

        state = load_pth(path)
        return _arrays(path, state.get("state_dict", state) if isinstance(state, Mapping) else state)
    if suffix == ".safetensors":
        from trilobite.framework.checkpoint.safetensors import load_safetensors

        return load_safetensors(path)
    if suffix == ".npz":
        from trilobite.framework.checkpoint.npz import load_npz

        return load_npz(path)
    raise FileError(
        f"weights with the ending {suffix!r}", where=path, expected=".pth, .safetensors, .npz or .mat"
    )


def _arrays(path: str | Path, state: Any) -> dict[str, Array]:
    if not isinstance(state, Mapping):
        raise FileError("the file holds no weights by name", where=path, expected="a state_dict")
    return {str(name): np.asarray(value) for name, value in state.items()}


def _matconvnet(path: str | Path) -> dict[str, Array]:
    """Layers with filters (height, width, input, output), under `weights`, or `filters` and `biases`."""
    layers = load_mat(path).get("layers")
    if not isinstance(layers, list):
        raise FileError("the file holds no layers", where=path, expected="a network of MatConvNet")
    found: dict[str, Array] = {}
    for layer in layers:
        if not isinstance(layer, dict) or layer.get("name") not in VGG19_PLACES:
            continue
        filters, bias = _filters(path, layer)
        place = VGG19_PLACES[layer["name"]]
        found[f"features.{place}.weight"] = np.ascontiguousarray(filters.transpose(3, 2, 0, 1), np.float32)
        found[f"features.{place}.bias"] = np.ascontiguousarray(bias.reshape(-1), np.float32)
    return found


def _filters(path: str | Path, layer: Mapping[str, Any]) -> tuple[Array, Array]:
    pair = layer.get("weights") or [layer.get("filters"), layer.get("biases")]
    filters, bias = (np.asarray(value) for value in pair[:2])
    if filters.ndim != 4 or bias.size != filters.shape[3]:
        raise FileError(
            f"{layer['name']} has filters of shape {filters.shape} and {bias.size} biases",
            where=path,
            expected="filters (height, width, input, output) and a bias for each output",
        )
    return filters, bias
