"""The benchmark harness: what it says is what was measured, and what failed is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import harness, worker
from benchmarks.keeping import Keeper, Kept
from benchmarks.measure import Plan, Result, distance, measure
from benchmarks.page import aim, number, page, summary, table
from benchmarks.row import US, Row, Section, both_thread_counts, row_modules, section
from benchmarks.worker import Worker, calibrated

ROWS_MODULE = '''
"""A section.

Its text.
"""
import os, time
import numpy as np
from benchmarks.row import US, Job, Row

def sleeper(seconds):
    return lambda: lambda: time.sleep(seconds)

def absent():
    raise ImportError("no module named absent")

def pinned():
    facts = [str(len(os.sched_getaffinity(0))), os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]]
    print("systems may print")
    return lambda: float("".join(facts))

def dies():
    return lambda: os._exit(3)

def results(values, scale):
    calls = []
    def work():
        calls.append(None)
    def outputs():
        assert not calls, "results are asked for before all other work, or not at all"
        return [np.asarray(values) * scale, np.float32(len(values))]
    return lambda: Job(work, outputs)

ROWS = (
    Row("nap", {US: sleeper(0.04), "quick": sleeper(4e-3), "slow": sleeper(0.2), "gone": absent}, unit="ms"),
    Row("pinned", {"trilobite": pinned}, times_itself=True),
    Row("death", {"trilobite": dies, "quick": sleeper(0.001)}),
    Row("after", {"trilobite": sleeper(0.001)}),
    Row("close", {"trilobite": results([1, -4], 1.01), "torch": results([1, -4], 1), "x": results([2], 1)}),
    Row("apart", {"trilobite": results([1, 4], 1), "torch": results([1, 4, 2], 1)}),
    Row("known", {"trilobite": results([1, 4], 1), "torch": results([1, 4], 2), "x": results([1, 4], 1)},
        truth=lambda: [np.array([1, 4]), np.float32(2)]),
)
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> str:
    (tmp_path / "rows_of_this_test.py").write_text(ROWS_MODULE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("rows_of_this_test", None)
    return "rows_of_this_test"


def test_systems_take_turns_and_the_ratio_is_to_the_best_peer(module: str) -> None:
    (result,) = measure(section(module).rows[:1], [module], rounds=4)
    assert {system: len(samples) for system, samples in result.samples.items()} == dict.fromkeys(
        (US, "quick", "slow"), 4
    )
    assert result.reasons == {"gone": "ImportError: no module named absent"}
    assert result.best_peer == "quick"
    assert result.ratio is not None
    assert result.ratio == result.median(US) / result.median("quick")
    assert 0.04 <= result.minimum(US) <= result.median(US)


def test_workers_are_pinned_and_may_print(module: str) -> None:
    (result,) = measure(section(module).rows[1:2], [module], rounds=1)
    assert result.samples == {US: [111.0]}


def test_our_results_are_compared_with_the_references(module: str) -> None:
    close, apart = measure(section(module).rows[4:6], [module], rounds=2)
    assert close.error == pytest.approx(0.01)
    assert apart.error == float("inf")
    assert not close.reasons


def test_where_the_row_knows_what_is_right_wrong_peers_are_named(module: str) -> None:
    (known,) = measure(section(module).rows[6:], [module], rounds=2)
    assert known.error == 0 and known.errors == {"torch": 1.0, "x": 0.0}
    assert "| 0; torch: 1e+00 |" in table([known])


def test_nan_is_no_small_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", np.array([1.0, np.nan]))
    np.savez(tmp_path / "b.npz", np.array([1.0, 2.0]))
    assert np.isnan(distance(tmp_path / "a.npz", tmp_path / "b.npz") or 0)
    assert distance(tmp_path / "b.npz", tmp_path / "b.npz") == 0
    assert distance(None, tmp_path / "b.npz") is None


def test_long_rows_get_fewer_rounds_but_not_too_few() -> None:
    row, plan = Row("x", {}), Plan(rounds=25, budget=4.0)
    assert [plan.rounds_of(row, s) for s in (0.01, 0.4, 30.0)] == [25, 10, 5]
    assert plan.rounds_of(Row("x", {}, most_rounds=1), 0.4) == 1
    assert Plan(rounds=2, budget=4.0).rounds_of(row, 30.0) == 2


def test_peers_that_were_kept_are_not_measured_again(module: str, tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "kept", {"versions": "1"})
    rows = section(module).rows[4:5]
    (first,) = measure(rows, [module], plan=Plan(2, keeper=keeper))
    keeper.keep(rows[0].key, "x", Kept([0.0]))
    keeper.keep(rows[0].key, "x", Kept([123.0]))
    (again,) = measure(rows, [module], plan=Plan(3, keeper=keeper, reuse=True))
    assert again.samples["torch"] == first.samples["torch"]
    assert again.samples["x"] == [0.0], "the quicker one is kept"
    assert len(again.samples[US]) == 3
    assert again.error == first.error
    assert Keeper(tmp_path / "kept", {"versions": "2"}).find(rows[0].key, "x") is None


def test_a_worker_that_dies_is_a_reason_and_the_next_row_gets_a_new_one(module: str) -> None:
    death, after = measure(section(module).rows[2:4], [module], rounds=2)
    assert death.reasons == {US: "the process ended with code 3"}
    assert len(death.samples["quick"]) == 2
    assert death.ratio is None
    assert len(after.samples[US]) == 2


def test_the_harness_writes_the_page_and_fails_when_we_fail(module: str, tmp_path: Path, root: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.harness", "--modules", module, "--rounds", "2"]
    output = tmp_path / "page.md"
    done = subprocess.run(
        [*command, "--output", str(output), "--only", "nap"], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    text = output.read_text()
    assert (
        "## A section\n\nIts text.\n\n| | unit | threads | trilobite | quick | slow | gone | ratio |"
        in text.replace("|  |", "| |")
    )
    assert "- gone: ImportError: no module named absent (nap)" in text
    done = subprocess.run([*command, "--only", "death"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 1
    assert "- trilobite: the process ended with code 3 (death)" in done.stdout


@pytest.mark.parametrize(("each", "wanted"), [(1e-9, 1_000_000), (1e-6, 20_000), (3e-3, 7), (0.5, 1)])
def test_a_sample_fills_its_time(each: float, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # a clock that only the work moves: the machine's load has no say

    def work() -> None:
        now[0] += each

    monkeypatch.setattr(worker, "clock", lambda: now[0])
    calls, seconds = calibrated(work)
    assert (calls, seconds) == (wanted, pytest.approx(each))


def test_a_slow_first_call_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # a clock that only the work moves: the machine's load has no say
    delays = iter([0.2])

    def work() -> None:
        now[0] += next(delays, 1e-4)

    monkeypatch.setattr(worker, "clock", lambda: now[0])
    row = Row("x", {"y": lambda: work})
    answer = Worker("y", {row.key: row}).answer({"prepare": row.key})
    assert answer["calls"] > 20
    assert answer["seconds"] < 0.01


def test_slow_work_is_called_thrice_before_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    delays = iter([9.0, 5.0, 3.0])  # the first call compiles, the next two find memory for their results

    def work() -> None:
        now[0] += next(delays, 2.0)

    monkeypatch.setattr(worker, "clock", lambda: now[0])
    row = Row("x", {"y": lambda: work})
    slow = Worker("y", {row.key: row})
    assert slow.answer({"prepare": row.key})["calls"] == 1
    monkeypatch.setattr(worker, "settle", lambda: None)
    assert slow.answer({"sample": 1}) == {"seconds": 2.0}


def test_a_worker_answers_errors() -> None:
    empty = Worker("x", {})
    assert empty.answer({"sample": 1}) == {
        "error": "RuntimeError: a sample was asked for before a row was prepared"
    }
    assert empty.answer({"prepare": "none"}) == {"error": "KeyError: 'none'"}


def result(ours: list[float], peer: list[float], **options: float) -> Result:
    row = Row("add", {US: list, "torch": list, "numpy": list}, floor=("numpy",), aim=options.get("aim"))
    return Result(row, {US: ours, "torch": peer, "numpy": [1e-7]})


def test_a_row_shows_median_minimum_ratio_and_aim() -> None:
    shown = table([result([3e-6, 9e-6, 4e-6], [2e-6, 2e-6, 5e-6], aim=5e-6)]).splitlines()
    assert shown[0] == "|  | unit | threads | trilobite | torch | *numpy* | ratio | aim |"
    assert shown[2] == "| add | µs | 1 | 4.00 (3.00) | 2.00 (2.00) | 0.10 (0.10) | 2.00 | ≤ 5.00 kept |"


def test_a_page_says_where_peers_are_quicker_and_how_far_results_are() -> None:
    rows = both_thread_counts([Row("add", {US: list, "torch": list}, aim_ratio=0.83, flops=4e3)])
    results = [
        Result(rows[0], {US: [2e-6], "torch": [1e-6]}, error=3e-7),
        Result(rows[1], {US: [1e-6], "torch": [2e-6]}, error=0.0),
    ]
    shown = table(results).splitlines()
    assert shown[0] == "|  | unit | threads | trilobite | torch | ratio | GFLOP/s | error | aim |"
    assert shown[2].endswith("| 2.00 | 2.0 | 3e-07 | ratio ≤ 0.83 **missed** |")
    assert shown[3].endswith("| 0.50 | 4.0 | 0 | ratio ≤ 0.83 kept |")
    assert summary(results) == "Geometric mean of the ratios: 1.00. Behind the best peer (threads): add (1)."
    assert summary(results[:1]) == ""


def test_rows_are_chosen_by_module_name_and_threads() -> None:
    def names(*words: str) -> list[str]:
        options = harness.parse(list(words))
        rows = both_thread_counts([Row("Add 8", {}, quick=True), Row("mul 8", {})])
        return [row.key for row in rows if harness.chosen("benchmarks.rows_x", row, options)]

    assert names("--only", "rows_x: add") == ["Add 8 / 1", "Add 8 / 2"]
    assert names("--threads", "1") == ["Add 8 / 1", "mul 8 / 1"]
    assert names("--quick") == ["Add 8 / 2"]
    assert names("--only", "rows_y") == []


def test_a_row_may_do_with_fewer_systems() -> None:
    row = Row("x", {US: list, "torch": list, "jax": list})
    assert list(row.only([US, "torch"]).systems) == [US, "torch"]


def test_a_missed_aim_is_shown() -> None:
    assert aim(result([6e-6], [1e-6], aim=5e-6)) == "≤ 5.00 **missed**"
    assert aim(result([6e-6], [1e-6])) == ""


@pytest.mark.parametrize(
    ("seconds", "unit", "text"),
    [(0.1234, "ms", "123"), (0.01234, "ms", "12.3"), (1.2e-6, "µs", "1.20"), (2.5, "s", "2.50")],
)
def test_numbers_have_three_digits(seconds: float, unit: str, text: str) -> None:
    assert number(seconds, unit) == text


def test_a_page_names_the_machine() -> None:
    text = page([(Section("Title", "", ()), [])], {"CPU": "one of glass"})
    assert "| CPU | one of glass |" in text
    assert "## Not measured" not in text


def test_the_rows_of_this_project_are_named_once_and_import_no_peer(root: Path) -> None:
    keys = [row.key for module in row_modules() for row in section(module).rows]
    assert len(keys) == len(set(keys)) > 100
    code = (
        "import json, sys\nfrom benchmarks.row import row_modules, section\n"
        "[section(name) for name in row_modules()]\nprint(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, env=dict(os.environ)
    )
    assert not {"torch", "jax", "trilobite"} & set(json.loads(done.stdout))


def test_a_choice_of_no_row_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.main(["--only", "no row has this name"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "no row matches --only no row has this name" in said.err
    assert "rows_gemm: " in said.err


def test_what_is_no_regular_expression_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        harness.main(["--only", "("])
    assert "'(' is no regular expression" in capsys.readouterr().err
