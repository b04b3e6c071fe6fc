"""Normalisations that exporters write out: layer norm and its form without a mean (RMS norm).

Enters: the node that scales, or shifts, what was normalised. Leaves: one node of ONNX. Only the last axis,
written as -1, is looked for: which number it has otherwise is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.inference.model import Node
from trilobite.inference.recognise.view import Found, View


def normalisation(last: Node, view: View) -> Found | None:
    """(x - mean)/√(variance + ε)·weight + bias, or x/√(mean of squares + ε)·weight."""
    if last.op not in ("Add", "Mul") or last.domain:
        return None
    if last.op == "Mul":
        return _scaled(last, last, "", [], view)
    for value, bias in (last.inputs, last.inputs[::-1]):
        scaled = view.maker(value, "Mul")
        if scaled is not None and _is_row(bias, view):
            found = _scaled(scaled, last, bias, [scaled], view)
            if found is not None:
                return found
    return None


def _is_row(name: str, view: View) -> bool:
    """A constant along the last axis."""
    value = view.constants.get(name)
    return value is not None and not isinstance(value, str | bytes) and np.ndim(value) == 1


def _scaled(scaled: Node, last: Node, bias: str, parts: Sequence[Node], view: View) -> Found | None:
    for value, weight in (scaled.inputs, scaled.inputs[::-1]):
        core = _normalised(value, view) if _is_row(weight, view) else None
        if core is None:
            continue
        x, epsilon, nodes, centred = core
        if bias and (
            not centred or np.shape(view.constants.get(bias)) != np.shape(view.constants.get(weight))
        ):
            return None
        op, version = ("LayerNormalization", 17) if centred else ("RMSNormalization", 23)
        attributes = {"axis": -1, "epsilon": epsilon}
        inputs = (x, weight, bias) if bias else (x, weight)
        node = Node(op, inputs, last.outputs, attributes, "", version, last.name)
        return Found(node, last, [*parts, *nodes])
    return None


Core = tuple[str, float, list[Node], bool]


def _normalised(name: str, view: View) -> Core | None:
    """A value divided by the root of its mean square, and whether its mean was taken from it before."""
    node = view.maker(name, "Div", "Mul")
    if node is None:
        return None
    pairs = (node.inputs,) if node.op == "Div" else (node.inputs, node.inputs[::-1])
    for value, scale in pairs:
        root = _root(scale, view, inverse=node.op == "Mul")
        square = None if root is None else _mean_square(root[0], value, view)
        if root is not None and square is not None:
            return _centred(value, root[1], [node, *root[2], *square], view)
    return None


def _root(name: str, view: View, inverse: bool) -> tuple[str, float, list[Node]] | None:
    """√(v + ε), or one over it: v, ε and the nodes."""
    nodes: list[Node] = []
    if inverse:
        power = view.maker(name, "Pow")
        if power is not None and view.number(power.inputs[1]) == -0.5:
            return _shifted(power.inputs[0], [power], view)
        over = view.maker(name, "Reciprocal", "Div")
        if over is None or (over.op == "Div" and view.number(over.inputs[0]) != 1):
            return None
        nodes, name = [over], over.inputs[-1]
    root = view.maker(name, "Sqrt", "Pow")
    if root is None or (root.op == "Pow" and view.number(root.inputs[1]) != 0.5):
        return None
    return _shifted(root.inputs[0], [*nodes, root], view)


def _shifted(name: str, nodes: list[Node], view: View) -> tuple[str, float, list[Node]] | None:
    node = view.maker(name, "Add")
    if node is None:
        return None
    for value, constant in (node.inputs, node.inputs[::-1]):
        epsilon = view.number(constant)
        if epsilon is not None and epsilon > 0:
            return value, epsilon, [*nodes, node]
    return None


def _mean_square(name: str, value: str, view: View) -> list[Node] | None:
    """The nodes of the mean of a value's squares."""
    mean = _mean(name, view)
    square = None if mean is None else view.maker(mean.inputs[0], "Mul", "Pow")
    if mean is None or square is None:
        return None
    if square.op == "Mul":
        fits = square.inputs[0] == square.inputs[1]
    else:
        fits = view.number(square.inputs[1]) == 2
    same = view.made.get(square.inputs[0]), view.made.get(value)
    twice = all(n is not None and n.op == "Sub" for n in same) and same[0].inputs == same[1].inputs  # type: ignore[union-attr]
    if not fits or (square.inputs[0] != value and not twice):
        return None
    again = [same[0]] if square.inputs[0] != value and same[0] is not None else []
    return [mean, square, *again]


def _mean(name: str, view: View, readers: int = 1) -> Node | None:
    """A mean along the last axis, which stays with size 1."""
    node = view.maker(name, "ReduceMean", readers=readers)
    if node is None or not node.attribute("keepdims", 1):
        return None
    axes: Any = node.attribute("axes")
    if axes is None and len(node.inputs) > 1:
        axes = view.constants.get(node.inputs[1])
    return node if axes is not None and list(np.asarray(axes).reshape(-1)) == [-1] else None


def _centred(value: str, epsilon: float, nodes: list[Node], view: View) -> Core | None:
    """With the subtraction of the mean, if there is one that only this normalisation reads."""
    centre = view.maker(value, "Sub", readers=2)
    mean = None if centre is None else _mean(centre.inputs[1], view, readers=2)
    if centre is None or mean is None or mean.inputs[0] != centre.inputs[0]:
        return value, epsilon, nodes, False
    kept = {id(n) for n in nodes}
    if any(id(n) not in kept for n in _readers(centre.outputs[0], view)):
        return None
    return centre.inputs[0], epsilon, [*nodes, centre, mean], True


def _readers(name: str, view: View) -> list[Node]:
    return [n for n in view.made.values() if name in n.inputs]
