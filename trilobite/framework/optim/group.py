"""A parameter group: which tensors, and by which numbers they are updated.

Numbers (learning rate, momentum, ...) are 0-d float64 tensors, so that a jitted step sees them change:
assigning to `group["lr"]` writes into the tensor that is there, and reading it gives the number as it is
then (`live` gives the tensor; one that the user gave comes back itself). A number that was absent when the
group was made (a weight decay of 0, say) has no term in the update, and switches (bools and names) decide its
form: assigning to those makes another form, and recordings of the step record anew. Other names are the
user's own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from difflib import get_close_matches
from typing import Any

import numpy as np

from trilobite.base.dtypes import float64, is_float, is_inexact
from trilobite.base.errors import ArgumentError, DTypeError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.change_counter import count_change
from trilobite.framework.jit import refuse_during_recording
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.creation import to_array
from trilobite.framework.optim.reading import reading
from trilobite.framework.optim.step_hooks import CountedList
from trilobite.framework.tensor import Tensor, wrap


def number(name: str, given: Any) -> Tensor:
    """A hyperparameter as a tensor of its own; a float tensor without dimensions is taken itself, and so
    shared.
    """
    if isinstance(given, Tensor):
        if given.shape != () or not is_float(given.dtype):
            raise ArgumentError(
                f"{name} is a tensor {given.dtype}{list(given.shape)}",
                where=user_location(),
                expected="a number, or a float tensor without dimensions",
            )
        return given
    if isinstance(given, np.generic) or (isinstance(given, np.ndarray) and given.shape == ()):
        given = given.item()
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise ArgumentError(f"{name} is {given!r}", where=user_location(), expected="a number")
    return wrap(to_array(float(given), float64, copy=True))


class Rule:
    """What a number must be when it is given: a test, and how an error says it."""

    def __init__(self, says: str, holds: Callable[[float], bool]) -> None:
        self.says, self.holds = says, holds

    def check(self, owner: str, name: str, given: Any) -> None:
        if isinstance(given, (int, float)) and not isinstance(given, bool) and not self.holds(float(given)):
            raise ArgumentError(
                f"{owner}: {name} is {given}",
                where=user_location(),
                expected=f"{name} {self.says}",
                remedy=f"pass another {name}, or leave it away for the default",
            )


AT_LEAST_0 = Rule(">= 0", lambda x: x >= 0 and not math.isinf(x))
BELOW_1 = Rule("in [0, 1)", lambda x: 0 <= x < 1)
FINITE = Rule("finite", math.isfinite)


class Group(dict[str, Any]):
    """`params`, numbers and switches by name, and what the user keeps with them. Numbers are assigned in
    place; what decides the form of the update is told to the optimiser, and counts as a change.
    """

    owner: Any = None  # the optimiser

    def __init__(
        self,
        params: list[Tensor],
        numbers: Mapping[str, Any],
        switches: Mapping[str, Any],
        optional: Iterable[str],
        pairs: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__(params=CountedList(params), **switches)
        absent, self.pairs = set(optional), dict(pairs or {})
        self.shared = {name for name, given in numbers.items() if isinstance(given, Tensor)}
        for name, given in numbers.items():
            there = isinstance(given, Tensor) or name not in absent or given != 0
            super().__setitem__(name, number(name, given) if there else 0.0)

    def __getitem__(self, name: str) -> Any:
        """What is there now; of a number, what it is now."""
        found = super().__getitem__(name)
        return reading(found) if isinstance(found, Tensor) and name not in self.shared else found

    def live(self, name: str) -> Any:
        """A number's own tensor, which assignments write; what is no number, as it is."""
        return dict.get(self, name)

    def __iter__(self) -> Iterator[str]:  # a dict of a group, dict(group), reads each entry
        return super().__iter__()

    def items(self) -> Any:
        return ItemsView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def __missing__(self, name: str) -> Any:
        """PyTorch's `group["betas"]`, of the numbers that it stands for."""
        if name not in self.pairs:
            raise KeyError(name)
        return tuple(self[part] for part in self.pairs[name])

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.pairs

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  this is what `get` means here

    def __setitem__(self, name: str, value: Any) -> None:
        current = self.live(name)
        if name in self.pairs:
            for part, given in zip(self.pairs[name], value, strict=True):
                self[part] = given
        elif isinstance(current, Tensor):
            with no_grad():
                current.copy_(_plain_number(name, value))
        elif name not in self and is_misspelt(name, self):
            raise StateError(
                f"a parameter group has no {name!r}",
                where=user_location(),
                expected=f"one of {', '.join(self.numbers())}",
            )
        elif name not in self or not _is_equal(current, value):
            self._reform(name, value)

    def _reform(self, name: str, value: Any) -> None:
        """Another form of the update: refused as a whole if it makes no sense."""
        refuse_during_recording(f"{name} of a parameter group is changed")
        before = super().copy()
        if name == "params":
            value = CountedList(check_parameters("a parameter group", value))
        elif type(before.get(name)) is float or name == "initial_lr":
            value = number(name, value.item() if isinstance(value, Tensor) else value)
        super().__setitem__(name, value)
        try:
            self._check()
        except ArgumentError:
            super().clear()
            super().update(before)
            raise
        count_change()

    def _check(self) -> None:
        if self.owner is not None:
            self.owner.check_group(self)
            self.belongs_to(self.owner)
            self.owner.complete(self)

    def belongs_to(self, optimizer: Any) -> None:
        self.owner = optimizer
        self["params"].told = self._check

    def add(self, name: str, given: Any) -> Tensor:
        """A further number, kept and saved with the group; the one that is there if there is one."""
        if name not in self:
            super().__setitem__(name, number(name, given))
        found: Tensor = self.live(name)
        return found

    def update(self, *given: Any, **named: Any) -> None:
        for name, value in dict(*given, **named).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def numbers(self) -> dict[str, Tensor]:
        return {name: value for name, value in super().items() if isinstance(value, Tensor)}

    def has(self, name: str) -> bool:
        """Is there such a number, that is, a term of the update that it stands in?"""
        return isinstance(self.live(name), Tensor)

    def switches(self) -> dict[str, Any]:
        return {k: v for k, v in super().items() if k != "params" and not isinstance(v, Tensor)}

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise StateError(
            "what a parameter group has stays there",
            where=user_location(),
            expected='group["lr"] = value',
        )

    __delitem__ = pop = popitem = clear = __ior__ = _refuse

    def __reduce__(self) -> Any:
        return _restored, (super().copy(), self.pairs, self.shared)

    def __deepcopy__(self, memo: dict[int, Any]) -> Group:
        entries = {k: copy.deepcopy(v, memo) for k, v in super().items()}
        return _restored(entries, self.pairs, self.shared)


