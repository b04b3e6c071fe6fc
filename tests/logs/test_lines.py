"""CSV and JSON lines: what is written, resumed, torn, and refused."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, DTypeError, FileError, ShapeError, StateError
from trilobite.framework.logs import CSVLogger, JSONLLogger, Logger, read_csv, read_jsonl

KINDS = [(CSVLogger, read_csv), (JSONLLogger, read_jsonl)]
PATHS = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}


class Holder:
    """One number behind `__array__`, as a tensor is."""

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.array([[2.5]], np.float32)


@pytest.mark.parametrize(("kind", "read"), KINDS)
class TestBoth:
    def test_round_trip(self, tmp_path: Path, kind: Any, read: Any) -> None:
        values = {
            "a": 0.1, "b": -3, "c": True, "d": np.float32(0.1), "e": np.array(7, np.int16), "f": Holder(),
            "g": ml_dtypes.bfloat16(1.5), "h": "some, \"quoted\" ünïcode", "i": 1e300, "j": 2**70, "k": -0.0,
        }  # fmt: skip
        with kind(tmp_path / "deep" / "er" / "log") as log:
            assert isinstance(log, Logger)
            log.log(0, values)
        (row,) = read(tmp_path / "deep" / "er" / "log")
        assert row == {
            "step": 0, "a": 0.1, "b": -3, "c": True, "d": float(np.float32(0.1)), "e": 7, "f": 2.5, "g": 1.5,
            "h": "some, \"quoted\" ünïcode", "i": 1e300, "j": 2**70, "k": 0.0,
        }  # fmt: skip
        assert math.copysign(1, row["k"]) == -1 and type(row["b"]) is int and type(row["c"]) is bool

    def test_not_finite(self, tmp_path: Path, kind: Any, read: Any) -> None:
        with kind(tmp_path / "log") as log:
            log.log(1, {"n": math.nan, "p": np.float32(np.inf), "m": -math.inf})
        (row,) = read(tmp_path / "log")
        assert math.isnan(row["n"]) and row["p"] == math.inf and row["m"] == -math.inf

    def test_complete_after_every_call(self, tmp_path: Path, kind: Any, read: Any) -> None:
        log = kind(tmp_path / "log")
        for step in range(5):
            log.log(step, {"x": step / 3})
            assert [r["step"] for r in read(tmp_path / "log")] == list(range(step + 1))
        log.close()
        log.close()
        with pytest.raises(ArgumentError, match="the log is closed"):
            log.log(9, {})

    def test_one_line_per_step(self, tmp_path: Path, kind: Any, read: Any) -> None:
        with kind(tmp_path / "log") as log:
            log.log(1, {"train": 0.123456789})
            log.log(1, {"valid": 2, "train": 3})
            log.log(2, {"train": 4})
            log.log(2, {"new": 5})
        assert read(tmp_path / "log") == [
            {"step": 1, "train": 3, "valid": 2},
            {"step": 2, "train": 4, "new": 5},
        ]

    def test_resume_drops_what_came_after(self, tmp_path: Path, kind: Any, read: Any) -> None:
        path = tmp_path / "log"
        with kind(path) as log:
            for step in (0, 3, 6, 9):
                log.log(step, {"x": step, "y": f"{step}!"})
        with kind(path, resume=6) as log:
            assert [r["step"] for r in read(path)] == [0, 3, 6]
            log.log(6, {"late": 1})
            log.log(7, {"x": 70})
        assert read(path) == [
            {"step": 0, "x": 0, "y": "0!"}, {"step": 3, "x": 3, "y": "3!"},
            {"step": 6, "x": 6, "y": "6!", "late": 1}, {"step": 7, "x": 70},
        ]  # fmt: skip
        with kind(path, resume=100) as log:
            log.log(101, {"x": 1})
        assert [r["step"] for r in read(path)] == [0, 3, 6, 7, 101]
        with kind(path, resume=2) as log:
            log.log(3, {"x": 30})
        assert [(r["step"], r["x"]) for r in read(path)] == [(0, 0), (3, 30)]

    def test_a_torn_line_is_dropped_at_every_cut(self, tmp_path: Path, kind: Any, read: Any) -> None:
        path = tmp_path / "log"
        with kind(path) as log:
            for step in range(3):
                log.log(step, {"loss": step / 7, "note": "é"})
        whole = path.read_bytes()
        full = read(path)
        for cut in range(len(whole)):
            path.write_bytes(whole[:cut])
            kept = read(path)
            assert kept == full[: len(kept)]
            with kind(path, resume=10) as log:
                log.log(11, {"loss": 1.0})
            assert read(path) == [*kept, {"step": 11, "loss": 1.0}]

    def test_a_new_file_may_be_resumed(self, tmp_path: Path, kind: Any, read: Any) -> None:
        with kind(tmp_path / "log", resume=5) as log:
            log.log(6, {"x": 1})
        assert read(tmp_path / "log") == [{"step": 6, "x": 1}]

    def test_an_earlier_run_is_not_mixed_in(self, tmp_path: Path, kind: Any, read: Any) -> None:
        path = tmp_path / "log"
        with kind(path) as log:
            log.log(0, {"x": 1})
        with pytest.raises(
            StateError,
            match=r"(?s)entries of an earlier run.*log\n.*remedy: resume=<step> goes on.*overwrite=True",
        ):
            kind(path)
        with kind(path, overwrite=True) as log:
            log.log(0, {"x": 2})
        assert read(path) == [{"step": 0, "x": 2}]
        with pytest.raises(ArgumentError, match="both resumed and overwritten"):
            kind(path, resume=1, overwrite=True)

    def test_refused_values_leave_the_file_alone(self, tmp_path: Path, kind: Any, read: Any) -> None:
        log = kind(tmp_path / "log")
        log.log(5, {"x": 1})
        for step, values, error, text in [
            (4, {"x": 1}, ArgumentError, r"step 4 after step 5\n.*\n.*\n  remedy: open the log with resume="),
            (-1, {}, ArgumentError, "step -1"),
            (1.0, {}, ArgumentError, r"step 1\.0"),
            (True, {}, ArgumentError, "step True"),
            (
                6,
                {"x": np.zeros(3)},
                ShapeError,
                r"value 'x' has shape \(3,\)\n  expected: one number\n  remedy",
            ),
            (6, {"x": 1j}, DTypeError, "value 'x' is a complex"),
            (6, {"x": None}, DTypeError, "value 'x' is a NoneType"),
            (6, {"step": 1}, ArgumentError, "named 'step'"),
            (6, {"": 1}, ArgumentError, "named ''"),
            (6, {"a\nb": 1}, ArgumentError, "printable"),
            (6, {3: 1}, ArgumentError, "named 3"),
        ]:
            with pytest.raises(error, match=text):
                log.log(step, values)
        assert read(tmp_path / "log") == [{"step": 5, "x": 1}]
        log.close()

    def test_a_killed_run_resumes_without_duplicates(self, tmp_path: Path, kind: Any, read: Any) -> None:
        path = tmp_path / "log"
        script = KILLED.format(kind=kind.__name__, path=str(path))
        job = subprocess.Popen([sys.executable, "-c", script], env=ENVIRONMENT)
        until = time.monotonic() + 100
        while (not path.exists() or path.stat().st_size < 2000) and time.monotonic() < until:
            assert job.poll() is None, "the run ended by itself"
            time.sleep(0.01)
        job.send_signal(signal.SIGKILL)
        job.wait()
        rows = read(path)
        assert [r["step"] for r in rows] == list(range(len(rows))) and len(rows) > 20
        with kind(path, resume=15) as log:
            for step in range(16, 20):
                log.log(step, {"x": step / 3, f"n{step}": 1})
        assert [r["step"] for r in read(path)] == list(range(20))
        assert [r["x"] for r in read(path)] == [s / 3 for s in range(20)]


KILLED = """
import itertools
from trilobite.framework.logs import {kind}
log = {kind}({path!r})
for step in itertools.count():
    log.log(step, {{"x": step / 3}})
    log.log(step, {{f"n{{step // 10}}": step}})
