"""One checkpoint: a directory with a manifest and the safetensors files it names.

Enters: a pytree. Leaves: a directory that at every moment holds the old or the new checkpoint, whole; and
back, with every size, hash, name, shape and dtype checked before a value is handed out. The layout and its
reasons: docs/decisions/0003-checkpoint-layout.md. Keeping several steps is `Checkpointer`'s work.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.wrong_use import explains
from trilobite.framework.checkpoint import durable, matching, safetensors, streams
from trilobite.framework.checkpoint.arrays import NAMES, Array
from trilobite.framework.checkpoint.manifest import (
    MAX_BYTES,
    NAME,
    Manifest,
    data_file_name,
    is_data_file,
    parse,
    render,
)
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.framework.checkpoint.sources import Opened, Source, open_inside
from trilobite.framework.checkpoint.structure import Encoder, Slot, decode, fill, slots

SHARD_BYTES = 1 << 32
_RETRIES = 20


# ---- saving ----


@explains
def save(path: Any, tree: Any = None, *, metadata: Any = None, **settings: Any) -> None:
    """Save a pytree of arrays, numbers, strings, bytes, bools and None as the checkpoint at `path`. PyTorch's
    order, save(tree, path), is understood as well, and a stream gets safetensors of one flat dict.

    Returns when it is on the disk. A kill at any moment leaves the checkpoint that was there before, or
    this one. `metadata` is a tree of scalars for people and tools (`read_metadata`).
    """
    path, tree = streams.in_order(path, tree)
    streams.check_forms(settings)
    streams.refuse_module(tree)
    if hasattr(path, "write"):
        streams.write(path, tree, metadata)
        return
    encoder = Encoder()
    encoded = encoder.encode(tree)
    draft = Manifest({}, encoded, _encode_metadata(metadata))
    with place_for(path) as work:
        put_in_place(work, path, draft._replace(files=write_arrays(work, encoder.arrays)))


@contextmanager
def place_for(path: Any) -> Iterator[str]:
    """A directory beside the checkpoint's place, for its one writer to fill; what is left of it goes."""
    parent, name = durable.locate(path)
    target = os.path.join(parent, name)
    _require_replaceable(target)
    with durable.storage_errors("the checkpoint could not be saved", target):
        durable.make_directories(parent)
        with durable.lock(parent, name):
            durable.sweep(parent, name)
            work = durable.beside(parent, name, "saving")
            try:
                os.mkdir(work)
                yield work
            finally:
                durable.remove_tree(work)


def _encode_metadata(metadata: Any) -> Any:
    encoder = Encoder()
    encoded = encoder.encode(metadata, ("metadata",))
    if encoder.arrays:
        raise ArgumentError(
            f"the metadata hold an array: {next(iter(encoder.arrays))}",
            expected="numbers, strings, bools, None and nests of them",
            remedy="put it into the tree",
        )
    return encoded


def _require_replaceable(target: str) -> None:
    """A checkpoint, an empty directory or nothing may be written over; anything else is somebody's work."""
    if not os.path.lexists(target):
        return
    if os.path.isdir(target) and (not os.listdir(target) or os.path.lexists(os.path.join(target, NAME))):
        return
    raise StateError(
        "there is something else at the place of the checkpoint",
        where=target,
        expected="nothing, an empty directory, or a checkpoint to replace",
        remedy="choose another path, or move away what is there",
    )


def write_arrays(work: str, arrays: Mapping[str, Array], writer: int = 0) -> dict[str, durable.Written]:
    """Arrays as files of the checkpoint, flushed; several writers may share a directory."""
    files: dict[str, durable.Written] = {}
    for shard in _shards(arrays):
        unnamed = os.path.join(work, f"unnamed{writer}")
        written = durable.write_file(unnamed, _producer(safetensors.chunks(shard, {})))
        name = data_file_name(written.sha256)
        os.rename(unnamed, os.path.join(work, name))
        files[name] = written
    return files


