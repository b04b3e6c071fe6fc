"""Bundles byte by byte: each field of the head and of the facts, on both sides of what it may say."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.inference.bundle.container import MAGIC, Container, Entries, write

HEAD = len(b"trilobite bundle 1\n")
PARTS: dict[str, Any] = {
    "a": b"first", "dir/b": np.arange(6, dtype=np.float32).reshape(2, 3), "dir/c": b"", "d": bytes(range(64)),
    "dir/e": np.asfortranarray(np.arange(4, dtype=np.int16).reshape(2, 2)),
}  # fmt: skip


def raw_of(value: Any) -> bytes:
    return value.tobytes() if isinstance(value, np.ndarray) else bytes(value)


def made(tmp_path: Path, parts: dict[str, Any] = PARTS, **facts: Any) -> Path:
    path = tmp_path / "m.tbm"
    write(path, {"target": "cpu", **facts}, parts)
    return path


def test_the_layout_is_as_documented(tmp_path: Path) -> None:
    """Magic, length of the facts, their SHA-256, the facts, then sections aligned to 64 bytes."""
    data = made(tmp_path, extra=[1, None]).read_bytes()
    assert data[:HEAD] == b"trilobite bundle 1\n" == MAGIC
    (length,) = struct.unpack_from("<Q", data, HEAD)
    text = data[HEAD + 40 : HEAD + 40 + length]
    assert data[HEAD + 8 : HEAD + 40] == hashlib.sha256(text).digest()
    facts = json.loads(text)
    assert facts["target"] == "cpu" and facts["extra"] == [1, None] and list(facts["sections"]) == list(PARTS)
    base, at = -(-(HEAD + 40 + length) // 64) * 64, 0
    for name, value in PARTS.items():
        raw = raw_of(value)
        assert facts["sections"][name] == [at, len(raw), hashlib.sha256(raw).hexdigest()]
        assert data[base + at : base + at + len(raw)] == raw
        at += -(-len(raw) // 64) * 64
    assert len(data) == base + at
    assert not any(data[HEAD + 40 + length : base])


def test_sections_come_back_and_are_checked(tmp_path: Path) -> None:
    path = made(tmp_path)
    box = Container(path)
    assert {name: bytes(box.raw(name)) for name in box.sections} == {n: raw_of(v) for n, v in PARTS.items()}
    box.verify()
    assert np.array_equal(box.array("dir/b", "float32", [2, 3]), PARTS["dir/b"])
    inside = Entries(box, "dir/")
    assert list(inside) == ["b", "c", "e"] and len(inside) == 3 and inside["c"] == b""
    assert "b" in inside and "a" not in inside and "dir/b" not in inside
    with pytest.raises(KeyError, match="'a'"):
        inside["a"]
    with pytest.raises(FileError, match=r"the bundle has no 'f'[\s\S]*a whole bundle"):
        box.raw("f")
    for name in ("dir/b", "d"):
        data = bytearray(path.read_bytes())
        data[data.index(raw_of(PARTS[name])) + 1] ^= 1
        (tmp_path / "n.tbm").write_bytes(data)
        broken = Container(tmp_path / "n.tbm")
        for look in (broken.verify, lambda name=name, broken=broken: broken.checked(name)):
            with pytest.raises(FileError, match=f"the section '{name}' is damaged"):
                look()
        assert broken.checked("a") == b"first"


def test_arrays_are_of_their_size_and_type(tmp_path: Path) -> None:
    box = Container(made(tmp_path, {"f": bytes([0, 1, 1, 2]), "b": bytes([0, 1, 1, 1])}))
    assert box.array("b", "bool", [2, 2]).tolist() == [[False, True], [True, True]]
    assert box.array("f", "uint16", [2]).tolist() == [256, 513]
    for name, dtype, shape, message in (
        ("f", "float31", [4], "an array of 'float31'"), ("f", "uint8", [3], "'f' has 4 bytes"),
        ("f", "uint8", [5], r"'f' has 4 bytes[\s\S]*those of uint8 \[5\]"),
        ("f", "bool", [4], "'f' holds bytes that are no bool"),
    ):  # fmt: skip
        with pytest.raises(FileError, match=message):
            box.array(name, dtype, shape)


def facts_file(tmp_path: Path, text: bytes, behind: bytes = b"", *, length: int | None = None) -> Path:
    head = MAGIC + struct.pack("<Q", len(text) if length is None else length) + hashlib.sha256(text).digest()
    data = head + text
    path = tmp_path / "f.tbm"
    path.write_bytes(data + bytes(-len(data) % 64) + behind)
    return path


def sections(*rows: Any) -> bytes:
    return json.dumps({"sections": {f"s{n}": row for n, row in enumerate(rows)}}).encode()


WRONG = {
    "list": (b"[]", "the facts are no object"), "text": (b"{", "the facts are no JSON"),
    "deep": (b"[" * 100000, "the facts are no JSON"), "none": (b"{}", "the list of sections is malformed"),
    "rows": (sections([0, 1]), "the list of sections is malformed"),
    "words": (sections(["x", 1, ""]), "the list of sections is malformed"),
    "array": (b'{"sections": []}', "the list of sections is malformed"),
    "size": (sections([0, 65, ""]), "the section 's0' lies outside"),
    "place": (sections([0, 64, ""], [1, 64, ""]), "the section 's1' lies outside"),
    "before": (sections([-1, 1, ""]), "the section 's0' lies outside"),
    "negative": (sections([8, -1, ""]), "the section 's0' lies outside"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_facts_that_are_none(name: str, tmp_path: Path) -> None:
    text, message = WRONG[name]
    with pytest.raises(FileError, match=message):
        Container(facts_file(tmp_path, text, bytes(64)))


def test_heads_that_are_none(tmp_path: Path) -> None:
    text = sections([0, 64, ""], [63, 1, ""], [64, 0, ""])
    whole = facts_file(tmp_path, text, bytes(64))
    assert list(Container(whole).sections) == ["s0", "s1", "s2"]
    data = whole.read_bytes()
    for changed, message in (
        (data.replace(b"bundle 1", b"bundle 2"), "the bundle is of another version"),
        (data.replace(b"trilobite", b"trilobits"), "the file is no bundle"),
        (data.replace(b"s0", b"t0"), "the facts of the bundle are damaged"),
    ):
        whole.write_bytes(changed)
        with pytest.raises(FileError, match=message):
            Container(whole)
    size = len(data)
    with pytest.raises(FileError, match=f"the facts claim {size + 1} bytes"):
        Container(facts_file(tmp_path, text, bytes(64), length=size + 1))
    with pytest.raises(FileError, match="the facts of the bundle are damaged"):
        Container(facts_file(tmp_path, text, bytes(64), length=size))
