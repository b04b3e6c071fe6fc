"""The manifest of a checkpoint: what belongs to it, byte for byte.

Enters: the encoded tree and the files beside it. Leaves: JSON with the size and SHA-256 of every file,
sealed: its last member is the SHA-256 of every byte before it, so the manifest vouches for itself too. Does
not open files.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError
from trilobite.framework.checkpoint import strict_json
from trilobite.framework.checkpoint.durable import Written
from trilobite.framework.checkpoint.refusal import corrupt, shown

NAME = "manifest.json"
FORMAT, VERSION = "trilobite checkpoint", 1
MAX_BYTES = 1 << 27
_SEAL = re.compile(rb',\n"sha256": "([0-9a-f]{64})"\n}\n')
_SEAL_BYTES = len(b',\n"sha256": ""\n}\n') + 64
_DATA_FILE = re.compile(r"arrays-[0-9a-f]{32}\.safetensors")


class Manifest(NamedTuple):
    """What a checkpoint consists of."""

    files: dict[str, Written]
    tree: Any
    metadata: Any


def data_file_name(sha256: str) -> str:
    """Files are named by content: the same tree gives the same bytes, and a replacement never meets its
    predecessor."""
    return f"arrays-{sha256[:32]}.safetensors"


def is_data_file(name: str) -> bool:
    return _DATA_FILE.fullmatch(name) is not None


def render(manifest: Manifest) -> bytes:
    members = {
        "format": FORMAT,
        "version": VERSION,
        "files": {name: {"bytes": file.size, "sha256": file.sha256} for name, file in manifest.files.items()},
        "metadata": manifest.metadata,
        "tree": manifest.tree,
    }
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in members.items())
    body = ("{\n" + ",\n".join(lines)).encode("ascii")
    if len(body) + _SEAL_BYTES > MAX_BYTES:
        raise ArgumentError(
            f"the scalars, strings and bytes of the tree take {len(body)} bytes",
            expected=f"at most {MAX_BYTES}",
            remedy="keep large data in arrays",
        )
    return body + f',\n"sha256": "{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode("ascii")


def parse(data: bytes, where: str) -> Manifest:
    """Check every field of a manifest before anything acts on it."""
    body, seal = data[:-_SEAL_BYTES], _SEAL.fullmatch(data[-_SEAL_BYTES:])
    if seal is None:
        raise corrupt(
            "the manifest does not end with its seal",
            where,
            "a complete manifest",
            "it was cut off or altered; load another checkpoint",
        )
    if hashlib.sha256(body).hexdigest().encode("ascii") != seal.group(1):
        raise corrupt(
            "the manifest was altered: its SHA-256 is not the one it states",
            where,
            seal.group(1).decode("ascii"),
        )
    members = strict_json.parse(data, where)
    _check_members(members, where)
    files = {name: _file(name, record, where) for name, record in members["files"].items()}
    return Manifest(files, members["tree"], members["metadata"])


def _check_members(members: Any, where: str) -> None:
    version = members.get("version")
    if members.get("format") != FORMAT or type(version) is not int:
        raise corrupt(
            "this is not the manifest of a checkpoint", where, f"the format {FORMAT!r}", "check the path"
        )
    if version != VERSION:
        raise corrupt(
            f"the checkpoint has format version {version}",
            where,
            f"version {VERSION}",
            "load it with the version of Trilobite that wrote it, or a newer one",
        )
    if (
        set(members) != {"format", "version", "files", "metadata", "tree", "sha256"}
        or type(members["files"]) is not dict
    ):
        raise corrupt(
            "the manifest has missing or unknown members",
            where,
            "format, version, files, metadata, tree, sha256",
        )


def _file(name: str, record: Any, where: str) -> Written:
    if not is_data_file(name):
        raise corrupt(
            f"the manifest names the file {shown(name)}",
            where,
            "arrays-<32 hexadecimal digits>.safetensors, within the checkpoint",
        )
    if type(record) is dict and set(record) == {"bytes", "sha256"}:
        size, sha256 = record["bytes"], record["sha256"]
        if type(size) is int and size >= 0 and type(sha256) is str and re.fullmatch("[0-9a-f]{64}", sha256):
            return Written(size, sha256)
    raise corrupt(f"the record of the file {name} is malformed", where, "its bytes and its sha256")
