"""Runs the tests of one file in processes of their own: which mutants do they notice?

Enters: a file of tests, the folder with planted mutants. Leaves: for each test that passes, the mutants it
passed by and the seconds of processor time it took; for a mutant the test that failed while it was awake.
One process imports the package and collects the file; from it each trial is forked, so that all begin alike
and no trial pays for that again. What runs when a module is imported is awake from the start, in a process of
its own. A test that takes longer than the bounds say is skipped: it is no witness. Where a file takes longer
than they say, the rest of its tests are left out; a seeded order decides which.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np  # noqa: F401  what most tests import: each process then finds it there
import pytest

from tools import planted

START = 20.0  # to import and collect
WALL = 20  # times as long on the clock: others work on this machine, too
UNTOLD = ["untold", ""]
LARGEST = 6 << 30  # bytes of a process
_END_WITH_PARENT = 1  # of Linux's prctl
_NEVER_SHARED = ("programs", "mappings")  # kept under digests of the sources, which do not change here


@dataclass(frozen=True)
class Bounds:
    """Seconds of processor time of one test, of one file's tests, of those of one file that judge one mutant;
    files of others' tests that judge one mutant; the name of the file that holds what was met within them.
    """

    test: float
    file: float
    trial: float
    files: int
    kept: str


QUICK = Bounds(3.0, 8.0, 6.0, 6, "met.jsonl")
WHOLE = Bounds(60.0, 400.0, 120.0, 40, "whole.jsonl")  # nearly all that `make test` runs


@dataclass(frozen=True)
class Trial:
    """One mutant, the tests that judge it, and the seconds of processor time after which it hangs."""

    number: int
    tests: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Stage:
    """Where trials run."""

    folder: Path
    root: Path
    bounds: Bounds = QUICK

    def met(self, file: str, trials: Callable[[list[Row]], Iterable[Trial]], log: Log) -> list[Row]:
        """What each test passes by, and then the trials that follow from it."""

        def look(tests: Tests) -> object:
            found = tests.recorded(self.folder, self.bounds, tests.items)
            self._try(tests, file, trials(found), log)
            return found

        found = self.collected([file], look) or []
        return [row for row in found if isinstance(row, dict)]  # where it is not collected: a verdict

    def judged(self, file: str, trials: Iterable[Trial], log: Log) -> None:
        """Trials of one file whose tests are known."""
        self.collected([file], lambda tests: self._try(tests, file, trials, log))

    def _try(self, tests: Tests, file: str, trials: Iterable[Trial], log: Log) -> None:
        for trial in trials:
            work = partial(tests.tried, trial, asleep=True)
            log(trial, *_verdict(_forked(work, self.folder, trial.seconds), file))

    def judged_from_the_start(self, file: str, trial: Trial, log: Log) -> None:
        """A mutant that is awake while the package is imported."""
        limit = START + trial.seconds
        work = partial(self._session, [file], lambda tests: tests.tried(trial, asleep=False), trial.number)
        log(trial, *_verdict(_forked(work, self.folder, limit), file))

    def judged_by_defaults(self, file: str, modules: Mapping[int, str], log: Log) -> None:
        """Mutants in what runs when their modules are imported: does the test of defaults and constants tell
        of them? It is asked for these modules alone, in forks of a process that has imported all; of those
        that cannot be executed twice nothing is said.
        """

        def judge() -> None:
            os.environ["TRILOBITE_CACHE"] = str(self.folder / f"cache-{os.getppid()}")
            planted.start(self.folder)
            from tools import defaults

            for _ in defaults.modules():
                pass
            for number, name in modules.items():
                left = _forked(partial(_told, file, number, name), self.folder, START)
                if left[1] != UNTOLD:
                    log(Trial(number, (file,), START), *_verdict(left, file))

        _forked(judge, self.folder, 5 * START, WALL * 600.0)

    def collected(self, files: Sequence[str], look: Callable[[Tests], object]) -> Any:
        """What `look` leaves, from a process that has collected the files; it waits for its trials."""
        work = partial(self._session, files, look, planted.NONE)
        return _forked(work, self.folder, START * len(files), WALL * 600.0)[1]

    def _session(self, files: Sequence[str], look: Callable[[Tests], object], awake: int) -> object:
        os.chdir(self.root)
        cache = self.folder / f"cache-{os.getppid()}"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        os.environ.update(threads, TRILOBITE_CACHE=str(cache), PYTHONPATH=str(self.root))
        planted.start(self.folder, awake)
        tests = Tests(look, cache)
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line", "--no-header"]
        pytest.main([*options, *files], plugins=[tests])
        return tests.left if tests.collected else ["killed", f"{files[0]} (collection)"]


Log = Callable[[Trial, str, str], None]
Row = dict[str, Any]  # of a test: its name, its seconds, the numbers that it met


class Tests:
    """A plugin that gives the collected tests to somebody instead of running them one after the other."""

    __test__ = False

    def __init__(self, look: Callable[[Tests], object], cache: Path) -> None:
        self.look = look
        self.cache = cache
        self.items: list[pytest.Item] = []
        self.outcomes: dict[str, str] = {}
        self.left: object = None
        self.collected = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return True
        self.collected = True
        self.items = list(session.items)
        self.left = self.look(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.outcomes.get(report.nodeid, "passed") == "passed":
            self.outcomes[report.nodeid] = report.outcome

    def recorded(self, folder: Path, bounds: Bounds, items: Sequence[pytest.Item]) -> list[Row]:
        """What these tests pass by, seen in a fork."""
        work = partial(self._record, bounds, items)
        status, rows = _forked(work, folder, START + 2 * bounds.file)
        return rows if status == "ended" else []

    def _record(self, bounds: Bounds, chosen: Sequence[pytest.Item]) -> list[Row]:
        """In a fork: the tests that pass, what they pass by, and their seconds."""
        self._forget()
        planted.wake(planted.NONE)
        children = Path(os.environ[planted.FOLDER]) / f"seen-{os.getpid()}"
        items = random.Random(0).sample(chosen, len(chosen))
        began, rows = time.process_time(), []
        for item in items:
            planted.forget()
            before = time.process_time()
            with skipped_after(bounds.test):
                self._run(item)
            numbers = set(planted.seen)
            if children.exists():
                numbers |= set(map(int, children.read_text(encoding="utf-8").split()))
                children.unlink()
            if self.outcomes.get(item.nodeid) == "passed":
                seconds = time.process_time() - before
                rows.append({"test": item.nodeid, "seconds": seconds, "met": sorted(numbers)})
            if time.process_time() - began > bounds.file:
                break
        return rows

    def tried(self, trial: Trial, *, asleep: bool) -> list[str]:
        """In a fork: the verdict, and the test that noticed."""
        self._forget()
        if asleep:
            planted.wake(trial.number)
        by_name = {item.nodeid: item for item in self.items}
        for name in trial.tests:
            if name in by_name:
                self._run(by_name[name])
                if self.outcomes.get(name) == "failed":
                    return ["killed", name]
        return ["survived", ""]

    def _run(self, item: pytest.Item) -> None:
        """With all that it needs torn down behind it: the next one may be of anywhere."""
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)

    def _forget(self) -> None:
        self.outcomes.clear()
        for kind in _NEVER_SHARED:
            shutil.rmtree(self.cache / kind, ignore_errors=True)


def _told(file: str, number: int, name: str) -> list[str]:
    """The module is executed once more, first with its mutant asleep; not every module can be."""
    from tools import defaults

    def is_other() -> bool:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return bool(defaults.changed(defaults.of_module(module), defaults.kept()))

    try:
        if is_other():
            return UNTOLD
    except Exception:
        return UNTOLD
    planted.wake(number)
    return ["killed", file] if is_other() else ["survived", ""]


@contextlib.contextmanager
def skipped_after(seconds: float) -> Iterator[None]:
    """Not failed: Hypothesis would look for a smaller example of what is only slow. Nor does a test wait
    for ever, for a lock that one before it held when it was ended.
    """

    def skip(number: int, frame: object) -> None:
        raise pytest.skip.Exception("slow")

    clocks = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, WALL * seconds),
    )
    before = [signal.signal(number, skip) for number, _, _ in clocks]
    for _, clock, limit in clocks:
        signal.setitimer(clock, limit)
    try:
        yield
    finally:
        for (number, clock, _), handler in zip(clocks, before, strict=True):
            signal.setitimer(clock, 0.0)
            signal.signal(number, handler)


def _verdict(left: tuple[str, Any], file: str) -> tuple[str, str]:
    status, found = left
    if status == "ended" and found:
        return found[0], found[1]
    return status if status != "ended" else "killed", file


def _forked(work: Callable[[], object], folder: Path, seconds: float, clock: float = 0.0) -> tuple[str, Any]:
    """What the work leaves, in a process of its own; `killed` if it crashed, `timed out` if it hangs."""
    told = folder / f"told-{os.getpid()}"
    told.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _child(work, told, folder, seconds)
    status = _awaited(child, clock or WALL * seconds)
    for left in folder.glob(f"*-{child}*"):
        if left.is_file():
            left.unlink()
    if told.exists():
        return "ended", json.loads(told.read_text(encoding="utf-8"))
    return ("timed out" if status in (-signal.SIGXCPU, -signal.SIGTERM) else "killed"), None


def _child(work: Callable[[], object], told: Path, folder: Path, seconds: float) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
        limit = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        out = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(out, stream)
        left = json.dumps(work())
        told.with_suffix(".new").write_text(left, encoding="utf-8")
        told.with_suffix(".new").rename(told)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _awaited(child: int, clock: float) -> int:
    """Its status; ends it with all that it started where it waits for ever or wants all memory."""
    until = time.monotonic() + clock
    pause = 0.01
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            _end(child, signal.SIGKILL)  # what it left behind
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until or _resident(child) > LARGEST:
            _end(child, signal.SIGTERM)
            time.sleep(0.5)
            _end(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGTERM
        time.sleep(pause)
        pause = min(2 * pause, 0.3)


def _end(child: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, number)


def _resident(child: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = Path(f"/proc/{child}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * resource.getpagesize()
    return 0
