"""Scales, biases, batch normalisations and paddings become part of the convolution or product beside them.

Enters: a network. Leaves: it with constants of one channel each multiplied into weights or added to biases.
Results are those of the arithmetic in float64, rounded once; sums of the network then round in other places,
so that outputs are close and not equal in every bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.inference.optimise.network import Array, Network, attribute, is_op

_LAYERS = ("Conv", "ConvTranspose", "Gemm")


def join_layers(network: Network) -> int:
    """How many nodes became part of another."""
    count = 0
    gone: set[int] = set()
    nodes = list(network.graph.node)  # held, so that each is one object
    for node in nodes:
        rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if rule is None or not node.output or id(node) in gone:
            continue
        joined = rule(node, network)
        if joined is not None:
            gone.add(id(joined))
            count += 1
            network.forget()
    if gone:
        network.keep([n for n in nodes if id(n) not in gone])
    return count


class _Layer:
    """A convolution or product with constant weights, whose result one node alone reads."""

    def __init__(self, node: Any, network: Network, weight: Array) -> None:
        self.node, self.network, self.weight = node, network, weight
        self.groups = attribute(node, "group", 1) if node.op_type != "Gemm" else 1

    @staticmethod
    def before(name: str, network: Network) -> _Layer | None:
        node = network.maker(name, *_LAYERS)
        if node is None or not network.only_reader(name):
            return None
        weight = network.array(node.input[1])
        bias = network.array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        has_bias = len(node.input) > 2 and bool(node.input[2])
        if weight is None or weight.dtype.kind != "f" or (has_bias and bias is None):
            return None
        layer = _Layer(node, network, weight)
        return layer if layer._is_plain(bias) else None

    def _is_plain(self, bias: Array | None) -> bool:
        if self.node.op_type != "Gemm":
            return True
        units = [attribute(self.node, n, 1.0) == 1.0 for n in ("alpha", "beta")]
        return all(units) and (bias is None or bias.shape == (self.channels,))

    @property
    def channels(self) -> int:
        return int(
            self.weight.shape[self._axis] * (self.groups if self.node.op_type == "ConvTranspose" else 1)
        )

    @property
    def _axis(self) -> int:
        """That of the results' channels in the weights."""
        if self.node.op_type == "ConvTranspose":
            return 1
        return 0 if self.node.op_type == "Conv" or attribute(self.node, "transB", 0) else 1

    def bias(self) -> Array:
        found = self.network.array(self.node.input[2]) if len(self.node.input) > 2 else None
        return np.zeros(self.channels) if found is None else found.astype(np.float64)

    def scaled(self, factors: Array) -> Array:
        """The weights with a factor for each channel of the results."""
        wide = self.weight.astype(np.float64)
        if self.node.op_type == "ConvTranspose":
            parts = np.split(wide, self.groups)
            each = np.split(factors, self.groups)
            rest = (1,) * (wide.ndim - 2)
            return np.concatenate([p * f.reshape(1, -1, *rest) for p, f in zip(parts, each, strict=True)])
        shape = [1] * wide.ndim
        shape[self._axis] = -1
        return wide * factors.reshape(shape)

    def replace(self, output: str, weight: Array | None, bias: Array) -> None:
        network, node = self.network, self.node
        if weight is not None:
            name = network.fresh(f"{node.input[1]}_joined")
            node.input[1] = network.add_constant(name, weight.astype(self.weight.dtype))
        name = network.fresh(f"{node.output[0]}_bias")
        network.add_constant(name, bias.astype(self.weight.dtype))
        while len(node.input) < 3:
            node.input.append("")
        node.input[2] = name
        node.output[0] = output


def _batch_norm(node: Any, network: Network) -> Any | None:
    layer = _Layer.before(node.input[0], network)
    values = [network.array(n) for n in node.input[1:5]]
    outputs = [o for o in node.output if o]
    if layer is None or any(v is None for v in values) or len(outputs) != 1:
        return None
    if attribute(node, "training_mode", 0) or network.version(node) < 7:
        return None
    scale, shift, mean, variance = (v.astype(np.float64) for v in values if v is not None)
    if scale.shape != (layer.channels,):
        return None
    factors = scale / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
    layer.replace(node.output[0], layer.scaled(factors), (layer.bias() - mean) * factors + shift)
    return node


