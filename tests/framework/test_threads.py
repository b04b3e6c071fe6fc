"""Threads that call compiled functions: no update of state is lost, and nobody waits in a circle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.cpu.target import Executable
from trilobite.framework.state_locks import StateLock
from trilobite.ir.transforms.cells import Cell


def at_once(work: Callable[[], None], threads: int = 4) -> None:
    """All threads begin together; what one of them raises is raised here."""
    start, raised = threading.Barrier(threads), []

    def run() -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            raised.append(error)

    started = [threading.Thread(target=run) for _ in range(threads)]
    for t in started:
        t.start()
    for t in started:
        t.join()
    if raised:
        raise raised[0]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_no_update_is_lost(target: str) -> None:
    count, x = tb.zeros((40, 30)), tb.tensor(np.arange(1200, dtype=np.float32).reshape(40, 30))
    add = tb.jit(lambda x: count.add_(x).sum(), target=target)

    def work() -> None:
        for _ in range(60):
            add(x)

    at_once(work)
    np.testing.assert_array_equal(count.numpy(), x.numpy() * 240)


def test_every_step_of_a_training_loop_counts() -> None:
    net = tb.nn.Linear(3, 2)
    optimizer = tb.optim.SGD(net.parameters(), lr=0.5)

    @tb.jit
    def step(x: Any) -> Any:
        loss = net(x).sum()  # a gradient that does not depend on the weights: order does not matter
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    x = tb.tensor(np.array([[1.0, -2.0, 4.0]], np.float32))
    want = net.weight.detach().numpy() - 0.5 * 80 * x.numpy()
    at_once(lambda: [step(x) for _ in range(20)] and None)
    np.testing.assert_allclose(net.weight.detach().numpy(), want, rtol=1e-5)


def test_what_is_written_while_a_function_compiles_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    state = tb.zeros((5,))
    compiled = Executable.prepare

    def slowly(self: Executable, values: Any, owners: Any) -> None:
        state.copy_(tb.full((5,), 7.0))  # as another thread may
        compiled(self, values, owners)

    monkeypatch.setattr(Executable, "prepare", slowly)
    tb.jit(lambda: state.add_(1.0), target="cpu")()
    assert state.numpy().tolist() == [8.0] * 5


def test_a_function_may_call_itself() -> None:
    def body(x: Any, n: int) -> Any:
        return x if n == 0 else f(x * 2.0, n - 1)

    f = tb.jit(body, static_argnums=(1,))
    assert f(tb.tensor(1.5), 3).item() == 12.0


def test_functions_that_write_the_same_state_take_turns() -> None:
    both, mine = tb.zeros((300, 200)), tb.zeros((300, 200))
    x = tb.tensor(np.ones((300, 200), np.float32))
    adds = [tb.jit(partial(lambda k, x: both.add_(x * k).sum(), k)) for k in (1.0, 2.0)]
    moves = tb.jit(lambda x: (mine.add_(x), both.add_(mine * 0 + 4.0 * x))[1].sum())
    alone = tb.jit(lambda x: mine.add_(x).sum())
    work = [*adds, moves, alone]
    for f in work:
        f(x)
    at = iter(work * 2)

    def run() -> None:
        f = next(at)
        for _ in range(40):
            f(x)

    at_once(run, threads=8)
    assert (both.numpy() == 7.0 * 81).all() and (mine.numpy() == 2 * 81).all()


def test_what_is_written_together_is_one_group_and_who_needs_two_waits_for_all() -> None:
    a, b, c, unwritten = (Cell(np.zeros(1)) for _ in range(4))
    first, second, reader, free = (
        StateLock([], [a]),
        StateLock([], [b, c]),
        StateLock([a], []),
        StateLock([unwritten], []),
    )
    assert reader.now() is first.now() is not second.now() is StateLock([c], []).now()
    assert free.now() is free.now() is not StateLock([unwritten], []).now()
    for several in (StateLock([a], [c]), StateLock([a, b], []), StateLock([unwritten], [], comes_back=True)):
        assert {first.now(), second.now()} <= set(several.now().locks)
        with several.now(), reader.now(), several.now():
            pass
    alone = free.now()
    StateLock([], [unwritten])
    assert free.now() is not alone  # others may see it half-written now


def test_gradients_are_state() -> None:
    leaf = tb.zeros((3,), requires_grad=True)._cell.leaf
    assert StateLock([], [leaf]).now() is StateLock([leaf], []).now()


def test_who_reads_sees_no_half_written_state() -> None:
    state = tb.zeros((1000, 1000))
    write, read = tb.jit(lambda: state.add_(1.0).max()), tb.jit(lambda: state.max() - state.min())
    read(), write()
    done = threading.Event()
    spread: list[float] = []

    def writes() -> None:
        for _ in range(15):
            write()
        done.set()

    def reads() -> None:
        while not done.is_set():
            spread.append(read().item())

    work = iter((writes, reads))
    at_once(lambda: next(work)(), threads=2)
    assert set(spread) <= {0.0} and state.numpy().max() == 16.0


# -- callbacks ---------------------------------------------------------------------------------------------


def ended(*work: Callable[[], object]) -> bool:
    """Do threads that do this end?"""
    started = [threading.Thread(target=w, daemon=True) for w in work]
    for t in started:
        t.start()
    for t in started:
        t.join(100)
    return not any(t.is_alive() for t in started)


def test_a_callback_may_call_what_another_thread_waits_in() -> None:
    """One thread is in `outer` and calls `inner`, the other in `inner` waits until `outer` is done."""
    mine, both = tb.zeros(()), tb.zeros(())
    inside, x = threading.Event(), tb.tensor(1.0)
    inner = tb.jit(lambda x: both.add_(x) * 1.0)
    moves = tb.jit(lambda x: mine.add_(both.add_(x)))

    def call(_: Any) -> None:
        inside.set()
        inside_too.wait(60)
        inner(x)

    inside_too = threading.Event()
    outer = tb.jit(lambda x: (mine.add_(x), tb.debug.callback(call, None, x))[0] * 1.0)
    inner(x), moves(x)

    def other() -> None:
        inside.wait(60)
        inside_too.set()
        inner(x), moves(x)

    assert ended(lambda: outer(x), other)
    assert both.item() == 5.0


def test_two_callbacks_that_call_each_others_functions_do_not_wait_for_each_other() -> None:
    states = [tb.zeros(()) for _ in range(2)]
    x, met = tb.tensor(1.0), threading.Barrier(2)
    plain = [tb.jit(partial(lambda k, x: states[k].add_(x) * 1.0, k)) for k in range(2)]

    def crossed(k: int, _: Any) -> None:
        with suppress(threading.BrokenBarrierError):
            met.wait(0.3)  # both are here, or the other waits for this one
        plain[1 - k](x)

    calls = [
        tb.jit(partial(lambda k, x: (states[k] * x, tb.debug.callback(partial(crossed, k), None, x))[0], k))
        for k in range(2)
    ]
    assert ended(*(partial(f, x) for f in calls))
    assert [s.item() for s in states] == [1.0, 1.0]


def test_functions_without_state_do_not_wait_for_a_callback() -> None:
    """Each call of the second thread ends while the first is still in its callback."""
    inside, done, x = threading.Event(), threading.Event(), tb.tensor(3.0)

    def wait(value: Any) -> Any:
        if value == 3.0:
            inside.set()
            assert done.wait(60)
        return value

    f = tb.jit(lambda x: tb.debug.callback(wait, tb.tensor(0.0), x) * 2.0)
    got: list[float] = []

    def other() -> None:
        inside.wait(60)
        got.extend(f(tb.tensor(float(k))).item() for k in range(3))
        done.set()

    assert ended(lambda: got.append(f(x).item()), other)
    assert got == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_callback_that_writes_the_callers_state_is_refused(target: str) -> None:
    state = tb.zeros(())
    step = tb.jit(lambda x: (state.add_(x), tb.debug.callback(write, None, x))[0] * 1.0, target=target)

    def write(value: Any) -> None:
        state.copy_(tb.tensor(10.0))

    for _ in range(2):
        with pytest.raises(tb.errors.StateError, match="a callback in <lambda> has written state that"):
            step(tb.tensor(1.0))
        assert state.item() == 10.0
