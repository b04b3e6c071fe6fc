"""What a kernel takes from around it: compiled anew if that has changed, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite import dlp
from trilobite.processor.lang.python.surroundings import Taken

SCALE: Any = 3
TABLE: Any = [1, 2, 5]


def function() -> Any:
    return SCALE, TABLE


@dlp.kernel
def scaled(out: dlp.gm[dlp.i32], n: int):
    out[dlp.task_id()] = n * SCALE + dlp.task_dim()


def test_a_launcher_runs_one_task_unless_told() -> None:
    launch = dlp.Launcher("dlp-s")
    (found, n) = launch(scaled, [np.zeros(1, np.int32), 5])
    assert found.tolist() == [5 * 3 + 1] and n == 5
    assert launch(scaled, [np.zeros(2, np.int32), 5], (2, 1, 1))[0].tolist() == [5 * 3 + 2] * 2
    assert launch.last is not None and launch.cores == launch.device.machine.cores


def test_a_number_that_changed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = dlp.Launcher("dlp-s")
    for scale in (3, 7, 3, 10**6):
        monkeypatch.setitem(globals(), "SCALE", scale)
        assert launch(scaled, [np.zeros(1, np.int32), 2])[0].tolist() == [2 * scale + 1]


@pytest.mark.parametrize(
    ("now", "holds"),
    [(3, True), (int("3"), True), (3.0, False), (True, False), ("3", False), (4, False), (None, False)],
)
def test_equal_numbers_of_one_type_still_hold(now: Any, holds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken.of(function, "SCALE", 3)
    monkeypatch.setitem(globals(), "SCALE", now)
    assert taken.still_holds() == holds


def test_large_and_odd_numbers_hold_by_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, other in ((10**20, 10**20 + 1), (1.5, 2.5), (0.0, -0.0), ("word", "words")):
        monkeypatch.setitem(globals(), "SCALE", value)
        taken = Taken.of(function, "SCALE", value)
        monkeypatch.setitem(globals(), "SCALE", type(value)(str(value)))  # equal, another object
        assert taken.still_holds()
        monkeypatch.setitem(globals(), "SCALE", other)
        assert not taken.still_holds()


def test_a_list_holds_while_its_elements_do(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = Taken.of(function, "TABLE", TABLE)
    assert taken.still_holds()
    monkeypatch.setitem(globals(), "TABLE", [1, 2, 5])
    assert not taken.still_holds()
    monkeypatch.undo()
    TABLE.append(7)
    assert not taken.still_holds()
    TABLE.pop()
    assert taken.still_holds()
