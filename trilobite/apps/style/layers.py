"""The two transform networks as rows of layers, for `strips.py`.

Enters: the file of the 26 styles with shares of them, or a transform network of the zoo. Leaves: `Layer`s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trilobite.apps.style.strips import Array, Layer
from trilobite.base.errors import FileError

RESIDUALS = 6  # of the network of 26 styles


def multistyle_layers(path: str | Path, shares: Array) -> list[Layer]:
    """Of the ONNX file: its weights, scales and shifts mixed by the shares of the styles."""
    from onnx import load, numpy_helper

    graph = load(str(path)).graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    constants = {
        n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node if n.op_type == "Constant"
    }
    strides = {n.input[1]: n.attribute for n in graph.node if n.op_type == "Conv"}
    epsilons = {n.name: constants[n.input[1]] for n in graph.node if n.name.endswith("/norm/Add")}

    def layer(name: str, **more: Any) -> Layer:
        try:
            stride = next(a.ints[0] for a in strides[f"{name}.w"] if a.name == "strides")
            scale, shift = (shares @ arrays[f"{name}.norm.{which}"] for which in ("gamma", "beta"))
            epsilon = float(epsilons[f"/{name}/norm/Add"])
            return Layer(arrays[f"{name}.w"], None, stride, scale=scale, shift=shift, epsilon=epsilon, **more)
        except KeyError as missing:
            raise FileError(f"the network has no {missing}", where=path) from missing

    found = [layer(f"contract.{n}", activation="relu") for n in range(3)]
    for n in range(RESIDUALS):
        found += [layer(f"res.{n}.0", activation="relu"), layer(f"res.{n}.1", adds=len(found) - 1)]
    found += [layer(f"expand.{n}", activation="relu", enlarge="repeat") for n in range(2)]
    return [*found, layer("expand.2", activation="sigmoid")]


def transform_layers(network: Any) -> list[Layer]:
    """Of a `style_transform` of the zoo."""
    found = [_convolution(part, activation="relu") for part in network.shrink]
    for block in network.blocks:
        before = len(found) - 1
        found += [_convolution(block.first, activation="relu"), _convolution(block.second, adds=before)]
    for part in network.grow:
        weight = _array(part.conv.weight).transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]  # what transposing means
        norm: dict[str, Any] = {
            "scale": _array(part.norm.weight),
            "shift": _array(part.norm.bias),
            "epsilon": part.norm.eps,
        }
        plain: dict[str, Any] = {"enlarge": "zeros", "frame": "zeros", "activation": "relu"}
        found.append(Layer(weight, _array(part.conv.bias), **norm, **plain))
    return [*found, Layer(_array(network.last.weight), _array(network.last.bias), activation="sigmoid")]


def _convolution(part: Any, **more: Any) -> Layer:
    stride = part.conv.stride
    return Layer(
        _array(part.conv.weight),
        _array(part.conv.bias),
        stride[0] if isinstance(stride, tuple) else stride,
        scale=_array(part.norm.weight),
        shift=_array(part.norm.bias),
        epsilon=part.norm.eps,
        **more,
    )


def _array(value: Any) -> Array:
    return np.asarray(value.detach().numpy(), np.float32)
