"""What the optimisers share: parameter groups, state per parameter, and the walk over both.

Enters: tensors with gradients. Leaves: the tensors changed in place. All state is made with the optimiser
and lives in tensors, so a step is the same whether it runs eagerly or is recorded, also when the first
one is. The algorithms themselves are not here: each states, over values, its numbers for a step and the
update of one parameter.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, NamedTuple

import numpy as np

from trilobite.base.dtypes import DType, accumulator, float64, int64, real_of
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.modes import enable_grad, no_grad
from trilobite.framework.optim.arithmetic import ZERO, add, cast, real_shape
from trilobite.framework.optim.blocks import is_large, update_in_blocks
from trilobite.framework.optim.group import Group, Rule, check_parameters, is_misspelt, settings_of
from trilobite.framework.optim.guard import Guarded
from trilobite.framework.optim.state import load_optimizer, load_plain, save_optimizer, save_plain
from trilobite.framework.optim.step_hooks import CountedList, StepHooks, hooked
from trilobite.framework.snapshots import Object, frozen
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.tape import Taped

State = dict[str, Tensor]
_NEXT = np.asarray(1, int64)
required = object()  # PyTorch's mark of a setting without a default


class Slot(NamedTuple):
    """State of another shape than the parameter's: a function of that, and where it starts."""

    shape: Callable[[Any], Any]
    start: float


