"""The labs: solutions pass, files to begin with do not, and mistakes are found with a small input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from trilobite.apps.labs.catalogue import LABS, load, material
from trilobite.apps.labs.checking import LabError, check
from trilobite.apps.labs.command import lab as lab_command
from trilobite.apps.labs.command import labs as labs_command
from trilobite.apps.labs.grading import Verdict, grade, grade_part, read
from trilobite.apps.labs.smallest import Case, smallest
from trilobite.apps.labs.task import Fault, Part, compare
from trilobite.base.errors import ArgumentError, FileError
from trilobite.processor.lang.bang.clang import find_clang

SLOW = ("fast", "faster", "runs")  # they compile networks, or measure several kernels: in the long tests
BANG = {"power-difference", "sigmoid", "matmul-ladder"}
needs_clang = pytest.mark.skipif(find_clang() is None, reason="BANG C needs clang: pip install '.[bang]'")
every_lab = [pytest.param(name, marks=needs_clang if name in BANG else ()) for name in LABS]


def module(directory: Path, text: str) -> ModuleType:
    path = directory / "my_solution.py"
    path.write_text(text, encoding="utf-8")
    return read(path)


@pytest.mark.parametrize("name", every_lab)
def test_the_solution_is_right(name: str, tmp_path: Path) -> None:
    quick = replace(load(name), parts=tuple(part for part in load(name).parts if part.name not in SLOW))
    verdicts = grade(quick, module(tmp_path, material(name, "solution")), seed=11, most=3)
    assert [v for v in verdicts if not v.right] == []


@pytest.mark.long
@pytest.mark.parametrize("name", every_lab)
def test_the_solution_is_right_in_every_part_as_a_student_checks_it(name: str, tmp_path: Path) -> None:
    for seed in range(4):
        result = check(load(name), write(tmp_path, material(name, "solution")), seed * 1000)
        assert result.right, result.text()


@pytest.mark.parametrize("name", every_lab)
def test_the_file_to_begin_with_is_read_and_not_yet_right(name: str, tmp_path: Path) -> None:
    student = module(tmp_path, material(name, "starter"))
    parts = [part for part in load(name).parts if part.name not in ("fast", "runs", "speed")]
    verdicts = [grade_part(part, student, seed=3, most=1) for part in parts]
    assert not all(verdict.right for verdict in verdicts) or name == "stencil"


# lab, the part that notices: what to change in the solution, words of the problem, the smallest input
MISTAKES = [
    ("mlp", "linear_backward", "g.sum(axis=0)", "g.mean(axis=0)",
     "the sum of g over the batch", "batch=2, inputs=1, outputs=1"),
    ("mlp", "relu_backward", "x > 0, g", "x >= 0, g", "at 0 the slope is 0", "batch=1, width=1"),
    ("mlp", "softmax_cross_entropy", " - scores.max(axis=1, keepdims=True)", " * 1.0", "overflow", ""),
    ("mlp", "softmax_cross_entropy", "gradient / len(labels)", "gradient",
     "(softmax - one_hot) / batch", "batch=2, classes=2"),
    ("vgg19", "conv3x3", "padded[:, :, i : i + height", "padded[:, :, 2 - i : 2 - i + height",
     "are wrong", ""),
    ("vgg19", "max_pool2x2", "height // 2 * 2, : width // 2 * 2", "height, : width", "ValueError", ""),
    ("vgg19", "vgg", "x = np.maximum(conv3x3(x, w, b), 0)", "x = conv3x3(x, w, b)",
     "behind layer 0", "layers=1, side=4"),
    ("style", "gram", "/ (c * h * w)", "/ (h * w)", "are wrong", "batch=1, channels=2, height=2, width=2"),
    ("style", "paint", "gram(features(style)).detach()", "gram(features(content)).detach()",
     "Gram matrices went from", ""),
    ("style", "instance_norm", "variance + 1e-5", "variance + 1e-3", "are wrong", "batch=1, channels=1"),
    ("style", "residual", "return x + layer", "return layer", "are wrong", ""),
    ("int8", "quantise", "np.rint(x / scale)", "np.floor(x / scale + 0.5)", "to the even", "n=1"),
    ("int8", "product", "a.astype(np.int32) @ b.astype(np.int32)", "a @ b", "widen first", ""),
    ("int8", "requantise", "total.astype(np.float64)", "(total // 2 * 2)", "are wrong", "n=1"),
    ("int8", "matmul_int8", "min(rows, m - i)", "rows", "", ""),
    ("power-difference", "power_difference", "slope, -slope", "slope, slope",
     "the gradient of y, eagerly", ""),
    ("power-difference", "kernel", "int now = n - i < CHUNK ? n - i : CHUNK", "int now = CHUNK",
     "", "n=1, power=0, tasks=1"),
    ("sigmoid", "sigmoid", "taskId < chunks ?", "taskId < chunks - 1 ?", "never stored", "n=1, tasks=1"),
    ("sigmoid", "sigmoid_gradient", "(a, a, 1.0f, now)", "(a, a, 0.5f, now)",
     "g y (1 - y)", "n=1, tasks=1"),
    ("matmul-ladder", "step4", "taskDim * ROWS, m", "2 * taskDim * ROWS, m", "never stored", "n=1, k=1"),
    ("matmul-ladder", "step5", "results[i % 2], min", "results[(i + 1) % 2], min", "", ""),
    ("autodiff", "arithmetic", "parent.grad = parent.grad + shrink", "parent.grad = shrink",
     "sum of both gradients", "rows=1, columns=1"),
    ("autodiff", "functions", "g * (self.value > 0)", "g", ".grad", "steps=1, rows=1, columns=1"),
    ("autodiff", "matrices", "self.value.T @ g", "self.value @ g", "", ""),
    ("autodiff", "broadcasting", "gradient.sum(axis=spread, keepdims=True)", "gradient", "", ""),
    ("pass", "transposes", 'before.attributes["axes"][axis] for axis in axes',
     'axes[axis] for axis in before.attributes["axes"]', "", "steps="),
    ("pass", "negations", "] = before.inputs[0]", "] = e.inputs[0]", "result 0", "steps=2"),
    ("pass", "negations", "needed(kept, outputs), outputs", "kept, outputs", "equations are left", ""),
    ("stencil", "speed", 's.compute_at("i", "r")', "return s.vectorise('j', 8)", "cache in between", ""),
    ("stencil", "speed", '.vectorise("c", 8)', "", "runs element by element", ""),
    ("chip", "budget", "{fp32: 1024}", "{fp32: 4096}", "the area in mm² is", ""),
    ("chip", "budget", "gb_per_s: 51.2", "gb_per_s: 512", "dram.gb_per_s is 512", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "part", "old", "new", "words", "sizes"),
    [
        pytest.param(*row, marks=needs_clang if row[0] in BANG else (), id=f"{row[0]}-{row[1]}")
        for row in MISTAKES
    ],
)
def test_a_mistake_is_found_with_a_small_input(
    name: str, part: str, old: str, new: str, words: str, sizes: str, tmp_path: Path
) -> None:
    text = material(name, "solution")
    assert old in text
    student = module(tmp_path, text.replace(old, new))
    (asked,) = (p for p in load(name).parts if p.name == part)
    verdict = grade_part(asked, student, seed=5)
    problem = "\n".join(verdict.problem)
    assert not verdict.right
    assert words in problem
    assert sizes in problem


# -- the smallest input ------------------------------------------------------------------------------------


def test_shrinking_finds_the_least_size_and_plain_values() -> None:
    """Wrong wherever the third element is above 1 and there are at least three."""

    def judge(student: ModuleType, i: dict[str, np.ndarray]) -> Fault | None:
        x = i["x"]
        return Fault("wrong") if x.size >= 3 and x[2] > 1 else None

    def make(rng: np.random.Generator, s: dict[str, int]) -> dict[str, np.ndarray]:
        return {"x": rng.uniform(5, 9, s["n"])}

    part = Part("p", "", make, judge, {"n": (1, 100)}, plain="x")
    inputs = make(np.random.default_rng(0), {"n": 77})
    found = smallest(part, ModuleType("m"), Case({"n": 77}, 0, inputs, Fault("wrong")))
    assert found.sizes == {"n": 3}
    assert found.inputs["x"].tolist()[:2] == [0, 0]
    assert found.inputs["x"][2] == round(float(found.inputs["x"][2])) > 1


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
    [
        (None, np.zeros(2), "an array of shape (2,)"),
        (np.zeros((2, 1)), np.zeros(2), "has the wrong shape"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "the first is y[1]"),
        (np.array([1.0, 2.1]), np.array([1.0, 2.0]), "1 of 2 elements are wrong"),
        ("text", np.zeros(2), "wrong"),
    ],
)
def test_compare_says_what_differs(found: object, wanted: np.ndarray, words: str) -> None:
    fault = compare("y", found, wanted, 1e-3)
    assert fault is not None
    assert words in "\n".join(fault.lines())


def test_compare_knows_nan_and_tolerance() -> None:
    assert compare("y", np.array([np.nan, 1.0001]), np.array([np.nan, 1.0]), 1e-3) is None
    assert compare("y", np.array([np.nan, 1.01]), np.array([np.nan, 1.0]), 1e-3) is not None


# -- the process of a student's file -----------------------------------------------------------------------


def write(directory: Path, text: str) -> Path:
    path = directory / "my_solution.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_graded_in_a_process_of_its_own(tmp_path: Path) -> None:
    result = check(load("vgg19"), write(tmp_path, material("vgg19", "solution")), seed=7, cases=2)
    assert result.right
    assert [v.cases for v in result.verdicts] == [2, 2, 2, 2]
    assert "4 of 4 parts are right" in result.text()
    assert "seed 7" in result.text()


def test_an_endless_loop_is_ended_and_named(tmp_path: Path) -> None:
    text = material("vgg19", "solution").replace(
        "def max_pool2x2(x):\n", "def max_pool2x2(x):\n    while True: pass\n"
    )
    for seconds in (3, 12, 48):  # on a busy machine it takes longer until it gets there
        with pytest.raises(LabError, match=r"still running after \d+ s") as caught:
            check(load("vgg19"), write(tmp_path, text), seed=7, cases=1, seconds=seconds)
        if "where: max_pool2x2 with batch=" in str(caught.value):
            break
    assert "where: max_pool2x2 with batch=" in str(caught.value)


def test_what_was_found_wrong_is_told_though_the_search_for_a_smaller_input_ends(tmp_path: Path) -> None:
    text = "import os\ncalls = []\n" + material("vgg19", "solution").replace(
        "def max_pool2x2(x):\n",
        "def max_pool2x2(x):\n    calls.append(0)\n    if len(calls) > 1: os._exit(3)\n    return x\n",
    )
    with pytest.raises(LabError) as caught:
        check(load("vgg19"), write(tmp_path, text), seed=7, cases=1, seconds=100)
    told = str(caught.value)
    assert told.startswith("wrong: ") and "where: max_pool2x2 with batch=" in told
    assert "found:" in told and "smaller inputs were not tried" in told and "--seconds" in told


def test_a_file_that_takes_all_memory_is_ended(tmp_path: Path) -> None:
    text = "import numpy as np\nheld = []\nwhile True: held.append(np.ones(1 << 24))\n"
    with pytest.raises(
        LabError, match="took too much memory\n  where: reading the file\n  expected: at most 512 MiB"
    ):
        check(replace(load("mlp"), mebibytes=512), write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os; os._exit(3)", "ended by exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal SIGSEGV"),
        ("x = (", "the file cannot be read: SyntaxError"),
        ("\n1 / 0", "my_solution.py, line 2"),
    ],
)
def test_a_file_that_ends_its_process_or_cannot_be_read(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(LabError) as caught:
        check(load("mlp"), write(tmp_path, text))
    assert words in str(caught.value)


def test_what_a_student_may_do_beside_the_task(tmp_path: Path) -> None:
    """A helper file, prints, a thread that never ends: none of it changes the verdict."""
    (tmp_path / "beside.py").write_text("def twice(x):\n    return 2 * x\n")
    text = "import threading, beside\nprint(beside.twice(3))\n"
    text += "threading.Thread(target=threading.Event().wait).start()\n"
    path = write(tmp_path, text + material("vgg19", "solution"))
    assert check(load("vgg19"), path, seed=1, cases=1, seconds=100).right


def test_errors_of_the_students_code_name_its_line(tmp_path: Path) -> None:
    text = material("mlp", "solution").replace("    return x @ w + b", "    return x @ w.T + b")
    verdict = grade_part(load("mlp").parts[0], module(tmp_path, text), seed=1)
    assert isinstance(verdict, Verdict)
    assert any("of your file: return x @ w.T + b" in line for line in verdict.problem)


@needs_clang
def test_a_source_that_does_not_compile_is_told_once_and_quickly(tmp_path: Path) -> None:
    text = material("sigmoid", "solution").replace(
        "int chunks = (n + CHUNK - 1) / CHUNK;", "int chunks = missing;"
    )
    verdict = grade_part(load("sigmoid").parts[0], module(tmp_path, text), seed=1)
    assert "undeclared identifier 'missing'" in "\n".join(verdict.problem)


@needs_clang
def test_a_source_of_bang_c_can_be_checked_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.mlu"
    path.write_text(module(tmp_path, material("sigmoid", "solution")).SOURCE)
    assert grade_part(load("sigmoid").parts[1], read(path), seed=1, most=2).right


# -- the command -------------------------------------------------------------------------------------------


def test_the_list_and_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [name for name in LABS if name in labs_command()] == list(LABS)
    assert "linear_backward(x, w, g)" in lab_command("mlp")
    assert lab_command("mlp", solution=True) == material("mlp", "solution")
    assert "begin here" in lab_command("mlp", start="mine.py")
    assert Path("mine.py").read_text() == material("mlp", "starter")
    with pytest.raises(ArgumentError, match=r"mine\.py is there already"):
        lab_command("mlp", start="mine.py")
    with pytest.raises(ArgumentError, match="did you mean 'mlp'"):
        lab_command("mpl")
    with pytest.raises(ArgumentError, match="more than one thing"):
        lab_command("mlp", start="other.py", solution=True)
    with pytest.raises(FileError, match="there is no such file"):
        check(load("mlp"), "not-there.py")
