"""Frozen TensorFlow graphs by hand, from the definition of GraphDef.

Enters: nodes as (name, operation, inputs, attributes). Leaves: the bytes of a file. A number is an integer or
a float attribute by its Python type, a list of integers a list, a dtype a type, an array a tensor.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

CODES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "int64": 9, "bool": 10}
Row = tuple[str, str, Sequence[str], dict[str, Any]]


def varint(n: int) -> bytes:
    n &= (1 << 64) - 1
    out = b""
    while n >> 7:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def number(field: int, n: int) -> bytes:
    return varint(field << 3) + varint(n)


def data(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def shape(sizes: Sequence[int | None]) -> bytes:
    return b"".join(data(2, number(1, -1 if n is None else n)) for n in sizes)


def tensor(array: Any) -> bytes:
    array = np.asarray(array)
    content = data(4, array.tobytes()) if array.size else b""
    return number(1, CODES[array.dtype.name]) + data(2, shape(array.shape)) + content


def attribute(value: Any) -> bytes:
    if isinstance(value, bytes):  # as it is
        return value
    if isinstance(value, bool):
        return number(5, value)
    if isinstance(value, int):
        return number(3, value)
    if isinstance(value, float):
        return varint(4 << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        return data(2, value.encode())
    if isinstance(value, list):
        return data(1, data(3, b"".join(map(varint, value))))
    if isinstance(value, tuple):
        return data(7, shape(value))
    if isinstance(value, np.ndarray):
        return data(8, tensor(value))
    return number(6, CODES[np.dtype(value).name])


def graph(rows: Sequence[Row]) -> bytes:
    out = b""
    for name, op, inputs, attributes in rows:
        node = data(1, name.encode()) + data(2, op.encode()) + b"".join(data(3, i.encode()) for i in inputs)
        for key, value in attributes.items():
            node += data(5, data(1, key.encode()) + data(2, attribute(value)))
        out += data(1, node)
    return out


def constant(name: str, array: Any) -> Row:
    array = np.asarray(array)
    return name, "Const", (), {"value": array, "dtype": array.dtype}


def placeholder(name: str, array: Any, sizes: Sequence[int | None] | None = None) -> Row:
    array = np.asarray(array)
    return (
        name,
        "Placeholder",
        (),
        {"dtype": array.dtype, "shape": tuple(array.shape if sizes is None else sizes)},
    )
