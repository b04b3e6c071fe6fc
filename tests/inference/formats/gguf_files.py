"""Writes GGUF files for tests: metadata and tensors as given, every number where the format wants it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind: int, found: Any) -> bytes:
    if kind == 8:
        return text(found)
    if kind == 9:
        inner, rows = found
        return struct.pack("<IQ", inner, len(rows)) + b"".join(value(inner, row) for row in rows)
    return struct.pack("<" + _FORMS[kind], found)


def gguf(
    metadata: Mapping[str, tuple[int, Any]],
    tensors: Mapping[str, tuple[Sequence[int], int, bytes]],
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """Tensors: shape in NumPy's order, number of the type, bytes."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, (kind, found) in metadata.items():
        head += text(key) + struct.pack("<I", kind) + value(kind, found)
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        data += b"\0" * (-len(data) % alignment)
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += struct.pack("<IQ", kind, len(data))
        data += raw
    return head + b"\0" * (-len(head) % alignment) + data


def blocks(kind: int, record: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
    """Random blocks of a type whose scales are numbers: the top bit of each float's exponent is cleared."""
    raw = np.random.default_rng(kind).integers(0, 256, (count, record.itemsize), dtype=np.uint8)
    for name in ("d", "dmin", "m"):
        dtype, at = (record.fields or {}).get(name, (None, 0))[:2]
        if dtype is not None and dtype.kind == "f":
            raw[:, at + dtype.itemsize - 1] &= 0xBF
    if kind == 29:  # IQ1_M: the scale's top bits are those of the last byte
        raw[:, -1] &= 0xBF
    return raw
