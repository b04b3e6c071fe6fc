"""Native code of operators on the host, where NumPy would go through Python once for every box or region.

Enters: the text of a kernel (`native.llvm.text.Text`). Leaves: a function of its words. Operators that
compiled graphs can express do not come here.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from trilobite.native.cache import kernels

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class HostKernel:
    """A kernel, ready to be called; its code is kept on disk as that of compiled graphs."""

    def __init__(self, text: str, level: int) -> None:
        self._code = kernels([(text, level)])  # which keeps it alive
        self._function = _ENTRY(self._code.addresses[0])

    def __call__(self, words: Sequence[int], units: int) -> None:
        """Arguments are numbers and addresses of arrays that the caller holds."""
        self._function(struct.pack(f"{len(words)}q", *words), 0, units, None)
