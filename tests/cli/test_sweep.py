"""`trilobite sweep`: which points are replayed, what stands in the files, and errors before anything runs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import trilobite as tb
from trilobite.base.errors import ArgumentError, TrilobiteError
from trilobite.cli import COMMANDS, networks
from trilobite.cli.application import application
from trilobite.cli.sweep import Job, Point, axes_of, front, jobs_of, measured, points_of, table
from trilobite.processor.machine import load_machine
from trilobite.processor.tools.sweep import grid
from trilobite.report.scatter import ticks

onnx = pytest.importorskip("onnx")


def call(*words: object) -> Result:
    return CliRunner().invoke(application(COMMANDS), [str(word) for word in words])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small convolution with ReLU."""
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    net = tb.nn.Sequential(tb.nn.Conv2d(3, 4, 3), tb.nn.ReLU()).eval()
    tb.inference.export(net, tb.tensor(np.zeros((1, 3, 9, 9), np.float32)), path)
    return path


def test_points_say_how_they_were_found_and_files_hold_them(model: Path, tmp_path: Path) -> None:
    table, picture = tmp_path / "points.csv", tmp_path / "front.svg"
    fields = ("--vary", "core.nram.kib=256,512", "--vary", "dram.gb_per_s=6.4,25.6")
    found = call("sweep", model, *fields, "--workers", 1, "-o", table, "--plot", picture)
    assert found.exit_code == 0, found.output
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [r["how"] for r in rows] == ["mapped anew", "replayed"] * 2
    assert [(r["core.nram.kib"], r["dram.gb_per_s"]) for r in rows] == [
        ("256", "6.4"), ("256", "25.6"), ("512", "6.4"), ("512", "25.6"),
    ]  # fmt: skip
    assert int(rows[1]["cycles"]) < int(rows[0]["cycles"])
    assert float(rows[2]["mm2"]) > float(rows[0]["mm2"])
    assert "True" in {r["on_front"] for r in rows}
    root = ElementTree.fromstring(picture.read_text())
    titles = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 4 and sum("replayed" in t for t in titles) == 2


def test_a_replayed_point_is_what_a_run_gives(model: Path) -> None:
    axes = {"dram.gb_per_s": [6.4, 25.6]}
    machines = grid(load_machine("dlp-s"), axes)
    job = Job(str(model), (), (), "float32", tuple(machines.items()))
    replayed = points_of(job)[1]
    (alone,) = points_of(Job(str(model), (), (), "float32", tuple(machines.items())[1:]))
    assert replayed.how == "replayed" and alone.how == "mapped anew"
    assert replayed.cycles <= 1.3 * alone.cycles  # the mapping may be another
    assert replayed.joules == pytest.approx(alone.joules, rel=0.2)


def test_structures_are_apart_and_times_together() -> None:
    axes = {"dram.gb_per_s": [10.0, 20.0], "core.wram.kib": [128, 256], "core.vfu.bytes_per_cycle": [64, 128]}
    jobs = jobs_of(Job("m", (), (), "float32", ()), axes, grid(load_machine("dlp-s"), axes))
    assert [len(j.machines) for j in jobs] == [4, 4]
    assert {m.core.wram.kib for _, m in jobs[0].machines} == {128}


def test_the_front() -> None:
    points = [Point(n, "", 0, s, j, 0.0) for n, s, j in (("a", 1, 5), ("b", 2, 2), ("c", 3, 3), ("d", 1, 6))]
    assert front(points) == {"a", "b"}
    assert front([points[0], points[0]]) == {"a"}


@pytest.mark.parametrize(("most", "wanted"), [(0.0, 1.0), (7.3, 8.0), (0.031, 0.04), (1000.0, 1000.0)])
def test_ticks_are_round_and_reach_beyond(most: float, wanted: float) -> None:
    found = ticks(most)
    assert found[0] == 0 and found[-1] == pytest.approx(wanted) and len(found) <= 7


@pytest.mark.parametrize("words", [[], ["dram.gb_per_s"], ["a=1", "a=2"], ["dram.gb_per_s=1,,2"]])
def test_what_is_varied_is_read_carefully(words: list[str]) -> None:
    with pytest.raises(ArgumentError, match="FIELD=VALUE"):
        axes_of(words)


