"""PyTorch weight files (`.pth`, `.pt`), read without PyTorch and without executing anything.

Enters: the path of a file that torch.save wrote, in the zip format or the older single-stream one. Leaves:
the saved nest with NumPy arrays in the place of tensors and parameters: same strides, offsets and sharing of
storage; a dtype becomes a NumPy dtype, a device a string. Dropped: requires_grad, Python attributes of
tensors, a state dict's module versions. The pickle inside is interpreted by `pickle_reader`; this module
knows the two containers around it.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from trilobite.base.wrong_use import explains
from trilobite.framework.checkpoint import pickle_reader
from trilobite.framework.checkpoint.archives import zip_archive
from trilobite.framework.checkpoint.arrays import Array, flat_bytes
from trilobite.framework.checkpoint.pickle_reader import PickleReader
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.framework.checkpoint.sources import opened
from trilobite.framework.checkpoint.torch_values import Materialiser, TorchTable

if TYPE_CHECKING:
    import zipfile

MAX_ENTRIES = 1_000_000
_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


@explains
def load_pth(path: Any) -> Any:
    """The weights in a PyTorch file, as NumPy arrays; whatever is more than weights is refused by name."""
    with opened(path) as file, open(file.fd, "rb", closefd=False) as stream:
        start = stream.read(4)
        stream.seek(257)
        is_tar = stream.read(5) == b"ustar"
        stream.seek(0)
        if start == b"PK\x03\x04":
            return _load_zip(stream, file.size, file.where)
        if is_tar:
            raise corrupt(
                "this is the tar format of PyTorch before 0.2",
                file.where,
                "the zip format, or the single stream of PyTorch 0.2 to 1.5",
                "load and save it again with a newer PyTorch",
            )
        return _load_stream(stream, file.size, file.where)


# ---- the zip format: <name>/data.pkl and one stored entry <name>/data/<key> per storage ----


def _load_zip(stream: IO[bytes], size: int, where: str) -> Any:
    with zip_archive(stream, where) as archive:
        return _read_archive(archive, size, where)


def _read_archive(archive: zipfile.ZipFile, size: int, where: str) -> Any:
    entries = _checked_entries(archive.infolist(), size, where)
    if "data.pkl" not in entries:
        raise corrupt("the archive has no data.pkl", where, "an archive that torch.save wrote")
    if entries["data.pkl"].file_size > pickle_reader.MAX_BYTES:
        raise corrupt(
            "the pickle in the archive is too large", where, f"at most {pickle_reader.MAX_BYTES} bytes"
        )
    table = TorchTable(where)
    data = io.BytesIO(archive.read(entries["data.pkl"]))
    described = PickleReader(
        data, entries["data.pkl"].file_size, where, table.lookup, table.persistent
    ).read()
    swap = _is_big_endian(archive, entries, where)
    storages: dict[str, Array] = {}
    for key, (dtype, length) in table.roots.items():
        entry = entries.get(f"data/{key}")
        if entry is None or entry.file_size != length * dtype.itemsize:
            found = "is missing" if entry is None else f"has {entry.file_size} bytes"
            raise corrupt(f"the storage {shown(key)} {found}", where, f"{length} elements of {dtype.name}")
        with archive.open(entry) as source:
            storages[key] = _elements(source, dtype, length, swap, where)
            source.read(1)  # past the end, where zipfile compares the checksum
    return Materialiser(storages, where).value(described)


def _checked_entries(infos: list[zipfile.ZipInfo], size: int, where: str) -> Mapping[str, zipfile.ZipInfo]:
    """The entries by their names below the archive's one folder; no bombs, no names that lead elsewhere."""
    if len(infos) > MAX_ENTRIES or sum(info.file_size for info in infos) > size:
        raise corrupt(
            "the archive unpacks to more than it holds", where, "stored entries that do not overlap"
        )
    if any(info.filename.partition("/")[2].startswith("code/") for info in infos):
        raise corrupt(
            "this is a TorchScript archive, which holds a program",
            where,
            "an archive that torch.save wrote",
            "save the state dict: torch.save(torch.jit.load(path).state_dict(), other)",
        )
    entries: dict[str, zipfile.ZipInfo] = {}
    roots = set()
    for info in infos:
        _check_entry(info, where)
        root, _, name = info.filename.partition("/")
        roots.add(root)
        if name in entries:
            raise corrupt(f"the archive has two entries {shown(info.filename)}", where, "different names")
        entries[name] = info
    if len(roots) > 1:
        raise corrupt(f"the archive has {len(roots)} top folders", where, "one")
    return entries


