"""Primitives of the IR as functions of tensors, where the framework offers no function of its own."""

from __future__ import annotations

from typing import Any

from trilobite.base.dtypes import as_dtype, dtype
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table


def primitive(name: str, *operands: Tensor, **attributes: Any) -> Tensor:
    """The result of a primitive that has one."""
    plain = {k: as_dtype(v) if type(v) is dtype else v for k, v in attributes.items()}
    return wrap(table[name](*(t._read() for t in operands), **plain))
