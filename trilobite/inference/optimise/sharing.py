"""Equal nodes and equal constants are one; what no output needs is gone.

Enters: a network. Leaves: it without repetitions and remains. Operators that draw random numbers, and those
with bodies, are never taken for equal.
"""

from __future__ import annotations

from typing import Any

from trilobite.inference import operators
from trilobite.inference.operators import registry
from trilobite.inference.optimise.network import Network, bodies, reads


def share_nodes(network: Network) -> int:
    """How many nodes read what another makes instead."""
    operators.load()
    seen: dict[tuple[Any, ...], Any] = {}
    names: dict[str, str] = {}
    kept = []
    for node in list(network.graph.node):
        for i, name in enumerate(node.input):
            if name in names:
                node.input[i] = names[name]
        if not _is_repeatable(node, network):
            kept.append(node)
            continue
        first = seen.setdefault(_key(node), node)
        held = network.outputs | network.pinned
        if first is node or any(o in held for o in node.output):
            kept.append(node)
            continue
        names.update((b, a) for a, b in zip(first.output, node.output, strict=True) if b)
    if names:
        count = len(network.graph.node) - len(kept)
        network.keep(kept)
        network.rename(names)
        return count
    return 0


def _key(node: Any) -> tuple[Any, ...]:
    attributes = tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute))
    outputs = tuple(bool(o) for o in node.output)
    return node.domain, node.op_type, tuple(node.input), attributes, outputs


def _is_repeatable(node: Any, network: Network) -> bool:
    if any(True for _ in bodies(node)):
        return False
    domain = "" if node.domain == "ai.onnx" else node.domain
    row = registry.find(domain, node.op_type, network.version(node))
    return row is not None and row.pure


def share_constants(network: Network) -> int:
    """How many constants are others' equals."""
    seen: dict[tuple[Any, ...], str] = {}
    names: dict[str, str] = {}
    for name in network.tensor_names():
        array = network.array(name)
        if array is None or array.dtype.hasobject or name in network.outputs | network.pinned:
            continue
        key = (network.dtype(name), array.shape, array.tobytes())
        first = seen.setdefault(key, name)
        if first != name:
            names[name] = first
    if names:
        network.rename(names)
        network.drop_constants(names)
    return len(names)


def remove_unused(network: Network) -> int:
    """How many nodes nobody needs. Constants that nobody reads go too."""
    wanted = set(network.outputs)
    kept = []
    for node in reversed(network.graph.node):
        if any(o in wanted for o in node.output if o):
            kept.append(node)
            wanted.update(reads(node))
    count = len(network.graph.node) - len(kept)
    if count:
        network.keep(kept[::-1])
    unused = [n for n in network.tensor_names() if n not in wanted]
    if unused:
        network.drop_constants(unused)
    return count
