"""Complex numbers: their parts, and putting them together.

Derivatives follow the convention that a gradient is the conjugate Wirtinger derivative, so that ⟨u, Jv⟩ =
⟨Jᵀu, v⟩ in the real inner product Re Σ conj(u)·v. A holomorphic function's cotangent is multiplied by the
conjugate of its derivative, which `derivative=` does by itself; the maps here are linear over the reals only
and state both directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import COMPLEX, complex_of, float32, float64, real_of
from trilobite.ir.primitive import Primitive, Value
from trilobite.ir.primitives.elementwise import constant_like, elementwise

Array = np.ndarray[Any, Any]


def _zero(x: Value) -> Value:
    return constant_like(x, 0.0)


def _complex(re: Array, im: Array) -> Array:
    out = np.empty(np.broadcast_shapes(re.shape, im.shape), complex_of(re.dtype))
    out.real, out.imag = re, im
    return out


conj: Primitive = elementwise(
    "conj", "x", np.conjugate, jvp=(lambda t: conj(t),), vjp=(lambda t: conj(t),), accepts=COMPLEX, flops=0
)
real: Primitive = elementwise(
    "real", "x", lambda x: x.real.copy(), jvp=(lambda t: real(t),), vjp=(lambda t: complex(t, _zero(t)),),
    accepts=COMPLEX, result=real_of, flops=0,
)  # fmt: skip
imag: Primitive = elementwise(
    "imag", "x", lambda x: x.imag.copy(), jvp=(lambda t: imag(t),), vjp=(lambda t: complex(_zero(t), t),),
    accepts=COMPLEX, result=real_of, flops=0,
)  # fmt: skip
complex: Primitive = elementwise(
    "complex", "re im", _complex, jvp=(lambda t: complex(t, _zero(t)), lambda t: complex(_zero(t), t)),
    vjp=(lambda t: real(t), lambda t: imag(t)), accepts=(float32, float64), result=complex_of, flops=0,
    doc="re + i·im, with infinities and signed zeros as they are",
)  # fmt: skip
