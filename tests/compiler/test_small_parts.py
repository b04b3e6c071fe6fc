"""Small parts of the compiler: names of targets, levels of text, plans of memory, room of profiles."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError, IRError, TrilobiteError
from trilobite.compiler.program.memory import Interval, _best_fit, pack
from trilobite.compiler.program.plan import _nested
from trilobite.compiler.program.program import round_of
from trilobite.compiler.targets import registry
from trilobite.compiler.targets.cpu.tools import profiling
from trilobite.compiler.targets.reference import reference
from trilobite.compiler.targets.registry import executable, families, find, register
from trilobite.compiler.tools.levels import level_text
from trilobite.compiler.tools.profiling import profile


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_known", {})
    monkeypatch.setattr(registry, "_families", {})


def target(name: str) -> Any:
    made: Any = copy.copy(reference(""))
    made.name = name
    return made


# -- names ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("empty")
def test_targets_by_name_are_the_same_object() -> None:
    assert find("reference") is find("reference") and find("cpu") is find("cpu")
    assert find("dlp:dlp-s") is find("dlp:dlp-s") and find("dlp:dlp-s").name == "dlp:dlp-s"


@pytest.mark.usefixtures("empty")
def test_a_target_that_was_given_is_found_by_its_name() -> None:
    mine = target("mine")
    assert find(mine) is mine and find("mine") is mine
    assert find(target("mine")) is mine  # the first of a name stays
    with pytest.raises(DeviceError, match="there is no target 'yours'"):
        find("yours")


@pytest.mark.usefixtures("empty")
def test_a_family_is_asked_for_every_argument() -> None:
    """What stands behind a colon may be a file that has changed."""
    asked: list[Any] = []

    def factory(argument: Any) -> Any:
        asked.append(argument)
        return target(f"toy:{argument}")

    register("toy", factory)
    first = find("toy:a")
    assert find("toy:a") is first and asked == ["a", "a"] and find("toy:b") is not first
    assert "toy" in families() and {"cpu", "reference", "dlp"} <= set(families())
    assert list(families()) == sorted(families())
    register("toy", factory)
    assert find("toy:a") is not first  # made anew by whoever came last


@pytest.mark.usefixtures("empty")
def test_a_target_of_a_package_that_is_not_here_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever names a place: the built-in table, or the entry point of another package."""
    ghosts = {"ghost": "no_such_package:make", "deep": "no_such_package.below:make", "part": "json.none:make"}
    monkeypatch.setattr(registry, "_places", lambda: ghosts | {"mine": "json:loads"})
    monkeypatch.setitem(registry._BUILT_IN, "built", "no_such_package.within:make")
    assert "mine" in families() and not {*ghosts, "built"} & set(families())
    for name in (*ghosts, "built"):
        for wanted in (name, f"{name}:argument"):
            with pytest.raises(DeviceError, match=f"there is no target '{wanted}'") as error:
                find(wanted)
            assert str(error.value).count(", mine") == 1 and name not in str(error.value).split("one of ")[1]


# -- texts ---------------------------------------------------------------------------------------------------


def small(x: Any, w: Any) -> Any:
    return tb.tanh(x @ w).sum()


def lowered() -> Any:
    return tb.jit(small).lower(tb.ones((4, 5)), tb.ones((5, 3)))


def test_levels_belong_to_the_whole_way() -> None:
    graph = lowered().graph
    passes = [p.name for p in find("cpu").passes()]
    assert level_text(graph, stop_after=passes[0]) and level_text(graph, emit="memory")
    for emit in ("memory", *find("cpu").exports):
        assert level_text(graph, emit=emit)
        assert level_text(graph, emit=emit, stop_after="fuse")
        with pytest.raises(ArgumentError, match=f"the level '{emit}' after the pass"):
            level_text(graph, emit=emit, stop_after=passes[0])
    with pytest.raises(ArgumentError, match="there is no level 'nothing'"):
        level_text(graph, emit="nothing")


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_a_call_of_an_executable_looks_at_its_values(name: str) -> None:
    made = executable(lowered().graph, name)
    x, w = np.ones((4, 5), np.float32), np.full((5, 3), 0.1, np.float32)
    np.testing.assert_allclose(made([x, w])[0], np.tanh(x @ w).sum(), rtol=1e-6)
    for wrong in ([x, w[:, :2]], [x, w.astype(np.float64)], [x[:3], w], [x]):
        with pytest.raises((TrilobiteError, ValueError)):
            made(wrong)


@pytest.mark.parametrize("repeats", [0, -3, 1])
def test_repeats_of_a_profile(repeats: int) -> None:
    given = tb.ones((4, 5)), tb.ones((5, 3))
    if repeats < 1:
        with pytest.raises(ArgumentError, match=f"a profile of {repeats} repeats"):
            profile(tb.jit(small), *given, repeats=repeats)
    else:
        assert profile(tb.jit(small), *given, repeats=repeats).repeats == 1


# -- memory --------------------------------------------------------------------------------------------------


def test_of_those_that_begin_together_the_largest_is_placed_first() -> None:
    sizes = [64, 4096, 128, 1024]
    offsets = _best_fit([Interval(0, 3, size) for size in sizes])
    order = sorted(range(4), key=lambda n: offsets[n])
    assert [sizes[n] for n in order] == sorted(sizes, reverse=True) and offsets[1] == 0


