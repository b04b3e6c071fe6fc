"""Signals during long native runs: they end at once, and what the caller holds stays whole."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.native.kernels import ADD
from trilobite.base import pytree
from trilobite.native import driver, interruptible
from trilobite.native.cache import Kernels, kernels
from trilobite.native.driver import Call, Host, Table
from trilobite.native.pool import pool

LONG = 1e12  # of operations: such a run can be interrupted
# waits until a[0] is not 0
WAIT = """define void @entry(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
start:
  %at = load ptr, ptr %args
  br label %look
look:
  %flag = load atomic i64, ptr %at monotonic, align 8
  %closed = icmp eq i64 %flag, 0
  br i1 %closed, label %look, label %through
through:
  ret void
}
"""


class Rung(Exception):
    """What the signal's handler raises."""


@pytest.fixture(scope="module")
def code() -> Kernels:
    return kernels([(text, 0) for text in (WAIT, ADD)])


@pytest.fixture(autouse=True)
def _nothing_postponed() -> Iterator[None]:
    yield
    assert not interruptible.postponed


@contextmanager
def ringing(after: float) -> Iterator[tuple[threading.Event, list[float]]]:
    """Raises `Rung` in the main thread so many seconds after the event was set; gives the time at which it
    rang.
    """
    times: list[float] = []

    def ring(*_: object) -> None:
        times.append(time.perf_counter())
        raise Rung

    before = signal.signal(signal.SIGUSR1, ring)
    begun = threading.Event()

    def wait_and_ring() -> None:
        begun.wait()
        time.sleep(after)
        os.kill(os.getpid(), signal.SIGUSR1)

    bell = threading.Thread(target=wait_and_ring)
    bell.start()
    try:
        yield begun, times
    finally:
        bell.join()
        signal.signal(signal.SIGUSR1, before)


def interrupted(run: Callable[[], object], after: float) -> float | None:
    """Seconds from the signal's handler to its exception; None if it came too late."""
    with ringing(after) as (begun, times):
        try:
            begun.set()
            run()
            ended = True
            while not times:
                time.sleep(0.001)
        except Rung:
            return None if "ended" in locals() else time.perf_counter() - times[0]
    return None


def waiting(code: Kernels, gate: Any, *more: Any, **facts: Any) -> Table:
    """A table that waits for the gate, then adds x to y."""
    x, y = np.array([5]), np.zeros(1, np.int64)
    words = [gate.ctypes.data, x.ctypes.data, y.ctypes.data]
    rows = [*more, Call(code.addresses[0], 0, 1, serial=True), Call(code.addresses[1], 1, 1, **facts)]
    table = Table(rows, words, alive=(code, gate, x, y), work=LONG)
    table.result = y  # type: ignore[attr-defined]
    return table


def test_a_kernel_that_does_not_end_is_left_behind(code: Kernels) -> None:
    gate = np.zeros(1, np.int64)
    table = waiting(code, gate)
    took = interrupted(table.run, 0.05)
    assert took is not None and took < 0.5
    assert table.is_left_behind
    gate[0] = 1
    while table.header[0]:
        time.sleep(0.001)
    assert table.result[0] == 0  # type: ignore[attr-defined]  # what came behind was not begun
    table.run()
    assert table.result[0] == 5  # type: ignore[attr-defined]


def test_what_overwrites_is_brought_to_its_end(code: Kernels) -> None:
    """The signal comes while the second row waits; the first has overwritten something."""
    gate, x, y = np.zeros(1, np.int64), np.array([5]), np.zeros(1, np.int64)
    words = [gate.ctypes.data, x.ctypes.data, y.ctypes.data]
    rows = [
        Call(code.addresses[1], 1, 1, overwrites=True),
        Call(code.addresses[0], 0, 1, serial=True),
        Call(code.addresses[1], 1, 1, overwrites=True),
    ]
    table = Table(rows, words, alive=(code, gate, x, y), work=LONG)
    opener = threading.Timer(0.3, lambda: gate.__setitem__(0, 1))
    opener.start()
    with ringing(0.05) as (begun, times):
        begun.set()
        table.run()
    assert times and gate[0] == 1 and y[0] == 10 and not table.is_left_behind
    assert [type(e) for e in interruptible.postponed] == [Rung]
    interruptible.postponed.clear()
    opener.join()
    table.run()
    assert y[0] == 20


