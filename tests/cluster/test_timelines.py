"""One timeline of all ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster
from trilobite.base.errors import ArgumentError
from trilobite.cluster.talk import texts
from trilobite.cluster.timelines import _of_rank, _spent


def test_a_call_is_written_and_counted(tmp_path: Path) -> None:
    """As the only rank; `_gathered` and the merge are tried on several below."""
    w = tb.tensor(np.ones((64, 64), np.float32))
    (spent,) = cluster.timeline(tb.jit(lambda x: x @ w @ w), tb.ones((64, 64)), path=tmp_path / "all.json")
    assert spent.rank == 0 and spent.kernels > 0 and spent.collectives == spent.waiting == 0
    events = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    named = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"rank 0", "kernels", "collectives", "waiting"} <= named
    assert min(e["ts"] for e in events if e["ph"] == "X") == 0
    assert sum(e["dur"] for e in events if e["ph"] == "X") == pytest.approx(spent.kernels * 1e6)


def test_texts_of_any_length_are_gathered() -> None:
    said = [b"first", b"", "a longer one with ü".encode()]
    found = cluster.lockstep(lambda: texts(said[cluster.rank()]), 3)
    assert found == [said] * 3


def test_gaps_beside_collectives_are_waiting() -> None:
    def event(name: str, ts: float, dur: float) -> dict[str, Any]:
        return {"ph": "X", "name": name, "ts": ts, "dur": dur, "args": {"line": name}}

    rows = [
        event("dot", 0, 10), event("cluster_all_reduce", 12, 3), event("add", 115, 5), event("add", 420, 5)
    ]  # fmt: skip
    events = _of_rank({"began": 7000, "traceEvents": rows}, 1, 2000)
    waiting = [e for e in events if e["name"] == "waiting"]
    assert [(e["ts"], e["dur"]) for e in waiting] == [(20.0, 100.0)]
    spent = _spent(events, 1)
    assert spent == pytest.approx((1, 20e-6, 3e-6, 100e-6))


def test_only_compiled_functions_have_one(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"tb\.jit"):
        cluster.timeline(lambda: None, path=tmp_path / "no.json")
