"""What a plan of collectives says beside what it holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trilobite.base.locations import Location
from trilobite.cluster.sharding.function import Plan
from trilobite.cluster.sharding.partition import Collective, size_text

AT = Location("net.py", 3, "forward")


def collective(nbytes: float, times: int) -> Collective:
    kind: Any = "f32[4]"
    return Collective("cluster_all_reduce", ("x", "y"), kind, nbytes, 1e-6, AT, "a sum", times)


def test_a_collective_says_how_often() -> None:
    once, thrice = str(collective(1500, 1)), str(collective(1500, 3))
    assert once.startswith("all_reduce along x and y of f32[4]: 1.5 KB at ") and once.endswith(": a sum")
    assert "1.5 KB, 3 times at " in thrice


def test_a_plan_sums_all_times() -> None:
    made: Any = SimpleNamespace(collectives=[collective(1500, 3), collective(500, 2), collective(100, 1)])
    plan = Plan(made, None, None)  # type: ignore[arg-type]
    assert str(plan).splitlines()[-1] == "6 collectives, 5.6 KB sent by each rank"
    assert len(str(plan).splitlines()) == 4
    none: Any = SimpleNamespace(collectives=[])
    assert str(Plan(none, None, None)) == "0 collectives, 0 bytes sent by each rank"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nbytes", "said"),
    [(0, "0 bytes"), (999, "999 bytes"), (1e3, "1 KB"), (999e3, "999 KB"), (1e6, "1 MB"), (2.5e6,
     "2.5 MB"), (1e9, "1 GB"),
     (3.14159e12, "3.14e+03 GB")],
)  # fmt: skip
def test_sizes_for_reading(nbytes: float, said: str) -> None:
    assert size_text(nbytes) == said
