"""Primitives of the IR as functions of tensors, where the framework offers no function of its own."""

from __future__ import annotations

from typing import Any

from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table


def primitive(name: str, *operands: Tensor, **attributes: Any) -> Tensor:
    """The result of a primitive that has one."""
    return wrap(table[name](*(t._read() for t in operands), **attributes))
