"""Levels of a compilation as text: which text stands for which request, and what is refused.

Each text is compared with what the executable itself keeps for that level.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.compiler.targets.contract import NO_USAGE, Executable, Target, Usage
from trilobite.compiler.targets.registry import executable, find
from trilobite.compiler.tools.levels import FUSE, level_text, passes_text
from trilobite.compiler.tools.profiling import profile
from trilobite.ir.text import show


def recorded() -> Any:
    def f(x: Any, y: Any) -> Any:
        return tb.sum((x @ y) * 2.0 * 3.0 + 0.0 * x, axis=0)

    return tb.make_graph(f)(tb.ones((8, 8)), tb.ones((8, 8)))


NAMES = [p.name for p in find("cpu").passes()]


def test_each_pass_has_its_graph() -> None:
    graph = recorded()
    made = executable(graph, "cpu")
    done = made.compilation
    assert done is not None and len(NAMES) > 5
    for name in NAMES:
        assert level_text(graph, stop_after=name) == show(done.stages[name])
    assert len({level_text(graph, stop_after=name) for name in NAMES}) > 3
    fused = made.stages[FUSE]
    assert level_text(graph) == level_text(graph, stop_after=FUSE) == level_text(graph, emit="graph") == fused
    assert fused != show(done.stages[NAMES[-1]])


@pytest.mark.parametrize("at", [1, 3, -1])
def test_a_pass_that_was_left_out_shows_the_graph_before_it(at: int) -> None:
    graph, name = recorded(), NAMES[at]
    usage = Usage(options=(("skip", frozenset({name})),))
    made = executable(graph, "cpu", usage)
    done = made.compilation
    assert done is not None and name not in done.stages
    before = NAMES[at - 1]
    assert level_text(graph, usage, stop_after=name) == show(done.stages[before])
    text = passes_text(graph, usage).splitlines()
    assert [line for line in text if line.split()[:1] == [name]] == [f"{name:<16} {'skipped':>6}"]


def test_levels_below_the_graph() -> None:
    graph = recorded()
    made = executable(graph, "cpu")
    exports = find("cpu").exports
    levels = [name for name in made.stages if name not in {*NAMES, FUSE}]
    lower = [level for level in levels if level != "graph"]
    for level in lower:
        assert level_text(graph, emit=level) == made.stages[level]
        assert level_text(graph, emit=level, stop_after=FUSE) == made.stages[level]
    assert level_text(graph, emit="memory") == str(made.memory())
    assert exports and lower
    for form in exports:
        assert level_text(graph, emit=form) == find("cpu").export(graph, NO_USAGE, form)
    for level in (*lower, "memory", *exports):
        with pytest.raises(ArgumentError, match=f"the level '{level}' after the pass '{NAMES[0]}'"):
            level_text(graph, emit=level, stop_after=NAMES[0])
    expected = ", ".join([*levels, "memory", *exports])
    with pytest.raises(ArgumentError, match=f"there is no level 'llvmm'[\\s\\S]*one of {expected}\n?"):
        level_text(graph, emit="llvmm")


@pytest.mark.parametrize(("skip", "stop", "wrong"), [
    (("magic",), "", "magic"), ((), "spell", "spell"), (("zz", "magic"), "spell", "magic"),
    ((NAMES[0],), "spell", "spell"),
])  # fmt: skip
def test_passes_that_are_not_there(skip: tuple[str, ...], stop: str, wrong: str) -> None:
    usage = Usage(options=(("skip", frozenset(skip)),))
    with pytest.raises(
        ArgumentError, match=f"there is no pass '{wrong}'[\\s\\S]*{NAMES[0]}[\\s\\S]*, {FUSE}"
    ):
        level_text(recorded(), usage, stop_after=stop)
    with pytest.raises(ArgumentError, match=f"the pass '{FUSE}' cannot be left out"):
        level_text(recorded(), Usage(options=(("skip", frozenset({FUSE})),)))


def test_a_target_without_passes() -> None:
    graph = recorded()
    assert level_text(graph, target="reference") == show(graph)
    assert level_text(graph, target="reference", stop_after=FUSE) == show(graph)
    with pytest.raises(ArgumentError, match=r"there is no pass 'fold'[\s\S]*one of fuse"):
        level_text(graph, target="reference", stop_after="fold")
    assert passes_text(target="reference").splitlines() == [
        f"{FUSE:<16} groups of equations that become one kernel, or a few"
    ]
    assert passes_text(graph, target="reference") == f"{'':<16} {len(graph):6} equations recorded"


def test_passes_with_what_fired() -> None:
    graph = recorded()
    made = executable(graph, "cpu")
    done = made.compilation
    assert done is not None and made.fusions is not None
    lines = passes_text(graph).splitlines()
    assert lines[0] == f"{'':<16} {len(graph):6} equations recorded"
    assert lines[-1].split()[:2] == [FUSE, str(made.fusions)]
    fired: dict[str, dict[str, int]] = {}
    for line in lines[1:-1]:
        head, *rest = line.split()
        if line[0] != " ":
            now = head
            fired[now] = {}
            assert rest[:2] == [str(len(done.stages[now])), "equations"]
        else:
            fired[now][" ".join(rest)] = int(head)
    assert fired == {name: dict(done.counters[name]) for name in NAMES}
    for counts in fired.values():
        keys = [(-count, rule) for rule, count in counts.items()]
        assert keys == sorted(keys)
    assert [line.split()[0] for line in passes_text().splitlines()] == [*NAMES, FUSE]


class Silent(Executable):
    def __init__(self) -> None:
        self.graph, self.target, self.seen = recorded(), "silent", []

    def run(self, values: list[Any], old: list[Any], held: int) -> list[Any]:
        self.seen.append((values, old, held))
        return values


class Quiet(Target):
    name = "quiet"

    def lower(self, graph: Any, usage: Usage) -> Any:
        return graph

    def load(self, lowered: Any) -> Executable:
        return Silent()


def test_what_a_target_need_not_answer() -> None:
    made, target = Silent(), Quiet()
    assert made.compilation is None and made.last_run is None and dict(made.measured) == {}
    assert made.fusions is None and made.keeper is None and not made.overwrites
    assert dict(made.stages) == {"graph": str(made.graph)} and made.prepare([]) is None  # type: ignore[func-returns-value]
    assert made.explain() == [f"  {e.primitive.name:<14} {e.location}" for e in made.graph.equations]
    for what, ask in (
        ("a plan of the memory", made.memory), ("a profile", lambda: made.profile(lambda: None, 1)),
        ("a search for schedules", lambda: made.tune(1.0, print)),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=f"{what} of a function for the target 'silent'"):
            ask()
    assert (target.passes(), target.fusion(), target.facts(), target.exports) == ((), None, None, ())
    with pytest.raises(NotImplementedError, match="c"):
        target.export(made.graph, NO_USAGE, "c")
    values = (tb.ones((8, 8)).numpy(), tb.ones((8, 8)).numpy())
    made(values)
    assert made.seen == [(list(values), [], 0)]


@pytest.mark.parametrize("again", [False, True])
def test_a_profile_runs_the_function_before_it_is_measured(again: bool) -> None:
    events: list[Any] = []

    class Jitted:
        def __call__(self, *args: Any, **kwargs: Any) -> None:
            events.append(("call", args, kwargs))

        def lower(self, *args: Any, **kwargs: Any) -> Any:
            events.append(("lower", args, kwargs))
            return SimpleNamespace(compile=lambda: SimpleNamespace(profile=self.profile))

        def profile(self, call: Any, repeats: int, again: bool) -> str:
            events.append(("profile", repeats, again))
            call()
            return "found"

    given = (1, 2), {"z": 3}
    assert profile(Jitted(), 1, 2, repeats=4, again=again, z=3) == "found"
    assert events == [("call", *given), ("lower", *given), ("profile", 4, again), ("call", *given)]
    events.clear()
    profile(Jitted())
    assert events[2] == ("profile", 20, False)
    with pytest.raises(ArgumentError, match=r"a profile of 0 repeats[\s\S]*at least 1"):
        profile(Jitted(), repeats=0)
    profile(Jitted(), repeats=1)