def put_in_place(work: str, path: Any, manifest: Manifest) -> None:
    """All files are there: with the manifest, written last, they become the checkpoint at `path`."""
    durable.write_file(os.path.join(work, NAME), _producer(iter([render(manifest)])))
    durable.sync_directory(work)
    parent, name = durable.locate(path)
    _commit(work, parent, os.path.join(parent, name))


def _producer(chunks: Iterator[bytes]) -> Any:
    def produce(sink: durable.Sink) -> None:
        for chunk in chunks:
            sink.write(chunk)

    return produce


def _shards(arrays: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """Arrays in files of at most SHARD_BYTES each, unless a single array is larger, with headers that fit."""
    shard: dict[str, Array] = {}
    size = header = 0
    for name, array in arrays.items():
        more = safetensors.header_bytes(name, array)
        if shard and (size + array.nbytes > SHARD_BYTES or header + more > safetensors.MAX_HEADER_BYTES):
            yield shard
            shard, size, header = {}, 0, 0
        shard[name] = array
        size += array.nbytes
        header += more
    if shard:
        yield shard


def _commit(work: str, parent: str, target: str) -> None:
    """Put the finished directory in place. Nothing of the old checkpoint goes before the new one is on the
    disk."""
    if not os.path.isdir(target) or not os.listdir(target):
        os.rename(work, target)
        durable.sync_directory(parent)
        return
    fresh = [name for name in os.listdir(work) if name != NAME]
    for name in fresh:
        os.replace(os.path.join(work, name), os.path.join(target, name))
    durable.sync_directory(target)
    os.replace(os.path.join(work, NAME), os.path.join(target, NAME))
    durable.sync_directory(target)
    with durable.storage_errors(
        "the checkpoint was saved, but the old one's files could not be removed",
        target,
        "write access to the directory",
    ):
        for name in os.listdir(target):
            if is_data_file(name) and name not in fresh:
                os.unlink(os.path.join(target, name))


# ---- loading ----


class _Checkpoint(NamedTuple):
    """A manifest, and its data files held open, so that a save meanwhile does not take them away."""

    where: str
    manifest: Manifest
    files: dict[str, Opened]


@explains
def load(path: Any, like: Any = None, *, map_location: Any = None, **settings: Any) -> Any:
    """The tree of the checkpoint at `path`: dict, list and tuple with NumPy arrays, bit for bit what was
    saved.

    Given `like`, an example, it must have the same names, shapes and dtypes; every difference is reported
    at once, before any array is read, and the values come in the example's own containers. `map_location`
    may name the CPU; PyTorch's `weights_only` and `mmap` change nothing. Streams hold what save wrote there.
    """
    streams.check_settings(map_location, settings)
    if hasattr(path, "read"):
        return streams.read(path)
    with stream(path) as (nest, files):
        if like is not None:
            matching.check(nest, like, os.fsdecode(os.fspath(path)))
        arrays: dict[str, Array] = {}
        for shard in files:
            arrays.update(shard)
    values = fill(nest, arrays)
    return values if like is None else matching.rebuild(values, like)


@contextmanager
def stream(path: Any) -> Iterator[tuple[Any, Iterator[dict[str, Array]]]]:
    """The tree of a checkpoint with a `Slot` for every array, and then its arrays, one file at a time."""
    with _opened(path) as checkpoint:
        nest = decode(checkpoint.manifest.tree, os.path.join(checkpoint.where, NAME))
        yield nest, _read(checkpoint, nest)


@explains
def verify(path: Any) -> None:
    """Read the checkpoint at `path` to its last byte; raise what `load` would raise. Holds one file at a
    time."""
    with stream(path) as (_, files):
        for _ in files:
            pass


@explains
def read_metadata(path: Any) -> Any:
    """The `metadata` that a checkpoint was saved with."""
    with _opened(path) as checkpoint:
        nest = decode(checkpoint.manifest.metadata, os.path.join(checkpoint.where, NAME))
        if any(slots(nest)):
            raise corrupt("the metadata name an array", checkpoint.where, "plain values")
        return nest


@contextmanager
def _opened(path: Any) -> Iterator[_Checkpoint]:
    where = os.fsdecode(os.fspath(path))
    with durable.storage_errors("the checkpoint could not be opened", where, "a checkpoint directory"):
        directory = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
    with ExitStack() as stack:
        stack.callback(os.close, directory)
        yield _open_files(directory, where, stack)


def _open_files(directory: int, where: str, stack: ExitStack) -> _Checkpoint:
    """Open what the manifest names. If a file has gone and the manifest has changed, a save came between:
    again."""
    text = _manifest_bytes(directory, where)
    for _ in range(_RETRIES):
        manifest = parse(text, os.path.join(where, NAME))
        files: dict[str, Opened] = {}
        missing = [name for name in manifest.files if not _open_data(directory, name, where, files, stack)]
        if not missing:
            return _Checkpoint(where, manifest, files)
        before, text = text, _manifest_bytes(directory, where)
        if text == before:
            raise corrupt(
                "the file is missing", os.path.join(where, missing[0]), "every file that the manifest names"
            )
    raise StateError(
        "the checkpoint is being replaced faster than it can be read",
        where=where,
        expected="a checkpoint that stands for a moment",
        remedy="load it when its writer rests",
    )


def _manifest_bytes(directory: int, where: str) -> bytes:
    place = os.path.join(where, NAME)
    try:
        file = open_inside(directory, NAME, place)
    except FileNotFoundError:
        raise corrupt(
            "there is no manifest",
            place,
            "a checkpoint directory",
            "check the path; a directory without a manifest holds no checkpoint",
        ) from None
    try:
        if file.size > MAX_BYTES:
            raise corrupt(f"the manifest has {file.size} bytes", place, f"at most {MAX_BYTES}")
        text = bytearray(file.size)
        Source(file).fill(memoryview(text))
        return bytes(text)
    finally:
        os.close(file.fd)


def _open_data(directory: int, name: str, where: str, files: dict[str, Opened], stack: ExitStack) -> bool:
    place = os.path.join(where, name)
    try:
        with durable.storage_errors("the file could not be opened", place, "a readable file"):
            file = open_inside(directory, name, place)
    except durable.NotFoundError:
        return False
    stack.callback(os.close, file.fd)
    files[name] = file
    return True


def _read(checkpoint: _Checkpoint, nest: Any) -> Iterator[dict[str, Array]]:
    """The arrays of one file after the other, each proven to be what the manifest says."""
    expected = _expected(nest, checkpoint.where)
    for name, record in checkpoint.manifest.files.items():
        yield _read_file(checkpoint.files[name], record, expected)
    if expected:
        raise corrupt(
            f"no file holds the array {shown(min(expected))}",
            checkpoint.where,
            "every array that the tree names",
        )


def _expected(nest: Any, where: str) -> dict[str, Slot]:
    expected: dict[str, Slot] = {}
    for slot in slots(nest):
        if expected.setdefault(slot.array, slot) != slot:
            raise corrupt(
                f"the tree gives the array {shown(slot.array)} two types", where, "one dtype and shape"
            )
    return expected


def _read_file(file: Opened, record: durable.Written, expected: dict[str, Slot]) -> dict[str, Array]:
    """One file's arrays; what is found is taken out of `expected`."""
    if file.size != record.size:
        fault = "is truncated" if file.size < record.size else "has extra bytes"
        raise corrupt(f"the file {fault}: {file.size} bytes", file.where, f"{record.size} bytes")
    digest = hashlib.sha256()
    arrays = safetensors.read_arrays(Source(file, digest.update), file.size, file.where)
    if digest.hexdigest() != record.sha256:
        raise corrupt(f"the file was altered: its SHA-256 is {digest.hexdigest()}", file.where, record.sha256)
    for name, array in arrays.items():
        if expected.pop(name, None) != Slot(name, NAMES[array.dtype], array.shape):
            raise corrupt(
                f"the array {shown(name)} is not the one the tree names",
                file.where,
                "arrays of the names, dtypes and shapes in the manifest",
            )
    return arrays
