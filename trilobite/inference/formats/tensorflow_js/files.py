"""TensorFlow.js files: a JSON text that names arrays, and shards that hold their bytes in a row."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.framework.checkpoint.arrays import checked_bytes
from trilobite.framework.checkpoint.durable import NotFoundError, storage_errors
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.framework.checkpoint.sources import Source, open_inside
from trilobite.inference.formats.mapped import Array, mapped, outside
from trilobite.inference.formats.tensorflow_js import graph

_DTYPES: dict[str, Any] = {
    "float32": np.float32, "int32": np.int32, "uint8": np.uint8, "uint16": np.uint16, "int8": np.int8,
    "bool": np.bool_, "float16": np.float16, "complex64": np.complex64,
}  # fmt: skip
_MOST = 1 << 26  # bytes of the text


class Entry(NamedTuple):
    """An array within the bytes of its group of shards."""

    group: int
    start: int
    stop: int
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    dtype: np.dtype[Any]
    scale: float | None  # of numbers that were quantised
    low: float


class Shards(Mapping[str, Array]):
    """Arrays by name; a group's shards are read when one of its arrays is first asked for."""

    def __init__(self, folder: str, groups: list[list[str]], entries: dict[str, Entry], where: str) -> None:
        self._folder, self._groups, self._entries, self._where = folder, groups, entries, where
        self._read: dict[int, memoryview] = {}

    def __getitem__(self, name: str) -> Array:
        e = self._entries[name]
        raw = self._bytes(e.group)
        if e.stop > len(raw):
            raise corrupt(
                f"the array {shown(name)} ends at {e.stop}", self._where, f"{len(raw)} bytes of shards"
            )
        found: Array = np.frombuffer(raw[e.start : e.stop], e.stored).reshape(e.shape)
        if e.scale is not None:
            wide = found.astype(np.float64) * e.scale + e.low
            return (np.floor(wide + 0.5) if e.dtype.kind in "iu" else wide).astype(e.dtype)
        return found.astype(e.dtype)

    def _bytes(self, group: int) -> memoryview:
        if group not in self._read:
            self._read[group] = memoryview(b"".join(self._shard(name) for name in self._groups[group]))
        return self._read[group]

    def _shard(self, name: str) -> bytes:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise corrupt(f"a shard is named {shown(name)}", self._where, "a file of the same folder")
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            place = os.path.join(self._folder, name)
            with storage_errors("the shard could not be opened", place, "a readable file"):
                file = open_inside(folder, name, place)
            try:
                data = bytearray(file.size)
                Source(file).fill(memoryview(data))
            finally:
                os.close(file.fd)
        except NotFoundError:
            raise corrupt(
                f"the shard {shown(name)} is missing", self._where, "all shards beside the text"
            ) from None
        finally:
            os.close(folder)
        return bytes(data)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _text(path: Any) -> tuple[Any, str]:
    data, where = mapped(path)
    if len(data) > _MOST:
        raise corrupt(f"the text has {len(data)} bytes", where, f"at most {_MOST}")
    try:
        return json.loads(bytes(data)), where
    except (ValueError, RecursionError) as error:
        raise corrupt("the file is no JSON", where, "a model.json of TensorFlow.js") from error


def _entry(w: Any, group: int, at: int, where: str) -> Entry:
    name, shape = str(w["name"]), tuple(w["shape"])
    place = f"{where}, array {shown(name)}"
    q = w.get("quantization")
    kind = str((q or w).get("dtype"))
    if kind not in _DTYPES:
        raise outside(f"an array of {kind}", place, "save it with another dtype", ", ".join(_DTYPES))
    stored = np.dtype(_DTYPES[kind])
    size = checked_bytes(shape, stored.itemsize, place)
    scale = float(q["scale"]) if q and "scale" in q else None
    whole = q is not None and w.get("dtype") == "int32"
    dtype = np.dtype(np.int32 if whole else np.float32) if q or kind == "float16" else stored
    return Entry(group, at, at + size, shape, stored, dtype, scale, float(q.get("min", 0.0)) if q else 0.0)


def _manifest(text: Any, path: Any, where: str) -> Shards:
    rows = text.get("weightsManifest", []) if isinstance(text, dict) else text
    groups, entries = [], {}
    try:
        for n, row in enumerate(rows):
            groups.append([str(p) for p in row["paths"]])
            at = 0
            for w in row["weights"]:
                entry = _entry(w, n, at, where)
                entries[str(w["name"])] = entry
                at = entry.stop
    except (KeyError, TypeError, AttributeError) as error:
        raise corrupt("the list of weights is malformed", where, "names, shapes and dtypes") from error
    return Shards(os.path.dirname(os.path.abspath(os.fspath(path))), groups, entries, where)


def weights(path: Any) -> Shards:
    """All arrays that a model.json or a manifest names."""
    text, where = _text(path)
    return _manifest(text, path, where)


class _Stored:
    def __init__(self, shards: Shards, name: str) -> None:
        self._shards, self._name = shards, name

    def array(self) -> Array:
        return self._shards[self._name]


def convert(
    path: Any, outputs: Sequence[str] | None = None, constants: Mapping[str, Any] | None = None
) -> Any:
    """A layers-model or a graph-model as an ONNX ModelProto; of the latter, `outputs` and `constants` say
    what they say of TensorFlow's graphs.
    """
    from trilobite.inference.formats.keras.archive import Saved
    from trilobite.inference.formats.keras.convert import from_saved

    text, where = _text(path)
    topology = text.get("modelTopology") if isinstance(text, dict) else None
    if isinstance(topology, dict) and "node" in topology:
        return graph.convert(text, _manifest(text, path, where), where, outputs, constants)
    config = topology.get("model_config", topology) if isinstance(topology, dict) else None
    if not isinstance(config, dict) or "class_name" not in config:
        raise outside(
            "the file holds neither a layers-model nor a graph-model",
            where,
            "read its weights, if it is a manifest of these alone",
        )
    if outputs is not None or constants is not None:
        raise outside("outputs of a layers-model are its own", where, "leave out outputs= and constants=")
    shards = _manifest(text, path, where)
    by_layer: dict[str, dict[str, Any]] = {}
    for name in shards:
        for part in name.split("/")[:-1]:
            by_layer.setdefault(part, {})[name] = _Stored(shards, name)
    return from_saved(Saved(config, None, where, by_layer), "TensorFlow.js")
