"""How far guards reach: classes and bases, partials, files, hooks, memory, names built when code runs."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import enum
import functools
import operator
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.framework.class_guards import ClassGuard, versions_are_told

X = tb.tensor(np.linspace(-1, 2, 12).reshape(3, 4).astype(np.float32))
Way = tuple[Callable[[tb.Tensor], Any], Callable[[], Any]]


@dataclasses.dataclass
class Setting:
    k: Any = 1.0


class Answering:
    """Keeps what is asked for elsewhere."""

    def __init__(self) -> None:
        self._kept = {"k": 1.0}

    def __getattr__(self, name: str) -> Any:
        return object.__getattribute__(self, "_kept")[name]


class Stored:
    """A descriptor of the user's own."""

    def __init__(self) -> None:
        self.value = 1.0

    def __get__(self, owner: Any, cls: Any = None) -> float:
        return self.value


class Reader(nn.Module):
    def __init__(self, read: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self.read = read

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        return x * self.read(self) if self.read else x


def classes() -> dict[str, Way]:
    class Base:
        k = 1.0
        settings = Setting()
        memory = np.float32(1)
        tensor = tb.tensor(1.0)
        stored = Stored()

        class Inner:
            k = 1.0

        def f(self, x: tb.Tensor) -> tb.Tensor:
            return x * self.k

    class Derived(Base):
        def g(self, x: tb.Tensor) -> tb.Tensor:
            return super().f(x)

        part = functools.partialmethod(Base.f)

    class Other(Derived):
        k = 5.0

    class Meta(type):
        m = 1.0

    class OfMeta(metaclass=Meta):
        pass

    class Both(Reader):
        settings = Setting()

        def forward(self, x: tb.Tensor) -> tb.Tensor:
            return x * self.settings.k

    class Kind(enum.Enum):
        A = [1.0]

    d, module = Derived(), Both()
    return {
        "a base": (d.f, lambda: setattr(Base, "k", 3.0)),
        "a class before its base": (d.f, lambda: setattr(Derived, "k", 3.0)),
        "an object before its class": (lambda x: d.f(x), lambda: setattr(d, "f", lambda x: x * 7)),
        "a method by super()": (d.g, lambda: setattr(Base, "f", lambda self, x: x * 7)),
        "a partial method": (lambda x: d.part(x), lambda: setattr(d, "k", 4.0)),
        "the class of an object": (lambda x: d.f(x), lambda: setattr(d, "__class__", Other)),
        "an object in a class": (lambda x: x * Base.settings.k, lambda: setattr(Base.settings, "k", 3.0)),
        "another object in a class": (
            lambda x: x * d.settings.k,
            lambda: setattr(Base, "settings", Setting(4.0)),
        ),
        "an object that hides it": (lambda x: x * d.settings.k, lambda: setattr(d, "settings", Setting(4.0))),
        "a NumPy number": (lambda x: x * Base.memory, lambda: setattr(Base, "memory", np.float32(3))),
        "a tensor of a class": (lambda x: x * d.tensor, lambda: setattr(Base, "tensor", tb.tensor(3.0))),
        "a class in a class": (lambda x: x * Base.Inner.k, lambda: setattr(Base.Inner, "k", 3.0)),
        "a descriptor": (lambda x: x * d.stored, lambda: setattr(vars(Base)["stored"], "value", 3.0)),
        "a class of classes": (lambda x: x * OfMeta.m, lambda: setattr(Meta, "m", 3.0)),  # type: ignore[attr-defined]
        "an object of a module's class": (module, lambda: setattr(Both.settings, "k", 3.0)),
        "another one of a module's class": (module, lambda: setattr(Both, "settings", Setting(3.0))),
        "a value of an enumeration": (
            lambda x: x * Kind.A.value[0],
            lambda: Kind.A.value.__setitem__(0, 3.0),
        ),
    }


def values() -> dict[str, Way]:
    d, base = {"a": 1.0}, np.ones(3)
    proxy, view, kept = types.MappingProxyType(d), d.values(), Setting()
    numbers, raw, memory = array.array("d", [1.0]), bytearray(b"\1"), memoryview(base)
    objects = np.array([1.0, [2.0]], dtype=object)
    masked = np.ma.array([1.0, 2.0], mask=[False, False])
    deep: list[Any] = [[[[[[1.0]]]]]]
    long, many = [1.0] * 1000, [Setting() for _ in range(300)]
    keys, of_numbers, ints = {kept: 1}, {2: 1}, tb.tensor([1, 2, 3])
    answering, loose = Answering(), types.SimpleNamespace(k0=1.0, k1=1.0)
    there, chosen = weakref.proxy(kept), collections.ChainMap({}, d)
    get, ask = operator.attrgetter("k"), operator.methodcaller("total")
    counter = collections.Counter(a=1)

    def by_name(x: tb.Tensor) -> tb.Tensor:
        for i in range(2):
            x = x * getattr(loose, f"k{i}")
        return x

    return {
        "a proxy of a dict": (lambda x: x * proxy["a"], lambda: d.update(a=5.0)),
        "a view of a dict": (lambda x: x * sum(view), lambda: d.update(b=5.0)),
        "dicts in a chain": (lambda x: x * chosen["a"], lambda: d.update(a=5.0)),
        "an array of the standard library": (lambda x: x * numbers[0], lambda: numbers.__setitem__(0, 5.0)),
        "bytes": (lambda x: x * raw[0], lambda: raw.__setitem__(0, 5)),
        "memory": (lambda x: x * memory[0], lambda: base.__setitem__(0, 5)),
        "an array of objects": (lambda x: x * objects[1][0], lambda: objects[1].__setitem__(0, 5.0)),
        "a masked array": (lambda x: x * float(masked.sum()), lambda: masked.__setitem__(0, np.ma.masked)),
        "deep lists": (lambda x: x * deep[0][0][0][0][0][0], lambda: deep[0][0][0][0][0].__setitem__(0, 5.0)),
        "a long list": (lambda x: x * long[999], lambda: long.__setitem__(999, 5.0)),
        "one of many objects": (lambda x: x * many[299].k, lambda: setattr(many[299], "k", 5.0)),
        "the type of a key": (
            lambda x: ints * next(iter(of_numbers)),
            lambda: (of_numbers.clear(), of_numbers.update({2.0: 1})),
        ),  # type: ignore[dict-item]
        "an answer from elsewhere": (lambda x: x * answering.k, lambda: answering._kept.update(k=5.0)),
        "names built when code runs": (by_name, lambda: setattr(loose, "k1", 5.0)),
        "a weak proxy": (lambda x: x * there.k, lambda: setattr(kept, "k", 5.0)),
        "an attribute by a getter": (lambda x: x * get(kept), lambda: setattr(kept, "k", 5.0)),
        "a method by a caller": (lambda x: x * ask(counter), lambda: counter.update(b=4)),
        "an attribute of a key": (lambda x: x * next(key.k for key in keys), lambda: setattr(kept, "k", 5.0)),
    }


Setting.__hash__ = object.__hash__  # type: ignore[method-assign,assignment]


def functions() -> dict[str, Way]:
    held, listed = Setting(), [1.0]

    def scaled(k: Any, x: tb.Tensor, *, by: float = 1.0) -> tb.Tensor:
        return x * (k[0] if isinstance(k, list) else k.k if isinstance(k, Setting) else k) * by

    def default(x: tb.Tensor, k: float = 1.0) -> tb.Tensor:
        return x * k

    def other(x: tb.Tensor, k: float = 1.0) -> tb.Tensor:
        return x * 9

    @functools.lru_cache(maxsize=1)
    def cached() -> Any:
        return held.k

    plain, by_name = functools.partial(scaled, 1.0), functools.partial(scaled, 1.0, by=1.0)
    of_list, of_object = functools.partial(scaled, listed), functools.partial(scaled, held)
    hooked, file = Reader(), types.ModuleType("a_file_of_settings")
    hooked.register_forward_hook(lambda module, args, out: out * held.k)
    exec("T = 1.0\nclass Held:\n    k = 1.0\nheld = Held()", file.__dict__)
    return {
        "a list in a partial": (of_list, lambda: listed.__setitem__(0, 4.0)),
        "an object in a partial": (of_object, lambda: setattr(held, "k", 4.0)),
        "a keyword of a partial": (lambda x: by_name(x), lambda: by_name.keywords.update(by=4.0)),
        "a partial set anew": (plain, lambda: plain.__setstate__((scaled, (3.0,), {}, {}))),  # type: ignore[attr-defined]
        "other defaults": (default, lambda: setattr(default, "__defaults__", (4.0,))),
        "other code, as a notebook that reloads gives it": (
            default,
            lambda: setattr(default, "__code__", other.__code__),
        ),
        "a cache that was cleared": (
            lambda x: x * cached(),
            lambda: (setattr(held, "k", 4.0), cached.cache_clear()),
        ),
        "what a hook reads": (hooked, lambda: setattr(held, "k", 4.0)),
        "a class in a file": (lambda x: x * file.Held.k, lambda: setattr(file.Held, "k", 4.0)),
        "an object in a file": (lambda x: x * file.held.k, lambda: setattr(file.held, "k", 4.0)),
        "another object in a file": (lambda x: x * file.held.k, lambda: setattr(file, "held", Setting(4.0))),
        "a function of the package": (
            lambda x: nn.functional.relu(x),
            lambda: setattr(nn.functional, "relu", tb.abs),
        ),
    }


@pytest.mark.parametrize(
    ("ways", "way"), [(ways, way) for ways in (classes, values, functions) for way in ways()]
)
def test_a_change_is_seen(
    ways: Callable[[], dict[str, Way]], way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.functional, "relu", nn.functional.relu)  # put back afterwards
    fn, change = ways()[way]
    jitted = tb.jit(fn)
    for _ in range(2):
        before = jitted(X).numpy().copy()
    change()
    now = fn(X).numpy()
    np.testing.assert_array_equal(jitted(X).numpy(), now)
    assert before.dtype != now.dtype or not np.array_equal(before, now)
    assert len(jitted.recompilations) == 1 and jitted.recompilations[0]


def test_a_module_that_is_imported_when_the_code_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "settings_of_a_test.py").write_text("T = 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    @tb.jit
    def f(x: tb.Tensor) -> tb.Tensor:
        import settings_of_a_test  # type: ignore[import-not-found]

        return x * settings_of_a_test.T

    f(X)
    import settings_of_a_test

    settings_of_a_test.T = 3.0
    np.testing.assert_array_equal(f(X).numpy(), 3 * X.numpy())


def test_a_setting_of_a_class_that_is_annealed_becomes_an_input() -> None:
    class Schedule:
        t = 1.0

    f = tb.jit(lambda x: x * Schedule.t)
    for step in range(12):
        Schedule.t = 1.0 + step / 8
        np.testing.assert_array_equal(f(X).numpy(), X.numpy() * np.float32(Schedule.t))
    assert len(f.recompilations) <= 2


def test_what_is_too_large_to_look_at_is_told() -> None:
    table = [1.0] * 5000
    with pytest.warns(RuntimeWarning, match="a large list; changes of its elements are not seen"):
        tb.jit(lambda x: x * table[4999])(X)


@pytest.mark.parametrize("told", [True, False])
def test_classes_are_guarded_where_their_versions_are_unknown_too(
    told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Base:
        a = 1

    class Derived(Base):
        b = 2

    monkeypatch.setattr("trilobite.framework.class_guards.versions_are_told", lambda: told)
    guard = ClassGuard(Derived)
    guard.note({"a", "b", "c"})
    assert guard.holds()
    Base.unrelated = 1  # type: ignore[attr-defined]
    assert guard.holds()
    Base.a = 3
    assert not guard.holds() and guard.differs() == "a"
    Base.a = 1
    assert guard.holds()
    Derived.c = 1  # type: ignore[attr-defined]
    assert not guard.holds() and guard.differs() == "c"


def test_this_interpreter_tells_versions() -> None:
    """Which keeps the cost of a class at one look; not a matter of being right."""
    assert versions_are_told()


def test_marks_of_the_users_on_tensors() -> None:
    """`p.no_decay = True` is a habit; a recording that reads such a mark sees it change."""
    tb.manual_seed(0)
    layer, loose = nn.Linear(4, 4), tb.ones(4)
    layer.weight.scale = 2.0  # type: ignore[attr-defined]
    f = tb.jit(lambda x: layer(x) * layer.weight.scale * getattr(loose, "factor", 1.0))  # type: ignore[attr-defined]
    first = f(X).detach().numpy().copy()
    layer.weight.scale = 6.0  # type: ignore[attr-defined]
    np.testing.assert_allclose(f(X).detach().numpy(), 3 * first, rtol=1e-6)
    loose.factor = 0.5  # type: ignore[attr-defined]
    np.testing.assert_allclose(f(X).detach().numpy(), 1.5 * first, rtol=1e-6)
    assert copy.deepcopy(layer).weight.scale == 6.0


def test_a_compiled_function_inside_that_was_recorded_before() -> None:
    """What the inner recording depends on, the outer one depends on."""
    norm = nn.BatchNorm1d(4)
    optimizer = tb.optim.SGD(norm.parameters(), lr=0.1)
    inner = tb.jit(norm)

    @tb.jit
    def update(x: tb.Tensor) -> tb.Tensor:
        optimizer.zero_grad()
        loss = norm(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    inner(X), update(X)
    outer, twice = tb.jit(lambda x: inner(x) * 1.0), tb.jit(lambda x: update(x) * 1.0)
    outer(X), twice(X)
    norm.eval()
    np.testing.assert_allclose(outer(X).detach().numpy(), norm(X).detach().numpy(), rtol=1e-5, atol=1e-6)
    optimizer.param_groups[0]["maximize"] = True
    before = norm.weight.detach().numpy().copy()
    twice(X)
    assert (norm.weight.detach().numpy() > before).all()


def test_a_walk_does_not_wander_into_installed_packages() -> None:
    """An assert of a test names pytest's own machinery, which leads to all of it."""
    entries = []

    @tb.jit
    def f(x: tb.Tensor) -> tb.Tensor:
        assert x.shape == X.shape, "another shape"
        return x * 2

    f(X)
    for row in f.entries.values():
        entries += row
    assert entries and len(entries[0].guards.places) < 20 and len(entries[0].guards.classes) < 3
