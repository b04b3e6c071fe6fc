"""Nodes on constants become constants, arithmetic on shapes with them.

Enters: a network. Leaves: it with such nodes computed by the operators of this package. A shape of which some
sizes are known is followed through the operators that exporters write around shapes, so that a size that is
known becomes a constant even where its neighbours are open. Results that would make the file much larger,
random numbers and weights that are kept quantised are left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.errors import TrilobiteError
from trilobite.inference import operators
from trilobite.inference.operators import registry
from trilobite.inference.optimise.network import Array, Network, attribute, bodies, is_op
from trilobite.inference.program.apply import apply
from trilobite.inference.program.values import Known, is_tensor_dtype
from trilobite.inference.reader import node_of

_LARGEST = 1 << 16  # bytes that folding may add to the file
_KEPT = ("DequantizeLinear", "MatMulNBits", "Dropout", "QuantizeLinear")


def fold_constants(network: Network) -> int:
    """How many nodes were computed."""
    operators.load()
    sizes: dict[str, list[int | None]] = {}
    kept, count = [], 0
    for node in network.graph.node:
        found = _computed(node, network)
        if found is None:
            found = _known_sizes(node, network, sizes)
        if found is None:
            kept.append(node)
            continue
        count += 1
        for name, array in zip(node.output, found, strict=False):
            if name:
                network.add_constant(name, array)
    if count:
        network.keep(kept)
    return count


def _computed(node: Any, network: Network) -> list[Array] | None:
    """The results of a node whose operands are all constants."""
    outside = any(n and not network.is_constant(n) for n in node.input)
    if outside or any(True for _ in bodies(node)) or node.op_type in _KEPT:
        return None
    if any(o in network.outputs for o in node.output):
        return None
    plain = node_of(node, network.opsets, network.folder)
    row = registry.find(plain.domain, plain.op, plain.version)
    if row is None or row.host or row.subgraphs or not row.pure or not row.takes(len(plain.inputs)):
        return None
    operands = [Known(a) if (a := network.array(n)) is not None else None for n in plain.inputs]
    if any(k is not None and not is_tensor_dtype(k.array.dtype) for k in operands):
        return None
    return _small(node, _applied(plain, row, operands), sum(k.array.nbytes for k in operands if k))


def _applied(plain: Any, row: Any, operands: list[Any]) -> list[Any]:
    try:
        return list(apply(plain, row, operands))
    except TrilobiteError:
        return []  # a node that is wrong is told when the model runs


def _small(node: Any, results: list[Any], before: int) -> list[Array] | None:
    if len(results) < len(node.output) or not all(isinstance(r, Known) for r in results):
        return None
    arrays = [r.array for r in results]
    if not all(is_tensor_dtype(a.dtype) for a in arrays):
        return None
    return arrays if sum(a.nbytes for a in arrays) <= max(_LARGEST, before) else None


# -- shapes of which some sizes are known ------------------------------------------------------------------


def _known_sizes(node: Any, network: Network, sizes: dict[str, list[int | None]]) -> list[Array] | None:
    """Follows one node; gives its result if nothing in it is open."""
    found = _followed(node, network, sizes)
    if found is None:
        return None
    values, shape = found
    name = node.output[0]
    if None in values or name in network.outputs:
        sizes[name] = values
        return None
    return [np.array(values, np.int64).reshape(shape)]


def _followed(
    node: Any, network: Network, sizes: dict[str, list[int | None]]
) -> tuple[list[int | None], tuple[int, ...]] | None:
    if is_op(node, "Shape"):
        shape = network.shape(node.input[0])
        if shape is None:
            return None
        part = list(shape)[_range(attribute(node, "start", 0), attribute(node, "end"), len(shape))]
        return part, (len(part),)
    if is_op(node, "Size"):
        whole = network.static_shape(node.input[0])
        return None if whole is None else ([int(np.prod(whole, dtype=np.int64))], ())
    rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    return rule(node, network, sizes) if rule is not None else None


def _range(start: Any, end: Any, rank: int) -> slice:
    return slice(start, rank if end is None else end)


def _vector(name: str, network: Network, sizes: dict[str, list[int | None]]) -> list[int | None] | None:
    """A vector or scalar of sizes, as far as they are known."""
    array = network.array(name)
    if array is None:
        return sizes.get(name)
    if array.ndim > 1 or array.dtype.kind not in "iu":
        return None
    return [int(v) for v in np.atleast_1d(array)]


def _gather(node: Any, network: Network, sizes: Any) -> Any:
    vector, places = _vector(node.input[0], network, sizes), network.array(node.input[1])
    if vector is None or places is None or places.ndim > 1 or network.rank(node.input[0]) not in (None, 1):
        return None
    if attribute(node, "axis", 0) not in (0, -1) or any(abs(int(p)) > len(vector) for p in places.ravel()):
        return None
    if any(int(p) == len(vector) for p in places.ravel()):
        return None
    return [vector[int(p)] for p in places.ravel()], places.shape


def _concat(node: Any, network: Network, sizes: Any) -> Any:
    parts = [_vector(n, network, sizes) for n in node.input]
    if any(p is None for p in parts) or any(network.rank(n) not in (1, None) for n in node.input):
        return None
    joined = [v for p in parts if p is not None for v in p]
    return joined, (len(joined),)


def _same(node: Any, network: Network, sizes: Any) -> Any:
    """Unsqueeze, Squeeze: one element stays one; whether it is a vector decides its shape."""
    vector = _vector(node.input[0], network, sizes)
    if vector is None or len(vector) != 1:
        return None
    return vector, ((1,) if node.op_type == "Unsqueeze" else ())


def _slice(node: Any, network: Network, sizes: Any) -> Any:
    if len(node.input) < 3:
        return None
    vector, bounds = _vector(node.input[0], network, sizes), [network.array(n) for n in node.input[1:]]
    if vector is None or any(b is None or b.size != 1 for b in bounds):
        return None
    numbers = [int(b.reshape(())) for b in bounds if b is not None]
    step = numbers[3] if len(numbers) > 3 else 1
    if step < 1 or (len(numbers) > 2 and numbers[2] not in (0, -1)):
        return None
    part = vector[numbers[0] : numbers[1] : step]
    return part, (len(part),)


_RULES = {"Gather": _gather, "Concat": _concat, "Unsqueeze": _same, "Squeeze": _same, "Slice": _slice}
