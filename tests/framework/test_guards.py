"""What a recording read of Python is guarded: a change records anew, and explain() says what it was."""

from __future__ import annotations

import functools
import sys
import types
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn, optim

X = tb.tensor(np.linspace(-1, 2, 12).reshape(3, 4).astype(np.float32))
SCALE = 2.0
SETTINGS = {"shift": 1.0, "sizes": [1, 2]}


def agrees(jitted: Any, plain: Any, *args: Any) -> None:
    np.testing.assert_allclose(
        jitted(*args).detach().numpy(), plain(*args).detach().numpy(), rtol=1e-5, atol=1e-6
    )


class Cold(nn.Module):
    """Reads a number, a flag, a child and an object of its own."""

    def __init__(self) -> None:
        self.t, self.flip, self.layer = 1.0, False, nn.Linear(4, 4)
        self.extra = Extra()

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        y = self.layer(x) / self.t + self.extra.shift
        return -y if self.flip else y


@dataclass
class Extra:
    shift: float = 0.5


def test_changed_attributes_of_modules_are_seen() -> None:
    tb.manual_seed(0)
    model = Cold()
    jitted = tb.jit(model)
    agrees(jitted, model, X)
    for change in (
        lambda: setattr(model, "t", 2.0),
        lambda: setattr(model, "flip", True),
        lambda: setattr(model.extra, "shift", -3.0),
        lambda: setattr(model, "layer", nn.Linear(4, 4)),
        lambda: setattr(model.layer, "weight", nn.Parameter(tb.ones((4, 4)))),
        lambda: setattr(model, "extra", Extra(7.0)),
        lambda: setattr(model, "flip", False),
    ):
        change()
        agrees(jitted, model, X)
        agrees(jitted, model, X)
    told = jitted.explain()
    for name in ("Cold.t is 2.0 instead of 1.0", "Cold.flip", "Extra.shift", "Linear.weight", "Cold.extra"):
        assert name in told, (name, told)


def test_containers_hooks_and_settings_of_layers() -> None:
    tb.manual_seed(0)
    seq = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.LeakyReLU(0.1))
    jitted = tb.jit(seq)
    agrees(jitted, seq, X)
    seq[0] = nn.Linear(4, 4)
    agrees(jitted, seq, X)
    seq.append(nn.Tanh())
    agrees(jitted, seq, X)
    seq[2].negative_slope = 0.9
    agrees(jitted, seq, X)
    seq[1].p = 1.0
    assert (jitted(X).detach().numpy() == np.tanh(0)).all()
    seq[1].p = 0.0
    handle = seq[0].register_forward_hook(lambda m, i, o: o * 100)
    agrees(jitted, seq, X)
    handle.remove()
    agrees(jitted, seq, X)
    del seq[3]
    agrees(jitted, seq, X)


def test_globals_closures_defaults_and_settings_in_containers() -> None:
    global SCALE
    bias, table, options = 3.0, [1.0, 2.0], {"power": 2}

    def f(x: tb.Tensor) -> tb.Tensor:
        y = x * SCALE + bias + SETTINGS["shift"] + len(SETTINGS["sizes"])
        return y ** options["power"] + table[0] + table[-1]

    jitted = tb.jit(f)
    agrees(jitted, f, X)
    SCALE = 5.0
    agrees(jitted, f, X)
    bias = -1.0
    agrees(jitted, f, X)
    SETTINGS["shift"] = 9.0
    agrees(jitted, f, X)
    SETTINGS["sizes"].append(3)
    agrees(jitted, f, X)
    table[0] = -7.0
    agrees(jitted, f, X)
    options["power"] = 3
    agrees(jitted, f, X)
    SCALE, SETTINGS["shift"] = 2.0, 1.0


def test_helpers_that_the_function_calls_are_looked_into() -> None:
    state = types.SimpleNamespace(rate=0.5)

    def first(x: tb.Tensor) -> tb.Tensor:
        return x * state.rate

    inner = first

    def outer(x: tb.Tensor) -> tb.Tensor:
        return inner(x) + 1

    jitted = tb.jit(functools.partial(outer))
    agrees(jitted, outer, X)
    state.rate = 4.0
    agrees(jitted, outer, X)

    def other(x: tb.Tensor) -> tb.Tensor:
        return x - state.rate

    inner = other
    agrees(jitted, outer, X)


def test_a_tensor_in_a_variable_may_be_another_tensor() -> None:
    w = tb.ones((4,))

    def f(x: tb.Tensor) -> tb.Tensor:
        return x * w

    jitted = tb.jit(f)
    agrees(jitted, f, X)
    w = tb.full((4,), 3.0)
    agrees(jitted, f, X)


def test_methods_read_their_object() -> None:
    class Trainer:
        factor = 2.0

        def __init__(self) -> None:
            self.model, self.offset, self.steps = nn.Linear(4, 2), 1.0, 0

        def scaled(self, x: tb.Tensor) -> tb.Tensor:
            return self.model(x) * self.factor

        @tb.jit
        def step(self, x: tb.Tensor) -> tb.Tensor:
            return self.scaled(x) + self.offset

    trainer = Trainer()
    plain = Trainer.step.fn.__get__(trainer)
    agrees(trainer.step, plain, X)
    trainer.steps += 1  # nobody in step reads it
    trainer.offset = 5.0
    agrees(trainer.step, plain, X)
    Trainer.factor = -1.0
    agrees(trainer.step, plain, X)
    trainer.model = nn.Linear(4, 2)
    agrees(trainer.step, plain, X)
    assert not any("steps" in why for why in trainer.step.recompilations)


