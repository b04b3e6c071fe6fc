"""Activations that exporters write out: GELU by erf or by tanh, hard-swish.

Enters: the last multiplication or division of a chain. Leaves: what it computes as one node of ONNX. Factors
may stand in any order: x·½·(1 + erf(x/√2)) is written in a dozen ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trilobite.inference.model import Node
from trilobite.inference.recognise.view import Found, Product, View

_TANH = math.sqrt(2 / math.pi)
_CUBIC = 0.044715


def activation(last: Node, view: View) -> Found | None:
    if last.op not in ("Mul", "Div") or last.domain or len(last.outputs) != 1:
        return None
    product = _of(last, view)
    if len(product.values) != 2:
        return None
    for x, other in (product.values, product.values[::-1]):
        for match in (_erf, _tanh, _hard):
            found = match(x, other, product.constant, view)
            if found is not None:
                node, parts = found
                inner = [n for n in product.nodes if n is not last]
                return Found(_placed(node, last), last, [*parts, *inner])
    return None


def _placed(node: Node, last: Node) -> Node:
    return Node(node.op, node.inputs, last.outputs, node.attributes, "", node.version, last.name)


def _of(last: Node, view: View) -> Product:
    """The factors of a node itself, whoever reads it."""
    found = Product(nodes=[last])
    for i, name in enumerate(last.inputs):
        number = view.number(name)
        if last.op == "Div" and i == 1:
            if not number:
                return Product(values=list(last.inputs) + [""])
            found.constant /= number
            continue
        inner = view.factors(name)
        found.constant *= inner.constant
        found.values += inner.values
        found.nodes += inner.nodes
    return found


Match = tuple[Node, Sequence[Node]]


def _gelu(x: str, approximate: str, parts: Sequence[Node]) -> Match:
    return Node("Gelu", (x,), (), {"approximate": approximate}, "", 20), parts


def _erf(x: str, other: str, constant: float, view: View) -> Match | None:
    """½·x·(1 + erf(x/√2))"""
    moved = view.plus(other, 1.0)
    if moved is None or not math.isclose(constant, 0.5, rel_tol=1e-5):
        return None
    erf = view.maker(moved[1], "Erf")
    if erf is None:
        return None
    inside = view.factors(erf.inputs[0])
    fits = inside.values == [x] and math.isclose(inside.constant, math.sqrt(0.5), rel_tol=1e-3)
    return _gelu(x, "none", [moved[0], erf, *inside.nodes]) if fits else None


def _tanh(x: str, other: str, constant: float, view: View) -> Match | None:
    """½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))"""
    moved = view.plus(other, 1.0)
    if moved is None or not math.isclose(constant, 0.5, rel_tol=1e-5):
        return None
    tanh = view.maker(moved[1], "Tanh")
    if tanh is None:
        return None
    inside = view.factors(tanh.inputs[0])
    if not math.isclose(inside.constant, _TANH, rel_tol=1e-3):
        return None
    parts = [moved[0], tanh, *inside.nodes]
    if len(inside.values) == 1:
        cubic = _cubic(x, inside.values[0], view)
        return None if cubic is None else _gelu(x, "tanh", [*parts, *cubic])
    if sorted(inside.values, key=lambda n: n != x)[0] == x and len(inside.values) == 2:
        (rest,) = [n for n in inside.values if n != x] or [""]
        shifted = view.plus(rest, 1.0) if rest else None
        square = None if shifted is None else _power(x, shifted[1], 2, view)
        return None if shifted is None or square is None else _gelu(x, "tanh", [*parts, shifted[0], *square])
    return None


def _cubic(x: str, name: str, view: View) -> list[Node] | None:
    """x + 0.044715·x³"""
    added = view.maker(name, "Add")
    if added is None or x not in added.inputs:
        return None
    other = added.inputs[1] if added.inputs[0] == x else added.inputs[0]
    power = _power(x, other, 3, view)
    return None if power is None else [added, *power]


def _power(x: str, name: str, exponent: int, view: View) -> list[Node] | None:
    """0.044715 times a power of x, by multiplications or by Pow."""
    product = view.factors(name)
    nodes, count = list(product.nodes), 0
    for value in product.values:
        power = view.maker(value, "Pow")
        if value == x:
            count += 1
        elif power is not None and power.inputs[0] == x and (view.number(power.inputs[1]) or 0.5) % 1 == 0:
            count += int(view.number(power.inputs[1]) or 0)
            nodes.append(power)
        else:
            return None
    return nodes if count == exponent and math.isclose(product.constant, _CUBIC, rel_tol=1e-3) else None


def _hard(x: str, other: str, constant: float, view: View) -> Match | None:
    """x·hard_sigmoid(x), or x·clip(x + 3, 0, 6)/6"""
    node = Node("HardSwish", (x,), (), {}, "", 14)
    gate = view.maker(other, "HardSigmoid")
    if gate is not None:
        shape = gate.attribute("alpha", 0.2), gate.attribute("beta", 0.5)
        sixth = math.isclose(shape[0], 1 / 6, rel_tol=1e-5) and shape[1] == 0.5
        return (node, [gate]) if sixth and constant == 1.0 and gate.inputs[0] == x else None
    clip = view.maker(other, "Clip")
    if clip is None or not math.isclose(constant, 1 / 6, rel_tol=1e-5):
        return None
    moved = view.plus(clip.inputs[0], 3.0)
    fits = moved is not None and moved[1] == x and _limits(clip, view) == (0.0, 6.0)
    return (node, [clip, moved[0]]) if fits and moved is not None else None


def _limits(clip: Node, view: View) -> tuple[float | None, float | None]:
    if clip.version < 11:
        return clip.attribute("min"), clip.attribute("max")
    low, high = (*clip.inputs[1:], "", "")[:2]
    return view.number(low), view.number(high)
