"""Operators that only move elements, on elements that tensors cannot have: strings, formats of 2 and 6
bits.

Each distinct element gets a number, the operator runs on the numbers, and the numbers are turned back.
Operators that compare for equality work as well, since equal elements have equal numbers. Lists and absent
optionals pass through Identity alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import DTypeError
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import Row
from trilobite.inference.program.apply import call_now
from trilobite.inference.program.values import is_tensor_dtype

MOVING = frozenset(
    "Identity Reshape Flatten Squeeze Unsqueeze Transpose Concat Split Slice Gather GatherElements GatherND "
    "Expand Tile Where Pad ScatterElements ScatterND Scatter ReverseSequence Trilu DepthToSpace SpaceToDepth "
    "Equal Shape Size ConstantOfShape OneHot Compress".split()
)


def is_foreign(value: Any) -> bool:
    """A host value that no tensor can hold."""
    if isinstance(value, np.ndarray | np.generic):
        return not is_tensor_dtype(value.dtype)
    return isinstance(value, list | tuple | dict)


def on_codes(node: Node, row: Row, operands: Sequence[Any]) -> list[Any]:
    """The operator on numbers that stand for elements."""
    if node.op == "Identity":
        return [operands[0]]
    foreign = [v for v in operands if is_foreign(v)]
    if node.op not in MOVING or not all(isinstance(v, np.ndarray) for v in foreign):
        raise DTypeError(
            f"{node.label()} on {', '.join(str(getattr(v, 'dtype', type(v).__name__)) for v in foreign)}",
            expected="an operator that ONNX defines on them",
        )
    flat = np.concatenate([v.reshape(-1) for v in foreign])
    if flat.dtype == object:
        table, codes = np.unique(flat.astype(str), return_inverse=True)
        table = table.astype(object)
    else:
        table, codes = _unique_bits(flat)
    coded, at = [], 0
    for v in operands:
        if is_foreign(v):
            coded.append(codes[at : at + v.size].reshape(v.shape).astype(np.int64))
            at += v.size
        else:
            coded.append(v)
    results = call_now(node, row, coded)
    if node.op in ("Equal", "Shape", "Size"):
        return results
    return [table[np.asarray(r)] for r in results]


def _unique_bits(flat: Any) -> tuple[Any, Any]:
    """As np.unique, for formats that NumPy cannot sort: one byte holds an element."""
    bits, codes = np.unique(flat.view(np.uint8), return_inverse=True)
    return bits.astype(np.uint8).view(flat.dtype), codes
