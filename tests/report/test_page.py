"""The report page: its data are the run's own, its policy lets nothing else run, hostile text stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.report.launches import KERNEL
from trilobite.base.errors import FileError
from trilobite.processor import Device, Run
from trilobite.report import Subject, processor_subject, write_page
from trilobite.report.amounts import amount
from trilobite.report.network import _sentence
from trilobite.report.page import kept_subjects, page_text
from trilobite.report.processor import function_and_line
from trilobite.report.subjects import Lane, Table


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_launch_is_written_with_its_own_numbers(run: Run, tmp_path: Path) -> None:
    run.report(tmp_path / "run.html")
    data = data_of((tmp_path / "run.html").read_text(encoding="utf-8"))
    (subject,) = data["subjects"]
    assert data["title"] == "scale on dlp-s"
    assert data["subjects"][0]["sentence"].startswith(
        f"It ran on 1 core of dlp-s. It took {run.cycles:,} cycles, "
    )
    assert subject["total"] == run.cycles and subject["target"] == "dlp:dlp-s"
    assert dict(subject["figures"])["cycles"] == f"{run.cycles:,}"
    stalls = next(t for t in subject["tables"] if t["title"] == "Stalls")
    assert all(sum(row[1:]) == run.cycles for row in stalls["rows"])
    energy = next(t for t in subject["tables"] if t["title"] == "Energy")
    assert sum(row[1] for row in energy["rows"]) == pytest.approx(run.energy.total * 1e6)


def test_lines_of_a_kernel_beside_the_page_are_shown(tmp_path: Path) -> None:
    device = Device("dlp-s")
    (tmp_path / "scale.s").write_text(KERNEL, encoding="utf-8")
    args = [device.array(np.ones(1000, np.float32)), 1000, 0.5]
    device.launch(device.load(tmp_path / "scale.s")["scale"], args=args).report(tmp_path / "run.html")
    (subject,) = data_of((tmp_path / "run.html").read_text(encoding="utf-8"))["subjects"]
    table = next(t for t in subject["tables"] if t["title"] == "Where the cycles went, by line")
    shown = [subject["sources"][row[1]] for row in table["rows"]]
    assert shown and all(text in KERNEL for text in shown) and any("VLOAD" in text for text in shown)


def test_lanes_hold_every_operation_of_the_timeline(run: Run) -> None:
    subject = processor_subject(run).as_data()
    for lane in subject["lanes"]:
        starts = base64.b64decode(lane["start"])
        found = struct.unpack(f"<{len(starts) // 8}d", starts)
        core = run.timeline.cores[0]
        if lane["kind"] == "control":
            assert list(found) == [start for start, _, _ in core.segments]
        else:
            assert list(found) == [op.start for op in core.operations if op.record.queue == lane["kind"]]
    assert {lane["kind"] for lane in subject["lanes"]} == {"control", "io", "vector"}


def test_the_critical_path_sums_to_the_launch_from_its_first_instruction(run: Run) -> None:
    tables = [t for t in processor_subject(run).tables if t.title.startswith("Critical path")]
    assert len(tables) == 2
    for table in tables:
        assert sum(row[-1] for row in table.rows) == run.cycles - run.critical_path[0].start


def test_cycles_by_module_are_those_by_line(run: Run) -> None:
    by_module, by_line = (
        next(t for t in processor_subject(run).tables if t.title == f"Where the cycles went, by {end}")
        for end in ("module", "line")
    )
    operations = [op for core in run.timeline.cores for op in core.operations]
    figures = (
        len(operations),
        sum(op.free - op.start for op in operations),
        sum(op.start - op.dispatch for op in operations),
    )
    for table in (by_module, by_line):
        assert tuple(sum(row[column] for row in table.rows) for column in (-3, -2, -1)) == figures
    assert {row[0] for row in by_module.rows} == {"scale"}


def test_every_instruction_is_in_the_function_that_begins_before_it(run: Run) -> None:
    find = function_and_line(run)
    assert [find(place).module for place in (0, 1, 5)] == ["scale"] * 3


def test_the_policy_names_the_hashes_of_what_is_there() -> None:
    text = page_text("a", [])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and policy[1].startswith("default-src 'none'")
    for tag, source in (("style", "style-src"), ("script", "script-src")):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert inside is not None
        digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
        assert f"{source} 'sha256-{digest}'" in policy[1]
    assert "http:" not in text.replace("http://www.w3.org/2000/svg", "") and "https:" not in text


def test_hostile_text_stays_text() -> None:
    nasty = "</script><script>alert(1)</script><!--\u2028"
    subject = Subject(
        nasty, nasty, nasty, "cycles", 1.0, [(nasty, nasty)], tables=[Table(nasty, ["a"], [[nasty]])]
    )
    text = page_text(nasty, [subject])
    assert text.count("<script") == 2 and "alert(1)</script>" not in text
    assert data_of(text)["subjects"][0]["tables"][0]["rows"][0][0] == nasty


def test_numbers_that_json_lacks_become_null() -> None:
    subject = Subject("a", "b", "c", "ns", float("inf"), [], tables=[Table("t", ["x"], [[float("nan")]])])
    found = data_of(page_text("a", [subject]))["subjects"][0]
    assert found["total"] is None and found["tables"][0]["rows"] == [[None]]


def test_a_million_events_take_about_sixteen_bytes_each() -> None:
    count = 100_000
    starts = np.arange(count, dtype=np.float64)
    lane = Lane("a", "io", starts, np.ones(count), np.zeros(count, np.uint32))
    text = page_text("a", [Subject("a", "b", "c", "cycles", count, [], [lane], [("x", "")])])
    assert len(text) < 24 * count


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"(?s)the page cannot be written.*absent"):
        write_page(tmp_path / "absent" / "a.html", "a", [])


def test_an_earlier_page_stands_beside_a_new_one(run: Run, tmp_path: Path) -> None:
    earlier = write_page(tmp_path / "old.html", "old </script>", [processor_subject(run, "first")])
    text = page_text("new", [processor_subject(run, "second"), *kept_subjects(earlier)])
    new, old = data_of(text)["subjects"]
    assert (new["name"], old["name"]) == ("second", "first (old.html)")
    assert {**old, "name": ""} == {**new, "name": ""}


@pytest.mark.parametrize("data", [None, "", "[", "3", '{"subjects": [{"name": 1}]}', '{"subjects": 7}'])
def test_a_page_without_runs_is_refused(data: str | None, tmp_path: Path) -> None:
    text = "<p>" if data is None else f'<script type="application/json" id="data">{data}</script>'
    (tmp_path / "other.html").write_text(text)
    with pytest.raises(FileError, match=r"(?s)nothing to compare with.*other.html.*trilobite profile -o"):
        kept_subjects(tmp_path / "other.html")


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [(0.0591378, "s", "59.14 ms"), (0.2383, "J", "238.3 mJ"), (167302380, "B", "167.3 MB"),
     (999.97e-6, "s", "1.000 ms"), (64, "B", "64 B"), (999_999, "B", "1.000 MB"), (0, "B", "0 B"),
     (2.3e-8, "J", "23.00 nJ"), (5e-12, "J", "0.005 nJ")],
)  # fmt: skip
def test_amounts_have_four_digits_and_a_prefix(value: float, unit: str, said: str) -> None:
    assert amount(value, unit) == said


def test_the_sentence_of_a_network_names_its_longest_layer() -> None:
    rows = [
        SimpleNamespace(number=i, name=f"layer{i}", cycles=c, share=c / 10, bound="dram")
        for i, c in enumerate((3, 6, 1))
    ]
    said = _sentence("It ran.", SimpleNamespace(rows=rows))
    assert said == "It ran. The longest layer is 1 layer1: 60% of the cycles, bound by dram."
    assert _sentence("It ran.", SimpleNamespace(rows=[])) == "It ran."
