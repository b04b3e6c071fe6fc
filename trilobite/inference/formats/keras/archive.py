"""Keras files as plain data: the configuration of a network, and weights by layer.

Enters: a path to a `.h5` (whole models and weights alone), or a `.keras` archive. Leaves: `Saved`, and lists
of arrays in the order in which Keras keeps them. Nothing in a file is executed: of custom objects only the
names are read. Archives are unpacked in memory, and no further than they say.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.hdf5 import Group, open_file
from trilobite.inference.formats.mapped import Array, mapped, outside

_LARGEST = 1 << 34  # bytes of weights in an archive
_SMALL = 1 << 26  # of a configuration


class Stored(Protocol):
    """Numbers that are read when they are asked for."""

    def array(self) -> Array: ...


class Weights(Mapping[str, Array]):
    """Arrays by the names that Keras gives them; each is read when it is asked for."""

    def __init__(self, rows: Mapping[str, Stored]) -> None:
        self._rows = rows

    def __getitem__(self, name: str) -> Array:
        return self._rows[name].array()

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Saved:
    """What a file holds: `config` of the network (None for weights alone), weights by path."""

    def __init__(
        self, config: Any, root: Group | None, where: str, by_layer: dict[str, dict[str, Stored]] | None
    ) -> None:
        self.config, self.root, self.where, self.by_layer = config, root, where, by_layer


def _words(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(v) for v in value]


def _listed(group: Group, name: str) -> list[str]:
    """A list of names; long ones are kept in several attributes."""
    attributes = group.attributes
    if name in attributes:
        return _words(attributes[name])
    out: list[str] = []
    for i in range(1000):
        if f"{name}{i}" not in attributes:
            break
        out += _words(attributes[f"{name}{i}"])
    return out


def _weight_group(root: Group) -> Group:
    """Of a whole model the part that holds its weights."""
    return root["model_weights"] if "model_weights" in root.members() else root


def _legacy(group: Group) -> dict[str, dict[str, Stored]]:
    """Layer by layer and name by name, as files before Keras 3 keep them."""
    found: dict[str, dict[str, Stored]] = {}
    for layer in _listed(group, "layer_names"):
        inner = group[layer]
        found[layer] = {name: inner[name] for name in _listed(inner, "weight_names")}
    return found


def _config(text: Any, where: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise corrupt("the network's configuration is no JSON", where, "a model that Keras saved") from error


def read(path: Any) -> Saved:
    data, where = mapped(path)
    if bytes(data[:4]) == b"PK\x03\x04":
        return _archive(path, where)
    root = open_file(path)
    attributes = root.attributes
    config = _config(attributes["model_config"], where) if "model_config" in attributes else None
    group = _weight_group(root)
    legacy = _legacy(group) if _listed(group, "layer_names") else None
    return Saved(config, root, where, legacy)


def _archive(path: Any, where: str) -> Saved:
    try:
        with zipfile.ZipFile(path) as archive:
            config = _config(_member(archive, "config.json", _SMALL, where), where)
            weights = _member(archive, "model.weights.h5", _LARGEST, where)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise corrupt(f"the archive cannot be read: {shown(str(error))}", where, "a .keras file") from error
    return Saved(config, open_file(weights), where, None)


def _member(archive: zipfile.ZipFile, name: str, most: int, where: str) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise outside(f"the archive has no {name}", where, "is it a .keras file of Keras 3?", name) from None
    packed = max(entry.compress_size, 1)
    if entry.file_size > most or entry.file_size > 1100 * packed:
        raise corrupt(f"{name} would unpack to {entry.file_size} bytes", where, f"at most {most}")
    import zlib

    with archive.open(entry) as file:
        try:
            data = file.read(entry.file_size + 1)
        except zlib.error as error:
            raise corrupt(f"{name} cannot be unpacked: {error}", where, "deflated data") from error
    if len(data) != entry.file_size:
        raise corrupt(f"{name} has another size than the archive says", where, f"{entry.file_size} bytes")
    return data


def snake_case(name: str) -> str:
    """A class's name as Keras writes it in paths: Conv2DTranspose is conv2d_transpose."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def weights(path: Any) -> Weights:
    """All weights of a file, by name."""
    saved = read(path)
    if saved.by_layer is not None:
        return Weights({name: g for found in saved.by_layer.values() for name, g in found.items()})
    assert saved.root is not None
    return Weights(dict(saved.root.walk()))
