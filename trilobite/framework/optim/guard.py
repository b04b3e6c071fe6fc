"""Objects whose attributes stay as they are while a function is being recorded.

What a recording changes must be in tensors: a Python attribute set inside would be set once, and not at
every run.
"""

from __future__ import annotations

from typing import Any, Self

from trilobite.framework.change_counter import count_change
from trilobite.framework.jit import refuse_during_recording
from trilobite.ir.transforms import bind as entry


class Guarded:
    """The base of what holds state for training. Made inside a recording, it belongs to that."""

    _owner: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self.__dict__["_owner"] = entry.context().recorder
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        self.refuse_recorded(f"{type(self).__name__}.{name} is set")
        object.__setattr__(self, name, value)
        count_change()

    def refuse_recorded(self, what: str) -> None:
        """An error if a function is being recorded that this object was not made in."""
        if entry.threads.context.recorder is not self._owner:
            refuse_during_recording(what)
