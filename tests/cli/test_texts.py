"""What commands print, line by line beside the numbers that they print; and words that they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from trilobite.base.errors import ArgumentError, FileError
from trilobite.cli import COMMANDS, kernel
from trilobite.cli.application import application
from trilobite.cli.compiler import duration
from trilobite.cli.models import files, verbs
from trilobite.cli.models.profile import measured
from trilobite.cli.models.subject import FileSubject
from trilobite.processor.machine import load_machine

onnx = pytest.importorskip("onnx")


def call(*words: object) -> Result:
    return CliRunner().invoke(application(COMMANDS), [str(word) for word in words])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = relu(x) + 1, z = x's sum."""
    h, t = onnx.helper, onnx.TensorProto
    nodes = [h.make_node("Relu", ["x"], ["r"]), h.make_node("Add", ["r", "one"], ["y"]),
             h.make_node("ReduceSum", ["x"], ["z"])]  # fmt: skip
    graph = h.make_graph(
        nodes, "g", [h.make_tensor_value_info("x", t.FLOAT, [2, 3])],
        [h.make_tensor_value_info("y", t.FLOAT, [2, 3]), h.make_tensor_value_info("z", t.FLOAT, None)],
        [onnx.numpy_helper.from_array(np.ones(1, np.float32), "one")],
    )  # fmt: skip
    path = tmp_path_factory.mktemp("texts") / "m.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), path)
    return path


# -- run -----------------------------------------------------------------------------------------------------


def test_run_prints_shape_range_and_first_values(model: Path, tmp_path: Path) -> None:
    x = np.asarray([[-1.0, 2.0, 0.5], [3.0, -4.0, 0.25]], np.float32)
    np.save(tmp_path / "x.npy", x)
    lines = call("run", model, "-i", tmp_path / "x.npy").output.splitlines()
    assert lines[0] == f"y: float32[2, 3] from 1 to 4, mean {np.mean(np.maximum(x, 0) + 1):.6g}"
    assert lines[1].split() == ["1", "3", "1.5", "4", "1", "1.25"]
    assert lines[2].startswith("z: float32[") and lines[3].split() == ["0.75"]
    assert lines[-1].endswith(" ms on cpu, with compilation")
    for wrong in ("a.py", "a.s", "a.dlp"):
        assert "is a program of the processor" in str(call("run", wrong).exception)


def test_outputs_go_to_files_that_can_hold_them(tmp_path: Path) -> None:
    one, two = {"y": np.arange(6.0).reshape(2, 3)}, {"y": np.zeros(2), "z": np.ones(3)}
    verbs.write_outputs(str(tmp_path / "a.npy"), one)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), one["y"])
    verbs.write_outputs(str(tmp_path / "a.npz"), two)
    assert set(np.load(tmp_path / "a.npz")) == {"y", "z"}
    with pytest.raises(ArgumentError, match="2 outputs for"):
        verbs.write_outputs(str(tmp_path / "b.npy"), two)
    for shape in ((2, 3), (2, 4, 5, 7), (5,), (1, 2, 4, 4)):
        with pytest.raises(ArgumentError, match="as a picture"):
            verbs.write_outputs(str(tmp_path / "b.png"), {"y": np.zeros(shape)})
    for n, shape in enumerate([(1, 4, 6), (4, 6, 1), (1, 3, 4, 6), (4, 6, 3), (1, 1, 4, 6)]):
        verbs.write_outputs(str(tmp_path / f"{n}.png"), {"y": np.full(shape, 0.5)})
        from PIL import Image

        assert np.asarray(Image.open(tmp_path / f"{n}.png")).shape == (4, 6, 3)


@pytest.mark.parametrize(("most", "level"), [(1.0, 255), (2.0, 255), (2.01, 2), (255.0, 255), (0.5, 128)])
def test_pictures_up_to_two_are_shares(most: float, level: int, tmp_path: Path) -> None:
    from PIL import Image

    verbs.write_outputs(str(tmp_path / "p.png"), {"y": np.full((3, 4, 5), most)})
    assert abs(int(np.asarray(Image.open(tmp_path / "p.png"))[0, 0, 0]) - level) <= 1


