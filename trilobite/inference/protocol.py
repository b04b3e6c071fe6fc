"""ONNX's messages, read from their wire form: what the onnx package would give, without importing it.

Enters: bytes. Leaves: a `Proto` whose fields are read when they are asked for, by the names of ONNX's schema;
only the fields that are read somewhere stand in `SCHEMAS`. Where the onnx package takes several parts of one
message together, so does this. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from trilobite.inference.formats.wire import Message

_TEXT = """
Model: producer_name 2 text, producer_version 3 text, graph 7 Graph, opset_import 8 Opset*,
    metadata_props 14 Entry*, functions 25 Function*
Opset: domain 1 text, version 2 int
Entry: key 1 text, value 2 text
Graph: node 1 Node*, name 2 text, initializer 5 Tensor*, input 11 ValueInfo*, output 12 ValueInfo*,
    sparse_initializer 15 SparseTensor*
Node: input 1 text*, output 2 text*, name 3 text, op_type 4 text, attribute 5 Attribute*, domain 7 text,
    overload 8 text
Attribute: name 1 text, f 2 float, i 3 int, s 4 bytes, t 5 Tensor, g 6 Graph, floats 7 float*, ints 8 int*,
    strings 9 bytes*, tensors 10 Tensor*, tp 14 Type, type 20 int, ref_attr_name 21 text,
    sparse_tensor 22 SparseTensor
ValueInfo: name 1 text, type 2 Type
Tensor: dims 1 int*, data_type 2 int, float_data 4 float*, int32_data 5 int*, string_data 6 bytes*,
    int64_data 7 int*, name 8 text, raw_data 9 bytes, double_data 10 double*, uint64_data 11 uint*,
    external_data 13 Entry*, data_location 14 int
SparseTensor: values 1 Tensor, indices 2 Tensor, dims 3 int*
Type: tensor_type 1 TensorType, sequence_type 4 Elements, map_type 5 Map, sparse_tensor_type 8 TensorType,
    optional_type 9 Elements
TensorType: elem_type 1 int, shape 2 Shape
Elements: elem_type 1 Type
Map: value_type 2 Type
Shape: dim 1 Dimension*
Dimension: dim_value 1 int, dim_param 2 text
Function: name 1 text, input 4 text*, output 5 text*, node 7 Node*, opset_import 9 Opset*, domain 10 text,
    attribute_proto 11 Attribute*, overload 13 text
"""


class Field(NamedTuple):
    """A field's number, what it holds, and whether it may stand there many times."""

    number: int
    kind: str
    repeated: bool


def _schemas(text: str) -> dict[str, dict[str, Field]]:
    found: dict[str, dict[str, Field]] = {}
    for line in text.strip().replace(",\n ", ", ").splitlines():
        name, _, rest = line.partition(":")
        parts = (part.split() for part in rest.split(","))
        found[name] = {n: Field(int(at), kind.rstrip("*"), kind.endswith("*")) for n, at, kind in parts}
    return found


SCHEMAS: Mapping[str, Mapping[str, Field]] = _schemas(_TEXT)
ATTRIBUTE_KINDS = (
    "UNDEFINED FLOAT INT STRING TENSOR GRAPH FLOATS INTS STRINGS TENSORS GRAPHS SPARSE_TENSOR "
    "SPARSE_TENSORS TYPE_PROTO TYPE_PROTOS"
).split()
"""By their numbers."""


def _text(data: memoryview) -> str | bytes:
    """Text; what is no UTF-8 stays bytes, and whoever reads names refuses it."""
    raw = bytes(data)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


_SINGLE: dict[str, Callable[[Message, int], Any]] = {
    "text": lambda m, n: _text(m.raw(n)),
    "bytes": lambda m, n: m.raw(n),
    "int": lambda m, n: m.integer(n),
    "float": lambda m, n: m.float(n),
}
_MANY: dict[str, Callable[[Message, int], Any]] = {
    "text": lambda m, n: [_text(v) for v in m.raws(n)],
    "bytes": lambda m, n: [bytes(v) for v in m.raws(n)],
    "int": lambda m, n: m.integers(n),
    "uint": lambda m, n: m.integers(n),
    "float": lambda m, n: m.numbers(n, "<f4").tolist(),
    "double": lambda m, n: m.numbers(n, "<f8").tolist(),
}


class Proto:
    """One message of a kind in `SCHEMAS`. Absent fields have the defaults of protocol buffers."""

    def __init__(self, kind: str, data: memoryview, where: str) -> None:
        self._kind, self._where, self.wire = kind, where, data
        self._message = Message(data, where)

    def __getattr__(self, name: str) -> Any:
        field = SCHEMAS[self._kind].get(name)
        if field is None:
            raise AttributeError(name)
        found = self._read(field)
        setattr(self, name, found)
        return found

    def _read(self, field: Field) -> Any:
        m, where = self._message, self._where
        if field.kind in SCHEMAS:
            if field.repeated:
                return [Proto(field.kind, v, where) for v in m.raws(field.number)]
            parts = m.raws(field.number)
            whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
            return Proto(field.kind, whole, where)
        return (_MANY if field.repeated else _SINGLE)[field.kind](m, field.number)

    def HasField(self, name: str) -> bool:
        return self._message.has(SCHEMAS[self._kind][name].number)

    def WhichOneof(self, group: str) -> str | None:
        """Of a type or a dimension: which of its fields was given, the last if there are several."""
        names = {field.number: name for name, field in SCHEMAS[self._kind].items()}
        given = [names[n] for n in self._message.given() if n in names]
        return given[-1] if given else None


# -- numbers of a tensor -------------------------------------------------------------------------------------

_BITS = {
    10: np.uint16,
    16: np.uint16,
    **dict.fromkeys((17, 18, 19, 20, 24), np.uint8),
}  # formats kept as bits


def typed_data(tensor: Proto, code: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The numbers of a tensor that has them in fields of their own kind, flat, not as views of the file."""
    m, at = tensor._message, SCHEMAS["Tensor"]
    if dtype in (np.dtype(np.float32), np.dtype(np.complex64)):
        return m.numbers(at["float_data"].number, "<f4").copy().view(dtype)
    if dtype in (np.dtype(np.float64), np.dtype(np.complex128)):
        return m.numbers(at["double_data"].number, "<f8").copy().view(dtype)
    if code in _BITS:
        return m.long_integers(at["int32_data"].number).astype(_BITS[code]).view(dtype)
    wide = {7: "int64_data", 12: "uint64_data", 13: "uint64_data"}.get(code, "int32_data")
    return m.long_integers(at[wide].number).astype(dtype)
