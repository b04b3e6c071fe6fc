"""One node applied to its operands: while a graph is recorded, or at once.

Operands that are all known give known results, computed outside of the recording: arithmetic on shapes
leaves no trace in the compiled graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import FileError, ShapeError, TrilobiteError
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import Row
from trilobite.inference.program.symbolic import evaluated
from trilobite.inference.program.values import Known, as_array, as_tensor, known, outside

_WRONG = (TypeError, LookupError, ValueError, AttributeError, AssertionError, ArithmeticError, MemoryError)
REAL = {1: np.dtype(np.float32), 11: np.dtype(np.float64)}  # as which sizes are counted (`torch.arange`)
LARGE = 1 << 16  # elements: larger results of "make an array" operators belong into the compiled graph


def apply(node: Node, row: Row, operands: Sequence[Any]) -> list[Any]:
    """Results of a node, in the order of its outputs."""
    if row.pure and all(v is None or isinstance(v, Known) for v in operands):
        found = _of_known(node, row, operands)
        if found is not None:
            return found
    return [r if isinstance(r, Tensor) else _known(r) for r in _call(node, row, operands)]


def _of_known(node: Node, row: Row, operands: Sequence[Any]) -> list[Any] | None:
    """Results that are known as well; None if they had better be recorded."""
    if any(v is not None and v.is_symbolic for v in operands):
        if any(v is not None and v.real is not None for v in operands):
            return None
        if node.op == "Cast" and node.attributes["to"] in REAL:
            return [Known(operands[0].array, REAL[node.attributes["to"]])]
        try:
            return [Known(r) for r in evaluated(node, [None if v is None else v.array for v in operands])]
        except ShapeError:
            return None
    if _too_large(row, operands) or is_kept(node, operands) or is_turned_weight(node, operands):
        return None
    with outside():
        found = [_known(r) for r in _call(node, row, operands)]
    return [r.in_quantised() for r in found] if node.op in KEPT else found


def _too_large(row: Row, operands: Sequence[Any]) -> bool:
    if not row.makes:
        return False
    sizes = [v.array for v in operands if v is not None and v.array.dtype.kind in "iu" and v.array.ndim == 1]
    return any(float(np.prod(np.abs(a.astype(np.float64)))) > LARGE for a in sizes)


_WEIGHT = 1 << 16  # bytes of a weight that is not turned here: kernels read it as it lies


def is_turned_weight(node: Node, operands: Sequence[Any]) -> bool:
    """Is this a Transpose of a weight? Products take it in its stride; as an array it is a second copy."""
    return node.op == "Transpose" and operands[0] is not None and operands[0].array.nbytes >= _WEIGHT


KEPT = frozenset({"DequantizeLinear", "MatMulNBits"})


_QUANTISED = ("QLinear", "QGemm", "MatMulInteger", "ConvInteger", "DynamicQuantize", "DequantizeLinear")


def is_quantised(node: Node) -> bool:
    """Does an operator compute with numbers on a grid?"""
    return node.op.startswith(_QUANTISED)


def is_kept(node: Node, operands: Sequence[Any]) -> bool:
    """Are these weights on a grid? As numbers they take more memory, and products lose their integers."""
    return node.op in KEPT and bool(operands) and operands[0] is not None and operands[0].array.ndim > 1


def call_now(node: Node, row: Row, operands: Sequence[Any]) -> list[Any]:
    """As `apply`, on arrays that are there: a step between compiled graphs."""
    return [as_array(r) for r in _call(node, row, operands)]


def _call(node: Node, row: Row, operands: Sequence[Any]) -> list[Any]:
    if row.raw:
        args = list(operands)
    elif row.host:
        args = [as_array(v) for v in operands]
    else:
        args = [as_array(v) if i in row.known else as_tensor(v) for i, v in enumerate(operands)]
    try:
        out = row.function(node, *args)
    except TrilobiteError as error:
        error.add_note(f"  node: {node.label()}")
        raise
    except _WRONG as error:
        raise FileError(
            f"the node does not fit its operator: {type(error).__name__}: {error}",
            where=node.label(),
            expected=f"inputs and attributes of {node.op}, operator set {node.version}",
            remedy="check the model with onnx.checker; if it passes, this is a mistake here",
        ) from error
    return list(out) if isinstance(out, tuple) else [out]


def _known(result: Any) -> Any:
    if isinstance(result, Tensor):
        return known(result)
    return Known(np.asarray(result)) if isinstance(result, np.ndarray | np.generic) else result