def test_what_is_told_of_an_output() -> None:
    row = verbs.described(np.asarray([3, 1, 2], np.int64))
    assert (row["min"], row["max"], row["mean"], row["first"]) == (1, 3, 2, [3, 1, 2])
    assert "first" not in verbs.described(np.zeros(0)) and "min" not in verbs.described(np.zeros(0))
    assert verbs.described(np.asarray(["a", "b"], object))["first"] == ["a", "b"]
    assert len(verbs.described(np.arange(20.0))["first"]) == 8
    scores = np.asarray([[0.1, 0.5, 0.2, 0.9, 0.3, 0.4], [9, 0, 0, 0, 0, 0]], np.float32)
    best = verbs.described(scores, list("abcdef"))["best"]
    assert [label for label, _ in best] == list("dbfec") and best[0][1] == pytest.approx(0.9)
    assert "best" not in verbs.described(scores, list("abc"))
    shown = verbs._line(verbs.described(scores, list("abcdef")))
    assert shown.splitlines()[1] == "      0.9000  d" and len(shown.splitlines()) == 6
    assert verbs._line({"dtype": "float32", "shape": [0]}) == "float32[0]"


def test_labels_are_read_or_told_about(tmp_path: Path) -> None:
    (tmp_path / "l.txt").write_text("cat\ndog\n")
    assert verbs._labels(str(tmp_path / "l.txt")) == ["cat", "dog"] and verbs._labels("") == []
    with pytest.raises(FileError, match="labels cannot be read"):
        verbs._labels(str(tmp_path / "no.txt"))


def test_simulated_runs_are_summed() -> None:
    runs = [SimpleNamespace(cycles=1500, seconds=2e-3, energy=SimpleNamespace(total=3e-3)),
            SimpleNamespace(cycles=500, seconds=1e-3, energy=SimpleNamespace(total=1e-3))]  # fmt: skip
    found = verbs._simulated(SimpleNamespace(last_runs=runs))  # type: ignore[arg-type]
    assert found == {"cycles": 2000, "simulated_seconds": pytest.approx(3e-3), "joules": pytest.approx(4e-3)}
    assert verbs._cycles(found) == "; simulated: 2,000 cycles, 3.000 ms, 4 mJ"
    none: Any = SimpleNamespace(last_runs=[])
    assert verbs._simulated(none) == {} and verbs._cycles({}) == ""


# -- bench and compare ---------------------------------------------------------------------------------------


def test_bench_prints_the_least_and_the_median(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 0.5, 1.0, 1.004, 2.0, 2.001, 3.0, 3.002])  # the first call, then three
    monkeypatch.setattr(verbs.time, "perf_counter", lambda: next(moments))
    monkeypatch.setattr(
        verbs, "open_model", lambda *a: SimpleNamespace(run=lambda v: None, name="m", inputs=())
    )
    monkeypatch.setattr(verbs, "given", lambda *a: {})
    said: list[str] = []
    monkeypatch.setattr(verbs.typer, "echo", said.append)
    verbs.bench(str(model), repeats=3)
    assert said[0] == "m: the first call took 500.0 ms"
    assert said[1].split() == ["cpu", "minimum", "1.000", "ms", "median", "2.000", "ms"]
    with pytest.raises(ArgumentError, match="0 repeats"):
        verbs.bench(str(model), repeats=0)
    with pytest.raises(ArgumentError, match="for ONNX Runtime"):
        verbs._other("onnxruntime", "m.tflite")


