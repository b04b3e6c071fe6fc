"""The target `cpu` inside a process: effects in order, exceptions, interrupts, threads, forks, copies,
garbage, arrays beyond 2 GiB, a thousand inputs.
"""

from __future__ import annotations

import _thread
import copy
import gc
import multiprocessing
import os
import pickle
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError


def normal(*shape: int, seed: int = 0) -> Any:
    return tb.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


# -- effects -------------------------------------------------------------------------------------------------


def test_effects_happen_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    @tb.jit
    def f(x: Any) -> Any:
        tb.debug.print("first {}", x.sum())
        y = tb.exp(x * 0.0)
        tb.debug.callback(lambda a: seen.append(a.tolist()), None, y)
        tb.debug.print("second {}", (y + 1.0).sum())
        for i in range(3):
            tb.debug.callback(lambda a, i=i: seen.append((i, a.item())), None, y.sum())
        return y

    for _ in range(2):
        f(tb.ones(4))
    assert capsys.readouterr().out == "first 4.0\nsecond 8.0\n" * 2
    assert seen == [[1.0] * 4, (0, 4.0), (1, 4.0), (2, 4.0)] * 2


def test_effects_inside_loops(capsys: pytest.CaptureFixture[str]) -> None:
    def body(c: Any, i: Any) -> Any:
        tb.debug.print("{}", i)
        return c + i, c

    tb.jit(lambda: tb.scan(body, tb.tensor(0), tb.arange(4)))()
    assert capsys.readouterr().out == "0\n1\n2\n3\n"


def test_an_exception_in_a_callback_leaves_the_function_usable() -> None:
    state, armed = tb.zeros(8), [False]

    def fail(a: Any) -> Any:
        if armed[0]:
            raise ValueError("on purpose")
        return a * 2

    @tb.jit
    def f(x: Any) -> Any:
        y = tb.debug.callback(fail, x, x + 1.0)
        state.add_(y)
        return y @ tb.ones((8, 8))

    x = tb.ones(8)
    assert f(x).tolist() == [32.0] * 8
    armed[0] = True
    for _ in range(3):
        with pytest.raises(ValueError, match="on purpose"):
            f(x)
    assert state.tolist() == [4.0] * 8
    armed[0] = False
    assert f(x).tolist() == [32.0] * 8
    assert state.tolist() == [8.0] * 8


def test_a_function_that_calls_itself_from_a_callback() -> None:
    @tb.jit
    def g(x: Any) -> Any:
        return tb.tanh(x) * 2.0

    @tb.jit
    def f(x: Any) -> Any:
        return tb.debug.callback(lambda a: g(tb.tensor(a)).numpy(), x, x * 1.0) + tb.tanh(x)

    x = normal(16)
    np.testing.assert_allclose(f(x).numpy(), 3 * np.tanh(x.numpy()), rtol=1e-6)


def test_a_function_that_its_own_callback_calls() -> None:
    depth = [0]

    def again(a: Any) -> Any:
        if depth[0] == 3:
            return a
        depth[0] += 1
        return f(tb.tensor(a)).numpy()

    @tb.jit
    def f(x: Any) -> Any:
        y = tb.tanh(x) + x.sum() * 0.1
        return tb.debug.callback(again, y, y) * 0.5 + y @ tb.ones((8, 8))

    def plain(x: Any, deep: int) -> Any:
        y = np.tanh(x) + x.sum() * np.float32(0.1)
        return (plain(y, deep + 1) if deep < 3 else y) * np.float32(0.5) + y @ np.ones((8, 8), np.float32)

    x = normal(8)
    for _ in range(2):
        depth[0] = 0
        np.testing.assert_allclose(f(x).numpy(), plain(x.numpy(), 0), rtol=1e-5)


def test_what_a_callback_raises_does_not_run_it_again() -> None:
    calls: list[int] = []

    def fail(a: Any) -> Any:
        calls.append(1)
        raise ArgumentError("not this one")

    f = tb.jit(lambda x: tb.debug.callback(fail, x, x + 1.0))
    with pytest.raises(ArgumentError, match="not this one"):
        f(tb.ones(4))
    assert calls == [1]


def test_what_a_failed_run_held_is_let_go() -> None:
    def fail(a: Any) -> Any:
        raise ValueError("on purpose")

    f = tb.jit(lambda x: tb.debug.callback(fail, x, x + 1.0))
    x = np.ones(1000, np.float32)
    gone = weakref.ref(x)
    with pytest.raises(ValueError, match="on purpose"):
        f(tb.from_numpy(x))
    del x
    gc.collect()
    assert gone() is None


# -- interrupts and threads ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_during_a_long_run() -> None:
    x = normal(64, 64)
    f = tb.jit(lambda x, n: tb.fori_loop(0, n, lambda i, c: tb.tanh(c @ x) + tb.sin(c), x))
    want = f(x, 5).numpy().copy()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    start = time.thread_time()  # not the wall's: a busy machine has no say
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        f(x, 2_000_000)
        time.sleep(60)
    timer.join()
    assert time.thread_time() - start < 5
    assert f(x, 5).numpy().tobytes() == want.tobytes()


