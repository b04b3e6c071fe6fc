"""LLVM text to callable machine code, in this process.

Enters: the text of an LLVM module and the signatures of its functions. Leaves: a `NativeModule` whose
functions are called like Python functions. For single modules with functions of their own names; kernels of
a plan go through `cache`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trilobite.native.objects import Engine

POINTER, INT64 = ctypes.c_void_p, ctypes.c_int64


class NativeModule:
    """Compiled functions; the machine code lives as long as this object."""

    def __init__(
        self, text: str, signatures: Mapping[str, tuple[Any, Sequence[Any]]], level: int = 3
    ) -> None:
        self._engine = Engine(text, level)
        self._engine.finalize()
        self._functions = {name: self._bind(name, *signature) for name, signature in signatures.items()}

    def _bind(self, name: str, result: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
        return ctypes.CFUNCTYPE(result, *arguments)(self._engine.address(name))

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]
