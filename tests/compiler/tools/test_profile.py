"""The profile: whose time it is, that figures follow from each other, and its three forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DataError
from trilobite.compiler.targets.cpu.tools.profile_forms import as_json, chrome_trace, table, write_profile
from trilobite.compiler.targets.cpu.tools.profiling import Profile
from trilobite.compiler.tools import profile


def normal(*shape: int, seed: int = 0) -> Any:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.fixture(scope="module")
def layer() -> Profile:
    w = normal(96, 128, seed=1)
    return profile(tb.jit(lambda x: tb.softmax(tb.tanh(x @ w), -1)), normal(64, 96), repeats=5)


def test_every_kernel_has_a_row_with_its_work(layer: Profile) -> None:
    product = next(r for r in layer.rows if r.kind == "dot")
    assert product.flops == 2 * 64 * 96 * 128
    assert product.bytes >= 4 * (64 * 96 + 96 * 128 + 64 * 128)
    assert product.runs == len(product.kernels) == 1
    assert all(0 < r.seconds <= layer.call for r in layer.rows)
    assert product.gflops == pytest.approx(product.flops / product.seconds / 1e9)


def test_a_share_is_measured_against_the_roofline(layer: Profile) -> None:
    for r in layer.rows:
        assert r.floor >= r.bytes / layer.roofline.bandwidth[0]
        assert r.share == pytest.approx(r.floor / r.seconds) and r.share > 0


@pytest.mark.bench
def test_no_kernel_is_above_the_roofline(layer: Profile) -> None:
    assert all(r.share < 3 for r in layer.rows)  # above 1 only where a measurement was disturbed


def test_events_are_those_of_one_call_in_order(layer: Profile) -> None:
    assert len(layer.events) == sum(r.runs for r in layer.rows)
    for before, after in zip(layer.events, layer.events[1:], strict=False):
        assert before.begin <= before.end <= after.begin
    assert layer.elsewhere + sum(e.end - e.begin for e in layer.events) * 1e-9 <= layer.call * 1.001


def test_a_loop_counts_its_rounds() -> None:
    w = normal(32, 32)

    def f(x: Any) -> Any:
        return tb.scan(lambda c, _: (tb.tanh(c @ w), None), x, None, length=7)[0]

    found = profile(tb.jit(f), normal(8, 32), repeats=3)
    (loop,) = (r for r in found.rows if r.kind == "scan")
    assert loop.flops >= 7 * 2 * 8 * 32 * 32
    assert loop.runs >= 7
    assert len(found.events) == sum(r.runs for r in found.rows)


def rounds(count: int) -> Any:
    """A loop in a loop, whose rounds nobody knows before."""

    def inner(x: Any) -> Any:
        return tb.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, tb.sort(c[1]) * 0.5), (0, x))[1]

    return tb.jit(lambda x: tb.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, inner(c[1])), (0, x))[1])


def test_every_round_of_a_while_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (profile(rounds(n), normal(9), repeats=2) for n in (1, 501))
    runs = [sum(r.runs for r in found.rows) for found in (few, many)]
    each = (runs[1] - runs[0]) / (3 * 500)
    assert each == int(each) >= 2 and len(many.events) == runs[1]
    monkeypatch.setattr("trilobite.compiler.targets.cpu.tools.profiling._MOST", 64)
    with pytest.raises(ArgumentError, match="a profile of a call that runs 64 kernels or more"):
        profile(rounds(20), normal(9))


def test_work_of_numpy_is_named() -> None:
    found = profile(tb.jit(lambda x: tb.abs(tb.fft.fft(x)) + 1), normal(16, 64), repeats=2)
    assert "fft" in found.host
    assert "in NumPy between kernels" in str(found)


@pytest.mark.parametrize("training", [True, False])
def test_a_network_with_gradients_on(training: bool) -> None:
    """What runs then keeps what a backward pass would need, and is not what `lower` gives."""
    tb.manual_seed(0)
    net = tb.nn.Sequential(tb.nn.Linear(24, 40), tb.nn.ReLU(), tb.nn.Linear(40, 8)).train(training)
    found = profile(tb.jit(lambda x: net(x)), normal(16, 24), repeats=2)
    assert sum(r.flops for r in found.rows if r.kind == "dot") >= 2 * 16 * (24 * 40 + 40 * 8)


def test_a_profile_of_nothing_native() -> None:
    found = profile(tb.jit(lambda x: tb.fft.fft(x)), normal(16), repeats=2)
    assert not found.rows and found.elsewhere == found.call


def test_timing_ends_with_the_profile() -> None:
    f, x = tb.jit(lambda x: x * 2 + 1), normal(500)
    profile(f, x, repeats=2)
    lowered = f.lower(x)
    (runner,) = lowered.compile().main.runners.values()
    f(x)
    assert len(runner.table.events()) == 0


def test_sizes_that_did_not_run_are_not_shown() -> None:
    f = tb.jit(lambda x: tb.exp(x).sum(), shapes=[(tb.dim("n", max=512), 16)])
    f(normal(400, 16))
    found = profile(f, normal(3, 16), repeats=2)
    assert sum(r.bytes for r in found.rows) < 1000


def test_the_table_names_kernels_and_sums(layer: Profile) -> None:
    text = table(layer)
    assert "a call, least of 5" in text
    assert all(r.name[:20] in text for r in layer.rows)
    assert "GFLOP/s in float32" in text
    assert "1 more" in table(layer, limit=len(layer.rows) - 1)


def test_the_trace_is_one_that_viewers_open(layer: Profile) -> None:
    events = json.loads(chrome_trace(layer))["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert [e["name"] for e in slices] == [e.kernel for e in layer.events]
    assert slices[0]["ts"] == 0
    assert all(e["dur"] >= 0 and e["args"]["line"] for e in slices)
    assert {e["name"] for e in events if e["ph"] == "M"} == {"process_name", "thread_name"}


def test_figures_as_json(layer: Profile) -> None:
    found = json.loads(as_json(layer))
    assert [r["kind"] for r in found["rows"]] == [r.kind for r in layer.rows]
    assert found["kernel_seconds"] == pytest.approx(layer.kernels)
    assert found["roofline"]["flops"] == pytest.approx(layer.roofline.flops)


def test_all_forms_are_written(layer: Profile, tmp_path: Path) -> None:
    paths = write_profile(layer, tmp_path / "new" / "folder")
    assert sorted(p.name for p in paths) == ["kernels.json", "kernels.txt", "trace.json"]
    assert all(p.stat().st_size > 100 for p in paths)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="the profile cannot be written"):
        write_profile(layer, tmp_path / "file")


def test_what_cannot_be_profiled() -> None:
    with pytest.raises(ArgumentError, match="a profile of 0 repeats"):
        profile(tb.jit(lambda x: x), normal(2), repeats=0)
    with pytest.raises(ArgumentError, match="for the target 'reference'"):
        profile(tb.jit(lambda x: x + 1, target="reference"), normal(2))