class Optimizer(StepHooks, Guarded):
    """The base of all optimisers. `param_groups` holds the groups, `state` what is kept for each
    parameter.
    """

    rules: ClassVar[Mapping[str, Rule]] = {}
    """What each number must satisfy; its keys are the numbers there are."""
    optional: ClassVar[frozenset[str]] = frozenset()
    """Numbers that, when 0, leave their term out of the update."""
    pairs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Arguments that stand for several numbers: betas."""
    elementwise: ClassVar[bool] = True
    """Does the update treat every element alone?"""
    agreed: Callable[[Tensor], Tensor] | None = None
    """Where other processes hold parts of the parameters: whether something is true of all of them."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            setattr(cls, "step", hooked(cls.__dict__["step"]))  # noqa: B010  mypy would have it never change
        made = cls.__dict__.get("__init__")
        if made is not None and cls.__module__.startswith("trilobite.framework.optim."):
            setattr(cls, "__init__", _without_hints(made))  # noqa: B010  mypy would have it never change

    def __init__(
        self, params: Any, numbers: Mapping[str, Any], switches: Mapping[str, Any] | None = None
    ) -> None:
        """Numbers and switches of an algorithm of ours; an optimiser written for PyTorch gives its defaults
        alone, and keeps groups and state as plain dicts that its own step() fills.
        """
        self.defaults = settings_of(numbers)
        if switches is None:
            self._start_plain(params)
            return
        self._plain = False
        self._defaults = {**numbers, **switches}
        self.param_groups: list[Any] = CountedList()
        self.state: Any = {}
        self._made_for: dict[Tensor, tuple[Any, DType]] = {}
        for group in _as_groups(params):
            self.add_param_group(group)
        if not self.param_groups:
            check_parameters(self.name, ())

    def _start_plain(self, params: Any) -> None:
        self._plain, self._made_for = True, {}
        self.param_groups = []
        self.state = defaultdict(dict)
        for group in _as_groups(params):
            self.add_param_group(group)

    def _add_plain(self, group: Mapping[str, Any]) -> None:
        given = group["params"]
        params = check_parameters(self.name, [given] if isinstance(given, Tensor) else given)
        self.param_groups.append({**self.defaults, **group, "params": params})

    @property
    def name(self) -> str:
        return type(self).__name__

    def add_param_group(self, group: Any) -> None:
        """One more group: `{"params": tensors, "lr": ...}`; what it leaves out is as the optimiser was
        made with.
        """
        self.refuse_recorded("add_param_group")
        if getattr(self, "_plain", False):
            self._add_plain(group)
            return
        if not isinstance(group, Mapping) or "params" not in group:
            raise ArgumentError(
                f"{self.name}: a parameter group is {type(group).__name__}",
                where=user_location(),
                expected='a dict with "params"',
            )
        given = group["params"]
        params = check_parameters(self.name, [given] if isinstance(given, Tensor) else given)
        settings = self._settings(group)
        self._refuse_twice(params)
        numbers = {k: v for k, v in settings.items() if k in self.rules}
        switches = {k: v for k, v in settings.items() if k not in self.rules}
        made = Group(params, numbers, switches, self.optional, self.pairs)
        self.check_group(made)
        self.param_groups.append(made)
        made.belongs_to(self)
        self.complete(made)

    def complete(self, group: Group) -> None:
        """Settings or parameters of a group are other ones: what its update keeps is there for each."""
        for p in group["params"]:
            self._made_for.setdefault(p, (p.shape, p.dtype))
            kept = self.state.setdefault(p, {})
            for name, start in self.slots(group).items():
                if name not in kept:
                    kept[name] = _state_tensor(p, start)

    def form(self) -> Any:
        if self._plain:
            return ()
        groups = (
            (tuple(map(Object, g["params"])), tuple(g.numbers()), frozen(g.switches()))
            for g in self.param_groups
        )
        return tuple(groups), tuple(Object(h) for row in self.__dict__.get("_step_hooks") or () for h in row)

    def _settings(self, group: Mapping[str, Any]) -> dict[str, Any]:
        given = spread_pairs(self.pairs, {k: v for k, v in group.items() if k != "params"})
        unknown = [k for k in given if k not in self._defaults and is_misspelt(k, self._defaults)]
        if unknown:
            raise ArgumentError(
                f"{self.name} has no setting {unknown[0]!r}",
                where=user_location(),
                expected=f"params, {', '.join(self._defaults)}",
            )
        settings = {**self._defaults, **given}
        for name, rule in self.rules.items():
            rule.check(self.name, name, settings[name])
        return settings

    def _refuse_twice(self, params: Sequence[Tensor]) -> None:
        seen = {p for group in self.param_groups for p in group["params"]}
        for i, p in enumerate(params):
            if p in seen:
                raise ArgumentError(
                    f"{self.name}: parameter {i} is there twice",
                    where=user_location(),
                    expected="every tensor in one place of one group",
                )
            seen.add(p)

    # -- what an algorithm states ----------------------------------------------------------------------

    def check_group(self, group: Group) -> None:
        """Settings that make no sense together."""

    def slots(self, group: Group) -> dict[str, Any]:
        """State kept per parameter, by name: the number it starts from everywhere, or None for a step
        count.
        """
        raise NotImplementedError

    def numbers(self, group: Group, count: Value | None) -> Sequence[Value]:
        """The 0-d float64 numbers that the update takes, for this step of the count."""
        raise NotImplementedError

    @staticmethod
    def read(group: Group, name: str) -> Value:
        """A number of the group, in float64; 0 where it is absent."""
        found = group.live(name)
        return cast(found._read(), float64) if isinstance(found, Tensor) else ZERO

    def update(
        self, group: Group, p: Value, grad: Value, state: Mapping[str, Value], numbers: Sequence[Value]
    ) -> tuple[Value, dict[str, Value]]:
        """The new parameter and the new state, of which the step count is no part."""
        raise NotImplementedError

    # -- the walk --------------------------------------------------------------------------------------

    @hooked
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient. A closure, if given, computes the loss (and
        gradients) first.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: Group) -> None:
        prepared: dict[Any, Sequence[Value]] = {}
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                self._step_parameter(group, p, _plain(grad._read()), prepared)

    def _step_parameter(
        self, group: Group, p: Tensor, grad: Value, prepared: dict[Any, Sequence[Value]]
    ) -> None:
        state, value = self.state[p], p._read()
        if state and self._made_for[p] != (value.shape, value.dtype):
            raise self._changed(p)
        values = {name: t._read() for name, t in state.items()}
        count = values.pop("step", None)
        if count is not None:
            count = add(count, _NEXT)
        numbers = self._prepared(group, count, accumulator(real_of(value.dtype)), prepared)
        changed: dict[str, Value] = {}
        if self.elementwise and is_large(p, value, grad, values):
            update_in_blocks(lambda x, g, s: self.update(group, x, g, s, numbers), value, grad, values)
        else:
            new, changed = self.update(group, value, grad, values, numbers)
            p._store(new)
        if count is not None:
            changed["step"] = count
        for name, v in changed.items():
            cells.write(state[name]._cell, v)

    def _changed(self, p: Tensor) -> StateError:
        shape, dtype = self._made_for[p]
        return StateError(
            f"a parameter is {p.dtype}{list(p.shape)} now",
            where=user_location(),
            expected=f"{dtype}{list(shape)}, as when {self.name} was made: its state has that form",
            remedy="convert the model first, then make the optimiser",
        )

    def _prepared(
        self, group: Group, count: Value | None, dtype: Any, prepared: dict[Any, Sequence[Value]]
    ) -> Sequence[Value]:
        """The numbers of this step in the parameter's precision. Parameters at the same count share them,
        where the count is known now.
        """
        concrete = count is None or (type(count) is np.ndarray and entry.threads.context.recorder is None)
        key = (dtype, None if count is None else int(count)) if concrete else None
        if key is not None and key in prepared:
            return prepared[key]
        out = [cast(n, dtype) for n in self.numbers(group, None if count is None else cast(count, float64))]
        if key is not None:
            prepared[key] = out
        return out

    def _patch_step_function(self) -> None:
        """Called by optimisers around others, without groups of their own. Steps have hooks anyway."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or fill those that are there with zeros."""
        with no_grad():
            for p in (p for group in self.param_groups for p in group["params"]):
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.fill_(0.0)

    # -- saving ----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """A copy of all state, in a form that checkpoints keep: tensors become arrays, parameters their
        places.
        """
        if self._plain:
            return save_plain(self.param_groups, self.state)
        return save_optimizer(self.param_groups, self.state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what state_dict() returned. Nothing is changed unless all of it fits."""
        self.refuse_recorded("load_state_dict")
        if self._plain:
            load_plain(self.param_groups, self.state, state)
            return
        load_optimizer(self.name, self.param_groups, self.state, state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy for the parameters' copies: those that were made with it, or new ones."""
        out = type(self).__new__(type(self))
        memo[id(self)] = out
        for name, value in self.__dict__.items():
            if name in ("state", "_made_for"):
                pairs = {copy.deepcopy(p, memo): copy.deepcopy(v, memo) for p, v in value.items()}
                out.__dict__[name] = defaultdict(dict, pairs) if self._plain and name == "state" else pairs
            else:
                out.__dict__[name] = copy.deepcopy(value, memo)
        out._adopt()
        return out

    def _adopt(self) -> None:
        for group in self.param_groups:
            if isinstance(group, Group):
                group.belongs_to(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "state": list(self.state.items()), "_made_for": list(self._made_for.items())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Tensors are keys by identity: the dicts are made anew around those that came back."""
        rows = dict(state.pop("state"))
        self.__dict__.update(state, _made_for=dict(state.pop("_made_for")))
        self.__dict__["state"] = defaultdict(dict, rows) if self._plain else rows
        self._adopt()

    def __repr__(self) -> str:
        rows = []
        for group in self.param_groups:
            if self._plain:
                rows.append(f"{len(group['params'])} tensors")
                continue
            numbers = {k: v.item() for k, v in group.numbers().items()}
            shown = ", ".join(f"{k}={v}" for k, v in {**numbers, **group.switches()}.items())
            rows.append(f"{len(group['params'])} tensors, {shown}")
        return f"{self.name}({'; '.join(rows)})"


_HINTS = frozenset({"foreach", "fused", "capturable", "differentiable"})


def _without_hints(made: Callable[..., None]) -> Callable[..., None]:
    """A constructor that passes over PyTorch's hints on how to run: they change no result."""

    @wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **{k: v for k, v in kwargs.items() if k not in _HINTS})

    return init


def _as_groups(params: Any) -> Iterable[Mapping[str, Any]]:
    if not isinstance(params, Iterable) or isinstance(params, (Tensor, Mapping, str)):
        check_parameters("an optimiser", params if isinstance(params, (Tensor, Mapping, str)) else [params])
    listed = list(params)
    if listed and all(isinstance(g, Mapping) for g in listed):
        return listed
    return [{"params": listed}] if listed else []


def spread_pairs(pairs: Mapping[str, tuple[str, ...]], given: dict[str, Any]) -> dict[str, Any]:
    """Settings with `betas=(a, b)` taken apart into beta1 and beta2."""
    out: dict[str, Any] = {}
    for name, value in given.items():
        if name not in pairs:
            out[name] = value
            continue
        if not isinstance(value, (tuple, list)) or len(value) != len(pairs[name]):
            raise ArgumentError(
                f"{name} is {value!r}",
                where=user_location(),
                expected=f"{len(pairs[name])} numbers: {', '.join(pairs[name])}",
            )
        out.update(zip(pairs[name], value, strict=True))
    return out


def _state_tensor(p: Tensor, start: float | Slot | None) -> Tensor:
    """State of small floats is kept in float32, of complex parameters in their real parts."""
    if start is None:
        return wrap(np.zeros((), int64))
    if isinstance(start, Slot):
        shape = start.shape(real_shape(p.shape, p._peek().dtype))
        return wrap(np.full(shape, start.start, accumulator(real_of(p.dtype))))
    shape, dtype = real_shape(p.shape, p._peek().dtype), accumulator(real_of(p.dtype))
    return wrap(np.full(shape, start, dtype) if start else np.zeros(shape, dtype))


def _plain(grad: Value) -> Value:
    """A gradient as a constant: create_graph=True leaves it on the tape."""
    return grad.primal if type(grad) is Taped and grad.interpreter.ambient else grad


def need_closure(name: str, closure: Any) -> None:
    if closure is None:
        raise ArgumentError(
            f"{name}.step() without a closure",
            where=user_location(),
            expected="a function that clears gradients, computes the loss, calls backward() and returns it",
        )