def test_python_on_the_way_is_called_by_the_main_thread(code: Kernels) -> None:
    seen: list[int] = []
    gate = np.ones(1, np.int64)
    table = waiting(code, gate, Host(lambda: seen.append(threading.get_ident())))
    table.run()
    table.run()
    assert seen == [threading.main_thread().ident] * 2
    assert table.result[0] == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_python_on_the_way_raises_the_run_raises(code: Kernels, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error("on purpose")

    table = waiting(code, np.ones(1, np.int64), Host(fail))
    with pytest.raises(error, match="on purpose"):
        table.run()
    assert table.result[0] == 0 and not table.is_left_behind  # type: ignore[attr-defined]


def test_a_signal_while_python_is_called(code: Kernels) -> None:
    table = waiting(code, np.ones(1, np.int64), Host(lambda: time.sleep(5)))
    took = interrupted(table.run, 0.05)
    assert took is not None and took < 0.5
    assert table.result[0] == 0  # type: ignore[attr-defined]


def test_a_handler_that_runs_programs_and_raises_nothing(code: Kernels) -> None:
    gate = np.zeros(1, np.int64)
    table, inner = waiting(code, gate), waiting(code, np.ones(1, np.int64))

    def open_it(*_: object) -> None:
        inner.run()
        gate[0] = 1

    before = signal.signal(signal.SIGUSR1, open_it)
    bell = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    bell.start()
    try:
        table.run()
    finally:
        bell.join()
        signal.signal(signal.SIGUSR1, before)
    assert table.result[0] == inner.result[0] == 5  # type: ignore[attr-defined]


def test_other_threads_run_as_ever(code: Kernels) -> None:
    table = waiting(code, np.ones(1, np.int64))
    thread = threading.Thread(target=table.run)
    thread.start()
    thread.join(10)
    assert table.result[0] == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_many_pieces_give_all_units(threads: int) -> None:
    code = kernels([(ADD, 0)])
    before = pool().threads
    tb.set_num_threads(threads)
    try:
        for units in (1, 2, 127, 128, 129, 1000, 4099):
            x, y = np.arange(units), np.zeros(units, np.int64)
            Table(
                [Call(code.addresses[0], 0, units)],
                [x.ctypes.data, y.ctypes.data],
                alive=(code, x, y),
                work=LONG,
            ).run()
            np.testing.assert_array_equal(y, x)
    finally:
        tb.set_num_threads(before)


# -- the framework -------------------------------------------------------------------------------------------


def _normal(*shape: int, seed: int = 0) -> tb.Tensor:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.long
def test_an_eager_product_ends_at_once() -> None:
    x = _normal(4000, 4000)
    took = interrupted(lambda: x @ x, 0.3)
    assert took is not None and took < 0.5
    y = x[:50] @ x
    np.testing.assert_allclose(y.numpy(), x[:50].numpy() @ x.numpy(), rtol=1e-4, atol=1e-2)


class Training:
    """A step whose weights and momenta are overwritten where they are."""

    def __init__(self, width: int) -> None:
        layers = [_normal(width, width, seed=i) / width**0.5 for i in range(4)]
        self.layers = [tb.nn.Parameter(w) for w in layers]
        self.optimiser = tb.optim.SGD(self.layers, lr=0.05, momentum=0.9)
        self.x = _normal(width - 100, width, seed=9)
        self.step = tb.jit(self._step)

    def _step(self, x: tb.Tensor) -> tb.Tensor:
        y = x
        for w in self.layers:
            y = tb.tanh(y @ w)
        loss = ((y - x) ** 2).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss

    def state(self) -> bytes:
        momenta = self.optimiser.state_dict()["state"]
        weights = [w.detach() for w in self.layers]
        return b"".join(np.asarray(a).tobytes() for a in (*weights, *pytree.flatten(momenta)[0]))


def test_weights_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on another thread holds no array when it is over: nothing has to be copied for the next."""
    monkeypatch.setattr(driver, "_WORK", 1.0)
    training = Training(200)
    for _ in range(4):
        training.step(training.x)
    before = [w.detach().numpy().ctypes.data for w in training.layers]
    for _ in range(20):
        training.step(training.x)
        assert [w.detach().numpy().ctypes.data for w in training.layers] == before


@pytest.mark.parametrize("grads_held", [False, True])
@pytest.mark.parametrize(("width", "times"), [(500, 4), pytest.param(700, 24, marks=pytest.mark.long)])
def test_a_step_happens_wholly_or_not_at_all(
    grads_held: bool, width: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_WORK", 1.0)  # small steps, too
    plain, disturbed = Training(width), Training(width)
    for t in (plain, disturbed):
        t.step(t.x)
    states = [plain.state()]
    start = time.perf_counter()
    for _ in range(times + 1):
        plain.step(plain.x)
        states.append(plain.state())
    each = (time.perf_counter() - start) / (times + 1)
    at, ended = 0, 0
    for i in range(times):
        kept = [w.grad for w in disturbed.layers] if grads_held else []
        took = interrupted(lambda: disturbed.step(disturbed.x), each * (i + 0.5) / times)
        ended += took is not None
        now = disturbed.state()
        assert now in (states[at], states[at + 1])
        at += now == states[at + 1]
        del kept
    disturbed.step(disturbed.x)
    assert disturbed.state() == states[at + 1]
    assert ended, "signals must fall into steps, or this proves nothing"
