"""PyTorch files and pickles written by hand, opcode by opcode: honest ones and others.

`pickled(value)` knows plain values and three of its own: `Global` (a name), `Call` (REDUCE) and `Persistent`.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
SYSTEM = {
    "protocol_version": PROTOCOL,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}
STORAGES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


class Global(NamedTuple):
    module: str
    name: str


class Call(NamedTuple):
    function: Any
    arguments: tuple[Any, ...]


class Persistent(NamedTuple):
    pid: Any


class Raw(NamedTuple):
    """Opcodes as they are."""

    code: bytes


def pickled(value: Any, protocol: int = 2) -> bytes:
    return b"\x80" + bytes([protocol]) + code_of(value, protocol) + b"."


def code_of(value: Any, protocol: int = 2) -> bytes:
    """The opcodes that leave a value on the stack."""
    if isinstance(value, Raw):
        return value.code
    if isinstance(value, Global):
        return _global(value, protocol)
    if isinstance(value, Call):
        return code_of(value.function, protocol) + code_of(value.arguments, protocol) + b"R"
    if isinstance(value, Persistent):
        return code_of(value.pid, protocol) + b"Q"
    if isinstance(value, dict):
        items = b"".join(code_of(part, protocol) for pair in value.items() for part in pair)
        return b"}(" + items + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(code_of(item, protocol) for item in value) + b"e"
    if isinstance(value, tuple):
        return b"(" + b"".join(code_of(item, protocol) for item in value) + b"t"
    return _scalar(value)


def _global(value: Global, protocol: int) -> bytes:
    if protocol >= 4:
        return code_of(value.module) + code_of(value.name) + b"\x93"
    return f"c{value.module}\n{value.name}\n".encode()


def _scalar(value: Any) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        if 0 <= value < 256:
            return b"K" + bytes([value])
        data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8a" + bytes([len(data)]) + data
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return b"C" + bytes([len(value)]) + value
    text = value.encode()
    return b"X" + len(text).to_bytes(4, "little") + text


ORDERED = Global("collections", "OrderedDict")
TENSOR = Global("torch._utils", "_rebuild_tensor_v2")


def storage(key: str, dtype: str, length: Any, *view: Any) -> Persistent:
    return Persistent(("storage", Global("torch", f"{STORAGES[dtype]}Storage"), key, "cpu", length, *view))


def tensor(where: Any, offset: Any, shape: Any, strides: Any, *more: Any) -> Call:
    return Call(TENSOR, (where, offset, shape, strides, False, Call(ORDERED, ()), *more))


def whole(key: str, array: np.ndarray, *view: Any) -> Call:
    """A contiguous tensor that is all of its storage."""
    strides = tuple(math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim))
    return tensor(storage(key, array.dtype.name, array.size, *view), 0, array.shape, strides)


def zip_file(
    pickle: bytes,
    storages: Mapping[str, bytes],
    *,
    extra: Mapping[str, bytes] | None = None,
    root: str = "archive",
) -> bytes:
    """The format of today: stored entries below one folder."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{root}/data.pkl", pickle)
        for key, data in storages.items():
            archive.writestr(f"{root}/data/{key}", data)
        archive.writestr(f"{root}/version", b"3\n")
        for name, data in (extra or {}).items():
            archive.writestr(name, data)
    return out.getvalue()


def stream_file(
    pickle: bytes, storages: Mapping[str, tuple[int, bytes]], *, system: Any = SYSTEM, keys: Any = None
) -> bytes:
    """The format before: five pickles, then each storage's length and elements."""
    heads = [
        pickled(MAGIC),
        pickled(PROTOCOL),
        pickled(system),
        pickle,
        pickled(list(storages) if keys is None else keys),
    ]
    tails = [length.to_bytes(8, "little", signed=True) + data for length, data in storages.values()]
    return b"".join(heads + tails)