@pytest.mark.parametrize("seed", range(6))
def test_packings_do_not_overlap_and_say_how_good_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    intervals = [
        Interval(int(a), int(a + rng.integers(0, 6)), int(rng.integers(1, 5000)))
        for a in rng.integers(0, 20, 25)
    ]
    packed = pack(intervals)
    for n, (i, at) in enumerate(zip(intervals, packed.offsets, strict=True)):
        assert at % 64 == 0 and at + i.size <= packed.peak
        for j, other in list(zip(intervals, packed.offsets, strict=True))[n + 1 :]:
            apart_in_time = i.last < j.first or j.last < i.first
            assert apart_in_time or at + i.size <= other or other + j.size <= at
    steps = range(30)
    alive = [sum(-(-i.size // 64) * 64 for i in intervals if i.first <= s <= i.last) for s in steps]
    assert packed.bound == max(alive) <= packed.peak <= packed.naive
    assert packed.naive == sum(-(-i.size // 64) * 64 for i in intervals)
    assert packed.peak <= 1.35 * packed.bound


def test_one_interval_and_none() -> None:
    assert pack([]) == ((), 0, 0, 0)
    assert pack([Interval(0, 0, 1)]) == ((0,), 64, 64, 64)
    behind = pack([Interval(0, 1, 100), Interval(2, 3, 100)])
    assert behind.offsets == (0, 0) and behind.peak == 128 and behind.naive == 256
    meeting = pack([Interval(0, 2, 100), Interval(2, 3, 100)])
    assert meeting.peak == 256


# -- what runs where -----------------------------------------------------------------------------------------


def test_the_host_is_asked_only_where_the_processor_refuses() -> None:
    import trilobite.compiler.targets.dlp.target as dlp

    def whole(x: Any) -> Any:
        return tb.tanh(x) + 1

    made = tb.jit(whole, target="dlp:dlp-s", options={"host": True}).lower(tb.ones(8)).compile()
    assert isinstance(made, dlp.Processed)
    np.testing.assert_allclose(made([np.ones(8, np.float32)])[0], np.tanh(1.0) + 1, rtol=1e-3)


# -- profiles ------------------------------------------------------------------------------------------------


class Timed:
    """A table that notes as many events as it was given room for."""

    def __init__(self, runs: int) -> None:
        self.runs, self.room = runs, 0

    def time(self, room: int) -> None:
        self.room = room

    def events(self) -> Any:
        return np.asarray([[0, 10, 15]] * min(self.runs, self.room), np.int64).reshape(-1, 3)


@pytest.mark.parametrize("runs", [0, 1, 5, 200])
def test_room_grows_until_all_kernels_are_noted(runs: int) -> None:
    runner: Any = SimpleNamespace(program=SimpleNamespace(steps=()), steps=(1,), table=Timed(runs))
    watch = profiling._Watch(runner)
    assert watch.room == 1
    profiling._make_room([watch], lambda: None)
    assert runs < watch.room <= max(4 * runs, 1) and not watch.is_full
    events = watch.take()
    assert len(events) == runs and watch.count[0] == runs
    assert watch.least[0] == (5 * runs if runs else np.iinfo(np.int64).max)
    watch.stop()
    assert runner.table.room == 0


def test_a_call_of_too_many_kernels_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "_MOST", 16)
    runner: Any = SimpleNamespace(program=SimpleNamespace(steps=()), steps=(1,), table=Timed(16))
    with pytest.raises(ArgumentError, match="a profile of a call that runs 16 kernels or more"):
        profiling._make_room([profiling._Watch(runner)], lambda: None)
    runner.table = Timed(15)
    watch = profiling._Watch(runner)
    profiling._make_room([watch], lambda: None)
    assert watch.room == 16


def test_control_flow_needs_a_kernel_that_copies() -> None:
    region = SimpleNamespace(equations=(SimpleNamespace(primitive=SimpleNamespace(name="while")),))
    e: Any = SimpleNamespace(attributes={"region": region}, location="here")
    plan: Any = None
    with pytest.raises(IRError, match="planned without a kernel that copies"):
        _nested(e, plan, {}, None)


# -- rounds of loops -----------------------------------------------------------------------------------------


def rounds_of(*loops: tuple[int, int, bool]) -> float:
    """The longest round of a program with these loops: elements, operations on each, and whether the end is
    open."""

    def one(size: int, count: int, is_open: bool) -> tb.Tensor:
        def body(v: tb.Tensor) -> tb.Tensor:
            for k in range(count):
                v = tb.sort(v * 0.5 + k)
            return v

        start = tb.ones((size,))
        if is_open:
            return tb.while_loop(lambda v: tb.max(v) > 1.0, body, start)
        return tb.scan(lambda c, _: (body(c), None), start, tb.zeros((5,)))[0]

    def f(x: tb.Tensor) -> Any:
        return [one(*loop) + x for loop in loops]

    return round_of(tb.jit(f).lower(tb.tensor(0.0)).compile().main.program({}).steps)


def test_the_longest_round_of_all_loops_counts() -> None:
    """After how many rounds somebody looks whether to stop follows from it: by the longest, not any."""
    short, long, wide = (10, 1, True), (10, 4, True), (4000, 2, False)
    each = [rounds_of(loop) for loop in (short, long, wide)]
    assert 0 < each[0] < each[1] < each[2]
    for some in ((0, 1), (1, 0), (0, 2), (2, 1), (1, 2, 0)):
        assert rounds_of(*((short, long, wide)[n] for n in some)) == max(each[n] for n in some)
    assert round_of(tb.jit(lambda x: tb.sort(x)).lower(tb.ones(9)).compile().main.program({}).steps) == 0
