"""Nodes that change nothing, and pairs that undo each other, are left out.

Enters: a network. Leaves: it without identities, dropouts of inference, casts to the dtype that is there,
transposes that cancel, reshapes of reshapes, paddings by nothing, products by one. A value keeps its name
where it is an output of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.inference.optimise.network import Network, attribute

_EXACT_CASTS = {  # dtypes of ONNX whose values another holds exactly: a cast there and back gives the same
    1: {11}, 10: {1, 11}, 16: {1, 11}, 2: {1, 4, 5, 6, 7, 10, 11, 12, 13}, 3: {1, 5, 6, 7, 10, 11},
    5: {1, 6, 7, 11}, 4: {1, 6, 7, 11, 12, 13}, 6: {7, 11}, 12: {7, 11, 13}, 9: {1, 2, 3, 5, 6, 7, 10, 11},
}  # fmt: skip


def remove_redundant(network: Network) -> int:
    """How many nodes were left out or joined with another."""
    count = 0
    names: dict[str, str] = {}
    gone: set[int] = set()
    nodes = list(network.graph.node)  # held, so that each is one object
    for node in nodes:
        for i, name in enumerate(node.input):
            if name in names:
                node.input[i] = names[name]
        if not node.output or len([o for o in node.output if o]) != 1:
            continue
        count += _joined(node, network)
        source = _source(node, network)
        if source is not None and _can_rename(node, source, network):
            names[node.output[0]] = source
            gone.add(id(node))
            count += 1
    if not gone:
        network.forget()
        return count
    _apply(network, names, [n for n in nodes if id(n) not in gone])
    return count


def _apply(network: Network, names: dict[str, str], kept: list[Any]) -> None:
    """Readers of what was left out read its source; a source whose copy is an output takes its name."""
    back = {source: name for name, source in names.items() if name in network.outputs}
    network.keep(kept)
    network.rename(names)
    for node in network.graph.node:
        for i, name in enumerate(node.output):
            if name in back:
                node.output[i] = back[name]
    network.rename(back)


def _can_rename(node: Any, source: str, network: Network) -> bool:
    """An output of the graph must be made under its name: by the node that makes the source."""
    if node.output[0] in network.pinned:
        return False
    if node.output[0] not in network.outputs:
        return True
    maker = network.makers.get(source)
    taken = source in network.outputs or source in network.pinned
    return maker is not None and not taken and network.readers[source] == 1


def _source(node: Any, network: Network) -> str | None:
    """The operand that a node gives back as it is."""
    rule = _SAME.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    return str(node.input[0]) if rule is not None and node.input[0] and rule(node, network) else None


def _same_shape(node: Any, network: Network) -> bool:
    before, after = network.static_shape(node.input[0]), network.static_shape(node.output[0])
    return before is not None and before == after


def _same_dtype(node: Any, network: Network) -> bool:
    return bool(network.dtype(node.input[0]) == attribute(node, "to") != 0)


def _no_padding(node: Any, network: Network) -> bool:
    pads = network.array(node.input[1]) if len(node.input) > 1 else None
    if network.version(node) < 11:
        return not np.any(attribute(node, "pads", [1]))
    return pads is not None and not np.any(pads)


def _inference(node: Any, network: Network) -> bool:
    training = network.array(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    decided = len(node.input) < 3 or not node.input[2] or training is not None
    on = training is not None and bool(training.any())
    return network.version(node) >= 7 and decided and not on


def _by(number: float) -> Callable[[Any, Network], bool]:
    """A second operand that is this number everywhere and adds no axis."""

    def check(node: Any, network: Network) -> bool:
        array = network.array(node.input[1])
        if array is None or array.size == 0 or not bool((array == number).all()):
            return False
        if number == 0 and bool(np.signbit(array.astype(np.float64)).any()):
            return False
        return _same_shape(node, network) or (array.ndim == 0 and network.version(node) >= 7)

    return check


def _in_order(node: Any, network: Network) -> bool:
    order = attribute(node, "perm")
    return order is not None and list(order) == list(range(len(order)))


_SAME: dict[str, Callable[[Any, Network], bool]] = {
    "Identity": lambda node, network: True,
    "Dropout": _inference,
    "Cast": _same_dtype,
    "Transpose": _in_order,
    "Reshape": _same_shape,
    "Flatten": _same_shape,
    "Squeeze": _same_shape,
    "Unsqueeze": _same_shape,
    "Expand": _same_shape,
    "Slice": _same_shape,
    "Pad": _no_padding,
    "Concat": lambda node, network: len(node.input) == 1,
    "Sum": lambda node, network: len(node.input) == 1,
    "Mul": _by(1),
    "Div": _by(1),
    "Sub": _by(0),
}
"""Operators that may give their first operand back, and when they do."""


# -- pairs ---------------------------------------------------------------------------------------------------


def _joined(node: Any, network: Network) -> int:
    """A node that reads the operand of the one before it instead; 1 if it does."""
    rule = _PAIRS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    return int(rule(node, network)) if rule is not None and node.input and node.input[0] else 0


def _transposes(node: Any, network: Network) -> bool:
    before = network.maker(node.input[0], "Transpose")
    second = attribute(node, "perm")
    if before is None or second is None:
        return False
    first = attribute(before, "perm")
    if first is None or len(first) != len(second):
        return False
    for a in node.attribute:
        if a.name == "perm":
            a.ints[:] = [first[i] for i in second]
    node.input[0] = before.input[0]
    return True


def _reshapes(node: Any, network: Network) -> bool:
    """Only the last shape counts, if it says every size itself."""
    before = network.maker(node.input[0], "Reshape", "Flatten", "Squeeze", "Unsqueeze")
    target = network.array(node.input[1]) if len(node.input) > 1 else None
    if before is None or target is None or bool((target == 0).any()):
        return False
    node.input[0] = before.input[0]
    return True


def _casts(node: Any, network: Network) -> bool:
    """Through a dtype that holds all values of the first, a cast is none."""
    before = network.maker(node.input[0], "Cast")
    if before is None:
        return False
    first, middle = network.dtype(before.input[0]), attribute(before, "to")
    if middle not in _EXACT_CASTS.get(first, ()):
        return False
    node.input[0] = before.input[0]
    return True


_PAIRS = {"Transpose": _transposes, "Reshape": _reshapes, "Cast": _casts}
