"""Object files as bytes, and back.

    magic 8 | version 4 | sections 4 | SHA-256 of all that follows 32 | per section: tag 4, length 8, bytes

`TEXT` holds the words, `DATA` the constants, `META` symbols, relocations, sizes and lines as JSON.
Enters: an `ObjectFile` or bytes. Leaves: the other. Damaged, foreign and newer files are refused by name.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trilobite.base.errors import AssemblyError
from trilobite.processor.isa.encode import WORD_BYTES, Instruction, decode, encode
from trilobite.processor.isa.program import SECTIONS, ObjectFile, Relocation, Symbol

MAGIC = b"TRILODLP"
VERSION = 1
HEADER = struct.Struct("<8sII32s")
SECTION = struct.Struct("<4sQ")


def to_bytes(unit: ObjectFile) -> bytes:
    """The object file's one binary form."""
    words = b"".join(encode(instruction).to_bytes(WORD_BYTES, "little") for instruction in unit.instructions)
    meta = {
        "source": unit.source,
        "sizes": unit.sizes,
        "symbols": {name: asdict(symbol) for name, symbol in unit.symbols.items()},
        "relocations": [asdict(relocation) for relocation in unit.relocations],
        "lines": [instruction.line for instruction in unit.instructions],
    }
    text = json.dumps(meta, sort_keys=True, separators=(",", ":")).encode()
    parts = [(b"TEXT", words), (b"DATA", bytes(unit.data)), (b"META", text)]
    body = b"".join(SECTION.pack(tag, len(content)) + content for tag, content in parts)
    return HEADER.pack(MAGIC, VERSION, len(parts), hashlib.sha256(body).digest()) + body


def from_bytes(raw: bytes, where: str = "<bytes>") -> ObjectFile:
    sections = _sections(raw, where)
    words = sections[b"TEXT"]
    if len(words) % WORD_BYTES:
        raise _bad("the code is no whole number of words", where)
    meta = _meta(sections[b"META"], where)
    lines = meta["lines"]
    if not isinstance(lines, list) or len(lines) != len(words) // WORD_BYTES:
        raise _bad("the line table does not fit the code", where)
    unit = ObjectFile(data=bytearray(sections[b"DATA"]), source=str(meta["source"]))
    for place, line in enumerate(lines):
        word = int.from_bytes(words[place * WORD_BYTES : (place + 1) * WORD_BYTES], "little")
        found = decode(word, f"{where}: instruction {place}")
        unit.instructions.append(
            Instruction(found.row, found.registers, found.formats, found.flags, found.immediate, int(line))
        )
    _tables(unit, meta, where)
    return unit


def _bad(what: str, where: str) -> AssemblyError:
    return AssemblyError(
        f"this is no processor binary: {what}",
        where=where,
        expected=f"a file of version {VERSION} as `trilobite asm` writes it",
        remedy="assemble the program again",
    )


def _sections(raw: bytes, where: str) -> dict[bytes, bytes]:
    if len(raw) < HEADER.size or raw[:8] != MAGIC:
        raise _bad("it does not begin as one", where)
    _, version, count, digest = HEADER.unpack_from(raw)
    if version != VERSION:
        raise _bad(f"it has version {version}", where)
    body = raw[HEADER.size :]
    if hashlib.sha256(body).digest() != digest:
        raise _bad("its checksum is wrong, so it is damaged or was changed", where)
    found, place = {}, 0
    for _ in range(count):
        if place + SECTION.size > len(body):
            raise _bad("it ends too early", where)
        tag, length = SECTION.unpack_from(body, place)
        place += SECTION.size
        found[tag] = body[place : place + length]
        if len(found[tag]) != length:
            raise _bad("it ends too early", where)
        place += length
    missing = {b"TEXT", b"DATA", b"META"} - set(found)
    if missing or place != len(body):
        raise _bad("sections are missing or left over", where)
    return found


def _meta(raw: bytes, where: str) -> dict[str, Any]:
    try:
        meta = json.loads(raw)
    except (ValueError, RecursionError):
        raise _bad("its tables cannot be read", where) from None
    if not isinstance(meta, dict) or {"source", "sizes", "symbols", "relocations", "lines"} - set(meta):
        raise _bad("tables are missing", where)
    return meta


def _tables(unit: ObjectFile, meta: dict[str, Any], where: str) -> None:
    try:
        unit.sizes = {str(name): int(size) for name, size in meta["sizes"].items()}
        unit.symbols = {str(name): Symbol(**entry) for name, entry in meta["symbols"].items()}
        unit.relocations = [Relocation(**entry) for entry in meta["relocations"]]
    except (TypeError, ValueError, AttributeError):
        raise _bad("a table has entries of another kind", where) from None
    if any(symbol.section not in SECTIONS for symbol in unit.symbols.values()):
        raise _bad("a symbol lies in an unknown section", where)
    if any(not 0 <= relocation.place < len(unit.instructions) for relocation in unit.relocations):
        raise _bad("a relocation lies outside the code", where)


def save(unit: ObjectFile, path: str | Path) -> None:
    Path(path).write_bytes(to_bytes(unit))


def load(path: str | Path) -> ObjectFile:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise _bad(f"it cannot be read ({error})", str(path)) from error
    return from_bytes(raw, str(path))