def _restored(
    entries: dict[str, Any], pairs: dict[str, tuple[str, ...]], shared: Iterable[str] = ()
) -> Group:
    """A group with these entries as they are."""
    out = Group.__new__(Group)
    out.pairs, out.shared = pairs, set(shared)
    for name, value in entries.items():
        dict.__setitem__(out, name, value)
    return out


_OTHER_WORDS = frozenset({"rate", "learning_rate", "decay", "wd", "l2", "beta", "epsilon"})


def settings_of(given: Any) -> dict[str, Any]:
    """The defaults of an optimiser, which are a mapping of names."""
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return dict(given)
    raise _NoSettings(
        f"an optimiser whose defaults are {given!r}",
        where=user_location(),
        expected="a dict of settings by name: {'lr': 0.1}",
    )


class _NoSettings(ArgumentError, TypeError):
    """Defaults that are no settings: by Python's name, too."""


def is_misspelt(name: str, known: Iterable[str]) -> bool:
    """Meant for a setting, it would be kept and never read. Any other name is the user's own."""
    return name in _OTHER_WORDS or bool(get_close_matches(name, list(known), 1, 0.8))


def _is_equal(a: Any, b: Any) -> bool:
    if isinstance(a, list) or isinstance(b, list | Tensor):
        return False
    return type(a) in (type(b), float) and bool(a == b)


def _plain_number(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.shape != ():
            raise ArgumentError(
                f"{name} is set to a tensor of shape {tuple(value.shape)}",
                where=user_location(),
                expected="a number, or a tensor without dimensions",
            )
        return value
    return number(name, value)


def check_parameters(owner: str, params: Any) -> list[Tensor]:
    """What the user gave as parameters, as a list of leaves; names, where given, are put aside."""
    if isinstance(params, (Tensor, str, Mapping)):
        raise ArgumentError(
            f"{owner}: the parameters are one {type(params).__name__}",
            where=user_location(),
            expected="an iterable of tensors, for example model.parameters()",
            remedy="put it into a list: [w]",
        )
    found = [p[1] if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) else p for p in params]
    for i, p in enumerate(found):
        if not isinstance(p, Tensor):
            raise ArgumentError(
                f"{owner}: parameter {i} is a {type(p).__name__}",
                where=user_location(),
                expected="a tensor",
            )
        if not is_inexact(p.dtype):
            raise DTypeError(
                f"{owner}: parameter {i} is {p.dtype}",
                where=user_location(),
                expected="a float or complex dtype",
            )
        if not p.is_leaf:
            raise ArgumentError(
                f"{owner}: parameter {i} is the result of a computation",
                where=user_location(),
                expected="leaves: tensors that were made, not computed",
                remedy="pass x.detach().requires_grad_()",
            )
    if not found:
        raise ArgumentError(
            f"{owner}: there are no parameters",
            where=user_location(),
            expected="at least one tensor",
            remedy="an iterator that was used up before is empty: pass model.parameters() itself",
        )
    return found
