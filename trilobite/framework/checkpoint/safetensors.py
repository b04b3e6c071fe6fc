"""The safetensors format, written and read strictly.

A file is: 8 bytes of header length, a JSON header, then the arrays' bytes without gap or overlap. Enters: a
dict of arrays. Leaves: a file that any safetensors reader opens; and back, bit by bit. A dtype that the
format lacks (complex128, int4, ...) is stored as its bytes, U8 with one more axis where an element has
several, and its true name stands in the file's `__metadata__`. Every field of a file from outside is checked
before an array is made. Does not run anything it reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.wrong_use import explains
from trilobite.framework.checkpoint import strict_json
from trilobite.framework.checkpoint.arrays import (
    DTYPES,
    NAMES,
    Array,
    as_array,
    byte_chunks,
    checked_bytes,
    codes_are_numbers,
    flat_bytes,
)
from trilobite.framework.checkpoint.durable import Sink, replace_file
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.framework.checkpoint.sources import Opened, Source, opened

MAX_HEADER_BYTES = 1 << 25
METADATA = "__metadata__"
_DTYPE_MARK = "trilobite.dtype:"

CODES = {
    **{"BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"},
    **{"U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64"},
    **{"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64"},
    **{"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu"},
}
_CODE_OF = {name: code for code, name in CODES.items()}


class Entry(NamedTuple):
    """One array as a header describes it: true dtype, true shape, and its bytes within the data."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


# ---- writing ----


