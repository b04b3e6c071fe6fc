"""What a watch of kernels tells, beside rows that tables note: made by hand, so all numbers are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trilobite.native.watching import ROOM, Now, Watch


class Rows:
    """A step table: its header, and the kernels that are done as (row, begin, end) in nanoseconds."""

    def __init__(self, events: Any, running: bool = True) -> None:
        self.noted = np.asarray(events, np.int64).reshape(-1, 3)
        self.header = [int(running), 0, 0, 0, 0, 0, 0, ROOM, len(self.noted)]
        self.timed: list[int] = []

    def events(self) -> Any:
        return self.noted

    def time(self, count: int) -> None:
        self.timed.append(count)
        self.header[6] = count


def test_seconds_are_added_up_by_kernel() -> None:
    watch, table = Watch(), Rows([(0, 100, 1_100), (2, 2_000, 5_000), (0, 6_000, 6_500)])
    names = ["a", "", "b", "a"]
    watch.begins(table, lambda: names)  # type: ignore[arg-type]
    assert watch.spent() == {} and table.timed == [8]
    watch.begins(table, lambda: names)  # type: ignore[arg-type]
    assert watch.spent() == {"a": pytest.approx(1.5e-6), "b": pytest.approx(3e-6)}
    watch.begins(table, lambda: names)  # type: ignore[arg-type]
    assert watch.spent() == {"a": pytest.approx(3e-6), "b": pytest.approx(6e-6)}
    watch.stop()
    assert table.timed == [8, 0]


@pytest.mark.parametrize(
    ("done", "want"),
    [([], Now("a", 1, 3)), ([(0, 0, 1)], Now("b", 2, 3)), ([(0, 0, 1), (2, 1, 2)], Now("c", 3, 3)),
     ([(0, 0, 1), (2, 1, 2), (3, 2, 3)], Now("a", 1, 3))],
)  # fmt: skip
def test_the_kernel_that_runs_is_the_next_one(done: Any, want: Now) -> None:
    watch, table = Watch(), Rows(done)
    assert watch.now() is None
    watch.begins(table, lambda: ["a", "", "b", "c"])  # type: ignore[arg-type]
    assert watch.now() == want
    table.header[0] = 0
    assert watch.now() is None


def test_a_table_that_others_have_timed_is_left_to_them() -> None:
    watch, table = Watch(), Rows([(0, 0, 5)])
    table.header[6] = 4
    watch.begins(table, lambda: ["a"])  # type: ignore[arg-type]
    assert table.timed == [] and watch.now() is None