def test_threads_with_functions_of_their_own() -> None:
    wrong: list[Any] = []

    def work(i: int) -> None:
        try:
            w = normal(70, 70, seed=i)
            f = tb.jit(lambda x: tb.tanh(x @ w).sum(-1))
            x = normal(33, 70, seed=i + 50)
            want = np.tanh(x.numpy().astype(np.float64) @ w.numpy()).sum(-1)
            near = [np.allclose(f(x).numpy(), want, rtol=1e-4, atol=1e-3) for _ in range(30)]
            wrong.extend([i] * near.count(False))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong


# -- forks ---------------------------------------------------------------------------------------------------


def _in_child(f: Any, x: Any, connection: Any) -> None:
    connection.send([f(x).numpy().tobytes(), tb.jit(lambda y: tb.exp(y) @ y)(x).numpy().tobytes()])
    connection.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_uses_what_its_parent_compiled() -> None:
    w = normal(300, 300, seed=1)
    f, x = tb.jit(lambda x: tb.tanh(x @ w)), normal(300, 300)
    want = f(x).numpy().tobytes()
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        here, there = context.Pipe()
        child = context.Process(target=_in_child, args=(f, x, there))
        child.start()
        assert here.poll(60), "the child hangs"
        got = here.recv()
        child.join(60)
        assert child.exitcode == 0
        assert got[0] == want
        assert got[1] == tb.jit(lambda y: tb.exp(y) @ y)(x).numpy().tobytes()
        assert f(x).numpy().tobytes() == want


class _Rows(tb.data.Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        return (tb.jit(lambda x: tb.exp(x) * 2.0)(tb.full((40,), float(i) / 12))).numpy()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_a_loader_compile() -> None:
    tb.jit(lambda x: x @ x)(normal(200, 200))
    rows = [np.asarray(batch) for batch in tb.data.Loader(_Rows(), batch_size=4, workers=2)]
    want = 2 * np.exp(np.repeat(np.arange(12.0)[:, None] / 12, 40, 1))
    np.testing.assert_allclose(np.concatenate(rows), want, rtol=1e-6)


# -- copies and garbage --------------------------------------------------------------------------------------


class Net(tb.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = tb.nn.Linear(6, 4)

    @tb.jit
    def forward(self, x: Any) -> Any:
        return tb.tanh(self.linear(x))


def test_copies_of_a_jitted_module_are_their_own() -> None:
    net, x = Net(), normal(3, 6)
    before = net(x).detach().numpy().copy()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other(x).detach().numpy().tobytes() == before.tobytes()
        with tb.no_grad():
            other.linear.weight.mul_(0.0)
        assert not np.array_equal(other(x).detach().numpy(), before)
        assert net(x).detach().numpy().tobytes() == before.tobytes()


def _squared(x: Any) -> Any:
    return x * x


@tb.jit
def tripled(x: Any) -> Any:
    return x * 3.0


def test_a_copy_of_a_jitted_function_records_anew() -> None:
    f, x = tb.jit(_squared), normal(5)
    f(x)
    assert pickle.loads(pickle.dumps(tripled)) is tripled
    for g in (copy.deepcopy(f), copy.copy(f), pickle.loads(pickle.dumps(f))):
        assert not g.entries
        assert g(x).numpy().tobytes() == f(x).numpy().tobytes()


def _resident() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_memory_of_functions_that_are_gone_is_freed() -> None:
    x = normal(1024, 1024)

    def once(i: int) -> None:
        f = tb.jit(lambda x: (tb.exp(x * float(i)).sum(0), (x + float(i)) @ x))
        f(x)

    def many() -> int:
        for i in range(12):
            once(i)
        gc.collect()
        return _resident()

    before = many()  # whoever compiles first loads LLVM, which stays
    assert many() - before < 40 << 20


def test_a_function_that_is_gone_lets_its_weights_go() -> None:
    def run() -> Any:
        w = normal(64, 64)
        tb.jit(lambda x: x @ w)(normal(8, 64))
        return weakref.ref(w)

    gone = run()
    gc.collect()
    assert gone() is None


# -- large ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_arrays_beyond_two_gibibytes() -> None:
    n = (1 << 31) + 4099
    x = np.zeros(n, np.int8)
    x[[0, 5, 1 << 30, (1 << 31) - 1, 1 << 31, n - 1]] = [1, 2, 3, 4, 5, 6]
    t = tb.from_numpy(x)
    total, end, picked = tb.jit(
        lambda x: (x.to(tb.int64).sum(), x[-3:] * 2, x[tb.tensor([0, (1 << 31) - 1, 1 << 31, n - 1])])
    )(t)
    assert total.item() == 21 and end.tolist() == [0, 0, 12] and picked.tolist() == [1, 4, 5, 6]
    y = tb.jit(lambda x: x + 1)(t).numpy()
    assert y[n - 1] == 7 and y[1 << 31] == 6 and y[n - 2] == 1 and y[0] == 2


def test_a_thousand_inputs() -> None:
    ps = [normal(3, 5, seed=i) for i in range(1000)]

    @tb.jit
    def step(x: Any) -> Any:
        total = x.sum()
        for p in ps:
            p.mul_(0.5)
            total = total + p[0, 0]
        return total

    want = [p.numpy() * np.float32(0.25) for p in ps]
    step(tb.ones(3))
    step(tb.ones(3))
    for p, w in zip(ps, want, strict=True):
        assert p.numpy().tobytes() == w.tobytes()
