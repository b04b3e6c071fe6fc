"""The target as a whole: weights that change, arrays that are given away, results that are kept, symbols."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.targets.registry import executable


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compiled(fn: Any) -> Any:
    return tb.jit(fn, target="cpu")


# -- weights -------------------------------------------------------------------------------------------------


class Runs:
    """Counts how often the part that depends on weights alone has run."""

    def __init__(self, jitted: Any, *args: Any) -> None:
        lowered = jitted.lower(*args)
        self.first = executable(lowered.graph, "cpu", lowered.usage).weights.first
        self.count = 0
        self._runner, self.first.runner = self.first.runner, self._counted

    def _counted(self, values: Any) -> Any:
        self.count += 1
        return self._runner(values)


@pytest.fixture
def layer() -> Any:
    w, s, x = (tb.tensor(normal(*shape, seed=i)) for i, shape in enumerate([(64, 48), (48,), (8, 64)]))
    f = compiled(lambda x: x @ (w * s))
    f(x)
    return f, w, s, x, Runs(f, x)


def check(f: Any, w: Any, s: Any, x: Any) -> None:
    want = np.array(x.numpy()) @ (np.array(w.numpy()) * np.array(s.numpy()))
    np.testing.assert_allclose(f(x).numpy(), want, rtol=2e-5, atol=2e-5)


def test_the_weights_part_runs_once(layer: Any) -> None:
    f, _, _, x, runs = layer
    for _ in range(4):
        f(x)
    assert runs.count == 0


def test_a_weight_written_in_place_is_seen(layer: Any) -> None:
    f, w, s, x, runs = layer
    w.mul_(-2.0)
    check(f, w, s, x)
    assert runs.count == 1
    w[3:5] = 7.0
    check(f, w, s, x)


def test_a_weight_replaced_is_seen(layer: Any) -> None:
    f, w, s, x, _ = layer
    w.copy_(tb.tensor(normal(64, 48, seed=9)))
    check(f, w, s, x)


def test_a_weight_written_through_numpy_is_seen(layer: Any) -> None:
    f, w, s, x, _ = layer
    held = w.numpy()
    held[...] = 3.0
    check(f, w, s, x)
    held[0] = -1.0
    check(f, w, s, x)


@pytest.mark.counted
def test_a_view_that_was_let_go_costs_one_run(layer: Any) -> None:
    f, w, _, x, runs = layer
    w.numpy()[1] = 5.0
    f(x)
    f(x)
    f(x)
    assert runs.count == 1


def test_memory_shared_with_an_array_of_the_users() -> None:
    mine, x = normal(32, 16), tb.tensor(normal(4, 32, seed=2))
    w = tb.from_numpy(mine)
    f = compiled(lambda x: x @ (w * 2.0))
    f(x)
    mine[...] = 1.0
    np.testing.assert_allclose(f(x).numpy(), x.numpy() @ (mine * 2), rtol=1e-5, atol=1e-5)


# -- giving away ---------------------------------------------------------------------------------------------


@pytest.mark.counted
def test_state_is_updated_in_its_own_memory() -> None:
    state = tb.tensor(normal(64, 64))
    f = compiled(lambda x: state.add_(x))
    x = tb.tensor(normal(64, 64, seed=1))
    want = np.array(state.numpy())
    seen = set()
    for _ in range(5):
        f(x)
        want = want + x.numpy()
        seen.add(state._cell.value.ctypes.data)
    assert len(seen) == 1
    assert state.numpy().tobytes() == want.tobytes()


@pytest.mark.counted
def test_the_first_run_takes_the_memory_that_is_there() -> None:
    state = tb.tensor(normal(64, 64))
    before, want = state._cell.value.ctypes.data, state.numpy().copy() + 1
    compiled(lambda: state.add_(1.0))()
    assert state._cell.value.ctypes.data == before
    assert state.numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize("share", ["whole", "part", "read only"])
def test_memory_that_numpy_lent_is_written_as_it_is_eagerly(share: str) -> None:
    """Of a read-only array the tensor has a copy."""
    mine = normal(64, 64)
    before = mine.copy()
    mine.flags.writeable = share != "read only"
    state = tb.from_numpy(mine if share == "whole" else mine[:32])
    run = compiled(lambda: state.add_(1.0))
    for _ in range(3):
        run()
    wanted = before.copy()
    wanted[: len(state.numpy())] = before[: len(state.numpy())] + 1 + 1 + 1
    assert state.numpy().tobytes() == wanted[: len(state.numpy())].tobytes()
    assert mine.tobytes() == (before if share == "read only" else wanted).tobytes()


def test_whoever_kept_the_old_value_keeps_it() -> None:
    state = tb.tensor(normal(64, 64))
    f = compiled(lambda x: state.add_(x))
    x = tb.tensor(normal(64, 64, seed=1))
    f(x)
    f(x)
    kept = state.numpy()
    part = kept[3:7]
    before, of_part = kept.copy(), part.copy()
    f(x)
    assert kept.tobytes() == before.tobytes() and part.tobytes() == of_part.tobytes()
    del kept
    f(x)
    assert part.tobytes() == of_part.tobytes()
    assert not np.array_equal(state.numpy()[3:7], of_part)


def test_results_have_memory_of_their_own() -> None:
    f = compiled(lambda x: (x, x.reshape(-1), x + 1.0, x.reshape(-1)))
    x = tb.tensor(normal(5, 3))
    outs = [o.numpy() for o in f(x)]
    for i, a in enumerate(outs):
        assert not any(np.may_share_memory(a, b) for b in (x.numpy(), *outs[:i]))
    first = outs[2].copy()
    f(tb.tensor(normal(5, 3, seed=4)))
    assert outs[2].tobytes() == first.tobytes()


def test_an_input_that_is_a_result_and_given_away() -> None:
    a, b = tb.tensor(normal(40, 40)), tb.tensor(normal(40, 40, seed=1))

    def swap() -> Any:
        old = a.clone()
        a.copy_(b)
        b.copy_(old)
        return old

    f = compiled(swap)
    want = [np.array(t.numpy()) for t in (a, b)]
    for _ in range(3):
        old = f()
        want.reverse()
        assert old.numpy().tobytes() == want[1].tobytes()
        assert a.numpy().tobytes() == want[0].tobytes() and b.numpy().tobytes() == want[1].tobytes()


# -- kinds of inputs -----------------------------------------------------------------------------------------


def test_inputs_of_any_layout() -> None:
    f = compiled(lambda x, y: x * 2.0 + y)
    base = normal(6, 8)
    for a in (base.T, base[::-1], base[:, ::2], base[1:, 1:]):
        other = normal(*a.shape, seed=3)
        got = f(tb.from_numpy(a), tb.from_numpy(np.asfortranarray(other)))
        assert got.numpy().tobytes() == (a * np.float32(2) + other).tobytes()


def test_one_compilation_serves_all_sizes_of_a_symbol() -> None:
    n = tb.dim("n", min=1, max=512)
    w = tb.tensor(normal(16, 24))
    f = tb.jit(lambda x: tb.exp(x @ w).sum(-1), target="cpu", shapes=[(n, None)])
    for size in (1, 2, 3, 17, 64, 511):
        x = normal(size, 16, seed=size)
        np.testing.assert_allclose(f(tb.tensor(x)).numpy(), np.exp(x @ w.numpy()).sum(-1), rtol=3e-5)
    assert len(f.entries) == 1
    assert len({tuple(k.text for k in r.program.kernels) for r in runners_of(f).values()}) == 1


def runners_of(f: Any) -> dict[tuple[int, ...], Any]:
    entry = next(iter(f.entries.values()))[0]
    found: dict[tuple[int, ...], Any] = executable(entry.recording.graph, "cpu", entry.usage).main.runners
    return found


def test_all_sizes_of_a_symbol_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilobite.compiler.targets.cpu.compiled._SIZES", 5)
    n = tb.dim("n", max=100)
    f = tb.jit(lambda x: tb.sort(tb.exp(x)) @ x.T, shapes=[(n, 7)])
    for size in (60, 2, 17, 5, 60, 33, 100, 2, 60):
        x = normal(size, 7, seed=size)
        np.testing.assert_allclose(f(tb.tensor(x)).numpy(), np.sort(np.exp(x)) @ x.T, rtol=1e-5, atol=1e-5)
    runners = runners_of(f)
    assert [key for (key,) in runners] == [5, 33, 100, 2, 60]  # the latest sizes, in the order of their use
    assert len({id(r.arena) for r in runners.values()}) == 1
    assert [bool(r.results._sets) for r in runners.values()] == [False] * 4 + [True]


def test_a_callback_may_ask_for_another_size() -> None:
    """Both sizes share memory, which the outer run still needs."""
    n = tb.dim("n", max=100)
    inner: list[Any] = []

    def call(value: Any) -> None:
        if len(value) > 3:
            inner.append(f(tb.tensor(normal(3, 7))).numpy())

    def body(x: Any) -> Any:
        y = tb.sort(tb.exp(x))
        tb.debug.callback(call, None, y)
        return y @ x.T

    f = tb.jit(body, shapes=[(n, 7)])
    for size in (50, 3, 50):
        x = normal(size, 7)
        np.testing.assert_allclose(f(tb.tensor(x)).numpy(), np.sort(np.exp(x)) @ x.T, rtol=1e-5, atol=1e-5)
    x = normal(3, 7)
    for found in inner:
        np.testing.assert_allclose(found, np.sort(np.exp(x)) @ x.T, rtol=1e-5, atol=1e-5)
    assert len(inner) == 2


def test_two_threads_may_call_one_function() -> None:
    f = compiled(lambda x: tb.tanh(x @ x))
    inputs = [tb.tensor(normal(48, 48, seed=i)) for i in range(4)]
    want = [f(x).numpy().copy() for x in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        runs = (f(inputs[i]).numpy().tobytes() for _ in range(50))
        wrong.extend(i for bits in runs if bits != want[i].tobytes())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# -- what is said --------------------------------------------------------------------------------------------


def test_explain_says_where_operations_went() -> None:
    x = tb.tensor(normal(4, 4))
    text = compiled(lambda x: tb.linalg.eigvalsh(tb.exp(x) + 1.0)).explain(x)
    assert "loops kernel" in text and "test_target.py" in text
    assert "runs in NumPy, because" in text


def test_explain_says_why_operations_stayed_apart() -> None:
    x = tb.tensor(normal(8, 8))
    text = compiled(lambda x: (x @ x).sum(0)).explain(x)
    assert "apart: reduce_sum" in text and "stayed out: " in text


def test_stages_show_every_level() -> None:
    x = tb.tensor(normal(4, 4))
    stages = compiled(lambda x: tb.exp(x) + 1.0).lower(x).stages
    assert next(iter(stages)) == "graph" and list(stages)[-5:] == ["fuse", "program", "loops", "llvm", "asm"]
    assert "fusion" in stages["fuse"] and "arena" in stages["program"]
    assert "define" in stages["llvm"] and "entry" in stages["asm"]


@pytest.mark.counted
def test_memory_of_results_that_nobody_holds_is_used_again() -> None:
    f = compiled(lambda x: x * 2.0)
    x = tb.tensor(normal(64, 64))
    places = set()
    for _ in range(6):
        y = f(x)
        places.add(y._cell.value.ctypes.data)
    assert len(places) <= 2


def test_results_that_are_held_are_left_alone() -> None:
    f = compiled(lambda x: x * 2.0)
    held, views = [], []
    for i in range(5):
        y = f(tb.tensor(normal(64, 64, seed=i)))
        held.append(y)
        views.append(f(tb.tensor(normal(64, 64, seed=10 + i))).numpy()[3:5])
    for i in range(5):
        assert held[i].numpy().tobytes() == (normal(64, 64, seed=i) * np.float32(2)).tobytes()
        assert views[i].tobytes() == (normal(64, 64, seed=10 + i) * np.float32(2))[3:5].tobytes()


# -- options -------------------------------------------------------------------------------------------------


def test_options_reach_the_compiler() -> None:
    x = tb.tensor(normal(1, 32, 24, 24))
    w = tb.tensor(normal(32, 32, 3, 3, seed=1))
    plain = tb.jit(lambda x: tb.nn.functional.conv2d(x, w))
    strict = tb.jit(lambda x: tb.nn.functional.conv2d(x, w), options={"accuracy": "strict"})
    assert "winograd" in plain.explain(x) and "winograd" not in strict.explain(x)
    np.testing.assert_allclose(plain(x).numpy(), strict(x).numpy(), rtol=1e-3, atol=1e-4)
    skipping = tb.jit(lambda x: x + 1.0, options={"skip": {"simplify"}})
    assert "simplify" not in skipping.lower(x).stages


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(tb.errors.ArgumentError, match="the cpu has no option 'speed'") as error:
        tb.jit(lambda x: x + 1.0, options={"speed": 11})(tb.ones(3))
    assert "accuracy" in str(error.value)


# -- little memory -------------------------------------------------------------------------------------------


def test_who_asks_for_little_memory_gets_no_packed_weights(layer: Any) -> None:
    f, w, s, x, _ = layer
    saving = tb.jit(f.fn, options={"memory": 1 << 20})
    check(saving, w, s, x)
    plain, spare = (g.lower(x).compile() for g in (f, saving))
    assert plain.division.two and not spare.division.two
    w.mul_(-3.0)
    check(saving, w, s, x)


def test_who_asks_for_little_memory_never_gets_more() -> None:
    """What is computed again stands apart from what fusion would have joined it with."""
    net = tb.nn.Sequential(*[tb.nn.Sequential(tb.nn.Linear(32, 32), tb.nn.GELU()) for _ in range(3)])

    def step(x: Any) -> Any:
        loss = (net(x) ** 2).mean()
        for p in net.parameters():
            p.grad = None
        loss.backward()
        return loss

    x = tb.tensor(normal(512, 32))
    peaks = []
    for memory in (0, 1 << 30, 1 << 16):
        f = tb.jit(step, options={"memory": memory})
        peaks.append(f.lower(x).compile().main.program({}).packing.peak)
    assert peaks[0] == peaks[1] >= peaks[2]


def test_the_arena_of_the_weights_is_given_back(layer: Any) -> None:
    f, w, s, x, _ = layer
    made = f.lower(x).compile()
    assert made.weights.first.runners and made.weights.first.arena.memory.nbytes == 1
    w.mul_(-3.0)
    check(f, w, s, x)
    assert made.weights.first.arena.memory.nbytes == 1