def test_wrong_fields_and_unpublished_geometries_are_refused(model: Path) -> None:
    with pytest.raises(ArgumentError, match="no field"):
        grid(load_machine("dlp-s"), {"core.speed": [3]})
    found = call("sweep", model, "--machine", "mlu370-x4", "--vary", "core.mfu.rows=16,32")
    assert "not published" in str(found.exception)
    found = call("sweep", model, "--vary", "dram.gb_per_s=1", "--dtype", "int8", "--workers", 1)
    assert "a network of the zoo" in str(found.exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--vary", "core=3"], "core is 3"),
        (["--vary", "core.mfu=3"], "core.mfu is 3"),
        (["--vary", "core.mfu.macs_per_cycle=4"], "a rate without a format"),
        (["--vary", "clock_ghz=nan"], "clock_ghz is 'nan'"),
        (["--vary", "clock_ghz=.nan"], "clock_ghz is nan"),
        (["--vary", "clock_ghz=1,1"], "each value of a field once"),
        (["--vary", "dram.gb_per_s={a: 1}"], "dram.gb_per_s is {'a': 1}"),
        (["--vary", "dram.gb_per_s=null"], "dram.gb_per_s is None"),
        (["--vary", "dram.gb_per_s=2026-01-01"], "dram.gb_per_s is datetime.date"),
        (["--vary", "dram.gb_per_s=[1"], "'[1' is no value of YAML"),
        (["--vary", "core.nram.kib=99999999999"], "cannot be addressed"),
        (["--vary", "memory_core=maybe"], "memory_core is 'maybe'"),
        (["--vary", "clock_ghz=1", "--workers", -1], "--workers -1"),
        (["--vary", "clock_ghz=1", "-o", "no/such/folder/points.csv"], "cannot be written"),
        (["--vary", "clock_ghz=1", "--plot", "."], "cannot be written"),
        (["--vary", "clock_ghz=1", "--workers", 1, "--size", "n=3"], "no open size 'n'"),
    ],
)
def test_errors_before_anything_runs(model: Path, words: list[Any], said: str) -> None:
    found = call("sweep", model, *words)
    assert isinstance(found.exception, TrilobiteError) and said in str(found.exception)


def test_the_table_marks_the_front_and_nothing_else() -> None:
    points = [
        Point("a", "mapped anew", 1200, 1.5e-3, 2e-3, 3.25),
        Point("bcd", "replayed", 7, 1e-3, 4e-3, 10.0),
    ]
    lines = table(points, {"bcd"}).splitlines()
    assert [line[0] for line in lines] == [" ", " ", "*", "*"] and lines[-1].startswith("* no other")
    assert lines[1].split() == ["a", "1,200", "1.5000", "2.0000", "3.25", "mapped", "anew"]
    assert lines[2].split() == ["*", "bcd", "7", "1.0000", "4.0000", "10.00", "replayed"]
    assert len({line.index(word) for line, word in zip(lines[1:3], ("mapped", "replayed"), strict=True)}) == 1


@pytest.mark.parametrize(
    ("workers", "cores", "jobs", "want"), [(0, 3, 5, 3), (2, 8, 5, 2), (0, None, 5, 1), (9, 8, 4, 4)]
)
def test_as_many_processes_as_cores_unless_told(
    workers: int, cores: int | None, jobs: int, want: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []

    def done(all_jobs: Any, many: int) -> Any:
        given.append(many)
        return [[Point(f"p{i}", "", 1, 1.0, 1.0, 1.0)] for i, _ in enumerate(all_jobs)]

    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("trilobite.cli.sweep._done", done)
    job = Job("m", (), (), "float32", ())
    assert list(measured([job] * jobs, jobs, workers)) == [f"p{i}" for i in range(jobs)] and given == [want]


def test_a_step_of_a_network_is_one_of_adam() -> None:
    """Whose first step moves every parameter that has a slope by the rate."""
    net = tb.nn.Linear(3, 4)
    before = net.weight.detach().numpy().copy()
    x, y = tb.tensor(np.ones((2, 3), np.float32)), tb.tensor(np.asarray([0, 1]))
    networks._step(net)(x, y)
    np.testing.assert_allclose(np.abs(net.weight.detach().numpy() - before), 1e-3, rtol=1e-3)
