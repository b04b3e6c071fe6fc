"""Damaged and hostile checkpoints: every one is refused, by name, before a value is handed out."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_trees import any_bits, assert_same, training_state

from trilobite.base.errors import FileError
from trilobite.framework import checkpoint
from trilobite.framework.checkpoint import manifest as manifests
from trilobite.framework.checkpoint.arrays import DTYPES


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A checkpoint small enough to be harmed in every byte."""
    tree = {
        "w": any_bits(DTYPES["float16"], (2, 3), 1),
        "q": any_bits(DTYPES["int4"], (3,), 2),
        "ok": np.array([True]),
        "n": 3,
    }
    checkpoint.save(tmp_path / "c", tree)
    return tmp_path / "c"


def _manifest(path: Path) -> Path:
    return path / "manifest.json"


def _data(path: Path) -> Path:
    return next(path.glob("arrays-*.safetensors"))


@pytest.mark.parametrize("mask", [0x01, 0x20, 0x80])
def test_a_flip_in_any_byte_of_any_file_is_refused(small: Path, mask: int) -> None:
    count = 0
    for file in small.iterdir():
        whole = file.read_bytes()
        for index in range(len(whole)):
            file.write_bytes(whole[:index] + bytes([whole[index] ^ mask]) + whole[index + 1 :])
            with pytest.raises(FileError) as caught:
                checkpoint.load(small)
            assert file.name in str(caught.value.where), f"byte {index} of {file.name}: {caught.value}"
            count += 1
        file.write_bytes(whole)
    assert count > 700
    checkpoint.verify(small)


def test_any_truncation_and_any_addition_is_refused(small: Path) -> None:
    for file in small.iterdir():
        whole = file.read_bytes()
        for length in range(len(whole)):
            file.write_bytes(whole[:length])
            with pytest.raises(FileError):
                checkpoint.verify(small)
        for extra in (b"\0", b" ", b"\n", b"}", whole):
            file.write_bytes(whole + extra)
            with pytest.raises(FileError):
                checkpoint.verify(small)
        file.write_bytes(whole)
    checkpoint.verify(small)


# ---- files ----


def _swap_files(path: Path) -> None:
    other = path.parent / "other"
    checkpoint.save(
        other,
        {
            "w": any_bits(DTYPES["float16"], (2, 3), 9),
            "q": any_bits(DTYPES["int4"], (3,), 2),
            "ok": np.array([True]),
        },
    )
    _data(path).write_bytes(_data(other).read_bytes())


def _link_data_out(path: Path) -> None:
    data = _data(path)
    shutil.move(data, path.parent / "outside")
    data.symlink_to(path.parent / "outside")


def _link_manifest_out(path: Path) -> None:
    shutil.move(_manifest(path), path.parent / "outside")
    _manifest(path).symlink_to(path.parent / "outside")


def _pipe(path: Path) -> None:
    data = _data(path)
    data.unlink()
    os.mkfifo(data)


def _directory_for_file(path: Path) -> None:
    data = _data(path)
    data.unlink()
    data.mkdir()


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (lambda p: _data(p).unlink(), "the file is missing"),
        (lambda p: _manifest(p).unlink(), "there is no manifest"),
        (lambda p: _manifest(p).write_bytes(b""), "the manifest does not end with its seal"),
        (_swap_files, "the file was altered: its SHA-256 is "),
        (_link_data_out, "this is a symbolic link"),
        (_link_manifest_out, "this is a symbolic link"),
        (_pipe, "this is not a regular file"),
        (_directory_for_file, "this is not a regular file"),
    ],
)
def test_harmed_files_are_refused_by_name(small: Path, harm: Callable[[Path], Any], text: str) -> None:
    harm(small)
    with pytest.raises(FileError) as caught:
        checkpoint.load(small)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(text)
    assert lines[1].startswith(f"  where: {small}/")
    assert lines[2].startswith("  expected: ") and lines[3].startswith("  remedy: ")


def test_other_files_in_the_directory_are_nobodys_business(small: Path) -> None:
    (small / "notes.txt").write_text("mine")
    checkpoint.verify(small)
    checkpoint.save(small, training_state(1))
    assert (small / "notes.txt").read_text() == "mine"


# ---- a manifest written by someone who knows the seal ----


