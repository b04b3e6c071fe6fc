"""Type rules refuse in words: what, and what was expected."""

from __future__ import annotations

from typing import Any

import pytest

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, DTypeError, IRError, ShapeError
from trilobite.ir.primitive import table
from trilobite.ir.types import TensorType

F, G = TensorType((2, 3), dt.float32), TensorType((3, 2), dt.float32)
D, Z, B = TensorType((2, 3), dt.float64), TensorType((2, 3), dt.complex64), TensorType((2, 3), dt.bool_)
N, P = TensorType((2, 3), dt.int64), TensorType((5, 2), dt.int32)
S, EMPTY = TensorType((), dt.int64), TensorType((0, 3), dt.float32)

_BAD: list[tuple[str, list[TensorType], dict[str, Any], Any, str]] = [
    ("add", [F, G], {}, ShapeError,
        r"add: operands f32\[2,3\] and f32\[3,2\] differ in shape\n  where: .*\n  expected: equal shapes; "
        r"broadcasting is "
        r"explicit"),
    ("add", [F, D], {}, DTypeError,
        r"add: operands .* differ in dtype\n  where: .*\n  expected: equal dtypes; casts are explicit"),
    ("add", [B, B], {}, DTypeError,
        r"add does not take bool \(operand 0\)\n  where: .*\n  expected: bfloat16, complex128"),
    ("add", [F], {}, ShapeError, r"add of 1 operands\n  where: .*\n  expected: 2"),
    ("div", [N, N], {}, DTypeError, "div does not take int64"),
    ("lt", [Z, Z], {}, DTypeError, "lt does not take complex64"),
    ("erf", [Z], {}, DTypeError, "erf does not take complex64"),
    ("real", [F], {}, DTypeError,
        r"real does not take float32 \(operand 0\)\n  where: .*\n  expected: complex128, complex64"),
    ("and", [F, F], {}, DTypeError, "and does not take float32"),
    ("select", [N, F, F], {}, DTypeError, "select does not take int64"),
    ("select", [B, G, G], {}, ShapeError, "select: operands .* differ in shape"),
    ("polygamma", [F], {"order": 0}, ArgumentError,
        "polygamma of order 0\n  where: .*\n  expected: order >= 1\n  remedy: order 0 is digamma"),
    ("bitcast", [F], {"dtype": dt.int64}, DTypeError,
        r"bitcast of f32\[2,3\] to int64\n  where: .*\n  expected: a dtype of 32 bits"),
    ("bitcast", [B], {"dtype": dt.uint8}, DTypeError, "bitcast does not take bool"),
    ("reduce_sum", [F], {"axes": (0, 2)}, ShapeError,
        r"reduce_sum of f32\[2,3\] over axes \[0, 2\]\n  where: .*\n  expected: distinct sorted axes below "
        r"2"),
    ("reduce_max", [Z], {"axes": (0,)}, DTypeError, "reduce_max does not take complex64"),
    ("argmax", [EMPTY], {"axis": 0}, ShapeError, r"argmax of f32\[0,3\] along axis 0, which is empty"),
    ("argmin", [F], {"axis": 2}, ShapeError,
        r"argmin of f32\[2,3\] along axis 2\n  where: .*\n  expected: 0 <= axis < 2"),
    ("cumulative", [F], {"axis": 0, "kind": "mean", "reverse": False}, IRError,
        "cumulative has no kind 'mean'\n  where: .*\n  expected: one of sum, prod"),
    ("cumulative", [Z], {"axis": 0, "kind": "max", "reverse": False}, DTypeError,
        "cumulative max does not take complex64"),
    ("sort", [F, G], {"axis": 0, "keys": 1}, ShapeError, "sort: operands .* differ in shape"),
    ("sort", [Z], {"axis": 0, "keys": 1}, DTypeError, r"sort by c64\[2,3\]"),
    ("sort", [F], {"axis": 0, "keys": 2}, ShapeError, "sort of 1 operands by 2 keys"),
    ("top_k", [F], {"k": 4, "axis": 1}, ShapeError,
        r"top_k of f32\[2,3\] along axis 1 with k = 4\n  where: .*\n  expected: 0 <= k <= 3"),
    ("gather", [F, F], {"axis": 0}, DTypeError,
        r"gather with indices f32\[2,3\]\n  where: .*\n  expected: an integer dtype"),
    ("gather", [F, N], {"axis": 5}, ShapeError,
        r"gather of f32\[2,3\] along axis 5\n  where: .*\n  expected: 0 <= axis < 2"),
    ("gather", [EMPTY, N], {"axis": 0}, ShapeError,
        r"gather of f32\[0,3\]: an axis without elements has no places to index"),
    ("gather", [F, N], {"axis": 0, "mode": "wrap"}, ArgumentError, "gather has no mode 'wrap'"),
    ("gather_nd", [F, P], {"axes": (0,)}, ShapeError, "expected: a last axis of 1 indices"),
    ("gather_nd", [F, P], {"axes": (0, 0)}, ShapeError, "expected: distinct axes below 2"),
    ("take_along", [F, P], {"axis": 0}, ShapeError, "expected: equal sizes on all other axes"),
    ("scatter", [F, P, F], {"axes": (0, 1), "kind": "add"}, ShapeError,
        r"scatter of f32\[2,3\] into f32\[2,3\] at i32\[5,2\]\n  where: .*\n  expected: f32\[5\]"),
    ("scatter", [F, P, TensorType((5,), dt.float64)], {"axes": (0, 1), "kind": "add"}, DTypeError,
        "expected: equal dtypes"),
    ("scatter", [F, P, TensorType((5,), dt.float32)], {"axes": (0, 1), "kind": "max"}, ArgumentError,
        "scatter has no kind 'max'\n  where: .*\n  expected: one of set, add\n  remedy: scatter_reduce has "
        "it"),
    ("scatter_along", [F, N, F], {"axis": 0, "kind": "mul"}, ArgumentError,
        "remedy: scatter_reduce_along has it"),
    ("scatter_reduce_along", [Z, N, Z], {"axis": 0, "kind": "min"}, DTypeError,
        "scatter_reduce_along min does not take complex64"),
    ("scatter_along", [F, N, G], {"axis": 0, "kind": "set"}, ShapeError, "expected: one update per index"),
    ("dynamic_slice", [F, S], {"sizes": (1, 1)}, ShapeError,
        r"dynamic_slice of f32\[2,3\]: 1 starts and 2 sizes\n  where: .*\n  expected: 2 of each"),
    ("dynamic_slice", [F, S, S], {"sizes": (3, 1)}, ShapeError,
        "a window of 3 on axis 0\n  where: .*\n  expected: 0 <= size <= 2"),
    ("dynamic_slice", [F, S, F], {"sizes": (1, 1)}, DTypeError,
        r"starting at f32\[2,3\]\n  where: .*\n  expected: integer scalars"),
    ("dynamic_update_slice", [F, D, S, S], {}, DTypeError, "expected: equal dtypes; casts are explicit"),
    ("broadcast", [F], {"shape": (2, 4), "axes": (0, 1)}, ShapeError, "expected: sizes equal or 1"),
    ("reshape", [F], {"shape": (4, 2)}, ShapeError, "expected: 6 elements"),
    ("transpose", [F], {"axes": (0, 0)}, ShapeError, r"expected: a permutation of 0\.\.1"),
    ("slice", [F], {"start": (0, 0), "stop": (3, 3), "step": (1, 1)}, ShapeError,
        "expected: 0 <= start <= stop <= 2"),
    ("slice", [F], {"start": (0, 0), "stop": (2, 3), "step": (1, 0)}, ShapeError,
        "expected: one start, stop and step >= 1 per axis"),
    ("pad", [F], {"low": (-3, 0), "high": (0, 0), "between": (0, 0), "value": 0.0}, ShapeError,
        "leaves -1 of 2 elements"),
    ("update_slice", [F, G], {"start": (0, 0), "stop": (1, 3), "step": (1, 1)}, ShapeError,
        r"update_slice of f32\[2,3\] with f32\[3,2\]\n  where: .*\n  expected: f32\[1,3\]"),
    ("concatenate", [F, G], {"axis": 0}, ShapeError, "differ beside axis 0"),
    ("concatenate", [], {"axis": 0}, ShapeError, "concatenate of no operands"),
    ("concatenate", [F], {"axis": 2}, ShapeError, r"concatenate of f32\[2,3\] along axis 2"),
    ("reverse", [F], {"axes": (2,)}, ShapeError, r"reverse of f32\[2,3\] along axes \[2\]"),
    ("iota", [], {"shape": (2,), "dtype": dt.int64, "axis": 1}, ShapeError,
        r"iota of shape \[2\] along axis 1"),
    ("random_bits", [F, F], {"shape": (2,), "stream": 0}, IRError,
        "random_bits takes a key and a counter of two uint32"),
]  # fmt: skip


@pytest.mark.parametrize(
    "name, types, attributes, error, message", _BAD, ids=[f"{c[0]}{i}" for i, c in enumerate(_BAD)]
)
def test_type_rules_refuse_in_words(name: str, types: Any, attributes: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        table[name].type(*types, **attributes)
