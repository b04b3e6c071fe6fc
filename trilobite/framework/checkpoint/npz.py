"""NumPy's `.npz` archives, both ways, without pickle.

Enters: a dict of arrays. Leaves: an archive that `numpy.load` opens; and back. NumPy's format has no name for
bfloat16 and its relatives: they are stored as unsigned integers, and one more entry says what they are. An
archive from outside is checked (names, headers, sizes) before memory is taken for it; object arrays are
refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.wrong_use import explains
from trilobite.framework.checkpoint import strict_json
from trilobite.framework.checkpoint.archives import zip_archive
from trilobite.framework.checkpoint.arrays import (
    DTYPES,
    EXTENDED,
    Array,
    as_array,
    checked_bytes,
    codes_are_numbers,
)
from trilobite.framework.checkpoint.durable import Sink, replace_file
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.framework.checkpoint.sources import opened

if TYPE_CHECKING:
    import zipfile

MARK = "__trilobite_dtypes__"
MAX_BYTES = 1 << 34
_MAX_HEADER = 10_000  # as NumPy itself: longer literals can exhaust the parser
_PLAIN_DTYPE = re.compile(r"[<>|=]?[biufcSU][0-9]{1,9}")
_LENGTH_BYTES = {b"\x01\x00": 2, b"\x02\x00": 4, b"\x03\x00": 4}


@explains
def save_npz(path: Any, tensors: Mapping[str, Any], *, compress: bool = False) -> None:
    """Save named arrays as an `.npz`. The path holds the old or the new archive, whole, at every moment."""
    arrays = {_checked_name(name): as_array(value, name) for name, value in tensors.items()}
    marks = {name: array.dtype.name for name, array in arrays.items() if array.dtype.name in EXTENDED}
    stored = {name: a.view(f"u{a.dtype.itemsize}") if name in marks else a for name, a in arrays.items()}
    if marks:
        stored[MARK] = np.array(json.dumps(marks))
    replace_file(path, lambda sink: _write(sink, stored, compress))


def _checked_name(name: Any) -> str:
    if type(name) is not str or not name or name == MARK or "\0" in name or len(name) > 10_000:
        raise ArgumentError(
            f"{name!r} cannot name an array",
            expected=f"a non-empty string other than {MARK!r}",
            remedy="rename it",
        )
    return name


def _write(sink: Sink, arrays: Mapping[str, Array], compress: bool) -> None:
    import zipfile

    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(cast(IO[bytes], sink), "w", kind) as archive:
        for name, array in arrays.items():
            # A fixed date: equal arrays give equal files.
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = kind
            with archive.open(entry, "w", force_zip64=True) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)


@explains
def load_npz(path: Any, *, max_bytes: int = MAX_BYTES) -> dict[str, Array]:
    """The arrays of an `.npz`. An archive that would unpack to more than `max_bytes` is refused."""
    with (
        opened(path) as file,
        open(file.fd, "rb", closefd=False) as stream,
        zip_archive(stream, file.where) as archive,
    ):
        return _read(archive, file.where, max_bytes)


def _read(archive: zipfile.ZipFile, where: str, max_bytes: int) -> dict[str, Array]:
    infos = archive.infolist()
    total = sum(info.file_size for info in infos)
    if total > max_bytes:
        raise corrupt(
            f"the archive unpacks to {total} bytes",
            where,
            f"at most {max_bytes}",
            "if you trust it, load it with a larger max_bytes",
        )
    found: dict[str, Array] = {}
    for info in infos:
        name = info.filename.removesuffix(".npy")
        if name == info.filename or name in found:
            raise corrupt(
                f"the archive has an entry {shown(info.filename)}",
                where,
                "arrays of different names, as <name>.npy",
            )
        found[name] = _read_entry(archive, info, f"{where}, array {shown(name)}")
    return _restore(found, where)


def _read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> Array:
    with archive.open(info) as stream:
        dtype, size = _header(stream, where)
        if info.file_size != stream.tell() + size:
            raise corrupt(
                f"the entry has {info.file_size - stream.tell()} bytes of data",
                where,
                f"{size}, as its header says",
            )
    with archive.open(info) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read(1)  # past the end, where zipfile compares the checksum
    native = array if dtype.isnative else array.astype(dtype.newbyteorder("="))
    _check_codes(native, where)
    return native


def _header(stream: IO[bytes], where: str) -> tuple[np.dtype[Any], int]:
    """What an entry claims to be, before NumPy makes room for it."""
    start = stream.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:] not in _LENGTH_BYTES:
        raise corrupt("the entry is no NumPy array", where, "NumPy's format, version 1 to 3")
    length = int.from_bytes(stream.read(_LENGTH_BYTES[start[6:]]), "little")
    if length > _MAX_HEADER:
        raise corrupt(f"the header claims {length} bytes", where, f"at most {_MAX_HEADER}")
    descr, shape = _fields(stream.read(length), where)
    if _PLAIN_DTYPE.fullmatch(descr) is None:
        raise corrupt(
            f"the array has dtype {shown(descr)}",
            where,
            "numbers, bools or strings; never objects, which would have to be unpickled",
            "convert it before saving",
        )
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError):
        raise corrupt(f"the dtype {shown(descr)} is not known", where, "a dtype of NumPy") from None
    return dtype, checked_bytes(shape, dtype.itemsize, where)


def _fields(text: bytes, where: str) -> tuple[str, tuple[Any, ...]]:
    """The dtype and the shape that a header, a Python literal, states."""
    try:
        fields = ast.literal_eval(text.decode("utf-8").strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        reason = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        raise corrupt(f"the header cannot be read: {reason}", where, "a dict literal") from None
    if type(fields) is not dict or set(fields) != {"descr", "fortran_order", "shape"}:
        raise corrupt("the header cannot be read: wrong fields", where, "descr, fortran_order and shape")
    descr, order, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    if type(descr) is not str or type(order) is not bool or type(shape) is not tuple:
        raise corrupt(
            f"the array has dtype {shown(str(descr))}", where, "a plain dtype, an order and a shape"
        )
    return descr, shape


def _restore(found: dict[str, Array], where: str) -> dict[str, Array]:
    """Give arrays of formats that NumPy lacks their own dtype back."""
    if MARK not in found:
        return found
    mark = str(found.pop(MARK)).encode("utf-8", "replace")
    marks = strict_json.parse(mark, f"{where}, {MARK}")
    if type(marks) is not dict:
        raise corrupt("the dtypes entry is no object", where, "names and dtypes")
    for name, dtype in marks.items():
        place = f"{where}, array {shown(name)}"
        fits = name in found and type(dtype) is str and dtype in EXTENDED and dtype in DTYPES
        if not fits or found[name].dtype != np.dtype(f"u{DTYPES[dtype].itemsize}"):
            raise corrupt(
                f"the array is said to be {shown(str(dtype))}", place, "an array of that width in the archive"
            )
        found[name] = found[name].view(DTYPES[dtype])
        _check_codes(found[name], place)
    return found


def _check_codes(array: Array, where: str) -> None:
    if not codes_are_numbers(array):
        raise corrupt(
            f"there are bytes that are no {array.dtype.name}", where, "the codes of that format alone"
        )