def _per_channel(array: Array | None, layer: _Layer, network: Network) -> Array | None:
    """A constant that has a number for each channel, or one for all; None if it is another."""
    rank = network.rank(layer.node.output[0])
    if array is None or array.dtype != layer.weight.dtype or rank is None or array.ndim > rank:
        return None
    after = 0 if layer.node.op_type == "Gemm" else rank - 2
    shape = (*(1,) * (rank - array.ndim), *array.shape)
    if any(d != 1 for i, d in enumerate(shape) if i != rank - 1 - after):
        return None
    flat = array.astype(np.float64).ravel()
    return (
        flat if len(flat) == layer.channels else np.full(layer.channels, flat[0]) if len(flat) == 1 else None
    )


def _elementwise(node: Any, network: Network) -> Any | None:
    """A product with, or a sum and, a constant of one number a channel."""
    for value, constant in ((node.input[0], node.input[1]), (node.input[1], node.input[0])):
        layer = _Layer.before(value, network)
        if layer is None:
            continue
        numbers = _per_channel(network.array(constant), layer, network)
        if numbers is None:
            return None
        if node.op_type == "Add":
            layer.replace(node.output[0], None, layer.bias() + numbers)
        else:
            layer.replace(node.output[0], layer.scaled(numbers), layer.bias() * numbers)
        return node
    return None


def _product_bias(node: Any, network: Network) -> Any | None:
    """A product of matrices and the bias after it are one Gemm."""
    for value, constant in ((node.input[0], node.input[1]), (node.input[1], node.input[0])):
        product = network.maker(value, "MatMul")
        bias = network.array(constant)
        if product is None or bias is None or not network.only_reader(value):
            continue
        weight = network.array(product.input[1])
        if weight is None or weight.ndim != 2 or network.rank(product.input[0]) != 2:
            return None
        fits = bias.shape == (weight.shape[1],) and bias.dtype == weight.dtype and weight.dtype.kind == "f"
        if not fits or network.version(product) < 7:
            return None
        product.op_type = "Gemm"
        product.input.append(constant)
        product.output[0] = node.output[0]
        return node
    return None


def _add(node: Any, network: Network) -> Any | None:
    if len(node.input) != 2 or node.input[0] == node.input[1] or network.version(node) < 7:
        return None
    joined = _elementwise(node, network)
    return joined if joined is not None or not is_op(node, "Add") else _product_bias(node, network)


def _padded(node: Any, network: Network) -> Any | None:
    """Zeros around the pixels, written as a node, are the convolution's own padding."""
    pad = network.maker(node.input[0], "Pad")
    auto = attribute(node, "auto_pad", b"NOTSET")
    if pad is None or not network.only_reader(node.input[0]) or auto not in (b"NOTSET", b""):
        return None
    pads = _zeros_around(pad, network)
    if pads is None:
        return None
    rank = len(pads) // 2
    if any(pads[i] for i in (0, 1, rank, rank + 1)):
        return None
    spatial = [*pads[2:rank], *pads[rank + 2 :]]
    own = attribute(node, "pads") or [0] * len(spatial)
    kept = [a for a in node.attribute if a.name != "pads"]
    copies = [type(a)() for a in kept]
    for copy, a in zip(copies, kept, strict=True):
        copy.CopyFrom(a)
    del node.attribute[:]
    node.attribute.extend(copies)
    found = node.attribute.add()
    found.name, found.type = "pads", 7
    found.ints.extend(a + b for a, b in zip(own, spatial, strict=True))
    node.input[0] = pad.input[0]
    return pad


def _zeros_around(pad: Any, network: Network) -> list[int] | None:
    """How many zeros a Pad puts where; None if it does something else."""
    if attribute(pad, "mode", b"constant") != b"constant" or (len(pad.input) > 3 and pad.input[3]):
        return None
    if network.version(pad) < 11:
        return list(attribute(pad, "pads", [])) if attribute(pad, "value", 0.0) == 0 else None
    value = network.array(pad.input[2]) if len(pad.input) > 2 and pad.input[2] else np.zeros(())
    pads = network.array(pad.input[1])
    if pads is None or value is None or np.any(value) or np.any(pads < 0):
        return None
    return [int(p) for p in pads]


_RULES = {"BatchNormalization": _batch_norm, "Add": _add, "Mul": _add, "Conv": _padded}
