"""Logs of lines: one line per step in a text file, complete after every call.

In: rows (a step and named values). Out: a file that a killed run leaves readable: at worst its last line is
torn, and that line is dropped when the log is resumed. Subclasses say how a row becomes a line and back.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from trilobite.base.errors import ArgumentError, FileError, StateError
from trilobite.framework.logs.logger import Logger, Scalar, check_name, check_step, scalar

Row = dict[str, Scalar | str]


class LineLogger(Logger):
    """`resume=s` goes on after step s of an earlier run and drops what follows; `overwrite` starts anew."""

    def __init__(
        self, path: str | os.PathLike[str], *, resume: int | None = None, overwrite: bool = False
    ) -> None:
        self.path = Path(path)
        if resume is not None and overwrite:
            raise ArgumentError(
                "a log cannot be both resumed and overwritten", expected="resume= or overwrite="
            )
        kept = None if resume is None else check_step(resume)
        self._end = self._start = 0  # of the file; of its last row
        self._last: tuple[int, Row] | None = None
        self._file = self._open(resume, overwrite)
        if kept is not None:
            try:
                self._recover(kept)
            except BaseException:
                self._file.close()
                raise

    def _open(self, resume: int | None, overwrite: bool) -> BinaryIO:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if resume is None and not overwrite and self.path.exists() and self.path.stat().st_size:
            raise StateError(
                "the log has entries of an earlier run",
                where=self.path,
                expected="a new file",
                remedy="resume=<step> goes on with it, overwrite=True starts it anew",
            )
        flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if overwrite else 0)
        return os.fdopen(
            os.open(self.path, flags, 0o666), "r+b", buffering=0
        )  # every write reaches the system

    def _recover(self, resume: int) -> None:
        """Find the end of what is to be kept, and cut the file there."""
        for number, (start, line) in enumerate(whole_lines(self.path), start=1):
            try:
                row = self._decode(line.decode("utf-8"), number)
            except (ValueError, KeyError, TypeError) as error:
                raise FileError(
                    f"line {number} cannot be read: {error}", where=self.path, expected=self._expected
                ) from error
            if row is not None and row[0] > resume:
                break
            if row is not None:
                self._last, self._start = row, start
            self._end = start + len(line) + 1
        self._file.truncate(self._end)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        if self._file.closed:
            raise ArgumentError("the log is closed", where=self.path, expected="a logger that is still open")
        step, row = check_step(step), _row(values)
        if self._last is not None and step < self._last[0]:
            raise ArgumentError(
                f"step {step} after step {self._last[0]}",
                where=self.path,
                expected="steps that do not go back",
                remedy="open the log with resume=<last step to keep>",
            )
        if self._last is not None and step == self._last[0]:
            row = {**self._last[1], **row}
        else:
            self._start = self._end
        self._prepare(row)
        self._write(step, row)

    def _write(self, step: int, row: Row) -> None:
        data = self._encode(step, row).encode("utf-8") + b"\n"
        self._file.truncate(self._start)
        self._file.seek(self._start)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        self._end, self._last = self._start + len(data), (step, row)

    def close(self) -> None:
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    _expected: str

    @abstractmethod
    def _encode(self, step: int, row: Row) -> str: ...

    @abstractmethod
    def _decode(self, line: str, number: int) -> tuple[int, Row] | None:
        """The row of a line, or None for a header."""

    def _prepare(self, row: Row) -> None:
        """Called before a row is written, with all its values."""


def _row(values: Mapping[str, Any]) -> Row:
    if "step" in values:
        raise ArgumentError("a value is named 'step'", expected="another name: it is the first column")
    return {check_name(n): v if isinstance(v, str) else scalar(v, n) for n, v in values.items()}


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(offset, line without its end) of every line that has an end: what follows the last one is torn."""
    offset = 0
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield offset, line[:-1]
            offset += len(line)