def test_compare_prints_how_far_outputs_are_apart(model: Path) -> None:
    done = call("compare", model)
    assert done.exit_code == 0
    assert done.output.splitlines()[0].startswith("y: agrees, at most 0 apart (values up to ")
    for words in (("--on", "cpu", "--on", "cpu", "--on", "cpu"), ("--on", "cpu"),
                  ("--against", "onnxruntime", "--on", "cpu", "--on", "cpu")):  # fmt: skip
        assert "a comparison of" in str(call("compare", model, *words).exception)
    row: dict[str, Any] = {"name": "y", "agrees": False, "error": 0.25, "largest": 2.0}
    assert verbs._gap(row) == "y: DIFFERS, at most 0.25 apart (values up to 2)"
    assert (
        verbs._gap({**row, "operator": "Conv"})
        == f"{'Conv':<20} y: DIFFERS, at most 0.25 apart (values up to 2)"
    )


@pytest.mark.parametrize(("gap", "agrees"), [(0.0, True), (0.5, True), (0.500001, False)])
def test_results_may_be_apart_by_the_tolerance(gap: float, agrees: bool) -> None:
    found = verbs.apart("y", np.asarray([4.0 + gap, 1.0]), np.asarray([4.0, 1.0]), 0.125)
    assert found["agrees"] is agrees and found["error"] == pytest.approx(gap) and found["largest"] == 4.0
    assert verbs.apart("y", np.zeros(2), np.zeros(2), 0.0)["agrees"]
    assert not verbs.apart("y", np.zeros(2), np.zeros(3), 9.0)["agrees"]
    texts = np.asarray(["a", "b"], object), np.asarray(["a", "c"], object)
    assert verbs.apart("y", *texts, 9.0)["error"] == float("inf")


# -- files ---------------------------------------------------------------------------------------------------


def test_files_are_written_with_their_size(model: Path, tmp_path: Path) -> None:
    smaller = tmp_path / "small.onnx"
    told = json.loads(call("optimize", model, "-o", smaller, "--json").output)
    assert told["bytes"] == smaller.stat().st_size and told["file"] == str(smaller)
    assert told["before"] >= told["nodes"] and all(row["agrees"] for row in told["outputs"])
    lines = call("optimize", model, "-o", smaller).output.splitlines()
    assert lines[0].startswith(f"{smaller}: {smaller.stat().st_size:,} bytes, in ")
    assert lines[1] == f"{told['before']} nodes became {told['nodes']}"
    assert sum("apart" in line for line in lines) == 2
    assert "apart" not in call("optimize", model, "-o", smaller, "--no-compare").output
    copy = tmp_path / "copy.onnx"
    assert json.loads(call("convert", model, copy, "--json").output)["nodes"] == 3
    assert [n.op_type for n in onnx.load(copy).graph.node] == ["Relu", "Add", "ReduceSum"]
    for words in (("convert", model, "x.txt"), ("optimize", model, "-o", "x.txt")):
        assert "a path that ends in .onnx" in str(call(*words).exception)
    assert call("optimize", model, "-o", smaller, "--tolerance", "-1").exit_code == verbs.DIFFERENT
    assert files._said(str(copy), 1.23456, True, a=1) == json.dumps(
        {"file": str(copy), "bytes": copy.stat().st_size, "seconds": 1.235, "a": 1}
    )


# -- the processor -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "right"),
    [((), True), (("show", "dlp-s"), True), (("export", "dlp-s"), True), (("show",), False),
     (("export",), False),
     (("draw", "dlp-s"), False), (("show", "dlp-s", "-o", "x"), False)],
)  # fmt: skip
def test_machines_by_their_words(words: tuple[str, ...], right: bool) -> None:
    done = call("machines", *words)
    assert (done.exit_code == 0) == right
    if not right:
        assert "trilobite machines, machines show NAME" in str(done.exception)
    elif not words:
        assert "dlp-m" in done.output and "machine" in done.output


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1h", 3600), ("1.5", 1.5), ("0.5m", 30)]
)
def test_budgets(text: str, seconds: float) -> None:
    assert duration(text) == seconds == duration(f" {text} ")
    for wrong in ("0", "0s", "-1", "5d", "", "s", "1 h"):
        with pytest.raises(ArgumentError, match="a budget of"):
            duration(wrong)


