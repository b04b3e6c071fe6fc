"""Fast paths: an overlay {mnemonic: kernel} on the instruction table.

A kernel takes what the row's meaning takes and gives the same bits; deleting it changes only speed. Float
products run as LLVM code that keeps the stated chain: one fused multiply-add per k, k ascending, many
outputs side by side. Integer products of up to 8 bits run through the same code in pieces of 1024, where
float32 is exact.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from trilobite.native.jit import INT64, POINTER, NativeModule
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import Operands
from trilobite.processor.isa.rows import matrix, softmax
from trilobite.processor.sim.core import Kernel
from trilobite.processor.sim.routines.chain import COLUMNS, chain_text

EXACT_K = 1024  # products of 8-bit integers summed exactly in the 24 bits of a float32


@lru_cache(maxsize=1)
def _native() -> NativeModule:
    return NativeModule(chain_text(""), {"gemm": (None, (POINTER, POINTER, POINTER, INT64, INT64, INT64))})


def fast_chain(a: Array, b: Array, start: Array) -> Array:
    """The bits of `float_chain`, computed natively."""
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    if n < m and n < COLUMNS:  # the tile is wide: let the longer side run along it
        return np.ascontiguousarray(fast_chain(b.T, a.T, start.T).T)
    width = -(-n // COLUMNS) * COLUMNS
    left = np.ascontiguousarray(a, np.float32)
    right = np.zeros((k, width), np.float32)
    right[:, :n] = b
    total = np.zeros((m, width), np.float32)
    total[:, :n] = start
    _native()["gemm"](left.ctypes.data, right.ctypes.data, total.ctypes.data, m, width, k)
    return total[:, :n] if width != n else total


def _exact_integers(a: Array, b: Array, start: Array) -> Array:
    """Products of integers of up to 8 bits, in pieces that float32 sums exactly."""
    total = start.copy()
    for first in range(0, a.shape[1], EXACT_K):
        left = a[:, first : first + EXACT_K].astype(np.float32)
        right = b[first : first + EXACT_K].astype(np.float32)
        total += fast_chain(left, right, np.zeros(start.shape, np.float32)).astype(np.int64)
    return total


def fast_product(o: Operands, a: Array, b: Array, start: Array | None) -> Array:
    first = matrix.first_total(o, a, b, start)
    if o.f1.kind == "float":
        return fast_chain(matrix.operand_value(o.f1, a), matrix.operand_value(o.f2, b), first)
    if max(o.f1.bits, o.f2.bits) <= 8:
        return _exact_integers(a, b, first)
    # 16-bit products summed in float64 are exact up to 2^22 of them
    return first + (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


KERNELS: dict[str, Kernel] = {
    "MM": partial(matrix.mm, product=fast_product),
    "MMTOP": partial(softmax.scores, product=fast_product),
    "MMV": partial(matrix.mmv, product=fast_product),
    "VMM": partial(matrix.vmm, product=fast_product),
    "CONV": partial(matrix.conv, product=fast_product),
    "CONVDX": partial(matrix.conv_dx, product=fast_product),
    "CONVDW": partial(matrix.conv_dw, product=fast_product),
}