"""


class TestCSV:
    def test_columns_grow(self, tmp_path: Path) -> None:
        with CSVLogger(tmp_path / "log.csv") as log:
            log.log(1, {"a": 1})
            log.log(2, {"b": 0.5, "a,b": "x"})
        with (tmp_path / "log.csv").open(newline="") as file:
            assert list(csv.reader(file)) == [
                ["step", "a", "b", "a,b"],
                ["1", "1", "", ""],
                ["2", "", "0.5", "x"],
            ]
        assert [p.name for p in tmp_path.iterdir()] == ["log.csv"]

    def test_line_breaks_are_refused(self, tmp_path: Path) -> None:
        with (
            CSVLogger(tmp_path / "log.csv") as log,
            pytest.raises(ArgumentError, match=r"(?s)line break.*JSONLLogger"),
        ):
            log.log(1, {"a": "x\ny"})

    def test_text_that_looks_like_numbers(self, tmp_path: Path) -> None:
        with CSVLogger(tmp_path / "log.csv") as log:
            log.log(1, {"a": "1_000", "b": "12"})
        assert read_csv(tmp_path / "log.csv") == [{"step": 1, "a": "1_000", "b": 12}]

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("a,b\n1,2\n", "line 1 .*does not start with 'step'"),
            ("step,a,a\n", "line 1 .*a name stands twice"),
            ("step,a\n1\n", "line 2 .*1 cells, not 2"),
            ("step,a\nx,1\n", "line 2 "),
            ('step,a\n1,"2\n', "line 2 "),
        ],
    )
    def test_foreign_files(self, tmp_path: Path, text: str, why: str) -> None:
        (tmp_path / "log.csv").write_text(text)
        for use in (
            lambda: CSVLogger(tmp_path / "log.csv", resume=9),
            lambda: read_csv(tmp_path / "log.csv"),
        ):
            with pytest.raises(FileError, match=rf"(?s){why}.*expected: a header that starts with 'step'"):
                use()
        assert (tmp_path / "log.csv").read_text() == text


class TestJSONL:
    def test_it_is_strict_json(self, tmp_path: Path) -> None:
        with JSONLLogger(tmp_path / "log") as log:
            log.log(3, {"x": math.nan, "text": "two\nlines", "y": math.inf})
        line = (tmp_path / "log").read_text()

        def refuse(word: str) -> None:
            raise AssertionError(word)

        assert json.loads(line, parse_constant=refuse) == {
            "step": 3,
            "x": "NaN",
            "text": "two\nlines",
            "y": "Infinity",
        }
        assert line.count("\n") == 1

    @pytest.mark.parametrize(
        "text", ["[1]\n", '{"x": 1}\n', '{"step": "1"}\n', "{\n", '{"step": true}\n', "\xff\n"]
    )
    def test_foreign_files(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "log").write_text(text, encoding="latin-1")
        for use in (lambda: JSONLLogger(tmp_path / "log", resume=9), lambda: read_jsonl(tmp_path / "log")):
            with pytest.raises(FileError, match=r"line 1 cannot be read"):
                use()
