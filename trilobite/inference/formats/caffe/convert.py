"""A Caffe network, prototxt and caffemodel, as an ONNX model.

Enters: two paths. Leaves: a ModelProto. Layers of the test phase alone; losses, data and accuracy are
dropped. Channels come first in both, so layers and operators correspond one to one. Layers stand in the table
of `layers`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.assembly import Assembly
from trilobite.inference.formats.caffe.prototxt import Block, parse
from trilobite.inference.formats.caffe.weights import read
from trilobite.inference.formats.mapped import Array, mapped
from trilobite.inference.formats.tensor_ops import Unknown

_MAX_TEXT = 1 << 24
_DROPPED = {
    *"Data ImageData MemoryData HDF5Data WindowData DummyData AnnotatedData Accuracy Silence".split(),
    *"SoftmaxWithLoss EuclideanLoss HingeLoss SigmoidCrossEntropyLoss ContrastiveLoss InfogainLoss".split(),
    *"MultinomialLogisticLoss".split(),
}
Rule = Callable[["Converter", Block, list[str]], "list[str]"]


class Converter:
    """A network on its way: names of tops now, ranks of what they hold, weights of the layers."""

    def __init__(self, a: Assembly, blobs: dict[str, list[Array]]) -> None:
        self.a, self._blobs = a, blobs
        self.tops: dict[str, str] = {}
        self.ranks: dict[str, int] = {}

    def rank(self, name: str) -> int:
        return self.ranks.get(name, 4)

    def blob(self, layer: Block, k: int) -> Array:
        found = self._blobs.get(layer.word("name"), [])
        if k >= len(found):
            raise Unknown(f"{layer.word('type')} {shown(layer.word('name'))} without its weight {k}")
        return found[k]

    def has_blob(self, layer: Block, k: int) -> bool:
        return k < len(self._blobs.get(layer.word("name"), []))

    def weight(self, layer: Block, array: Array, role: str) -> str:
        return self.a.constant(array.astype(np.float32), hint=f"{layer.word('name')}.{role}")

    def made(self, name: str, rank: int) -> list[str]:
        self.ranks[name] = rank
        return [name]


def _in_test(layer: Block) -> bool:
    included = [b.word("phase") for b in layer.blocks("include") if "phase" in b]
    excluded = [b.word("phase") for b in layer.blocks("exclude") if "phase" in b]
    return (not included or any(p in ("TEST", "1") for p in included)) and not any(
        p in ("TEST", "1") for p in excluded
    )


def _inputs(c: Converter, net: Block) -> None:
    """Inputs that the network itself declares, in either of the older ways."""
    names = net.words("input")
    shapes = [b.integers("dim") for b in net.blocks("input_shape")]
    flat = net.integers("input_dim")
    shapes = shapes or [flat[4 * i : 4 * i + 4] for i in range(len(flat) // 4)]
    if len(shapes) < len(names):
        raise Unknown("inputs without shapes")
    for name, shape in zip(names, shapes, strict=False):
        _add_input(c, name, shape)


def _add_input(c: Converter, name: str, shape: list[int]) -> None:
    c.tops[name] = c.a.add_input(name, np.float32, [None if d <= 0 else d for d in shape])
    c.ranks[c.tops[name]] = len(shape)


def _layer(c: Converter, layer: Block, rules: dict[str, Rule], read_by: set[str]) -> None:
    kind = layer.word("type")
    tops, bottoms = layer.words("top"), layer.words("bottom")
    if kind in _DROPPED:
        return
    if kind == "Input":
        shapes = [b.integers("dim") for b in layer.block("input_param").blocks("shape")]
        for i, name in enumerate(tops):
            _add_input(c, name, shapes[min(i, len(shapes) - 1)] if shapes else [])
        return
    if kind not in rules:
        raise Unknown(kind or "a layer without a type")
    missing = [b for b in bottoms if b not in c.tops]
    if missing:
        raise corrupt(
            f"the layer {shown(layer.word('name'))} reads {shown(missing[0])}, which nothing makes",
            "the prototxt", "layers in order",
        )  # fmt: skip
    made = rules[kind](c, layer, [c.tops[b] for b in bottoms])
    for name, value in zip(tops, made if len(made) >= len(tops) else made * len(tops), strict=False):
        c.tops[name] = value
    read_by.update(b for b in bottoms if b not in tops)


def convert(prototxt: Any, weights: Any = None) -> Any:
    """A Caffe network as an ONNX ModelProto; without `weights`, with the caffemodel beside the prototxt."""
    from trilobite.inference.formats.caffe.layers import RULES, V1

    data, where = mapped(prototxt)
    if len(data) > _MAX_TEXT:
        raise corrupt(f"the text has {len(data)} bytes", where, f"at most {_MAX_TEXT}")
    net = parse(bytes(data).decode(errors="replace"), where)
    a = Assembly(net.word("name", "network"))
    c = Converter(
        a, read(os.path.splitext(os.fspath(prototxt))[0] + ".caffemodel" if weights is None else weights)
    )
    used: set[str] = set()
    try:
        _inputs(c, net)
        for layer in net.blocks("layer", "layers"):
            layer["type"] = [V1.get(layer.word("type"), layer.word("type"))]
            if _in_test(layer):
                _noted(c, layer, RULES, used)
        if not a.refusals:
            _outputs(c, used)
    except Unknown as why:
        a.refuse(str(why))
    except (ValueError, IndexError, TypeError, ZeroDivisionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"the network does not fit together: {shown(str(error))}",
            where=where,
            expected="weights and settings that belong to each other",
            remedy="is it the caffemodel of this prototxt?",
        ) from error
    return a.model(where, "trilobite from Caffe")


def _noted(c: Converter, layer: Block, rules: dict[str, Rule], used: set[str]) -> None:
    try:
        _layer(c, layer, rules, used)
    except Unknown as why:
        c.a.refuse(str(why))
        for name in layer.words("top"):
            c.tops[name] = "missing"


def _outputs(c: Converter, used: set[str]) -> None:
    fed = {i.name for i in c.a.inputs}
    wanted = [(top, name) for top, name in c.tops.items() if top not in used and name not in fed]
    if not wanted:
        raise Unknown("a network without outputs")
    for top, name in wanted:
        c.a.add_output(top, name, np.float32, None)
