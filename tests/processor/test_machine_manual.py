"""The fields of machines: each has a meaning, bounds are the checks' own, exported machines read back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from trilobite.base.errors import ArgumentError, MachineError
from trilobite.cli.processor import machines
from trilobite.processor.machine import Machine, load_machine, preset_names
from trilobite.processor.machine.load import parse_machine
from trilobite.processor.machine.manual import MEANINGS, export, rows, table, written

ROWS = {row.path: row for row in rows()}
NUMBERS = [row for row in ROWS.values() if row.kind in ("number", "whole number")]


def paths(value: Any, path: str = "") -> list[str]:
    found = []
    for item in fields(value):
        inner = getattr(value, item.name)
        found += paths(inner, f"{path}{item.name}.") if is_dataclass(inner) else [f"{path}{item.name}"]
    return found


def with_value(part: Any, way: list[str], value: object) -> Any:
    inner = value if len(way) == 1 else with_value(getattr(part, way[0]), way[1:], value)
    return replace(part, **{way[0]: inner})


def test_every_field_has_a_row_and_every_row_a_meaning() -> None:
    assert list(ROWS) == paths(load_machine("dlp-m"))
    assert all(row.meaning for row in ROWS.values())
    assert {
        row.path for row in ROWS.values() if row.unit == "" and row.path.endswith(("_ns", "kib"))
    } == set()


def test_no_meaning_is_left_over() -> None:
    import trilobite.processor.machine.description as description

    for part, known in MEANINGS.items():
        assert set(known) <= {item.name for item in fields(getattr(description, part))}, part


@pytest.mark.parametrize("row", NUMBERS, ids=lambda row: row.path)
def test_stated_bounds_are_those_of_the_checks(row: Any) -> None:
    base, way = load_machine("dlp-m"), row.path.split(".")
    with pytest.raises(MachineError):
        with_value(base, way, -1)
    if row.bounds == "> 0":
        with pytest.raises(MachineError, match=r"a number above 0|64"):
            with_value(base, way, 0)


@pytest.mark.parametrize("row", [r for r in ROWS.values() if " · " in r.bounds and r.kind == "word"])
def test_words_are_those_of_the_checks(row: Any) -> None:
    with pytest.raises(MachineError, match="one of"):
        with_value(load_machine("dlp-s"), row.path.split("."), "nothing-of-this")


@pytest.mark.parametrize("name", preset_names())
def test_an_exported_machine_is_the_same_machine(name: str) -> None:
    machine = load_machine(name)
    assert parse_machine(export(machine)) == machine


@pytest.mark.parametrize("word", ["a: b", "12", "true", 'say "x"\n#', "no", "-", "plain-name", "[x]"])
def test_names_survive_yaml(word: str) -> None:
    machine = replace(load_machine("dlp-s"), name=word, note=word)
    again = parse_machine(export(machine))
    assert (again.name, again.note) == (word, word)
    assert isinstance(written(word), str)


def test_the_table_has_every_field_once() -> None:
    assert table().count("\n| `") == len(ROWS)
    assert isinstance(load_machine("dlp-s"), Machine)


def test_the_command_exports(tmp_path: Any) -> None:
    path = tmp_path / "mine.yaml"
    assert str(path) in machines("export", "gemmini", str(path))
    assert load_machine(path) == load_machine("gemmini")
    assert machines("export", "gemmini") == path.read_text()
    with pytest.raises(ArgumentError, match="cannot be written"):
        machines("export", "gemmini", str(path))
    for wrong in (("show", ""), ("export", ""), ("draw", "dlp-s"), ("show", "dlp-s", "x.yaml")):
        with pytest.raises(ArgumentError, match="expected: trilobite machines"):
            machines(*wrong)
