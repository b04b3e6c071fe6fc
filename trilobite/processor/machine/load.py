"""Machines by name or by path: YAML in, a checked `Machine` out.

Enters: a preset's name, the path of a YAML file, its text, or a mapping. Leaves: a `Machine`.
Unknown keys are errors with the nearest known key; nothing is guessed.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from trilobite.base.errors import MachineError
from trilobite.processor.machine.description import Machine


def preset_names() -> list[str]:
    """The presets that come with the package, in alphabetical order."""
    return sorted(entry.name[:-5] for entry in _presets().iterdir() if entry.name.endswith(".yaml"))


def load_machine(source: str | Path | Machine) -> Machine:
    """A `Machine` as it is, a preset by its name, or a file by its path."""
    if isinstance(source, Machine):
        return source
    text = str(source)
    if text in preset_names():
        return _load_preset(text)
    path = Path(text)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return _load_file(path)
    near = get_close_matches(text, preset_names(), 1)
    raise MachineError(
        f"there is no machine {text!r}",
        expected="one of " + ", ".join(preset_names()) + ", or the path of a YAML file",
        remedy=f"did you mean {near[0]!r}?" if near else "see `trilobite machines`",
    )


def parse_machine(text: str, where: str = "<text>") -> Machine:
    """The machine that a YAML text describes."""
    import yaml

    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise MachineError(
            f"this is not YAML: {error}",
            where=where,
            expected="a mapping of the machine's fields",
            remedy="compare with a preset, for example dlp-s",
        ) from error
    return machine_from(tree, where)


def machine_from(tree: object, where: str = "<mapping>") -> Machine:
    machine = _build(Machine, tree, where, "")
    assert isinstance(machine, Machine)
    return machine


def field_from(part: type, name: str, value: object, path: str) -> object:
    """What one field of a part of the machine holds, from a value as YAML gives it, or as it is."""
    kind = typing.get_type_hints(part)[name]
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, kind):
        return value
    return _convert(kind, value, "a machine's field", path)


def _presets() -> typing.Any:
    return files("trilobite.processor.machine") / "presets"


@lru_cache(maxsize=32)
def _load_preset(name: str) -> Machine:
    return parse_machine((_presets() / f"{name}.yaml").read_text(encoding="utf-8"), f"preset {name}")


def _load_file(path: Path) -> Machine:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(
            f"the machine file cannot be read: {error}",
            where=str(path),
            expected="a YAML text file",
            remedy="check the path",
        ) from error
    return parse_machine(text, str(path))


def _build(kind: type, tree: object, where: str, path: str) -> object:
    """One dataclass from one mapping, field by field, with the path of the field in every message."""
    if not isinstance(tree, Mapping):
        missing = (
            "a rate without a format"
            if path.endswith("macs_per_cycle")
            else f"{path or 'the file'} is {tree!r}"
        )
        raise MachineError(
            missing,
            where=f"{where}: {path or 'top level'}",
            expected="a mapping of fields",
            remedy="write key: value pairs",
        )
    known = {item.name: item for item in fields(kind)}
    for key in tree:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            raise MachineError(
                f"{key!r} is no field of {path or 'a machine'}",
                where=f"{where}: {path or 'top level'}",
                expected="one of " + ", ".join(known),
                remedy=f"did you mean {near[0]!r}?" if near else "remove the key",
            )
    hints = typing.get_type_hints(kind)
    values = {}
    for name, item in known.items():
        here = f"{path}.{name}".lstrip(".")
        if name in tree:
            values[name] = _convert(hints[name], tree[name], where, here)
        elif item.default is MISSING and item.default_factory is MISSING:
            raise MachineError(
                f"{here} is missing",
                where=where,
                expected=f"a field {name!r} under {path or 'the top'}",
                remedy="compare with a preset, for example dlp-s",
            )
    return kind(**values)


def _convert(kind: typing.Any, value: object, where: str, path: str) -> object:
    if is_dataclass(kind) and isinstance(kind, type):
        return _build(kind, value, where, path)
    origin = typing.get_origin(kind)
    if origin is tuple:
        return _tuple(kind, value, where, path)
    if origin is not None:
        return _rates(value, where, path)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(kind, type) or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        words = {int: "a whole number", float: "a number", str: "a word", bool: "true or false"}
        raise MachineError(
            f"{path} is {value!r}",
            where=f"{where}: {path}",
            expected=words.get(kind, str(kind)),
            remedy="correct the value",
        )
    return value


def _tuple(kind: types.GenericAlias, value: object, where: str, path: str) -> tuple[object, ...]:
    inner, *more = typing.get_args(kind)
    if not isinstance(value, (list, tuple)):
        raise MachineError(
            f"{path} is {value!r}", where=f"{where}: {path}", expected="a list", remedy="write [a, b]"
        )
    if Ellipsis not in more and len(value) != 1 + len(more):
        raise MachineError(
            f"{path} holds {value!r}",
            where=f"{where}: {path}",
            expected=f"lists of {1 + len(more)} numbers",
            remedy="write pairs such as [0, 1]",
        )
    return tuple(_convert(inner, item, where, path) for item in value)


def _rates(value: object, where: str, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise MachineError(
            f"{value!r} is a rate without a format",
            where=f"{where}: {path}",
            expected="a mapping of number formats to multiply-accumulates per cycle",
            remedy=f"write {{int8: {value}}} if it is the rate of int8",
        )
    return {str(key): rate for key, rate in value.items()}