def test_settings_in_a_file_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = types.ModuleType("settings_of_this_test")
    settings.T = 3.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, settings.__name__, settings)

    def f(x: tb.Tensor) -> tb.Tensor:
        return x * settings.T  # type: ignore[attr-defined]

    jitted = tb.jit(f)
    agrees(jitted, f, X)
    settings.T = -2.0  # type: ignore[attr-defined]
    agrees(jitted, f, X)


def test_a_number_that_changes_twice_becomes_an_input() -> None:
    tb.manual_seed(0)
    model = Cold()
    jitted = tb.jit(model)
    for n in range(30):
        model.t = 1.0 + 0.1 * n
        agrees(jitted, model, X)
    assert len(jitted.recompilations) == 2
    assert jitted(X.astype(tb.float16).astype(tb.float32)).dtype == tb.float32  # a number stays weakly typed
    model.t = "hot"
    with pytest.raises(TypeError):
        jitted(X)
    model.t = 2.0
    agrees(jitted, model, X)


def test_a_count_that_decides_the_form_stays_static_and_is_capped() -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            self.depth, self.layer = 1, nn.Linear(4, 4)

        def forward(self, x: tb.Tensor) -> tb.Tensor:
            for _ in range(self.depth):
                x = self.layer(x)
            return x

    tb.manual_seed(0)
    model = Deep()
    jitted = tb.jit(model)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for depth in range(1, 20):
            model.depth = depth
            agrees(jitted, model, X)
    assert len([w for w in told if "Deep.depth" in str(w.message)]) == 1
    assert sum(map(len, jitted.entries.values())) <= 16
    model.depth = 18
    before = len(jitted.recompilations)
    agrees(jitted, model, X)
    assert len(jitted.recompilations) == before  # one that was seen before serves again


def test_annealed_training_records_a_few_times_and_trains_as_eager() -> None:
    def losses(compiled: bool) -> list[float]:
        tb.manual_seed(3)
        model = Cold()
        opt = optim.SGD(model.parameters(), lr=0.05)

        def step(x: tb.Tensor) -> tb.Tensor:
            opt.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            opt.step()
            return loss.detach()

        call = tb.jit(step) if compiled else step
        found = []
        for n in range(12):
            model.t = 2.0 - 0.1 * n
            found.append(call(X).item())
        return found

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-4)


def test_static_arguments_that_are_objects_are_looked_at() -> None:
    model = Cold()

    def f(m: Cold, x: tb.Tensor) -> tb.Tensor:
        return m(x) * m.t

    jitted = tb.jit(f, static_argnums=0)
    agrees(jitted, f, model, X)
    model.t = 4.0
    agrees(jitted, f, model, X)


def test_nan_and_equal_values_do_not_record_again() -> None:
    model = Cold()
    model.t = float("nan")
    jitted = tb.jit(model)
    jitted(X)
    model.t = float("nan")
    model.flip = bool(0)
    model.extra.shift = 0.25 + 0.25
    jitted(X)
    assert jitted.recompilations == []


# -- compiled modules as modules, and memory that is shared with NumPy --------------------------------------


def test_a_compiled_module_is_used_like_the_module() -> None:
    tb.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    jitted = tb.jit(model)
    assert jitted.eval() is jitted and not model.training
    assert [p.shape for p in jitted.parameters()] == [(4, 4), (4,)]
    assert sorted(jitted.state_dict()) == ["0.bias", "0.weight"]
    agrees(jitted, model, X)
    jitted.train()
    assert model[1].training and jitted.training
    cold = tb.jit(Cold())
    cold.t = 4.0
    assert cold.fn.t == 4.0
    agrees(cold, cold.fn, X)
    assert "for 'cpu', recorded 1 times" in repr(cold) and repr(tb.jit(agrees)).startswith("<compiled agrees")
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = jitted.nothing_like_it


def test_memory_of_numpy_that_a_compiled_function_writes_is_numpys() -> None:
    a = np.zeros(6, np.float32)
    state, own = tb.asarray(a), tb.zeros(6)

    @tb.jit
    def step(x: tb.Tensor) -> tb.Tensor:
        state.add_(x)
        own.add_(x)
        return state * 2

    for n in range(1, 5):
        out = step(tb.ones(6))
        assert a.tolist() == [float(n)] * 6 == state.tolist() == own.tolist()
        assert out.tolist() == [2.0 * n] * 6
    a[:] = 10
    step(tb.ones(6))
    assert a.tolist() == [11.0] * 6 == state.tolist()
    part = np.zeros((2, 3), np.float32)
    view = tb.asarray(part[1])
    tb.jit(lambda x: view.mul_(0).add_(x))(tb.ones(3))
    assert part.tolist() == [[0, 0, 0], [1, 1, 1]]


def test_the_table_of_primitives_is_not_looked_through() -> None:
    """It only ever grows: a function that names it is not kept waiting at every call."""
    from trilobite.framework.snapshots import seen
    from trilobite.ir.primitives import table

    assert seen(table) is table
