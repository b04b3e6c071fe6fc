"""Arrays as bytes: which dtypes a file can hold, and an array's bytes in the order files want them.

Enters: anything with `__array__`. Leaves: a NumPy array in native byte order, or its flat bytes; and back.
Does not know any file format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.base.errors import ArgumentError, DTypeError
from trilobite.framework.checkpoint.refusal import corrupt

Array = np.ndarray[Any, np.dtype[Any]]

_BUILTIN = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
_EXTENDED = (
    *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
    *("int1", "int2", "int4", "uint1", "uint2", "uint4"),
)
DTYPES: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in _BUILTIN},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in _EXTENDED if hasattr(ml_dtypes, name)},
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}  # NumPy computes a dtype's name anew each time
EXTENDED = frozenset(_EXTENDED)

# Formats whose element fills its byte only in part: any other byte is no number and must not reach
# arithmetic.
_CODES = {
    **{"bool": 2, "int1": 2, "uint1": 2, "int2": 4, "uint2": 4, "int4": 16, "uint4": 16},
    **{"float4_e2m1fn": 16, "float6_e2m3fn": 64, "float6_e3m2fn": 64},
}

MAX_RANK = 64  # NumPy's own limit
_LARGEST = 2**63 - 1
_CHUNK = 1 << 20


def as_array(value: Any, name: str) -> Array:
    """A leaf as an array of a dtype that files can hold, in native byte order."""
    array = np.asarray(value)
    dtype = array.dtype
    if not dtype.isnative:
        array = array.astype(dtype := dtype.newbyteorder("="))
    if dtype not in NAMES:
        raise DTypeError(
            f"an array of dtype {dtype} cannot be saved",
            where=name,
            expected=f"one of {', '.join(DTYPES)}",
            remedy="convert it, or take it out of what is saved",
        )
    if not codes_are_numbers(array):
        raise ArgumentError(
            f"the array holds bytes that are no {dtype.name}",
            where=name,
            expected=f"bytes below {_CODES[dtype.name]}",
            remedy="it was made by reinterpreting other bytes; build it with astype",
        )
    return array


def codes_are_numbers(array: Array) -> bool:
    """Whether every byte is a code of the dtype: a bool of 2, or an int4 with a high nibble, is none."""
    limit = _CODES.get(NAMES.get(array.dtype, ""))
    return limit is None or array.size == 0 or int(array.view(np.uint8).max()) < limit


def flat_bytes(array: Array) -> memoryview:
    """The bytes of a C-contiguous array, as a flat view."""
    return array.reshape(-1).view(np.uint8).data


def byte_chunks(array: Array) -> Iterator[bytes]:
    """An array's bytes in C order. Each chunk is a copy: what is hashed is what is written, even if a thread
    changes the array meanwhile."""
    flat = flat_bytes(np.ascontiguousarray(array))
    for start in range(0, len(flat), _CHUNK):
        yield bytes(flat[start : start + _CHUNK])


def checked_bytes(shape: Sequence[Any], itemsize: int, where: str) -> int:
    """The size in bytes of an array that a file describes; refuses what no array can have."""
    for extent in shape:
        if type(extent) is not int or extent < 0:
            raise corrupt(
                f"the shape {_short(shape)} has an extent that is no size", where, "integers of at least 0"
            )
    if len(shape) > MAX_RANK:
        raise corrupt(f"the shape has {len(shape)} axes", where, f"at most {MAX_RANK}")
    span = itemsize
    for extent in shape:
        span *= max(extent, 1)
        if span > _LARGEST:
            raise corrupt(
                f"the shape {_short(shape)} is larger than any memory", where, "less than 2**63 bytes"
            )
    return 0 if 0 in shape else span


def _short(shape: Sequence[Any]) -> str:
    text = repr(list(shape[:MAX_RANK]))
    return text if len(text) <= 200 else text[:200] + "..."
