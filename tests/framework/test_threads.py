"""Threads that call one compiled function: no update of state is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.cpu.target import Executable
from trilobite.framework.turns import ALWAYS, turn_of
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

    def slowly(self: Executable, values: Any) -> bool:
        state.copy_(tb.full((5,), 7.0))  # as another thread may
        return compiled(self, values)

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


def test_locks_are_taken_in_one_order() -> None:
    a, b, c = (Cell(np.zeros(1)) for _ in range(3))
    first, second = turn_of([a]), turn_of([b, c])
    forward, backward = turn_of([a, c]), turn_of([b, a])
    assert turn_of([a]) is first and turn_of([c]) is second
    assert forward.locks == backward.locks == (first, second)
    with forward, backward:
        pass
    assert turn_of([]) is ALWAYS
