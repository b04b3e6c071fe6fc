"""IDX, the format of the MNIST files: a magic number, extents, then big-endian values in row-major order.

In: a path to a raw or gzipped file. Out: an array in native byte order. Strict: the header must be whole and
possible, and the data exactly as long as it says. Memory grows with what the file really holds, never with
what its header claims.
"""

from __future__ import annotations

import math
import os
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from trilobite.base.errors import DTypeError, FileError, ShapeError
from trilobite.base.wrong_use import explain_room

# code in the third byte of the magic number -> dtype on disk
DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CODES = {np.dtype(name).newbyteorder("="): code for code, name in DTYPES.items()}
_MAX_RANK = 32
_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"


def read(path: str | os.PathLike[str], *, max_bytes: int = 1 << 32) -> npt.NDArray[np.generic]:
    """The array in an IDX file. A file whose values would take more than `max_bytes` is refused."""
    import gzip
    import zlib

    name = Path(path)
    try:
        with name.open("rb") as raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if not packed:
                return _read(raw, name, max_bytes)
            with gzip.GzipFile(fileobj=raw) as unpacked:
                return _read(unpacked, name, max_bytes)  # type: ignore[arg-type]
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise FileError(
            f"the gzip stream is damaged: {error}",
            where=name,
            expected="a whole gzip file",
            remedy="fetch the file again",
        ) from error
    except OSError as error:
        raise FileError(
            f"the file cannot be read: {error.strerror or error}", where=name, expected="an IDX file"
        ) from error


def _read(file: BinaryIO, name: Path, max_bytes: int) -> npt.NDArray[np.generic]:
    dtype, shape = _header(file, name)
    size = math.prod(shape) * dtype.itemsize
    if size > max_bytes:
        raise FileError(
            f"the header claims shape {shape} of {dtype.name}, {size} bytes",
            where=name,
            expected=f"at most {max_bytes} bytes",
            remedy="pass max_bytes= if the file is meant to be so large",
        )
    data = _exactly(file, size, name)
    if file.read(1):
        raise FileError(
            "there are bytes after the data",
            where=name,
            expected=f"{size} bytes of data: shape {shape} of {dtype.name}",
            remedy="fetch the file again",
        )
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _header(file: BinaryIO, name: Path) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    magic = file.read(4)
    if len(magic) < 4:
        raise FileError(
            f"the file ends after {len(magic)} bytes", where=name, expected="4 bytes of magic number"
        )
    if magic[:2] != b"\0\0" or magic[2] not in DTYPES:
        raise FileError(
            f"the magic number is 0x{magic.hex()}",
            where=name,
            expected="0x0000, a type code 0x08, 0x09 or 0x0b to 0x0e, and the rank: an IDX file",
        )
    rank = magic[3]
    if not 1 <= rank <= _MAX_RANK:
        raise FileError(f"the header claims {rank} axes", where=name, expected=f"1 to {_MAX_RANK}")
    extents = file.read(4 * rank)
    if len(extents) < 4 * rank:
        raise FileError("the file ends within its header", where=name, expected=f"{rank} extents of 4 bytes")
    return np.dtype(DTYPES[magic[2]]), struct.unpack(f">{rank}I", extents)


def _exactly(file: BinaryIO, size: int, name: Path) -> bytearray:
    data = bytearray()
    while len(data) < size:
        piece = file.read(min(_CHUNK, size - len(data)))
        if not piece:
            raise FileError(
                f"the file is truncated: {len(data)} bytes of data",
                where=name,
                expected=f"{size} bytes",
                remedy="fetch the file again",
            )
        data += piece
    return data


def write(path: str | os.PathLike[str], array: npt.ArrayLike) -> None:
    """Write an array as an IDX file, gzipped if the name ends in `.gz`."""
    values = np.asarray(array)
    if values.dtype.newbyteorder("=") not in _CODES:
        raise DTypeError(f"IDX cannot hold {values.dtype}", expected=", ".join(d.name for d in _CODES))
    if not 1 <= values.ndim <= _MAX_RANK or max(values.shape) >= 1 << 32:
        raise ShapeError(
            f"IDX cannot hold shape {values.shape}", expected=f"1 to {_MAX_RANK} axes below 2**32"
        )
    code = _CODES[values.dtype.newbyteorder("=")]
    header = struct.pack(f">4B{values.ndim}I", 0, 0, code, values.ndim, *values.shape)
    data = header + values.astype(DTYPES[code]).tobytes()
    import gzip

    name = Path(path)
    name.write_bytes(gzip.compress(data, mtime=0) if name.suffix == ".gz" else data)


explain_room(globals())
