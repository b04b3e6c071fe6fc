"""Parameter: a tensor that a module trains; a module that gets one as an attribute knows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.framework.ops.creation import to_array
from trilobite.framework.tensor import CLASSES, Tensor
from trilobite.ir.transforms.cells import Cell


class Parameter(Tensor):
    """A tensor with memory of its own that belongs to a module. Its class has no state beyond a tensor's."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, dtype: Any = None) -> None:
        value = to_array(data, dtype)
        self._cell = Cell(value.copy() if isinstance(value, np.ndarray) else value)
        self._view = self._extra = None
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


CLASSES.add(Parameter)


class Buffer(Tensor):
    """A tensor that a module which gets it as an attribute enters as a buffer."""

    __slots__ = ()

    def __init__(self, data: Any = None, persistent: bool = True) -> None:
        given = data.detach() if isinstance(data, Tensor) else None
        self._cell = Cell(to_array(data)) if given is None else given._cell
        self._view = None if given is None else given._view
        self._extra = {"persistent": persistent}

    @property
    def persistent(self) -> bool:
        """Does the state dict have it?"""
        return bool((self._extra or {}).get("persistent", True))


def __getattr__(name: str) -> Any:
    if name in ("UninitializedParameter", "UninitializedBuffer", "UninitializedTensorMixin", "is_lazy"):
        from trilobite.framework.nn import lazy

        return getattr(lazy, name)
    raise AttributeError(f"trilobite.nn.parameter has no {name!r}")
