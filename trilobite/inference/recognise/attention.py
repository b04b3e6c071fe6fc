"""Attention that an exporter has written out: products, scales, masks, a softmax become one node.

Enters: the product of weights and values. Leaves: a node of `trilobite.fused`, which a target sees whole, so
that no matrix of all queries by all keys is made. It carries the steps between the first product and the
softmax as they were written: which axis is the last, and whether a scale is one number, is known only when
shapes are, and what does not fit is then computed as it stands. Masks may be added, or chosen by Where with
-inf or a number so low that scores vanish beside it. Rows in which everything is masked by -inf give 0, as
the usual guard (Where, IsNaN) around a softmax makes them; without that guard ONNX would say NaN there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from trilobite.base.records import dataclass
from trilobite.inference.model import Node
from trilobite.inference.operators.written_attention import DOMAIN, Step
from trilobite.inference.recognise.view import Found, View

_EINSUM = re.compile(
    r"(?P<lead>[a-z]*|\.\.\.)(?P<row>[a-z])(?P<sum>[a-z]),(?P=lead)(?P<second>[a-z]{2})->"
    r"(?P=lead)(?P=row)(?P<column>[a-z])"
)
_LOW = -1e8  # beside it, scores of less than 8 leave no trace in float32
_FLOAT = 1  # ONNX's number of the dtype in which a softmax of shorter floats is computed


@dataclass
class _Trail:
    """A way from a softmax back to the first product, last step first."""

    operands: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def place(self, name: str) -> int:
        self.operands.append(name)
        return len(self.operands) + 2  # behind queries, keys and values

    def fork(self) -> _Trail:
        return _Trail(list(self.operands), list(self.steps), list(self.nodes))


def attention(last: Node, view: View) -> Found | None:
    """What a product of weights and values stands for."""
    if _product_form(last) != "rows":
        return None
    trail = _Trail()
    softmax = _softmax(last.inputs[0], view, trail)
    if softmax is None:
        return None
    trail.nodes.append(softmax)
    ways = [trail]
    product = _back(softmax.inputs[0], view, ways)
    if product is None:
        return None
    trail = ways[0]
    inputs = (*product.inputs, last.inputs[1], *trail.operands)
    turned = _product_form(product) == "rows"
    attributes: dict[str, Any] = {
        "steps": tuple(reversed(trail.steps)), "softmax": softmax, "turned": turned,
    }  # fmt: skip
    node = Node("Attention", inputs, last.outputs, attributes, DOMAIN, 1, last.name)
    return Found(node, last, [*trail.nodes, product])


def _product_form(node: Node) -> str:
    """How a product of matrices sums: over "rows" of the second, or its "columns"; "" if it is another."""
    if node.domain or node.op not in ("MatMul", "Einsum"):
        return ""
    if node.op == "MatMul":
        return "rows"
    match = _EINSUM.fullmatch(node.attribute("equation", "").replace(" ", ""))
    if match is None or len({*match.group("lead", "row", "sum", "column")}) < 4:
        return ""
    second = match["second"]
    if second == match["sum"] + match["column"]:
        return "rows"
    return "columns" if second == match["column"] + match["sum"] else ""


def _softmax(name: str, view: View, trail: _Trail) -> Node | None:
    """The softmax before a value: behind a guard that turns NaN into 0, a cast, or what changes nothing."""
    while True:
        passed = view.maker(name, "Cast", "Identity", "Dropout")
        if passed is None or (passed.op == "Dropout" and len(passed.inputs) > 2):
            break
        trail.nodes.append(passed)
        name = passed.inputs[0]
    guard = view.maker(name, "Where")
    if guard is None:
        return view.maker(name, "Softmax")
    test = view.maker(guard.inputs[0], "IsNaN")
    if test is None or test.inputs[0] != guard.inputs[2] or view.number(guard.inputs[1]) != 0:
        return None
    trail.nodes += [guard, test]
    return view.maker(guard.inputs[2], "Softmax", readers=2)


def _back(name: str, view: View, ways: list[_Trail]) -> Node | None:
    """The product of queries and keys before a value; `ways` then holds how it is reached."""
    product = view.maker(name, "MatMul", "Einsum")
    if product is not None and _product_form(product):
        return product
    for inner, trail in _before(name, view, ways[0]):
        found = [trail]
        product = _back(inner, view, found)
        if product is not None:
            ways[0] = found[0]
            return product
    return None


def _before(name: str, view: View, trail: _Trail) -> Iterator[tuple[str, _Trail]]:
    """The values that scores may have been one step earlier. Scales come before masks."""
    node = view.maker(name, "Mul", "Div", "Add", "Where", "Cast")
    if node is None:
        return
    if node.op == "Cast":
        if node.attribute("to") == _FLOAT:
            yield _passed(node, node.inputs[0], trail)
    elif node.op == "Where":
        yield from _chosen(node, view, trail)
    elif node.op == "Add":
        if not any(s.op in ("Mul", "Div") for s in trail.steps):
            for scores, mask in (node.inputs, node.inputs[::-1]):
                inner, way = _passed(node, scores, trail)
                way.steps.append(Step("Add", way.place(mask)))
                yield inner, way
    else:
        yield from _scaled(node, view, trail)


def _passed(node: Node, name: str, trail: _Trail) -> tuple[str, _Trail]:
    way = trail.fork()
    way.nodes.append(node)
    return name, way


def _chosen(node: Node, view: View, trail: _Trail) -> Iterator[tuple[str, _Trail]]:
    """Scores where a condition holds, or does not, and a low number elsewhere."""
    if any(s.op in ("Mul", "Div") for s in trail.steps):
        return
    condition, yes, no = node.inputs
    for scores, other, kept in ((yes, no, True), (no, yes, False)):
        number = view.number(other)
        if number is not None and number <= _LOW:
            inner, way = _passed(node, scores, trail)
            way.steps.append(Step("Where", way.place(condition), number, kept))
            yield inner, way


def _scaled(node: Node, view: View, trail: _Trail) -> Iterator[tuple[str, _Trail]]:
    pairs = (node.inputs, node.inputs[::-1]) if node.op == "Mul" else (node.inputs,)
    for scores, factor in pairs:
        number = view.number(factor)
        if view.number(scores) is None and number != 0:
            inner, way = _passed(node, scores, trail)
            by = Step(node.op, way.place(factor)) if number is None else Step(node.op, number=number)
            way.steps.append(by)
            yield inner, way
