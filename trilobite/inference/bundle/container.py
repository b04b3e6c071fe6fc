"""The `.tbm` container: one file with a text of facts, the network, its weights, and compiled code.

    magic, length of the facts, SHA-256 of them | facts (JSON) | sections, each aligned to 64 bytes

Enters: sections as bytes. Leaves: a file, and a `Container` that maps it. Facts and small sections are
checked by their digests before anything of them is used; weights, which are numbers, when that is asked for.
The digests find damage, not malice: compiled code is code, and a bundle deserves the trust of a program.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint.arrays import DTYPES, checked_bytes, codes_are_numbers
from trilobite.framework.checkpoint.durable import Sink, replace_file
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.mapped import Array, mapped, outside

MAGIC = b"trilobite bundle 1\n"
_ALIGNED = 64
_MOST_FACTS = 1 << 26


class Section(NamedTuple):
    offset: int
    size: int
    digest: str


def _bytes_of(data: Any) -> memoryview:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    return memoryview(data)


def write(path: Any, facts: Mapping[str, Any], sections: Mapping[str, Any]) -> None:
    """A bundle at `path`, whole or not at all. Sections are bytes or arrays."""
    at, rows = 0, {}
    for name, data in sections.items():
        rows[name] = (at, _bytes_of(data))
        at += -(-len(rows[name][1]) // _ALIGNED) * _ALIGNED
    table = {name: [at, len(v), hashlib.sha256(v).hexdigest()] for name, (at, v) in rows.items()}
    text = json.dumps({**facts, "sections": table}, separators=(",", ":")).encode()
    head = MAGIC + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest() + text

    def produce(sink: Sink) -> None:
        sink.write(head + bytes(-len(head) % _ALIGNED))
        for _, view in rows.values():
            sink.write(bytes(view))
            sink.write(bytes(-len(view) % _ALIGNED))

    replace_file(path, produce)


class Container:
    """An open bundle: facts, and sections by name, mapped."""

    def __init__(self, path: Any) -> None:
        self._data, self.where = mapped(path)
        self.facts = self._read_facts()
        self.sections = self._table()

    def _read_facts(self) -> dict[str, Any]:
        data, start = self._data, len(MAGIC)
        if bytes(data[:start]) != MAGIC:
            known = bytes(data[:16]) == MAGIC[:16]
            what = "the bundle is of another version" if known else "the file is no bundle"
            raise outside(what, self.where, "build it again with `trilobite build`", "a .tbm of version 1")
        length = int.from_bytes(data[start : start + 8], "little")
        if length > min(_MOST_FACTS, len(data)):
            raise corrupt(f"the facts claim {length} bytes", self.where, "as many as the file has")
        digest, text = bytes(data[start + 8 : start + 40]), bytes(data[start + 40 : start + 40 + length])
        if hashlib.sha256(text).digest() != digest:
            raise corrupt("the facts of the bundle are damaged", self.where, "their digest")
        self._base = -(-(start + 40 + length) // _ALIGNED) * _ALIGNED
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise corrupt("the facts are no JSON", self.where, "a bundle") from error
        if not isinstance(found, dict):
            raise corrupt("the facts are no object", self.where, "a bundle")
        return found

    def _table(self) -> dict[str, Section]:
        found = {}
        try:
            for name, (offset, size, digest) in self.facts["sections"].items():
                section = Section(self._base + int(offset), int(size), str(digest))
                if section.offset < self._base or size < 0 or section.offset + size > len(self._data):
                    raise corrupt(f"the section {shown(name)} lies outside", self.where, "within the file")
                found[name] = section
        except FileError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise corrupt(
                "the list of sections is malformed", self.where, "offsets, sizes, digests"
            ) from error
        return found

    def raw(self, name: str) -> memoryview:
        if name not in self.sections:
            raise corrupt(f"the bundle has no {shown(name)}", self.where, "a whole bundle")
        s = self.sections[name]
        return self._data[s.offset : s.offset + s.size]

    def checked(self, name: str) -> bytes:
        """A section whose digest fits."""
        data = bytes(self.raw(name))
        if hashlib.sha256(data).hexdigest() != self.sections[name].digest:
            raise corrupt(f"the section {shown(name)} is damaged", self.where, "its digest")
        return data

    def array(self, name: str, dtype: str, shape: list[int]) -> Array:
        """Numbers of a section, mapped."""
        if dtype not in DTYPES:
            raise corrupt(f"an array of {shown(str(dtype))}", self.where, "a known dtype")
        kind = DTYPES[dtype]
        raw = self.raw(name)
        if checked_bytes(shape, kind.itemsize, self.where) != len(raw):
            raise corrupt(f"{shown(name)} has {len(raw)} bytes", self.where, f"those of {dtype} {shape}")
        found: Array = np.frombuffer(raw, np.uint8).view(kind).reshape(shape)
        if not codes_are_numbers(found):
            raise corrupt(
                f"{shown(name)} holds bytes that are no {dtype}", self.where, "codes of that format"
            )
        return found

    def verify(self) -> None:
        """Every section's digest, weights too."""
        for name in self.sections:
            self.checked(name)


class Entries(Mapping[str, bytes]):
    """Sections under a prefix, by the rest of their names; checked when they are asked for."""

    def __init__(self, container: Container, prefix: str) -> None:
        self._container, self._prefix = container, prefix

    def __getitem__(self, key: str) -> bytes:
        if self._prefix + key not in self._container.sections:
            raise KeyError(key)
        return self._container.checked(self._prefix + key)

    def __contains__(self, key: object) -> bool:
        return f"{self._prefix}{key}" in self._container.sections

    def __iter__(self) -> Iterator[str]:
        n = len(self._prefix)
        return (name[n:] for name in self._container.sections if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)
