"""JSON lines: one object per step, `{"step": 3, "loss": 0.25}`.

JSON has no NaN and no infinities: they are written as the strings "NaN", "Infinity" and "-Infinity", as
protocol buffers do.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from trilobite.base.errors import FileError
from trilobite.framework.logs.lines import LineLogger, Row, whole_lines
from trilobite.framework.logs.logger import Scalar

_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class JSONLLogger(LineLogger):
    """Writes one JSON object per step."""

    _expected = 'a JSON object with a number "step" on every line'

    def _encode(self, step: int, row: Row) -> str:
        return json.dumps(
            {"step": step, **{k: _to_json(v) for k, v in row.items()}}, ensure_ascii=False, allow_nan=False
        )

    def _decode(self, line: str, number: int) -> tuple[int, Row]:
        row = _from_json(line)
        return int(row.pop("step")), row


def _to_json(value: Scalar | str) -> Scalar | str:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _from_json(line: str) -> dict[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        raise ValueError("it is not an object with a step")
    return {k: _NAMES.get(v, v) if isinstance(v, str) else v for k, v in row.items()}


def read_jsonl(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a log; a torn last line is left out."""
    rows = []
    for number, (_, line) in enumerate(whole_lines(Path(path)), start=1):
        try:
            rows.append(_from_json(line.decode("utf-8")))
        except ValueError as error:
            raise FileError(
                f"line {number} cannot be read: {error}", where=path, expected=JSONLLogger._expected
            ) from error
    return rows
