"""TensorProto to NumPy, and external data under strict rules.

Enters: a protocol buffer of a tensor and the folder of the model. Leaves: an array. Data beside the model
is mapped, not read; its path is relative, stays inside the folder, passes no symbolic link and names a
plain file that is long enough. Sizes are checked before memory is asked for.
"""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path, PurePosixPath
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.base.errors import FileError
from trilobite.inference.protocol import Proto, typed_data

Array = np.ndarray[Any, Any]

STRING = np.dtype(object)
_CODES: dict[int, Any] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 8: object,
    9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 14: np.complex64,
    15: np.complex128, 16: ml_dtypes.bfloat16, 17: ml_dtypes.float8_e4m3fn, 18: ml_dtypes.float8_e4m3fnuz,
    19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e5m2fnuz, 21: ml_dtypes.uint4, 22: ml_dtypes.int4,
    23: ml_dtypes.float4_e2m1fn, 24: ml_dtypes.float8_e8m0fnu, 25: ml_dtypes.uint2, 26: ml_dtypes.int2,
    27: ml_dtypes.float6_e2m3fn, 28: ml_dtypes.float6_e3m2fn,
}  # fmt: skip
DTYPES: dict[int, np.dtype[Any]] = {code: np.dtype(t) for code, t in _CODES.items()}
"""ONNX's numbers of element types."""
CODES: dict[np.dtype[Any], int] = {d: code for code, d in DTYPES.items()}
_PACKED_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


def dtype_of(code: int, what: str) -> np.dtype[Any]:
    if code not in DTYPES:
        raise FileError(
            f"{what} has the element type {code}, which ONNX does not define",
            expected=f"a number from 1 to {max(DTYPES)}",
        )
    return DTYPES[code]


def to_array(tensor: Any, folder: Path | None) -> Array:
    """The numbers of a TensorProto."""
    what = f"the tensor {tensor.name!r}"
    dtype, shape = dtype_of(tensor.data_type, what), _shape(tensor, what)
    bits = _PACKED_BITS.get(tensor.data_type, dtype.itemsize * 8)
    size = (math.prod(shape) * bits + 7) // 8
    if tensor.data_location == 1:
        return _external(tensor, folder, size, what, dtype, shape)
    if dtype == STRING:
        return _strings(tensor, shape, what)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != size:
            raise _wrong_size(what, dtype, shape, size, len(tensor.raw_data))
        if tensor.data_type not in _PACKED_BITS:
            found = np.frombuffer(tensor.raw_data, _little(dtype)).reshape(shape)
            if isinstance(tensor, Proto):
                return found.astype(dtype)  # a copy that lies well, and the file's bytes can go
            return found.astype(dtype, copy=False)
    return _by_helper(tensor, shape, what)


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype


def _shape(tensor: Any, what: str) -> tuple[int, ...]:
    shape = tuple(int(d) for d in tensor.dims)
    if any(d < 0 for d in shape) or math.prod(shape) >= 2**48:
        raise FileError(
            f"{what} has the shape {shape}", expected="sizes from 0 on, of a tensor that fits memory"
        )
    return shape


def _strings(tensor: Any, shape: tuple[int, ...], what: str) -> Array:
    if len(tensor.string_data) != math.prod(shape):
        raise _wrong_size(what, STRING, shape, math.prod(shape), len(tensor.string_data))
    out = np.empty(len(tensor.string_data), dtype=object)
    out[:] = [s.decode("utf-8", errors="surrogateescape") for s in tensor.string_data]
    return out.reshape(shape)


def _by_helper(tensor: Any, shape: tuple[int, ...], what: str) -> Array:
    """Fields of typed numbers, and packed small formats as the onnx package reads them."""
    count = math.prod(shape)
    names = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    if not tensor.HasField("raw_data") and count and not any(_is_there(tensor, name) for name in names):
        raise FileError(f"{what} of shape {shape} has no data", expected=f"{count} elements")
    try:
        if isinstance(tensor, Proto) and tensor.data_type not in _PACKED_BITS:
            return typed_data(tensor, tensor.data_type, DTYPES[tensor.data_type]).reshape(shape)
        import onnx

        whole = onnx.TensorProto.FromString(bytes(tensor.wire)) if isinstance(tensor, Proto) else tensor
        return np.asarray(onnx.numpy_helper.to_array(whole))
    except (ValueError, TypeError) as error:
        raise FileError(f"{what} of shape {shape} cannot be read: {error}") from error


def _is_there(tensor: Any, name: str) -> bool:
    return tensor.HasField(name) if isinstance(tensor, Proto) else len(getattr(tensor, name)) > 0


def _wrong_size(what: str, dtype: Any, shape: tuple[int, ...], size: int, found: int) -> FileError:
    return FileError(
        f"{what} says {dtype} of shape {shape}, but its data has another length",
        expected=f"{size}, found {found}",
        remedy="the file is damaged or was cut off: fetch or export it again",
    )


def _external(
    tensor: Any, folder: Path | None, size: int, what: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    entries = {e.key: e.value for e in tensor.external_data}
    if folder is None:
        raise FileError(
            f"{what} lies outside of a model that came without a folder",
            remedy="load the model by its path, or put its data into the file",
        )
    path = _inside(folder, entries.get("location", ""), what)
    offset, length = _number(entries, "offset", 0, what), _number(entries, "length", size, what)
    if length != size:
        raise _wrong_size(what, dtype, shape, size, length)
    if offset + size > os.path.getsize(path):
        raise FileError(
            f"{what} lies at bytes {offset} to {offset + size} of {path.name}",
            expected=f"at most the file's {os.path.getsize(path)} bytes",
            remedy="the file is damaged or was cut off: fetch or export it again",
        )
    if size == 0:
        return np.empty(shape, dtype)
    if tensor.data_type in _PACKED_BITS:
        return _packed(tensor, path, offset, size, shape, what)
    return np.memmap(path, _little(dtype), "r", offset, shape).view(np.ndarray)


def _packed(tensor: Any, path: Path, offset: int, size: int, shape: tuple[int, ...], what: str) -> Array:
    import onnx

    with path.open("rb") as f:
        f.seek(offset)
        data = f.read(size)
    whole = onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data, name=tensor.name)
    return _by_helper(whole, shape, what)


def _number(entries: dict[str, str], key: str, default: int, what: str) -> int:
    text = entries.get(key, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise FileError(f"{what} has the {key} {text!r}", expected="a number of bytes")
    return int(text)


def _inside(folder: Path, location: str, what: str) -> Path:
    """The file a model may read: beside it, by a plain relative path."""
    pure = PurePosixPath(location)
    refused = FileError(
        f"{what} names the file {location!r}",
        expected="a plain file beside the model or below it: no '..', no absolute path, no link",
        remedy="export the model with its data in the same folder",
    )
    if not location or "\\" in location or "\0" in location or ":" in location:
        raise refused
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise refused
    path = folder
    for part in pure.parts:
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError as error:
            raise FileError(
                f"{what} lies in {location!r}, which is not there",
                where=folder,
                remedy="keep the files of a model together",
            ) from error
        if stat.S_ISLNK(mode):
            raise refused
    if not stat.S_ISREG(path.lstat().st_mode):
        raise refused
    return path