@pytest.mark.parametrize(
    ("dim", "wanted"),
    [("16", (16, 1, 1)), ("4,2", (4, 2, 1)), ("4x2x3", (4, 2, 3)), ("4,2x3", (4, 2, 3)), ("1,2,3,4",
     None), ("", None),
     ("a", None), ("-1", None), ("4,", None)],
)  # fmt: skip
def test_extents_of_a_task(dim: str, wanted: Any) -> None:
    if wanted is None:
        with pytest.raises(ArgumentError, match="a task grid of"):
            kernel._extents(dim)
    else:
        assert kernel._extents(dim) == wanted


@pytest.mark.parametrize("word", ["union4", "UNION4", "CNRT_FUNC_TYPE_UNION4", "cnrtFuncTypeUnion4"])
def test_kinds_of_tasks_in_every_spelling(word: str) -> None:
    assert kernel._task(word) == "union4" and kernel._task("Block") == "block"


def test_words_for_a_kernel_name_arrays() -> None:
    assert kernel._for_kernel(["3", "zeros:f32:8"]) and kernel._for_kernel(["a.npy"])
    assert not kernel._for_kernel(["3", "a.txt"]) and not kernel._for_kernel([])


def test_arrays_behind_a_launch_are_shown_and_kept(tmp_path: Path) -> None:
    from trilobite.processor.device import Device

    device = Device("dlp-s")
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    args = [3, device.array(values), device.array(np.ones(2, np.int32))]
    lines = kernel._arrays(args, str(tmp_path / "out" / "deep")).splitlines()
    assert lines[0].startswith("argument 1: float32 4x6 [") and lines[1] == "argument 2: int32 2 [1 1]"
    assert lines[0].count(".") == kernel.SHOWN
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "deep" / "argument1.npy"), values)
    assert not (tmp_path / "out" / "deep" / "argument0.npy").exists()
    kernel._arrays(args, "")


def test_a_source_runs_on_the_first_part_that_holds_it(capsys: pytest.CaptureFixture[str]) -> None:
    from trilobite.cli.kernel import DEFAULT, PARTS, ScratchpadOverflow

    tried: list[str] = []

    def compiled(name: str) -> None:
        tried.append(name)
        if name != PARTS[-1]:
            raise ScratchpadOverflow(f"too much for {name}")

    assert kernel._machine_for("a.mlu", DEFAULT, compiled) == PARTS[-1]
    assert tried == [DEFAULT, *PARTS] and f"so it runs on {PARTS[-1]}" in capsys.readouterr().err
    assert kernel._machine_for("a.mlu", DEFAULT, lambda name: None) == DEFAULT
    assert kernel._machine_for("a.mlu", "dlp-s", compiled) == "dlp-s"
    assert kernel._machine_for("a.py", DEFAULT, compiled) == DEFAULT

    def never(name: str) -> None:
        raise ScratchpadOverflow(f"too much for {name}")

    with pytest.raises(ScratchpadOverflow, match=f"too much for {DEFAULT}"):
        kernel._machine_for("a.mlu", DEFAULT, never)
    assert load_machine(DEFAULT).cores and "run or" in str(call("kernel", "walk", "a.mlu").exception)


@pytest.mark.parametrize("repeats", [1, 4])
def test_profiles_repeat_as_often_as_asked(repeats: int) -> None:
    given: list[Any] = []
    subject = object.__new__(FileSubject)
    subject.session = SimpleNamespace(profile=lambda *a: given.append(a))  # type: ignore[assignment]
    measured(subject, {"x": 1}, repeats)
    assert given == [({"x": 1}, repeats)]


def test_arrays_behind_a_kernel_have_six_places(tmp_path: Path) -> None:
    from trilobite.cli.kernel import SHOWN, _arrays
    from trilobite.processor import Device

    held = np.arange(SHOWN + 2, dtype=np.float32) + np.float32(0.123456789)
    told = _arrays([3, Device("dlp-s").array(held.reshape(2, -1))], str(tmp_path / "out"))
    shown = " ".join(f"{v:.6f}" for v in held[:SHOWN])
    assert told == f"argument 1: float32 2x{(SHOWN + 2) // 2} [{shown}]"
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "argument1.npy").ravel(), held)
