"""`trilobite compile`, `kernels` and `bench`, as their functions and once as processes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import trilobite as tb
from trilobite.base.errors import ArgumentError, DataError, ShapeError, StateError, TrilobiteError
from trilobite.cli import COMMANDS
from trilobite.cli import compiler as commands
from trilobite.cli.application import application
from trilobite.cli.networks import EXAMPLES, network
from trilobite.compiler.targets.contract import NO_USAGE, Usage
from trilobite.compiler.targets.cpu.stages import STAGES
from trilobite.compiler.targets.cpu.tools.memory import memory_report
from trilobite.compiler.targets.registry import executable, find
from trilobite.compiler.tools import level_text, passes_text
from trilobite.ir.evaluate import run
from trilobite.ir.text import parse


def graph_of(*shapes: tuple[int, ...]) -> Any:
    def f(x: Any, w: Any) -> Any:
        return tb.maximum(x @ w + 1.0 * (x @ w), 0.0)

    return tb.make_graph(f)(*(tb.ones(s) for s in shapes))


def test_every_network_of_the_zoo_has_an_example() -> None:
    assert set(EXAMPLES) == set(tb.zoo.names())


@pytest.mark.parametrize("name", ["mlp", "lenet", "char_lstm"])
@pytest.mark.parametrize("training", [False, True])
def test_networks_run(name: str, training: bool) -> None:
    subject = network(name, 2, training)
    with subject.mode():
        out = subject.jitted(*subject.args)
    assert np.isfinite(out.numpy()).all()
    assert (out.shape == ()) == training


@pytest.mark.parametrize("emit", ["program", "loops", "c", "llvm", "asm", "memory"])
def test_each_level_is_shown(emit: str) -> None:
    words = {
        "program": r"^program: \d+ steps", "loops": r"\bfor |parallel|vector",
        "c": r"void run\(const void", "llvm": r"define void @entry", "asm": r"\bret",
        "memory": r"every run: arena [\d,]+ bytes",
    }  # fmt: skip
    graph = tb.make_graph(lambda x: tb.exp(x * 2).sum(0))(tb.ones((40, 30)))
    assert re.search(words[emit], level_text(graph, NO_USAGE, emit), re.MULTILINE)


def test_the_graph_after_any_pass_can_be_read_and_means_the_same() -> None:
    graph = graph_of((3, 5), (5, 4))
    rng = np.random.default_rng(3)
    values = [rng.standard_normal(s).astype(np.float32) for s in ((3, 5), (5, 4))]
    (want,) = run(graph, values)
    for name, _ in STAGES:
        again = parse(level_text(graph, NO_USAGE, stop_after=name))
        (got,) = run(again, values)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    fused = level_text(graph, NO_USAGE, stop_after="fuse")
    assert "fusion" in fused
    assert level_text(graph, NO_USAGE) == fused


def test_a_graph_after_a_pass_has_its_data() -> None:
    """Tables that folding computed are read back too."""
    graph = tb.make_graph(lambda x: x * tb.cumsum(tb.sin(tb.arange(40.0)), axis=0))(tb.ones((2, 40)))
    text = level_text(graph, NO_USAGE, stop_after="fold_constants")
    assert "constant" in text and "cumulative" not in text
    x = np.linspace(-1, 1, 80, dtype=np.float32).reshape(2, 40)
    np.testing.assert_allclose(run(parse(text), [x])[0], run(graph, [x])[0], rtol=1e-5)


def test_a_pass_that_is_skipped_does_nothing() -> None:
    graph = graph_of((3, 5), (5, 4))
    assert level_text(graph, NO_USAGE, stop_after="cse").count(" dot ") == 1
    assert (
        level_text(graph, Usage(options=(("skip", frozenset({"cse"})),)), stop_after="cse").count(" dot ")
        == 2
    )


def test_passes_are_listed_with_what_fired() -> None:
    listed = passes_text()
    assert [line.split()[0] for line in listed.splitlines()] == [*(name for name, _ in STAGES), "fuse"]
    text = passes_text(graph_of((3, 5), (5, 4)), Usage(options=(("skip", frozenset({"layout"})),)))
    cse = text[text.index("\ncse ") : text.index("\nhoist_scan")]
    assert re.search(r"\d+ equations  common subexpressions", cse)
    assert re.search(r"1 dot", cse)
    assert re.search(r"layout +skipped", text)


def test_rules_that_fired_most_come_first() -> None:
    def f(x: Any) -> Any:
        return x.reshape(6).reshape(2, 3).reshape(3, 2).reshape(6) * 1.0 + 0.0 - 0.0

    groups = re.split(r"\n(?=\S)", passes_text(tb.make_graph(f)(tb.ones((2, 3)))))
    counts = [[int(n) for n in re.findall(r"^ {24} *(\d+) ", group, re.MULTILINE)] for group in groups]
    assert any(len(set(each)) > 1 for each in counts)  # else no order could be seen
    assert all(each == sorted(each, reverse=True) for each in counts)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"emit": "wasm"}, "there is no level 'wasm'\n  expected: one of graph, program"),
        ({"emit": "cse"}, "there is no level 'cse'\n  expected: one of graph, program"),
        ({"emit": "fuse"}, "there is no level 'fuse'\n  expected: one of graph, program"),
        ({"emit": "memory", "stop_after": "cse"}, "the level 'memory' after the pass 'cse'"),
        ({"stop_after": "fold"}, "there is no pass 'fold'\n  expected: one of inline"),
        ({"emit": "asm", "stop_after": "cse"}, "the level 'asm' after the pass 'cse'"),
        ({"skip": ["fuse"]}, "the pass 'fuse' cannot be left out"),
        ({"name": "resnet19"}, "a network named 'resnet19'\n  expected: one of resnet18"),
        ({"name": "gone.txt"}, "the graph cannot be read"),
        ({"batch": 0}, "a batch of 0\n  expected: at least 1"),
        ({"name": ""}, "trilobite compile without a network"),
    ],
)
def test_wrong_words_are_answered(words: dict[str, Any], message: str) -> None:
    with pytest.raises(TrilobiteError) as caught:
        commands.compile(**{"name": "mlp", **words})
    assert message in str(caught.value)
    assert isinstance(caught.value, ArgumentError | DataError)


def test_a_file_with_a_graph_is_compiled(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text(commands.compile("mlp", stop_after="tidy"), encoding="utf-8")
    assert commands.compile(str(path), emit="program").startswith("program: ")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="the graph cannot be read"):
        commands.compile(str(path))


def test_memory_is_reported_with_packed_weights_apart() -> None:
    w = tb.tensor(np.random.default_rng(0).standard_normal((96, 80)).astype(np.float32))
    f = tb.jit(lambda x: tb.tanh(tb.tanh(x @ w) @ w.T))
    x = tb.ones((64, 96))
    f(x)
    found = memory_report(f.lower(x).compile())
    assert len(found.programs) == 2
    every = found.programs[-1]
    assert every.bound <= every.peak <= every.naive
    assert found.packed >= 2 * 96 * 80 * 4
    assert found.inputs == 4 * (64 * 96 + 96 * 80)
    assert found.outputs == 4 * 64 * 96
    assert "every run: arena" in str(found)
    assert "weights in the kernels' form" in str(found)


def test_memory_of_symbolic_sizes_is_that_of_the_largest() -> None:
    n = tb.dim("n", max=512)
    f = tb.jit(lambda x: tb.softmax(x, -1) @ tb.softmax(x, 0).T, shapes=[(n, 16)])
    lowered = f.lower(tb.ones((4, 16)))
    executable = lowered.compile()
    (symbol,) = executable.main.symbols
    largest, small = memory_report(executable), memory_report(executable, {symbol: 2})
    assert largest.outputs == 4 * 512 * 512
    assert small.outputs == 4 * 2 * 2
    assert small.peak < largest.peak


def test_kernels_of_a_network(tmp_path: Path) -> None:
    shown = CliRunner().invoke(
        application(COMMANDS),
        ["kernels", "mlp", "--batch", "4", "--repeats", "2", "-o", str(tmp_path / "out")],
    )
    assert shown.exit_code == 0, shown.output
    assert "of roofline" in shown.output
    assert (tmp_path / "out" / "trace.json").is_file()


def test_the_benchmarks_are_run_where_they_are(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    ran: list[list[str]] = []

    class Done:
        returncode = 3

    monkeypatch.setattr(commands.subprocess, "run", lambda words, **_: ran.append(words) or Done())
    with pytest.raises(typer.Exit) as caught:
        commands.bench(quick=True, only="gemm")
    assert caught.value.exit_code == 3
    assert ran[0][1:6] == ["-m", "benchmarks.harness", "--quick", "--only", "gemm"]


def test_without_the_repository_bench_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(commands, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    with pytest.raises(StateError, match=r"remedy: get the repository and run make bench there"):
        commands.bench()


def test_a_pass_that_was_left_out_shows_the_graph_of_the_one_before() -> None:
    graph = graph_of((4, 3), (3, 5))
    names = [p.name for p in find("cpu").passes()]
    for before, left_out in itertools.pairwise(names):
        usage = Usage(options=(("skip", frozenset({left_out})),))
        found = level_text(graph, usage, stop_after=left_out)
        assert found == level_text(graph, usage, stop_after=before), left_out
    assert len({level_text(graph, stop_after=name) for name in names}) > 2  # else this says nothing


def test_levels_that_are_not_there_are_named_with_those_that_are() -> None:
    with pytest.raises(ArgumentError, match="there is no level 'nothing'") as error:
        level_text(graph_of((4, 3), (3, 5)), NO_USAGE, "nothing")
    expected = str(error.value).partition("one of ")[2].splitlines()[0].split(", ")
    passes = {p.name for p in find("cpu").passes()}
    assert {"graph", "program", "loops", "llvm", "asm", "memory"} <= set(expected) | {"graph"}
    assert not passes & set(expected) and "fuse" not in expected


def test_what_passes_did_is_told_with_the_most_frequent_rule_first() -> None:
    text = passes_text(graph_of((4, 3), (3, 5)))
    assert text.splitlines()[0].split()[1:] == ["equations", "recorded"]
    counts: list[int] = []
    seen = 0
    for line in text.splitlines()[1:]:
        if line.startswith(" " * 24):
            counts.append(int(line.split()[0]))
            seen += 1
        else:
            assert counts == sorted(counts, reverse=True)
            counts = []
    assert seen
    plain = passes_text()
    assert [line.split()[0] for line in plain.splitlines()] == [
        *(p.name for p in find("cpu").passes()),
        "fuse",
    ]


def test_an_executable_belongs_to_its_usage() -> None:
    graph = graph_of((4, 3), (3, 5))
    skipping = Usage(options=(("skip", frozenset({"cse"})),))
    usual, other = executable(graph, "cpu"), executable(graph, "cpu", skipping)
    assert usual is not other and executable(graph, "cpu") is usual


@pytest.mark.parametrize("target", ["cpu", "reference", "dlp:dlp-s"])
def test_values_that_are_not_those_of_the_graph_are_refused(target: str) -> None:
    made = executable(tb.make_graph(lambda x, y: x + y)(tb.ones((3, 4)), tb.ones((3, 4))), target)
    right = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(made([right, right])[0], right + right)
    for wrong in (
        [right, np.ones((2, 4), np.float32)],
        [right],
        [right, right, right],
        [right, np.ones((3, 4))],
    ):
        with pytest.raises(ShapeError):
            made(wrong)