def _check_entry(info: zipfile.ZipInfo, where: str) -> None:
    parts = info.filename.split("/")
    if len(parts) < 2 or {"", ".", ".."} & set(parts) or re.search(r"[\\\0:]", info.filename):
        raise corrupt(
            f"the archive has an entry {shown(info.filename)}", where, "plain names below one folder"
        )
    if info.compress_type != 0 or info.compress_size != info.file_size or info.flag_bits & 1:
        raise corrupt(
            f"the entry {shown(info.filename)} is compressed or encrypted",
            where,
            "stored entries, as torch.save writes",
        )


def _is_big_endian(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], where: str) -> bool:
    if "byteorder" not in entries:
        return False
    order = archive.read(entries["byteorder"])[:16]
    if order not in (b"little", b"big"):
        raise corrupt(f"the byte order is {order!r}", where, "little or big")
    return order == b"big"


# ---- the older format: pickles of magic, protocol, system, value, keys; then each storage's length and
# elements ----


def _load_stream(stream: IO[bytes], size: int, where: str) -> Any:
    table = TorchTable(where)

    def read() -> Any:
        return PickleReader(stream, size - stream.tell(), where, table.lookup, table.persistent).read()

    if not _begins_with_magic(stream) or read() != _MAGIC or read() != _PROTOCOL:
        raise corrupt(
            "this is not a file that torch.save wrote", where, "a zip archive or PyTorch's own stream"
        )
    system, described, keys = read(), read(), read()
    if type(system) is not dict or type(system.get("little_endian")) is not bool:
        raise corrupt("the file does not say its byte order", where, "a dict with little_endian")
    if (
        type(keys) is not list
        or not all(type(key) is str for key in keys)
        or sorted(keys) != sorted(table.roots)
    ):
        raise corrupt("the list of storages is not that of the tensors", where, f"{len(table.roots)} keys")
    storages: dict[str, Array] = {}
    for key in keys:
        dtype, length = table.roots[key]
        stored = int.from_bytes(stream.read(8), "little", signed=True)
        if stored != length or length * dtype.itemsize > size - stream.tell():
            raise corrupt(
                f"the storage {shown(key)} is truncated or of another length",
                where,
                f"{length} of {dtype.name}",
            )
        storages[key] = _elements(stream, dtype, length, not system["little_endian"], where)
    if stream.tell() != size:
        raise corrupt(
            f"the file has {size - stream.tell()} extra bytes at its end",
            where,
            "nothing after the last storage",
        )
    return Materialiser(storages, where).value(described)


def _begins_with_magic(stream: IO[bytes]) -> bool:
    """A cheap look, so that any other file is called by its right name instead of a bad pickle."""
    head = stream.read(64)
    stream.seek(0, os.SEEK_SET)
    return _MAGIC.to_bytes(10, "little") in head or str(_MAGIC).encode() in head


# ---- both ----


def _elements(source: IO[bytes], dtype: np.dtype[Any], length: int, swap: bool, where: str) -> Array:
    elements = np.empty(length, dtype)
    rest = flat_bytes(elements)
    while rest:
        count = source.readinto(rest[: 1 << 24])  # type: ignore[attr-defined]
        if not count:
            raise corrupt("the file ends within a storage", where, f"{len(rest)} more bytes")
        rest = rest[count:]
    if swap:
        # A complex number is two numbers, each swapped for itself.
        width = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
        elements.view(f"u{width}").byteswap(inplace=True)
    return elements
