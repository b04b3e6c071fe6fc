"""A TFLite file as plain data: subgraphs of tensors and operators, weights mapped.

Enters: a path. Leaves: `Network`. Every index and size is checked. Sparse weights are made dense, 4-bit ones
unpacked. Does not know what operators mean.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from trilobite.framework.checkpoint.arrays import checked_bytes
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.flatbuffers import Table, root
from trilobite.inference.formats.mapped import Array, mapped, outside
from trilobite.inference.formats.tflite.names import CODES
from trilobite.inference.formats.tflite.sparse import densified

DTYPES: dict[int, Any] = {
    0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64, 6: np.bool_, 7: np.int16,
    8: np.complex64, 9: np.int8, 10: np.float64, 11: np.complex128, 12: np.uint64, 13: "V8", 15: np.uint32,
    16: np.uint16, 17: ml_dtypes.int4, 18: ml_dtypes.bfloat16, 20: ml_dtypes.uint4,
}  # fmt: skip
# 13: a resource, the name of a variable


class Quantised(NamedTuple):
    """Scales and zero points, one or one a slice of `axis`."""

    scale: Array
    zero: Array
    axis: int


class Value(NamedTuple):
    """A tensor of a subgraph. `array`: its numbers, where the file holds them."""

    name: str
    shape: tuple[int, ...]  # -1: not known in advance
    dtype: np.dtype[Any]
    quantised: Quantised | None
    array: Array | None


class Operator(NamedTuple):
    """One operation: an input of -1 is not given."""

    name: str
    inputs: list[int]
    outputs: list[int]
    options: Table | None


class Subgraph(NamedTuple):
    name: str
    values: list[Value]
    operators: list[Operator]
    inputs: list[int]
    outputs: list[int]


class Network(NamedTuple):
    subgraphs: list[Subgraph]
    where: str


def read(path: Any) -> Network:
    data, where = mapped(path)
    model = root(data, where, b"TFL3")
    names = [_operator_name(code) for code in model.tables(1)]
    buffers = model.tables(4)
    graphs = [_subgraph(g, names, buffers, data, where) for g in model.tables(2)]
    if not graphs:
        raise corrupt("the file has no network", where, "at least one subgraph")
    return Network(graphs, where)


def _operator_name(code: Table) -> str:
    number = max(int(code.number(0, "b")), int(code.number(3, "i")))
    name = CODES.get(number, f"operator {number}")
    return f"CUSTOM {code.text(1)}" if name == "CUSTOM" else name


def _subgraph(g: Table, names: list[str], buffers: list[Table], data: memoryview, where: str) -> Subgraph:
    values = [_value(t, buffers, data, where) for t in g.tables(0)]
    operators = []
    for o in g.tables(3):
        code = int(o.number(0, "I"))
        if code >= len(names):
            raise corrupt(f"an operator has code {code}", where, f"one of {len(names)}")
        operators.append(Operator(names[code], o.ints(1), o.ints(2), o.table(4)))
    found = Subgraph(g.text(4), values, operators, g.ints(1), g.ints(2))
    _check_indices(found, where)
    return found._replace(values=_with_empty(found))


def _with_empty(g: Subgraph) -> list[Value]:
    """Constants without elements, such as the shape of a scalar: the file holds no numbers of them."""
    made = {*g.inputs, *(i for o in g.operators for i in o.outputs)}
    return [
        v._replace(array=np.zeros(v.shape, v.dtype)) if _is_empty(v) and i not in made else v
        for i, v in enumerate(g.values)
    ]


def _is_known(v: Value) -> bool:
    return _is_state(v) or _is_empty(v)


def _is_empty(v: Value) -> bool:
    sizes = [max(d, 1) for d in v.shape]
    return v.array is None and 0 in v.shape and min(v.shape) >= 0 and math.prod(sizes) < 1 << 31


def _check_indices(g: Subgraph, where: str) -> None:
    n = len(g.values)
    rows = [
        (g.inputs, 0),
        (g.outputs, 0),
        *((o.inputs, -1) for o in g.operators),
        *((o.outputs, 0) for o in g.operators),
    ]
    for indices, lowest in rows:
        bad = [i for i in indices if not lowest <= i < n]
        if bad:
            raise corrupt(f"a tensor has number {bad[0]}", where, f"{lowest} to {n - 1}")
    made = {i for i, v in enumerate(g.values) if v.array is not None} | set(g.inputs)
    for o in g.operators:
        missing = [i for i in o.inputs if i >= 0 and i not in made and not _is_known(g.values[i])]
        if missing:
            name = shown(g.values[missing[0]].name)
            raise corrupt(f"{o.name} reads {name} before anything makes it", where, "operators in order")
        made |= set(o.outputs)
    lost = [i for i in g.outputs if i not in made]
    if lost:
        raise corrupt(f"nothing makes the output {shown(g.values[lost[0]].name)}", where, "a made output")


def _is_state(v: Value) -> bool:
    """A variable: zeros before the first run."""
    return v.array is None and v.name.endswith("\0state")


def _value(t: Table, buffers: list[Table], data: memoryview, where: str) -> Value:
    name = t.text(3)
    place = f"{where}, tensor {shown(name)}"
    code = int(t.number(1, "b"))
    if code not in DTYPES:
        raise outside(f"the tensor is of type {code}", place, "TFLite numbers alone are read", "numbers")
    dtype = np.dtype(DTYPES[code])
    shape = tuple(t.ints(0))
    if len(shape) > 32 or any(d < -1 for d in shape):
        raise corrupt(f"the shape is {shape[:32]}", place, "at most 32 sizes")
    array = _array(t, shape, dtype, buffers, data, place)
    signature = tuple(t.ints(7)) or shape
    if array is None and len(signature) == len(shape):
        shape = signature
    return Value(
        name + ("\0state" if t.number(5, "?") else ""), shape, dtype, _quantised(t.table(4), place), array
    )


def _array(
    t: Table, shape: tuple[int, ...], dtype: Any, buffers: list[Table], data: memoryview, place: str
) -> Array | None:
    number = int(t.number(2, "I"))
    if number >= len(buffers):
        raise corrupt(f"the data are in buffer {number}", place, f"one of {len(buffers)}")
    raw = _raw(buffers[number], data, place)
    if number == 0 or raw is None:
        return None
    sparsity = t.table(6)
    if sparsity is not None:
        return densified(sparsity, raw, shape, dtype, place)
    size = checked_bytes(shape, dtype.itemsize, place)
    if dtype.name in ("int4", "uint4"):
        return _nibbles(raw, shape, dtype, place)
    if len(raw) != size:
        raise corrupt(f"the data take {len(raw)} bytes", place, f"{size} for {dtype.name} {list(shape)}")
    if raw.ctypes.data % dtype.alignment:
        raw = raw.copy()
    found: Array = raw.view(dtype).reshape(shape)
    return found


def _raw(buffer: Table, data: memoryview, place: str) -> Array | None:
    if buffer.has(0):
        found = buffer.array(0, np.uint8)
        return found if len(found) else None
    at, size = int(buffer.number(1, "Q")), int(buffer.number(2, "Q"))
    if at <= 1:
        return None
    if at + size > len(data):
        raise corrupt(f"the data lie at {at}", place, f"within {len(data)} bytes")
    return np.frombuffer(data, np.uint8, size, at)


def _nibbles(raw: Array, shape: tuple[int, ...], dtype: Any, place: str) -> Array:
    """Two numbers a byte, the first in the low half."""
    count = int(np.prod(shape, dtype=object))
    if len(raw) != (count + 1) // 2:
        raise corrupt(f"the data take {len(raw)} bytes", place, f"{(count + 1) // 2}")
    halves = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
    if dtype.name == "int4":
        halves = np.where(halves > 7, halves - 16, halves).astype(np.int8)
    found: Array = halves.astype(dtype).reshape(shape)
    return found


def _quantised(q: Table | None, place: str) -> Quantised | None:
    if q is None or not q.has(2):
        return None
    scale, zero = q.array(2, np.float32), q.array(3, np.int64)
    if not len(scale):
        return None
    if len(zero) not in (0, len(scale)) or not np.isfinite(scale).all():
        raise corrupt(f"{len(scale)} scales and {len(zero)} zero points", place, "as many, and finite")
    return Quantised(scale, zero if len(zero) else np.zeros(len(scale), np.int64), int(q.number(6, "i")))
