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
    input: str
    shape: tuple[int, ...]
    dtype: Any


def convolutions(asset: str) -> Iterator[Single]:
    """Every convolution whose operands and result are quantised, in order: from 8 bits to 8 bits."""
    from onnx import helper, load, numpy_helper

    graph = load(str(assets.fetch(asset))).graph
    makers: dict[str, Any] = {name: node for node in graph.node for name in node.output}
    arrays = {t.name: t for t in graph.initializer}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    for conv in (n for n in graph.node if n.op_type == "Conv"):
        after = _quantised(conv.output[0], readers)
        parts = [makers[name] for name in conv.input if name in makers]
        whole = len(parts) == len(conv.input) and {p.op_type for p in parts} == {"DequantizeLinear"}
        if after is None or not whole:
            continue
        image, weight = parts[:2]
        nodes = [*parts, conv, *after]
        needed = {name for node in nodes for name in node.input if name in arrays}
        channels = numpy_helper.to_array(arrays[weight.input[0]]).shape[1] * _group(conv)
        zero = numpy_helper.to_array(arrays[image.input[2]])
        source, shape = image.input[0], (1, channels, SIDE, SIDE)
        kind = helper.np_dtype_to_tensor_dtype(zero.dtype)
        given = helper.make_tensor_value_info(source, kind, shape)
        made = helper.make_tensor_value_info(after[-1].output[0], kind, None)
        one = helper.make_graph(
            nodes, conv.name or "conv", [given], [made], [arrays[n] for n in sorted(needed)]
        )
        model = helper.make_model(one, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        yield Single(conv.name or conv.output[0], model, source, shape, zero.dtype)


def _quantised(name: str, readers: dict[str, list[Any]]) -> list[Any] | None:
    """From a convolution's result to where it is 8 bits again; None where something else comes between."""
    found: list[Any] = []
    while True:
        (node, *others) = readers.get(name) or [None]
        if node is None or others or node.op_type not in ("QuantizeLinear", "Relu", "Clip"):
            return None
        found.append(node)
        if node.op_type == "QuantizeLinear":
            return found
        name = node.output[0]


def _group(conv: Any) -> int:
    return next((a.i for a in conv.attribute if a.name == "group"), 1)


def compare(single: Single, target: str, seed: int = 0) -> bool:
    """Whether a target gives the CPU's bits for random 8-bit numbers."""
    from trilobite import inference

    limits = np.iinfo(single.dtype)
    rng = np.random.default_rng(seed)
    feeds = {single.input: rng.integers(limits.min, limits.max + 1, single.shape).astype(single.dtype)}
    (one,), (other,) = (
        inference.load(single.model, target=where).run(feeds).values() for where in ("cpu", target)
    )
    return bool(np.array_equal(np.asarray(one), np.asarray(other)))
