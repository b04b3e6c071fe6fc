"""State that an optimiser written for PyTorch keeps in plain dicts, inside a recording of its step.

Enters: the optimiser before and after its own `step`. Leaves: the same tensors as before, with the new
values, so that the recording writes them in every run. State that is made in the first step cannot be: the
recording ends, and the call runs eagerly (`jit`). A number of Python that a step changes would be changed
once: refused.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import TraceError
from trilobite.base.locations import user_location
from trilobite.framework.recordings import StateToCome
from trilobite.framework.tensor import Tensor

NUMBERS = (bool, int, float)


class PlainState:
    """What the dicts of an optimiser hold before a step."""

    def __init__(self, optimizer: Any, recorder: Any) -> None:
        self.optimizer, self.recorder = optimizer, recorder
        self.rows = {p: dict(row) for p, row in optimizer.state.items()}
        self.groups = [dict(g) for g in optimizer.param_groups]

    def settle(self) -> None:
        """After the step: new values go into the tensors of before."""
        name = type(self.optimizer).__name__
        for p, row in self.optimizer.state.items():
            before = self.rows.get(p, {})
            if any(k not in before and self._is_new(v) for k, v in row.items()):
                self._restore()
                raise _to_come(name)
            for key, value in list(row.items()):
                row[key] = self._kept(f"{name}: {key!r} in the state of a parameter", before.get(key), value)
        for group, before in zip(self.optimizer.param_groups, self.groups, strict=False):
            for key in before.keys() - {"params"}:
                group[key] = self._kept(f"{name}: {key!r} of a group", before[key], group.get(key))

    def _is_new(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value._cell.owner is self.recorder

    def _kept(self, what: str, before: Any, now: Any) -> Any:
        if isinstance(before, Tensor) and self._is_new(now):
            before.copy_(now)
            return before
        if type(before) in NUMBERS and (self._is_new(now) or now != before):
            self._restore()
            raise TraceError(
                f"{what} is a number of Python that a recorded step changes",
                where=user_location(),
                expected="state that changes from run to run lives in tensors",
                remedy="make it a tensor, state['step'] = tb.zeros(()), and write to it in place",
            )
        return now

    def _restore(self) -> None:
        state = self.optimizer.state
        state.clear()
        state.update(self.rows)
        for group, before in zip(self.optimizer.param_groups, self.groups, strict=False):
            group.update(before)


def _to_come(name: str) -> StateToCome:
    return StateToCome(
        f"{name} makes state in a step that is being recorded",
        where=user_location(),
        expected="state that is there before the recording",
        remedy="take one step before, eagerly or by a compiled function of its own",
    )
