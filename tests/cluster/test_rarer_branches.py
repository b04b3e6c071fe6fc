"""Guards of runs of many ranks from both sides, and how long ranks wait for each other, by a made clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster, nn
from trilobite.base.errors import ArgumentError, ClusterError, TrilobiteError
from trilobite.base.locations import UNKNOWN
from trilobite.cluster import notices, schedules
from trilobite.cluster.gradients import buckets, flat, reduce_gradients, unflat
from trilobite.cluster.in_process import lockstep
from trilobite.cluster.launch import launch
from trilobite.cluster.meshes import Mesh
from trilobite.cluster.notices import BEAT, PATIENCE, SURE, Echo, Patience, Word
from trilobite.cluster.planning.search import kind, time_text

Case = tuple[Callable[[], Any], str, Callable[[], Any]]
HERE = __file__
BOX = Mesh((2, 3), ("data", "model"))
LINE = nn.Linear(2, 2)


def quiet(**given: Any) -> Any:
    """A launch that ends in its guards, or of a script that is not there."""
    return lambda: launch(
        **{"script": "nowhere.py", "arguments": [], "ranks": 1, "threads": 0, "patience": 1.0, **given}
    )


def reached(call: Callable[[], Any]) -> Callable[[], Any]:
    """The guard before is passed: the script is looked for."""

    def run() -> None:
        with pytest.raises(ArgumentError, match="there is no script nowhere"):
            call()

    return run


CASES: dict[str, Case] = {
    "ranks": (quiet(ranks=0), "0 ranks of 0 threads", reached(quiet(ranks=1))),
    "threads": (quiet(threads=-1), "1 ranks of -1 threads", reached(quiet(threads=0))),
    "patience": (quiet(patience=0.0), "a patience of 0.0 s", reached(quiet(patience=0.1))),
    "lockstep": (lambda: lockstep(int, 0), "a run of 0 ranks", lambda: lockstep(int, 1)),
    "mesh names": (
        lambda: cluster.mesh((1, 1), ("a",)),
        "as many names as sides",
        lambda: cluster.mesh((1,), ("a",)),
    ),
    "mesh names twice": (
        lambda: cluster.mesh((1, 1), ("a", "a")),
        "each name once",
        lambda: cluster.mesh((1, 1), ("a", "b")),
    ),
    "mesh sides": (
        lambda: cluster.mesh((0,), ("a",)),
        "sides of at least 1",
        lambda: cluster.mesh((1,), ("a",)),
    ),
    "no mesh": (lambda: cluster.mesh((), ()), "sides of at least 1", lambda: cluster.mesh((1,), ("a",))),
    "mesh ranks": (
        lambda: cluster.mesh((2,), ("a",)),
        "2 ranks in a run of 1",
        lambda: cluster.mesh((1, 1), ("a", "b")),
    ),
    "side": (lambda: BOX["rows"], "the sides ('rows',) of a mesh", lambda: BOX["data"]),
    "side twice": (lambda: BOX["data", "data"], "the sides ('data', 'data')", lambda: BOX["model", "data"]),
    "no side": (lambda: BOX[()], "the sides () of a mesh", lambda: BOX["data", "model"]),
    "gradients": (
        lambda: reduce_gradients([], op="max"),
        "gradients by 'max'",
        lambda: reduce_gradients([], op="sum"),
    ),
    "experts": (
        lambda: cluster.Experts(LINE, [LINE], capacity=0),
        "a capacity of 0",
        lambda: cluster.Experts(LINE, [LINE], capacity=0.1),
    ),
    "top": (
        lambda: cluster.Experts(LINE, [LINE], top=3),
        "experts for the top 3",
        lambda: cluster.Experts(LINE, [LINE], top=2),
    ),
    "layers": (lambda: cluster.plans(lambda n: None, 2, layers=0), "a task of 0 layers", lambda: None),
    "no layers": (lambda: cluster.plans(lambda n: None, 2), "a task of None layers", lambda: None),
    "schedule": (
        lambda: schedules.plan("2f2b", 2, 1, 2),
        "a schedule '2f2b'",
        lambda: schedules.plan("1f1b", 2, 1, 2),
    ),
    "chunks": (
        lambda: schedules.plan("1f1b", 2, 2, 2),
        "1f1b has one stage",
        lambda: schedules.plan("gpipe", 2, 2, 2),
    ),
    "rounds": (
        lambda: schedules.plan("interleaved", 2, 2, 3),
        "a multiple of the ranks",
        lambda: schedules.plan("interleaved", 2, 2, 4),
    ),
    "one chunk": (
        lambda: schedules.plan("interleaved", 0, 1, 3),
        "of 1 stages on each of 0 ranks",
        lambda: schedules.plan("interleaved", 2, 1, 3),
    ),
    "micro": (
        lambda: schedules.plan("gpipe", 2, 1, 0),
        "0 micro-batches",
        lambda: schedules.plan("gpipe", 1, 1, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_side(name: str) -> None:
    wrong, text, right = CASES[name]
    with pytest.raises(TrilobiteError) as caught:
        wrong()
    assert text in str(caught.value), str(caught.value)
    right()


def test_sides_of_a_box() -> None:
    box = Mesh((2, 3, 2), ("a", "b", "c"))
    ranks = np.arange(12).reshape(2, 3, 2)
    assert box["b"].groups == tuple(map(tuple, ranks.transpose(0, 2, 1).reshape(-1, 3).tolist()))
    assert box["c", "a"].groups == tuple(map(tuple, ranks.transpose(1, 2, 0).reshape(-1, 4).tolist()))
    assert [box.size(n) for n in "abc"] == [2, 3, 2]


@pytest.mark.parametrize("size", [1, 16, 17, 24, 31, 32, 33, 1 << 20])
def test_buckets_hold_as_much_as_fits(size: int) -> None:
    """Of one dtype, in order; one that is larger than a bucket has it alone."""
    tensors = [
        tb.zeros((n,), dtype=d) for n, d in ((4, "f4"), (2, "f4"), (1, "f8"), (3, "f8"), (9, "f4"), (1, "f4"))
    ]
    found = list(buckets(tensors, size))
    assert [id(t) for row in found for t in row] == [id(t) for t in tensors]
    for row, after in itertools.zip_longest(found, found[1:]):
        held = sum(t.size * t.dtype.itemsize for t in row)
        assert len({t.dtype for t in row}) == 1 and (held <= size or len(row) == 1)
        if after is not None:
            assert after[0].dtype != row[0].dtype or held + after[0].size * after[0].dtype.itemsize > size
    row = [tb.tensor([[1.0, 2.0]]), tb.tensor(3.0), tb.tensor([4.0])]
    assert flat(row).tolist() == [1, 2, 3, 4]
    assert [t.tolist() for t in unflat(flat(row), row)] == [[[1, 2]], 3, [4]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.0, "2 s"), (1.0, "1 s"), (0.9994, "999 ms"), (1e-3, "1 ms"), (9.99e-4, "999 µs"), (0.0, "0 µs")],
)
def test_times_as_text(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_names_without_numbers() -> None:
    assert (
        kind("layers.12.weight") == "layers.*.weight" and kind("3.bias") == "*.bias" and kind("a.7") == "a.*"
    )
    assert kind("conv1.weight") == "conv1.weight" and kind("x.1b.y") == "x.1b.y"


@pytest.mark.parametrize("kind", schedules.KINDS)
@pytest.mark.parametrize(
    ("ranks", "chunks", "micros"),
    [(1, 1, 1), (2, 1, 4), (3, 1, 5), (4, 1, 3), (2, 2, 4), (4, 2, 8), (3, 3, 6)],
)
def test_schedules_keep_the_order_of_stages(kind: str, ranks: int, chunks: int, micros: int) -> None:
    if kind == "1f1b" and chunks > 1:
        chunks = 1
    made = schedules.plan(kind, ranks, chunks, micros)
    stages = ranks * chunks
    every = {schedules.Task(b, s, m) for b in (False, True) for s in range(stages) for m in range(micros)}
    assert {t for row in made.tasks for t in row} == every and sum(map(len, made.tasks)) == len(every)
    now, done, left = [0] * ranks, {}, [list(row) for row in made.tasks]  # what was planned, run again
    while any(left):
        for r, row in enumerate(left):
            needs = [] if not row else [
                schedules.Task(False, row[0].stage - (not row[0].backward), row[0].micro),
                *([schedules.Task(True, row[0].stage + 1, row[0].micro)] if row[0].backward else []),
            ]  # fmt: skip
            needs = [n for n in needs if 0 <= n.stage < stages]
            if row and all(n in done for n in needs):
                task = row.pop(0)
                assert task.stage % ranks == r
                now[r] = max([now[r], *(done[n] for n in needs)]) + (2 if task.backward else 1)
                done[task] = now[r]
    assert made.length == max(now)
    assert made.idle == pytest.approx(1 - 3 * stages * micros / (made.length * ranks))
    for row, most in zip(made.tasks, made.kept, strict=True):
        held = list(itertools.accumulate(-1 if t.backward else 1 for t in row))
        assert most == max(held)
    if kind == "gpipe":
        assert made.kept == (chunks * micros,) * ranks
    if kind == "1f1b":
        assert made.kept == tuple(min(micros, ranks - r) for r in range(ranks))


# -- waiting -------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0  # so that differences are exact

    def monotonic(self) -> float:
        return self.now


class Silent(notices.Notices):
    """Notices without MPI: words are put into them."""

    def __init__(self, rank: int) -> None:
        self.rank, self.words, self.said = rank, {}, []

    def listen(self) -> None:
        pass

    def say(self, kind: str, number: int, missing: Any, text: str) -> None:
        self.said.append((kind, number, tuple(sorted(missing)), text))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("trilobite.cluster.notices.time.monotonic", made.monotonic)
    monkeypatch.setattr("trilobite.cluster.notices.longest", lambda: 30.0)
    return made


def waiting(missing: tuple[int, ...], heard: float, times: int = SURE) -> Word:
    return Word("waiting", 1, missing, "waits", times, heard)


def test_words_that_were_piled_up_count_as_one(clock: Clock) -> None:
    told = Silent(0)
    for step, times in ((0.0, 1), (BEAT / 2, 1), (BEAT / 2 + 0.01, 2), (0.01, 2), (BEAT, 3)):
        clock.now += step
        told._note(1, "waiting", 5, (2,), "x", clock.now)
        assert told.words[1].times == times, step
    told._note(1, "waiting", 5, (3,), "x", clock.now + BEAT)
    assert told.words[1].times == 1


def test_who_has_ended_or_waits_for_us_leaves_no_hope(clock: Clock) -> None:
    told = Silent(0)
    assert told.hopeless([1]) is None
    told.words[1] = Word("ended", 1, (), "", 1, clock.now - BEAT)
    assert told.hopeless([1]) is None
    told.words[1] = Word("ended", 1, (), "", 1, clock.now - BEAT - 0.01)
    assert told.hopeless([1]) == [1] and told.hopeless([2]) is None
    told.words[1] = waiting((0,), clock.now)
    assert told.hopeless([1]) == [1]
    told.words[1] = waiting((0,), clock.now, SURE - 1)
    assert told.hopeless([1]) is None
    told.words[1] = waiting((0,), clock.now - 3 * BEAT)
    assert told.hopeless([1]) is None
    told.words[1], told.words[2] = waiting((2,), clock.now), waiting((3, 1), clock.now)
    assert told.hopeless([1]) == [1, 2]  # a ring behind us that never comes here
    told.words[2] = waiting((3,), clock.now)
    assert told.hopeless([1]) is None
    told.words[3] = waiting((4, 0), clock.now)
    assert told.hopeless([1]) == [1, 2, 3]


def test_the_first_failure_is_told(clock: Clock) -> None:
    told = Silent(0)
    told.words = {2: Word("failed", 1, (), "two", 1, 0.0), 1: Word("waiting", 1, (), "one", 1, 0.0)}
    assert told.failed() == "rank 2 has failed: two"
    told.words[1] = Word("failed", 1, (), "one", 1, 0.0)
    assert told.failed() == "rank 1 has failed: one"
    wait = Patience(told, 4, "all_reduce", UNKNOWN)
    with pytest.raises(Echo, match=r"rank 1 has failed: one\n    rank 0: all_reduce"):
        wait._hear([1], clock.now)


def test_a_rank_says_what_it_waits_for_and_gives_up(clock: Clock) -> None:
    told = Silent(0)
    wait = Patience(told, 4, "all_reduce", UNKNOWN)
    begun = clock.now
    for after, words in (
        (PATIENCE - 0.01, 0),
        (PATIENCE, 1),
        (PATIENCE + BEAT - 0.01, 1),
        (PATIENCE + BEAT + 1e-9, 2),
    ):
        clock.now = begun + after
        wait._hear([2, 1], clock.now)
        assert len(told.said) == words, after
    assert told.said[0] == ("waiting", 4, (1, 2), "all_reduce")
    clock.now += BEAT
    wait._hear([], clock.now)
    assert len(told.said) == 2
    clock.now = begun + 30.0
    wait._hear([], clock.now)
    with pytest.raises(ClusterError, match="rank 1, 2 did not come within 30 s"):
        wait._hear([2, 1], clock.now + 0.01)
    with pytest.raises(ClusterError, match="the data did not come within 30 s"):
        wait._hear([], clock.now + 0.01)
    told.words = {1: waiting((0,), clock.now)}
    other = Patience(told, 5, "broadcast", UNKNOWN)
    clock.now += PATIENCE
    told.words = {1: waiting((0,), clock.now)}
    with pytest.raises(
        ClusterError, match=r"wait for each other.*\n    rank 0: broadcast\n    rank 1: waits"
    ):
        other._hear([1], clock.now)


def test_looks_come_less_often_than_asked(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for crowded, each in ((False, 256), (True, 16)):
        monkeypatch.setattr(notices, "CROWDED", crowded)
        rests: list[int] = []
        heard: list[float] = []
        wait = Patience(Silent(0), 1, "x", UNKNOWN, lambda rests=rests: rests.append(1))
        monkeypatch.setattr(wait, "_hear", lambda missing, now, heard=heard: heard.append(now), raising=False)
        for _ in range(each * 4):
            wait.look([1])
        assert not heard and len(rests) == (each * 4 if crowded else 0)
        clock.now += 0.021
        for _ in range(each * 4):
            wait.look([1])
        assert len(heard) == 4


@pytest.mark.parametrize("name", ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"])
def test_more_ranks_than_cores_are_a_crowd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setattr("trilobite.cluster.notices.os.cpu_count", lambda: 4)
    assert not notices.crowded()
    for said, crowd in (("4", False), ("5", True), ("x", False), ("", False)):
        monkeypatch.setenv(name, said)
        assert notices.crowded() is crowd


def test_errors_as_a_rank_shows_them() -> None:
    assert notices.shown(Echo("rank 3 has failed: x"), None) == "ended, since rank 3 has failed: x"
    assert notices.shown(ClusterError("alone"), None) == "alone"
    try:
        raise ValueError("odd")
    except ValueError as error:
        told = notices.shown(error, error.__traceback__)
    assert told.startswith("Traceback") and Path(HERE).name in told and told.endswith("ValueError: odd")
