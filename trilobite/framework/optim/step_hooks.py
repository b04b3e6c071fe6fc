"""Around an optimiser's step: hooks of the user's, and what a recording of it depends on.

Enters: the `step` of a class of optimisers. Leaves: one that calls hooks before and after, and that tells a
running recording which form the optimiser has: its parameters, terms and switches. A change of that form
counts as a change (`change_counter`), and the recording is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, SupportsIndex

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.change_counter import count_change
from trilobite.framework.tensor import Remover
from trilobite.ir.transforms import bind as entry

Hook = Callable[..., Any]


def _telling(name: str) -> Any:
    """A method of lists that counts a change."""
    plain = getattr(list, name)

    @wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        count_change()
        out = plain(self, *args, **kwargs)
        if self.told is not None:
            self.told()
        return out

    return method


class CountedList(list[Any]):
    """A list of groups or parameters that tells when it changes."""

    told: Callable[[], Any] | None = None  # who else hears of it

    append, extend, insert = _telling("append"), _telling("extend"), _telling("insert")
    remove, pop, clear = _telling("remove"), _telling("pop"), _telling("clear")
    sort, reverse = _telling("sort"), _telling("reverse")
    __setitem__, __delitem__ = _telling("__setitem__"), _telling("__delitem__")
    __iadd__, __imul__ = _telling("__iadd__"), _telling("__imul__")

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return CountedList, (list(self),)


class StepHooks:
    """What an optimiser offers to whoever wants to do something at every step."""

    _step_hooks: tuple[list[Hook], list[Hook]] | None

    def form(self) -> Any:
        """What a recording of a step depends on besides tensors."""
        raise NotImplementedError

    def _hooks(self) -> tuple[list[Hook], list[Hook]]:
        if self.__dict__.get("_step_hooks") is None:
            self.__dict__["_step_hooks"] = ([], [])
        found: tuple[list[Hook], list[Hook]] = self.__dict__["_step_hooks"]
        return found

    def register_step_pre_hook(self, hook: Hook) -> Remover:
        """`hook(optimizer, args, kwargs)` before every step; a pair that it returns replaces both."""
        return _entered(self._hooks()[0], hook)

    def register_step_post_hook(self, hook: Hook) -> Remover:
        """`hook(optimizer, args, kwargs)` after every step."""
        return _entered(self._hooks()[1], hook)


def _entered(row: list[Hook], hook: Hook) -> Remover:
    if not callable(hook):
        raise ArgumentError(f"a hook {hook!r}", where=user_location(), expected="a function")
    count_change()
    row.append(hook)
    return Remover(row, hook)


def _settled(step: Callable[..., Any], recorder: Any) -> Callable[..., Any]:
    """The step of an optimiser with state in plain dicts, as a recording can repeat it."""
    from trilobite.framework.optim.plain_state import PlainState

    def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = PlainState(optimizer, recorder)
        out = step(optimizer, *args, **kwargs)
        before.settle()
        return out

    return call


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step with everything around it; once, also where one step calls that of its base."""

    @wraps(step)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        own, recorder = self.__dict__, entry.threads.context.recorder
        while recorder is not None:
            recorder.notes.setdefault(("form", self), self.form())
            recorder = recorder.parent
        hooks = own.get("_step_hooks")
        if own.get("_in_step"):
            return step(self, *args, **kwargs)
        inner = entry.threads.context.recorder
        run = _settled(step, inner) if inner is not None and own.get("_plain") else step
        if hooks is None:
            return run(self, *args, **kwargs)
        own["_in_step"] = True
        try:
            for hook in list(hooks[0]):
                args, kwargs = hook(self, args, kwargs) or (args, kwargs)
            out = run(self, *args, **kwargs)
            for hook in list(hooks[1]):
                hook(self, args, kwargs)
            return out
        finally:
            own["_in_step"] = False

    return call
