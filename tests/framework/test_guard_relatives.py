"""Whatever Python lets a recording read it may change later: each way of changing it records anew."""

from __future__ import annotations

import collections
import contextvars
import random
import subprocess
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from trilobite.distributions import Normal

import trilobite as tb
from trilobite import nn

X = tb.tensor(np.linspace(-1, 2, 12).reshape(3, 4).astype(np.float32))


class Layer(nn.Module):
    """Reads containers, an array, an object and a setting of its class."""

    factor = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.options: dict[str, Any] = {"a": 1.0, "sizes": [1, 2]}
        self.scale = np.ones(4, np.float32)
        self.layers = [nn.Linear(4, 4)]

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        y = x * self.options["a"] * self.options["sizes"][1] * self.factor
        return self.layers[0](y) * self.scale


class Config:
    rate = 1.0
    table = (1.0, [2.0])


class Slots:
    __slots__ = ("k",)

    def __init__(self) -> None:
        self.k = 1.0


class Dots(dict[str, Any]):
    """A dict whose entries are attributes, as configurations often are."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Chain:
    def __init__(self, n: int) -> None:
        self.v, self.next = 1.0, Chain(n - 1) if n else None


def last(chain: Chain) -> Chain:
    return chain if chain.next is None else last(chain.next)


def product(chain: Chain | None, x: tb.Tensor) -> tb.Tensor:
    while chain is not None:
        x, chain = x * chain.v, chain.next
    return x


def ways() -> dict[str, tuple[Callable[[tb.Tensor], tb.Tensor], Callable[[], Any]]]:
    """A function, and a change of what it reads."""
    layer, slots, bare, chain = Layer(), Slots(), types.SimpleNamespace(), Chain(8)
    queue, ordered, dots = collections.deque([1.0]), collections.OrderedDict(a=1.0), Dots(b=Dots(c=1.0))
    array, local, there = np.ones(4, np.float32), threading.local(), Chain(0)
    local.k, weak = 1.0, weakref.ref(there)
    variable = contextvars.ContextVar("variable", default=1.0)
    normal = Normal(tb.tensor(0.0), tb.tensor(1.0))
    inner = tb.jit(layer)
    zero = types.SimpleNamespace(z=0.0)
    many = {n: 1.0 for n in range(200)}

    def marked(x: tb.Tensor) -> tb.Tensor:
        return x * marked.scale

    marked.scale = 1.0  # type: ignore[attr-defined]

    def default(x: tb.Tensor, s: list[float] = [1.0]) -> tb.Tensor:  # noqa: B006
        return x * s[0]

    class Later:
        def __call__(self, x: tb.Tensor) -> tb.Tensor:
            return x * self.k if hasattr(self, "k") else x

    later = Later()
    return {
        "a dict of a module": (layer, lambda: layer.options.update(a=5.0)),
        "a list in a dict of a module": (layer, lambda: layer.options["sizes"].__setitem__(1, 7)),
        "an array of a module": (layer, lambda: layer.scale.__setitem__(0, 5)),
        "a layer in a plain list": (layer, lambda: layer.layers.__setitem__(0, nn.Linear(4, 4))),
        "a class of modules": (layer, lambda: setattr(Layer, "factor", Layer.factor + 1)),
        "a compiled module inside": (lambda x: inner(x), lambda: layer.options.update(a=-2.0)),
        "a class": (lambda x: x * Config.rate, lambda: setattr(Config, "rate", Config.rate + 1)),
        "a list in a class": (
            lambda x: x * Config.table[1][0],
            lambda: Config.table[1].append(Config.table[1].pop() + 1),
        ),  # type: ignore[index,union-attr]
        "slots": (lambda x: x * slots.k, lambda: setattr(slots, "k", 3.0)),
        "getattr": (lambda x: x * getattr(bare, "k", 1.0), lambda: setattr(bare, "k", 3.0)),
        "hasattr": (later, lambda: setattr(later, "k", 3.0)),
        "a deque": (lambda x: x * queue[0], lambda: queue.appendleft(4.0)),
        "an ordered dict": (lambda x: x * ordered["a"], lambda: ordered.update(a=4.0)),
        "a dict with dots": (lambda x: x * dots.b.c, lambda: setattr(dots.b, "c", 4.0)),
        "a large dict": (lambda x: x * many[150], lambda: many.update({150: 4.0})),
        "a long chain": (lambda x: product(chain, x), lambda: setattr(last(chain), "v", 4.0)),
        "an array": (lambda x: x * array, lambda: array.__setitem__(slice(None), 4)),
        "a number in an array": (lambda x: x * float(array[1]), lambda: array.__setitem__(1, 9)),
        "a thread's own": (lambda x: x * local.k, lambda: setattr(local, "k", 4.0)),
        "a context": (lambda x: x * variable.get(), lambda: variable.set(4.0)),
        "a weak reference": (lambda x: x * weak().v, lambda: setattr(there, "v", 4.0)),  # type: ignore[union-attr]
        "a distribution": (lambda x: normal.log_prob(x), lambda: setattr(normal, "loc", tb.tensor(5.0))),
        "a function's attribute": (marked, lambda: setattr(marked, "scale", 4.0)),
        "a default": (default, lambda: default.__defaults__[0].__setitem__(0, 4.0)),  # type: ignore[index]
        "the sign of zero": (lambda x: tb.copysign(x, zero.z), lambda: setattr(zero, "z", -0.0)),
    }


@pytest.mark.parametrize("way", list(ways()))
def test_a_change_is_seen(way: str) -> None:
    tb.manual_seed(0)
    fn, change = ways()[way]
    jitted = tb.jit(fn)
    for _ in range(2):
        np.testing.assert_array_equal(jitted(X).detach().numpy(), jitted(X).detach().numpy())
    before = jitted(X).detach().numpy().copy()
    change()
    np.testing.assert_allclose(jitted(X).detach().numpy(), fn(X).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert not np.array_equal(np.signbit(before), np.signbit(fn(X).detach().numpy())) or not np.allclose(
        before, fn(X).detach().numpy()
    )
    assert len(jitted.recompilations) == 1 and jitted.recompilations[0]


def test_a_method_that_is_replaced_on_its_class() -> None:
    class Twice(nn.Module):
        k = 2.0

        def forward(self, x: tb.Tensor) -> tb.Tensor:
            return x * self.k

    def other(self: Any, x: tb.Tensor) -> tb.Tensor:
        return x * self.q

    model = Twice()
    model.q = 3.0
    jitted = tb.jit(model)
    assert jitted(X).tolist() == (X * 2).tolist()
    Twice.forward = other  # type: ignore[method-assign]
    assert jitted(X).tolist() == (X * 3).tolist()
    model.q = 4.0  # which only the new one reads
    assert jitted(X).tolist() == (X * 4).tolist()
    assert "Twice.forward" in jitted.explain()


def test_the_class_of_a_module_and_the_default_dtype() -> None:
    model = nn.ReLU()
    jitted = tb.jit(model)
    jitted(X)
    model.__class__ = nn.Tanh  # type: ignore[assignment]
    np.testing.assert_allclose(jitted(X).numpy(), np.tanh(X.numpy()), rtol=1e-6)
    ones = tb.jit(lambda x: x.sum() * tb.ones(2))
    assert ones(X).dtype == tb.float32
    tb.set_default_dtype(tb.float64)
    try:
        assert ones(X).dtype == tb.float64
        assert "the default dtype is float64" in ones.explain()
    finally:
        tb.set_default_dtype(tb.float32)


def test_objects_that_answer_for_names_they_do_not_have() -> None:
    class Lazy:
        def __init__(self) -> None:
            self.held = {"a": 1.0}

        def __getattr__(self, name: str) -> Any:
            return self.held[name]  # KeyError where others say AttributeError

    lazy = Lazy()
    jitted = tb.jit(lambda x: x * lazy.a)
    jitted(X)
    lazy.held["a"] = 3.0
    assert jitted(X).tolist() == (X * 3).tolist()


def test_what_refers_to_itself_is_walked_once() -> None:
    class Node:
        def __init__(self) -> None:
            self.others: list[Node] = []
            self.k = 1.0

    nodes = [Node() for _ in range(12)]
    for node in nodes:
        node.others = nodes
    jitted = tb.jit(lambda x: x * nodes[3].others[5].k)
    jitted(X)
    nodes[5].k = 3.0
    assert jitted(X).tolist() == (X * 3).tolist()


@pytest.mark.parametrize("draw, name", [(random.random, "random"), (np.random.rand, "numpy.random")])
def test_numbers_that_others_drew_are_told(draw: Any, name: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"drew from {name} while it was recorded.*tb.rand") as told:
        tb.jit(lambda x: x * draw())(X)
    assert told[0].filename == __file__


def test_a_generator_that_is_loaded_meanwhile_was_not_drawn_from() -> None:
    """NumPy loads its generators when they are first named, whoever names them."""
    lines = [
        "import sys, warnings",
        "import trilobite as tb",
        "warnings.simplefilter('error')",
        "assert 'numpy.random' not in sys.modules",
        "tb.jit(lambda x: (__import__('numpy.random'), x)[1])(tb.ones(3))",
        "assert 'numpy.random' in sys.modules",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=60)