def _seal(path: Path, text: str) -> None:
    """Write a manifest whose seal is right, whatever it says."""
    body = text.removesuffix("}").rstrip()
    _manifest(path).write_bytes(
        f'{body},\n"sha256": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'.encode()
    )


def _forge(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    members = json.loads(_manifest(path).read_text())
    del members["sha256"]
    change(members)
    _seal(path, json.dumps(members))


def _rename(path: str) -> Callable[[dict[str, Any]], None]:
    def change(members: dict[str, Any]) -> None:
        (record,) = members["files"].values()
        members["files"] = {path: record}

    return change


def _set(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(members: dict[str, Any]) -> None:
        target: Any = members
        for key in keys[:-1]:
            target = next(iter(target.values())) if key is ANY else target[key]
        target[keys[-1]] = to

    return change


ANY = object()
W = ("tree", "dict", "w")


def _deep(depth: int) -> Any:
    nest: Any = 1
    for _ in range(depth):
        nest = [nest]
    return nest


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (_rename("/etc/passwd"), "the manifest names the file '/etc/passwd'"),
        (_rename("../c/manifest.json"), "the manifest names the file '../c/manifest.json'"),
        (_rename("sub/arrays-" + "0" * 32 + ".safetensors"), "the manifest names the file 'sub/arrays-"),
        (_rename("arrays-" + "0" * 32 + ".safetensors\n"), "the manifest names the file"),
        (_rename("arrays-" + "0" * 32 + ".safetensors"), "the file is missing"),
        (_rename("arrays-\0.safetensors"), "the manifest names the file 'arrays-\\x00.safetensors'"),
        (_set("files", ANY, "bytes", to=-1), "the record of the file"),
        (_set("files", ANY, "bytes", to=1e3), "the record of the file"),
        (_set("files", ANY, "bytes", to=True), "the record of the file"),
        (_set("files", ANY, "bytes", to=10**30), "the file is truncated"),
        (_set("files", ANY, "sha256", to="0" * 64), "the file was altered"),
        (_set("files", ANY, "sha256", to="A" * 64), "the record of the file"),
        (_set("files", ANY, "extra", to=1), "the record of the file"),
        (_set("files", to=[]), "the manifest has missing or unknown members"),
        (_set("files", to={}), "no file holds the array"),
        (_set("format", to="other"), "this is not the manifest of a checkpoint"),
        (_set("version", to=2), "the checkpoint has format version 2"),
        (_set("version", to=True), "this is not the manifest of a checkpoint"),
        (_set("more", to=1), "the manifest has missing or unknown members"),
        (lambda m: m.pop("tree"), "the manifest has missing or unknown members"),
        (_set(*W, "dtype", to="float32"), "the array 'w' is not the one the tree names"),
        (_set(*W, "dtype", to="object"), "the tree holds {'array': 'w', 'dtype': 'object'"),
        (_set(*W, "dtype", to=["float32"]), "the tree holds {'array': 'w'"),
        (_set(*W, "shape", to=[3, 2]), "the array 'w' is not the one the tree names"),
        (_set(*W, "shape", to=[2, -3]), "the shape [2, -3] has an extent that is no size"),
        (_set(*W, "shape", to=[2.0, 3]), "the shape [2.0, 3] has an extent that is no size"),
        (_set(*W, "shape", to=[0, 2**62, 2**62]), "is larger than any memory"),
        (_set(*W, "shape", to=[1] * 65), "the shape has 65 axes"),
        (_set(*W, "array", to="x"), "the array 'w' is not the one the tree names"),
        (_set(*W, "array", to=3), "the tree holds {'array': 3"),
        (
            _set("tree", "dict", "n", to={"array": "w", "dtype": "float16", "shape": [6]}),
            "gives the array 'w' two types",
        ),
        (
            _set("tree", "dict", "n", to={"array": "z", "dtype": "float16", "shape": [6]}),
            "no file holds the array 'z'",
        ),
        (_set("tree", "dict", "n", to={"unknown": 1}), "the tree holds {'unknown': 1}"),
        (_set("tree", "dict", "n", to={}), "the tree holds {}"),
        (_set("tree", "dict", "n", to={"tuple": 3}), "the tree holds 3"),
        (_set("tree", "dict", "n", to={"dict": [1]}), "the tree holds [1]"),
        (_set("tree", "dict", "n", to={"dict_items": [[1]]}), "the tree holds [[1]]"),
        (_set("tree", "dict", "n", to={"dict_items": [[[1], 2]]}), "the tree holds {'key': [1]}"),
        (_set("tree", "dict", "n", to={"dict_items": [[1, 2], [1, 3]]}), "the tree holds {'key': 1}"),
        (_set("tree", "dict", "n", to={"int": "12"}), "the tree holds {'int': '12'}"),
        (_set("tree", "dict", "n", to={"int": "0x" + "_" * 9}), "the tree holds {'int': '0x_"),
        (_set("tree", "dict", "n", to={"float": "nan"}), "the tree holds {'float': 'nan'}"),
        (_set("tree", "dict", "n", to={"complex": ["0" * 16]}), "the tree holds {'complex'"),
        (_set("tree", "dict", "n", to={"bytes": "é"}), "the tree holds {'bytes'"),
        (_set("tree", "dict", "n", to={"bytes": "a"}), "the tree holds {'bytes'"),
        (_set("tree", "dict", "n", to=_deep(101)), "the tree is nested too deeply"),
        (
            _set("metadata", to={"array": "w", "dtype": "float16", "shape": [2, 3]}),
            "the metadata name an array",
        ),
    ],
)
def test_a_forged_manifest_is_refused(
    small: Path, change: Callable[[dict[str, Any]], Any], text: str
) -> None:
    _forge(small, change)
    with pytest.raises(FileError) as caught:
        checkpoint.load(small)
        checkpoint.read_metadata(small)
    assert text in str(caught.value).splitlines()[0]
    assert "expected: " in str(caught.value) and "remedy: " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"format": "trilobite checkpoint", "format": "x"}', "the key 'format' stands there twice"),
        ('{"n": NaN}', "NaN is no JSON number"),
        ('{"n": -Infinity}', "-Infinity is no JSON number"),
        ('{"n": 1e999}', "the number 1e999 is out of range"),
        ('{"n": ' + "9" * 5000 + "}", "the JSON cannot be read"),
        ('{"n": ' + "[" * 100_000 + "}", "the JSON is nested too deeply"),
        ('{"n": "\x01"}', "the JSON cannot be read: Invalid control character"),
        ('{"n": 1,, "m": 2}', "the JSON cannot be read"),
    ],
)
def test_loose_json_is_refused(small: Path, text: str, reason: str) -> None:
    _seal(small, text)
    with pytest.raises(FileError) as caught:
        checkpoint.load(small)
    assert reason in str(caught.value)


