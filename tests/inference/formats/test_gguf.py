"""GGUF: every type gives the bits that ggml's own Python package gives, and doubtful files are refused."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.inference.formats.gguf_files import blocks, gguf
from trilobite.base.errors import ArgumentError, FileError
from trilobite.inference.formats.gguf import GGUF
from trilobite.inference.formats.gguf.types import TYPES

GOLDEN = json.loads((Path(__file__).parent / "gguf_values.json").read_text())
NUMBERS = {k: t for k, t in TYPES.items() if t.block == 1}
QUANTISED = {k: t for k, t in TYPES.items() if t.block > 1}


def opened(tmp_path: Path, raw: bytes) -> GGUF:
    path = tmp_path / "model.gguf"
    path.write_bytes(raw)
    return GGUF(path)


@pytest.mark.parametrize("kind", [k for k, t in QUANTISED.items() if t.name in GOLDEN])
def test_blocks_have_the_values_of_the_reference_package(kind: int, tmp_path: Path) -> None:
    t = TYPES[kind]
    raw = blocks(kind, t.record, 5)
    file = opened(tmp_path, gguf({}, {"w": ((5, t.block), kind, raw.tobytes())}))
    found = file["w"]
    assert found.shape == (5, t.block) and found.dtype == np.float32
    assert found.reshape(-1)[:4].tolist() == GOLDEN[t.name]["first"]
    assert hashlib.sha256(found.tobytes()).hexdigest() == GOLDEN[t.name]["sha256"]


@pytest.mark.parametrize("kind", [9, 15])
def test_types_of_activations_are_scale_times_integer(kind: int, tmp_path: Path) -> None:
    """Q8_1 and Q8_K: the reference package has no formula for them."""
    t = TYPES[kind]
    raw = blocks(kind, t.record, 3)
    file = opened(tmp_path, gguf({}, {"w": ((3, t.block), kind, raw.tobytes())}))
    records = raw.view(t.record).reshape(-1)
    want = [[np.float32(r["d"]) * np.float32(q) for q in r["qs"]] for r in records]
    assert np.array_equal(file["w"], np.array(want, np.float32))


@pytest.mark.parametrize("kind", list(NUMBERS))
def test_numbers_are_as_they_lie(kind: int, tmp_path: Path) -> None:
    t = TYPES[kind]
    values = np.random.default_rng(kind).integers(-100, 100, (3, 5)).astype(t.record)
    found = opened(tmp_path, gguf({}, {"a": ((3, 5), kind, values.tobytes())}))["a"]
    assert found.dtype == t.record and found.tobytes() == values.tobytes() and not found.flags.writeable


def test_numbers_are_mapped_and_blocks_made_when_asked_for(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    q = blocks(8, TYPES[8].record, 2)
    file = opened(tmp_path, gguf({}, {"a": ((3, 4), 0, values.tobytes()), "q": ((2, 32), 8, q.tobytes())}))
    assert list(file) == ["a", "q"] and len(file) == 2 and "q" in file and "b" not in file
    assert not file["a"].flags.owndata and file["q"] is not file["q"]
    assert file.stored("q").dtype == TYPES[8].record and file.entries["q"].type.name == "Q8_0"


def test_metadata_of_all_kinds_are_read(tmp_path: Path) -> None:
    metadata: dict[str, tuple[int, Any]] = {
        "general.architecture": (8, "llama"),
        "u8": (0, 200), "i8": (1, -5), "u16": (2, 60000), "i16": (3, -300), "u32": (4, 2**32 - 1),
        "i32": (5, -7), "f32": (6, 0.5), "yes": (7, True), "u64": (10, 2**63), "i64": (11, -(2**62)),
        "f64": (12, 0.1), "tokens": (9, (8, ["a", "ß", "▁the"])), "scores": (9, (6, [0.25, -1.0])),
        "nested": (9, (9, [(5, [1, 2]), (5, [3])])),
    }  # fmt: skip
    found = opened(tmp_path, gguf(metadata, {})).metadata
    for key, (kind, value) in metadata.items():
        if kind != 9:
            assert found[key] == value, key
    assert found["tokens"] == ["a", "ß", "▁the"] and found["scores"].tolist() == [0.25, -1.0]
    assert [row.tolist() for row in found["nested"]] == [[1, 2], [3]]


@pytest.mark.parametrize("alignment", [1, 16, 64, 4096])
def test_the_alignment_of_the_file_is_kept(alignment: int, tmp_path: Path) -> None:
    values = np.arange(5, dtype=ml_dtypes.bfloat16)
    raw = gguf(
        {"general.alignment": (4, alignment)},
        {"x": ((5,), 30, values.tobytes()), "y": ((5,), 30, values[::-1].tobytes())},
        version=2, alignment=alignment,
    )  # fmt: skip
    file = opened(tmp_path, raw)
    assert file["x"].tolist() == values.tolist() and file["y"].tolist() == values[::-1].tolist()


def test_a_name_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="has no tensor named 'w'"):
        opened(tmp_path, gguf({}, {}))["w"]


ONE = gguf({"k": (5, 1)}, {"w": ((2, 32), 2, bytes(36))})
REFUSED = {
    "empty": (b"", "the file is empty"),
    "magic": (b"GGML" + ONE[4:], "does not begin with GGUF"),
    "version": (ONE[:4] + struct.pack("<I", 1) + ONE[8:], "of GGUF version 1"),
    "big endian": (ONE[:4] + struct.pack(">I", 3) + ONE[8:], "is big endian"),
    "tensors": (ONE[:8] + struct.pack("<Q", 2**62) + ONE[16:], "tensors"),
    "keys": (ONE[:16] + struct.pack("<Q", 2**62) + ONE[24:], "claims 4611686018427387904 keys"),
    "cut": (ONE[:-1], "takes 36 bytes"),
    "kind": (gguf({}, {"w": ((32,), 4, bytes(18))}), "stored in type 4, which is not known"),
    "row": (gguf({}, {"w": ((2, 16), 2, bytes(18))}), "a multiple of 32"),
    "huge": (gguf({}, {"w": ((2**40, 2**40), 0, b"")}), "larger than any memory"),
    "rank": (gguf({}, {"w": ((1,) * 9, 0, bytes(4))}), "9 dimensions"),
    "alignment": (gguf({"general.alignment": (4, 3)}, {}), "the alignment is '3'"),
    "alignment of text": (gguf({"general.alignment": (8, "32")}, {}), "the alignment is '32'"),
    "value": (gguf({"k": (5, 1)}, {}).replace(struct.pack("<I", 5), struct.pack("<I", 13), 1), "of kind 13"),
    "deep": (gguf({"k": (9, (9, [(9, [(9, [(9, [(5, [1])])])])]))}, {}), "at depth 4"),
    "name": (gguf({}, {"w": ((1,), 0, bytes(4))}).replace(b"w", b"\xff"), "is not text"),
    "between": (
        ONE.replace(struct.pack("<IQ", 2, 0), struct.pack("<IQ", 2, 8)) + bytes(64),
        "a multiple of 32",
    ),
    "behind": (ONE.replace(struct.pack("<IQ", 2, 0), struct.pack("<IQ", 2, 32)), "lies at 32 and takes 36"),
    "offset": (ONE.replace(struct.pack("<IQ", 2, 0), struct.pack("<IQ", 2, 2**63)), "takes 36 bytes"),
}


@pytest.mark.parametrize("fault", list(REFUSED))
def test_doubtful_files_are_refused_by_name(fault: str, tmp_path: Path) -> None:
    raw, message = REFUSED[fault]
    with pytest.raises(FileError, match=message):
        opened(tmp_path, raw)


def test_a_tensor_or_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    a, b = ((1,), 0, bytes(4)), ((1,), 0, bytes(4))
    with pytest.raises(FileError, match="the tensor 'w' stands twice"):
        opened(tmp_path, gguf({}, {"w": a, "v": b}).replace(b"v", b"w"))
    with pytest.raises(FileError, match="the key 'k' stands twice"):
        opened(tmp_path, gguf({"k": (5, 1), "l": (5, 1)}, {}).replace(b"l", b"k"))