def chunks(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> Iterator[bytes]:
    """A whole file, piece by piece. Wide elements come first, so that every array is aligned in a mapped
    file."""
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    yield _header(arrays, order, metadata)
    for name in order:
        yield from byte_chunks(arrays[name])


def header_bytes(name: str, array: Array) -> int:
    """No less than what an array takes in the header: its name, escaped, perhaps twice, and its numbers."""
    return 12 * len(name) + 24 * array.ndim + 150


def _header(arrays: Mapping[str, Array], order: Iterable[str], metadata: Mapping[str, str]) -> bytes:
    start, offsets = 0, {}
    for name in order:
        offsets[name] = [start, start + arrays[name].nbytes]
        start += arrays[name].nbytes
    dtypes = {name: NAMES[array.dtype] for name, array in arrays.items()}
    raw = {name: dtype for name, dtype in dtypes.items() if dtype not in _CODE_OF}
    notes = dict(metadata) | {_DTYPE_MARK + name: dtype for name, dtype in raw.items()}
    header: dict[str, Any] = {METADATA: notes} if notes else {}
    for name, array in arrays.items():
        code = _CODE_OF.get(dtypes[name], "U8")
        shape = list(array.shape)
        if name in raw and array.dtype.itemsize > 1:
            shape.append(array.dtype.itemsize)
        header[name] = {"dtype": code, "shape": shape, "data_offsets": offsets[name]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise ArgumentError(
            f"the header would take {len(text)} bytes",
            expected=f"at most {MAX_HEADER_BYTES}",
            remedy="save fewer arrays, shorter names or less metadata per file",
        )
    return len(text).to_bytes(8, "little") + text


@explains
def save_safetensors(
    path: Any, tensors: Mapping[str, Any], *, metadata: Mapping[str, str] | None = None
) -> None:
    """Save named arrays as one safetensors file. The path holds the old or the new file, whole, at every
    moment."""
    arrays = {_checked_name(name): as_array(value, name) for name, value in tensors.items()}
    notes = _checked_notes(metadata or {})

    def produce(sink: Sink) -> None:
        for chunk in chunks(arrays, notes):
            sink.write(chunk)

    replace_file(path, produce)


def _checked_name(name: Any) -> str:
    if type(name) is not str or name == METADATA or not _encodable(name):
        raise ArgumentError(
            f"{name!r} cannot name an array", expected=f"a string other than {METADATA!r}", remedy="rename it"
        )
    return name


def _encodable(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _checked_notes(metadata: Mapping[str, str]) -> Mapping[str, str]:
    for key, value in metadata.items():
        if type(key) is not str or type(value) is not str or not _encodable(key + value):
            raise ArgumentError(
                f"the metadata {key!r}: {value!r} is not text",
                expected="strings to strings",
                remedy="turn it into a string",
            )
        if key.startswith(_DTYPE_MARK):
            raise ArgumentError(
                f"the metadata key {key!r} is taken",
                expected=f"one not starting {_DTYPE_MARK!r}",
                remedy="rename it",
            )
    return metadata


# ---- reading ----


def read_header(source: Source, size: int, where: str) -> tuple[dict[str, Entry], dict[str, str], int]:
    """Arrays, metadata and where the data begin, in a file of `size` bytes. The source is left there."""
    length = _header_length(source, size, where)
    text = bytearray(length)
    source.fill(memoryview(text))
    if not text.startswith(b"{"):
        raise corrupt("the header does not begin with a brace", where, "a JSON object")
    header = strict_json.parse(bytes(text), f"{where}, header")
    notes = _notes(header.pop(METADATA, {}), where)
    marks = {key: notes.pop(key) for key in list(notes) if key.startswith(_DTYPE_MARK)}
    entries = {
        name: _entry(name, fields, marks.pop(_DTYPE_MARK + name, None), where)
        for name, fields in header.items()
    }
    if marks:
        raise corrupt(
            f"the metadata give a dtype to {sorted(marks)[0][len(_DTYPE_MARK) :]!r}, which is not there",
            where,
            "dtypes of arrays in the file",
        )
    _check_ranges(entries, size - 8 - length, where)
    return entries, notes, 8 + length


def _header_length(source: Source, size: int, where: str) -> int:
    if size < 10:
        raise corrupt(f"the file has {size} bytes", where, "at least 10: a length and a header")
    prefix = bytearray(8)
    source.fill(memoryview(prefix))
    length = int.from_bytes(prefix, "little")
    limit = min(MAX_HEADER_BYTES, size - 8)
    if not 2 <= length <= limit:
        raise corrupt(f"the header claims {length} bytes", where, f"2 to {limit}")
    return length


def _notes(value: Any, where: str) -> dict[str, str]:
    if type(value) is not dict or not all(type(text) is str for text in value.values()):
        raise corrupt("the metadata are not strings", where, "an object of strings")
    return value


def _entry(name: str, fields: Any, mark: str | None, where: str) -> Entry:
    place = f"{where}, array {shown(name)}"
    if type(fields) is not dict or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise corrupt("the description is malformed", place, "dtype, shape and data_offsets")
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if type(code) is not str or code not in CODES:
        raise corrupt(
            f"the dtype {str(code)[:40]!r} is not known",
            place,
            f"one of {', '.join(CODES)}",
            "store it in one of those",
        )
    if type(shape) is not list or not _is_range(offsets):
        raise corrupt(
            "shape or data_offsets are malformed",
            place,
            "a list of sizes, and two offsets [begin, end] with begin <= end",
        )
    dtype = DTYPES[CODES[code]]
    size = checked_bytes(shape, dtype.itemsize, place)
    start, stop = offsets
    if stop - start != size:
        raise corrupt(f"the data take {stop - start} bytes", place, f"{size} for {code} {shape}")
    if mark is not None:
        dtype, shape = _true_type(mark, code, shape, place)
    return Entry(dtype, tuple(shape), start, stop)


def _is_range(offsets: Any) -> bool:
    if type(offsets) is not list or len(offsets) != 2 or not all(type(x) is int for x in offsets):
        return False
    return bool(0 <= offsets[0] <= offsets[1] < 2**63)


def _true_type(name: str, code: str, shape: list[int], where: str) -> tuple[np.dtype[Any], list[int]]:
    dtype = DTYPES.get(name)
    fits = dtype is not None and name not in _CODE_OF and code == "U8"
    if dtype is None or not fits or (dtype.itemsize > 1 and shape[-1:] != [dtype.itemsize]):
        raise corrupt(
            f"bytes {code} {shape} are said to be {name[:40]!r}",
            where,
            "U8 bytes of a dtype that safetensors lacks",
        )
    return dtype, shape[:-1] if dtype.itemsize > 1 else shape


def _check_ranges(entries: Mapping[str, Entry], size: int, where: str) -> None:
    """The arrays must tile the data: no overlap, no gap, nothing after the last."""
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != end:
            fault = "overlaps the one before it" if entry.start < end else "leaves a gap before it"
            raise corrupt(f"the array {shown(name)} {fault}", where, f"data from byte {end}")
        end = entry.stop
    if end != size:
        fault = "is truncated" if end > size else "has extra bytes at its end"
        raise corrupt(f"the file {fault}", where, f"{end} bytes of data, found {size}")


def read_arrays(source: Source, size: int, where: str) -> dict[str, Array]:
    """Every array of a file, each in memory of its own."""
    entries, _, _ = read_header(source, size, where)
    found: dict[str, Array] = {}
    for name, entry in sorted(entries.items(), key=lambda item: item[1].start):
        array = np.empty(entry.shape, entry.dtype)
        source.fill(flat_bytes(array))
        _check_codes(array, f"{where}, array {shown(name)}")
        found[name] = array
    return {name: found[name] for name in entries}


def _check_codes(array: Array, where: str) -> None:
    if not codes_are_numbers(array):
        raise corrupt(
            f"there are bytes that are no {array.dtype.name}", where, "the codes of that format alone"
        )


@explains
def load_safetensors(path: Any, *, mmap: bool = False) -> dict[str, Array]:
    """The arrays of a safetensors file. With `mmap` they are read-only views of the file, read as they are
    used; such a file must not be changed while they live (saving a new one in its place is safe)."""
    with opened(path) as file:
        return _mapped(file) if mmap else read_arrays(Source(file), file.size, file.where)


@explains
def read_safetensors_metadata(path: Any) -> dict[str, str]:
    """The `__metadata__` strings of a safetensors file."""
    with opened(path) as file:
        return read_header(Source(file), file.size, file.where)[1]


def _mapped(file: Opened) -> dict[str, Array]:
    import mmap

    entries, _, base = read_header(Source(file), file.size, file.where)
    whole = np.frombuffer(mmap.mmap(file.fd, file.size, access=mmap.ACCESS_READ), np.uint8)
    found: dict[str, Array] = {}
    for name, entry in entries.items():
        view = whole[base + entry.start : base + entry.stop]
        aligned = (base + entry.start) % entry.dtype.alignment == 0
        array = (view if aligned else view.copy()).view(entry.dtype).reshape(entry.shape)
        _check_codes(array, f"{file.where}, array {shown(name)}")
        array.flags.writeable = False
        found[name] = array
    return found