def test_a_list_for_a_manifest_is_refused(small: Path) -> None:
    body = '["a"'
    _manifest(small).write_bytes(
        f'{body},\n"sha256": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'.encode()
    )
    with pytest.raises(FileError):
        checkpoint.load(small)


def test_a_manifest_beyond_measure_is_not_even_read(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(_manifest(small), "ab") as file:
        file.truncate(1 << 40)  # sparse: it takes no room, but reading it would
    with pytest.raises(FileError, match=f"the manifest has {1 << 40} bytes"):
        checkpoint.load(small)


def test_a_tree_too_large_for_a_manifest_is_refused_when_saved(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "MAX_BYTES", 1000)
    with pytest.raises(ValueError, match=r"the scalars, strings and bytes of the tree take \d+ bytes"):
        checkpoint.save(small, {"text": "x" * 2000})
    checkpoint.verify(small)


def test_the_same_array_name_in_two_files_is_refused(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", {"w": np.arange(3.0)})
    checkpoint.save(tmp_path / "d", {"w": np.arange(3.0) + 1})
    shutil.copy(_data(tmp_path / "d"), tmp_path / "c")
    records = json.loads(_manifest(tmp_path / "d").read_text())["files"]
    _forge(tmp_path / "c", lambda members: members["files"].update(records))
    with pytest.raises(FileError, match="the array 'w' is not the one the tree names"):
        checkpoint.load(tmp_path / "c")


def test_what_a_forger_gets_right_loads(small: Path) -> None:
    """The forging above is honest work: without a change it gives a checkpoint that loads."""
    before = checkpoint.load(small)
    _forge(small, lambda members: None)
    assert_same(checkpoint.load(small), before)
