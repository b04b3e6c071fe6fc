"""NumPy's `.npz` archives, both ways, without pickle.

Enters: a dict of arrays. Leaves: an archive that `numpy.load` opens; and back. NumPy's format has no name for
bfloat16 and its relatives: they are stored as unsigned integers, and one more entry says what they are. An
archive from outside is checked (names, headers, sizes) before memory is taken for it; object arrays are
refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from trilobite.base.errors import ArgumentError
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
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        # Version 3 differs from 2 only in that its header is UTF-8, for field names; arrays with fields are
        # refused.
        shape, _, dtype = readers[version](stream)
    except (ValueError, KeyError, SyntaxError, RecursionError, MemoryError, EOFError, TypeError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise corrupt(
            f"the header cannot be read: {reason}", where, "a NumPy header of version 1 or 2"
        ) from error
    if dtype.hasobject or dtype.kind not in "biufcSU":
        raise corrupt(
            f"the array has dtype {dtype}",
            where,
            "numbers, bools or strings; never objects",
            "convert it before saving; objects would have to be unpickled",
        )
    return dtype, checked_bytes(list(shape), dtype.itemsize, where)


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
