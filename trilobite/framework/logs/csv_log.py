"""CSV: a header of names, then one line per step; nothing logged under a name is an empty cell.

When a new name comes, the file is written anew with one more column, beside the old one, and put in its
place.
"""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

from trilobite.base.errors import ArgumentError, FileError
from trilobite.framework.logs.lines import LineLogger, Row, whole_lines
from trilobite.framework.logs.logger import Scalar


class CSVLogger(LineLogger):
    """Writes one line of comma-separated values per step."""

    _expected = "a header that starts with 'step', and as many cells on every line"

    def __init__(
        self, path: str | os.PathLike[str], *, resume: int | None = None, overwrite: bool = False
    ) -> None:
        self._names: list[str] = []
        super().__init__(path, resume=resume, overwrite=overwrite)

    def _encode(self, step: int, row: Row) -> str:
        return _join([str(step), *(_cell(row[name]) if name in row else "" for name in self._names)])

    def _decode(self, line: str, number: int) -> tuple[int, Row] | None:
        cells = _split(line)
        if number == 1:
            self._names = _header(cells)
            return None
        return _row(cells, self._names)

    def _prepare(self, row: Row) -> None:
        for name, value in row.items():
            if isinstance(value, str) and ("\n" in value or "\r" in value):
                raise ArgumentError(
                    f"the text {name!r} has a line break",
                    expected="one line",
                    remedy="JSONLLogger takes any text",
                )
        added = [name for name in row if name not in self._names]
        if added or not self._end:
            self._widen(added)

    def _widen(self, added: list[str]) -> None:
        """Write header and rows anew with more columns; a kill leaves the old file or the new one."""
        old = [line.decode("utf-8") for offset, line in whole_lines(self.path) if offset < self._start][1:]
        self._names = self._names + added
        padding = [""] * len(added)
        lines = [_join(["step", *self._names]), *(_join(_split(line) + padding) for line in old)]
        data = "".join(f"{line}\n" for line in lines).encode("utf-8")
        beside = self.path.with_name(self.path.name + ".new")
        file = beside.open("w+b", buffering=0)
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        os.replace(beside, self.path)
        self._file.close()
        self._file, self._start, self._end = file, len(data), len(data)


def _cell(value: Scalar | str) -> str:
    return value if isinstance(value, str) else repr(value)


def _join(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _split(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise ValueError(str(error)) from error


def _header(cells: list[str]) -> list[str]:
    if cells[:1] != ["step"] or len(set(cells)) < len(cells):
        raise ValueError("the header does not start with 'step', or a name stands twice")
    return cells[1:]


def _row(cells: list[str], names: list[str]) -> tuple[int, Row]:
    if len(cells) != len(names) + 1:
        raise ValueError(f"it has {len(cells)} cells, not {len(names) + 1}")
    return int(cells[0]), {name: _value(cell) for name, cell in zip(names, cells[1:], strict=True) if cell}


def _value(cell: str) -> Scalar | str:
    if cell in ("True", "False"):
        return cell == "True"
    for kind in (int, float) if "_" not in cell else ():  # Python reads 1_000 as a number, nobody else does
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def read_csv(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a log, without its empty cells; a torn last line is left out."""
    rows: list[dict[str, Any]] = []
    names: list[str] = []
    for number, (_, line) in enumerate(whole_lines(Path(path)), start=1):
        try:
            cells = _split(line.decode("utf-8"))
            if number == 1:
                names = _header(cells)
                continue
            step, row = _row(cells, names)
        except ValueError as error:
            raise FileError(
                f"line {number} cannot be read: {error}", where=path, expected=CSVLogger._expected
            ) from error
        rows.append({"step": step, **row})
    return rows
