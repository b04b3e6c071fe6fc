"""The page's own script, without a page: what it computes is checked in node, and its types by TypeScript."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tools import page_types
from tools.fetch_data import NotFetched
from trilobite.report.page import SCRIPTS
from trilobite.report.subjects import packed

NODE = shutil.which("node")
DATA = Path(".data")
needs_node = pytest.mark.skipif(
    NODE is None, reason="node is not installed; the browser tests run the script"
)


def evaluate(expression: str) -> Any:
    """The value of an expression behind all parts of the script."""
    parts = [(page_types.ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS]
    program = "\n".join(['"use strict";', *parts, f"console.log(JSON.stringify({expression}));"])
    done = subprocess.run([str(NODE), "-"], input=program, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def lane(start: list[float], length: list[float]) -> str:
    texts = ", ".join(f"{n}: new Float64Array({v})" for n, v in (("start", start), ("length", length)))
    return f"{{{texts}, label: new Uint32Array({len(start)})}}"


@needs_node
def test_numbers_for_reading() -> None:
    values = "[0, 7, 1234567, 0.5, 1234.56, null, 'text'].map(shown)"
    assert evaluate(values) == ["0", "7", "1,234,567", "0.5000", "1,235", "–", "text"]
    assert evaluate("[scaled(999, 'B'), scaled(1500, 'B'), scaled(2e12, 'op/s')]") == [
        "999 B", "1.50 kB", "2.00 Top/s",
    ]  # fmt: skip
    assert evaluate("[1, 3, 7, 12, 240].map(tickStep)") == [1, 5, 10, 20, 500]
    assert evaluate("[ratioText(2, 1), ratioText(1, 3), ratioText(1, 1.001), ratioText(0, 1)]") == [
        "2.00 times less", "3.00 times more", "the same", "–",
    ]  # fmt: skip


@needs_node
def test_times_have_the_unit_that_fits_and_shares_are_percent() -> None:
    assert evaluate("[33316049, 4200, 7].map(n => timed(n, 'ns'))") == ["33.32 ms", "4.200 µs", "7 ns"]
    assert evaluate("timed(1234567, 'cycles')") == "1,234,567 cycles"
    assert evaluate("[cellText('share', 0.347), cellText('µs', 0.347), cellText('MFU', null)]") == [
        "35 %", "0.3470", "–",
    ]  # fmt: skip


@needs_node
def test_empty_cells_come_last_both_ways() -> None:
    for sign, order in ((1, [1, 2, 3, None]), (-1, [3, 2, 1, None])):
        assert evaluate(f"[2, null, 3, 1].sort((a, b) => byCell(a, b, {sign}))") == order


@needs_node
def test_modules_of_a_comparison_are_those_of_the_run_and_sum_to_it() -> None:
    kernels = [{"module": "a", "time": 3e6}, {"module": "", "time": 1e6}]
    run = json.dumps({"unit": "ns", "total": 9e6, "seconds": 0.006, "kernels": kernels})
    found = evaluate(f"[...moduleSeconds({run})]")
    assert {name: round(s, 9) for name, s in found} == {
        "a": 0.003, "(the network itself)": 0.001, "(outside kernels)": 0.002,
    }  # fmt: skip


@needs_node
def test_events_are_found_by_time() -> None:
    some = lane([0, 10, 20], [5, 5, 5])
    asked = [-1, 0, 5, 7, 10, 14.5, 20, 25, 26]
    assert evaluate(f"{asked}.map(t => eventAt({some}, t))") == [-1, 0, 0, -1, 1, 1, 2, 2, -1]
    assert evaluate(f"[eventAt({some}, 7, 2), eventAt({some}, 8.5, 2), eventAt({some}, -1, 2)]") == [0, 1, 0]


@needs_node
def test_drawing_costs_the_width_and_not_the_trace() -> None:
    count = 200_000
    starts = f"Float64Array.from({{length: {count}}}, (_, i) => i * 2)"
    some = f"{{start: {starts}, length: new Float32Array({count}).fill(1)}}"
    seen = evaluate(
        f"(() => {{ const lane = {some}; const found = [];"
        f"visibleEvents(lane, 800, 0, {2 * count}, (i) => found.push(i)); return found; }})()"
    )
    assert 400 <= len(seen) <= 1700 and seen[0] == 0 and seen == sorted(set(seen))
    near = evaluate(
        f"(() => {{ const lane = {some}; const found = [];"
        "visibleEvents(lane, 800, 1001, 1021, (i, a, b) => found.push([i, a, b])); return found; })()"
    )
    assert [i for i, _, _ in near] == list(range(500, 511))
    assert near[1][1:] == [40, 80]  # 1002 to 1003 of a view from 1001, 40 pixels a cycle


@needs_node
def test_memory_is_swept_once() -> None:
    rows = '[["a", 0, 3, 100], ["b", 1, 2, 50], ["c", 2, 4, 10]]'
    assert evaluate(f"memoryCurve({rows})") == {"at": [0, 1, 2, 3, 4], "use": [100, 150, 110, 10, 0]}


@needs_node
def test_modules_sum_what_is_in_them() -> None:
    kernels = json.dumps(
        [
            {"name": n, "module": m, "time": t, "joules": 0}
            for n, m, t in (("k1", "a.b", 3), ("k2", "a", 4), ("k3", "", 5))
        ]
    )
    found = evaluate(
        f"(() => {{ const r = moduleTree({kernels}), a = r.below.get('a'), b = a.below.get('b');"
        "return [r.time, a.time, b.name, b.time, r.kernels.map(k => k.name)]; })()"
    )
    assert found == [12, 7, "a.b", 3, ["k3"]]


STAGE = {
    "labels": ["one", "two", "three", "four"],
    "modules": [["", 4, [[0], [-2], [3]]], ["m", 2, [[1], [2]]]],
}


def stage() -> str:
    label, edges = packed(np.arange(4), "<u4"), packed(np.asarray([0, 1, 1, 2, 2, 3, 0, 3]), "<u4")
    data = json.dumps(
        {**STAGE, "label": label, "edges": edges, "place": "", "detail": "", "fresh": "", "gone": ""}
    )
    return f"readData(JSON.stringify({{subjects: [{{lanes: [], stages: [{data}]}}]}})).subjects[0].stages[0]"


@needs_node
def test_boxes_stand_apart_and_inside_their_module() -> None:
    laid = evaluate(f"placeBoxes({stage()}, new Set([0, 1]))")
    boxes = {box["id"]: box for box in laid["boxes"]}
    assert set(boxes) == {0, 1, 2, 3, -2}
    module = boxes[-2]
    for child in (1, 2):
        box = boxes[child]
        assert module["x"] < box["x"] and box["x"] + box["w"] < module["x"] + module["w"]
        assert module["y"] < box["y"] and box["y"] + box["h"] < module["y"] + module["h"]
    order = [boxes[n] for n in (0, 1, 2, 3)]
    assert all(a["y"] + a["h"] < b["y"] for a, b in pairwise(order))
    assert all(b["x"] >= 0 and b["x"] + b["w"] <= laid["width"] for b in boxes.values())


@needs_node
def test_a_closed_module_stands_for_what_is_in_it() -> None:
    edges = (
        f"(() => {{ const s = {stage()}, boxes = (open) => placeBoxes(s, new Set(open)).boxes;"
        "const draw = (open) => visibleEdges(s, boxes(open)).map(([a, b]) => [a.id, b.id]);"
        "return [draw([0]), draw([0, 1])]; })()"
    )
    closed, opened = evaluate(edges)
    assert closed == [[0, -2], [-2, 3], [0, 3]]
    assert opened == [[0, 1], [1, 2], [2, 3], [0, 3]]


@needs_node
def test_packed_numbers_come_back_whole() -> None:
    values = np.asarray([0.5, -3e300, 7], np.float64)
    text = packed(values, "<f8")
    assert evaluate(f'[...new Float64Array(bytesOf("{text}"))]') == values.tolist()
    assert base64.b64decode(text) == values.tobytes()


def checked(scripts: Path) -> str:
    try:
        return page_types.check(DATA, scripts)
    except NotFetched as reason:
        pytest.skip(str(reason))


def test_types_of_the_script_hold() -> None:
    assert checked(page_types.ASSETS) == ""


def test_a_wrong_type_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.js").write_text("/** @param {number} x */ function f(x) { return x.trim(); }\n")
    assert "Property 'trim' does not exist on type 'number'" in checked(tmp_path)
