"""The 8-bit networks' convolutions, one by one, and whether two targets give the same bits.

Enters: the name of an asset with quantised weights. Leaves: `Single`s. Pictures are cut small, so that a
simulated processor is done with each in moments; weights, scales, strides and groups are the network's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from trilobite.apps import assets

SIDE = 12  # of the pieces of pictures


@dataclass(frozen=True)
class Single:
    """A model of one convolution between 8-bit numbers, and what it takes."""

    name: str
    model: Any
    shape: tuple[int, ...]
    dtype: Any


def convolutions(asset: str) -> Iterator[Single]:
    """Every convolution whose picture and weights are quantised, in order, as ONNX's integer convolution:
    8-bit numbers in, 32-bit sums out, so that there is nothing to round.
    """
    from onnx import TensorProto, helper, load, numpy_helper

    graph = load(str(assets.fetch(asset))).graph
    makers: dict[str, Any] = {name: node for node in graph.node for name in node.output}
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for conv in (n for n in graph.node if n.op_type == "Conv"):
        parts = [makers[name] for name in conv.input[:2] if name in makers]
        if [part.op_type for part in parts] != ["DequantizeLinear"] * 2:
            continue
        image, weight = parts
        filters, zero = arrays[weight.input[0]], arrays[image.input[2]]
        shape = (1, filters.shape[1] * _group(conv), SIDE, SIDE)
        kind = helper.np_dtype_to_tensor_dtype(zero.dtype)
        kept = {a.name: helper.get_attribute_value(a) for a in conv.attribute}
        node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], **kept)
        given = helper.make_tensor_value_info("x", kind, shape)
        made = helper.make_tensor_value_info("y", TensorProto.INT32, None)
        constants = [numpy_helper.from_array(filters, "w"), numpy_helper.from_array(zero.reshape(()), "zero")]
        one = helper.make_graph([node], "convolution", [given], [made], constants)
        model = helper.make_model(one, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        yield Single(conv.name or conv.output[0], model, shape, zero.dtype)


def _group(conv: Any) -> int:
    return next((a.i for a in conv.attribute if a.name == "group"), 1)


def compare(single: Single, target: str, seed: int = 0) -> bool:
    """Whether a target gives the CPU's bits for random 8-bit numbers."""
    from trilobite import inference

    limits = np.iinfo(single.dtype)
    rng = np.random.default_rng(seed)
    feeds = {"x": rng.integers(limits.min, limits.max + 1, single.shape).astype(single.dtype)}
    (one,), (other,) = (
        inference.load(single.model, target=where).run(feeds).values() for where in ("cpu", target)
    )
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
