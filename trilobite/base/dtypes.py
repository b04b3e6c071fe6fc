"""The number formats: NumPy dtypes, with ml_dtypes' for what NumPy lacks. One table; everything else is asked
of it.

Inside the package a dtype is NumPy's (`DType`), so arrays cross into NumPy without translation. What users
see, `tb.float32` and `x.dtype`, are objects of the class `dtype`, which equal them (`shown` gives the one
for the other, `as_dtype` leads back).
"""

from __future__ import annotations

from typing import Any, Self

import ml_dtypes
import numpy as np

from trilobite.base.errors import DTypeError
from trilobite.base.locations import user_location

DType = np.dtype[Any]

bool_ = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
bfloat16 = np.dtype(ml_dtypes.bfloat16)
int4, uint4 = np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)
float8_e4m3fn, float8_e5m2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
float8_e4m3, float8_e3m4 = np.dtype(ml_dtypes.float8_e4m3), np.dtype(ml_dtypes.float8_e3m4)
float8_e4m3fnuz, float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz), np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e4m3b11fnuz = np.dtype(ml_dtypes.float8_e4m3b11fnuz)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)
float4_e2m1fn = np.dtype(ml_dtypes.float4_e2m1fn)

FP8 = (
    float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4,
    float8_e4m3fnuz, float8_e5m2fnuz, float8_e4m3b11fnuz, float8_e8m0fnu,
)  # fmt: skip
SMALL_FLOATS = frozenset({float16, bfloat16, float4_e2m1fn, *FP8})
FLOATS = frozenset({float32, float64}) | SMALL_FLOATS
COMPLEX: frozenset[DType] = frozenset({complex64, complex128})
SIGNED: frozenset[DType] = frozenset({int4, int8, int16, int32, int64})
UNSIGNED: frozenset[DType] = frozenset({uint4, uint8, uint16, uint32, uint64})
INTEGERS = SIGNED | UNSIGNED
INEXACT = FLOATS | COMPLEX
ALL: frozenset[DType] = frozenset((bool_, *FLOATS, *COMPLEX, *INTEGERS))

BY_NAME: dict[str, DType] = {d.name: d for d in ALL}

default_float, default_int, default_complex = float32, int64, complex64

_REAL = {complex64: float32, complex128: float64}
_BITS = {int4: 4, uint4: 4, float4_e2m1fn: 4, bool_: 1}


def as_dtype(spec: Any) -> DType:
    """The dtype that a user means: a dtype, a name, a NumPy scalar type, or Python's bool, int, float,
    complex.
    """
    if type(spec) is dtype:
        return spec.dtype
    if spec is float:
        return default_float
    if spec is complex:
        return default_complex
    if spec is int:
        return default_int
    if isinstance(spec, str) and spec in BY_NAME:
        return BY_NAME[spec]
    try:
        found: DType = np.dtype(object if spec is None else spec)  # None is float64 to NumPy
    except (TypeError, ValueError):
        found = np.dtype(object)
    if found not in ALL:
        names = ", ".join(sorted(BY_NAME))
        raise DTypeError(
            f"{spec!r} is not a dtype that tensors can have",
            where=user_location(),
            expected=f"one of {names}",
            remedy="pass tb.float32 or its name",
        )
    return found.newbyteorder("=") if found.byteorder not in "=|" else found


def is_float(d: DType | dtype) -> bool:
    return d in FLOATS


def is_complex(d: DType | dtype) -> bool:
    return d in COMPLEX


def is_inexact(d: DType | dtype) -> bool:
    return d in INEXACT


def is_integer(d: DType | dtype) -> bool:
    return d in INTEGERS


def is_signed(d: DType | dtype) -> bool:
    return d in SIGNED


def is_unsigned(d: DType | dtype) -> bool:
    return d in UNSIGNED


def bits(d: DType | dtype) -> int:
    """Width of one element as hardware would store it (NumPy keeps a 4-bit element in a byte)."""
    return _BITS.get(d, d.itemsize * 8)


def accumulator(d: DType | dtype) -> DType:
    """What sums and products of `d` accumulate in: 16-bit and smaller floats in float32, the others in
    themselves.
    """
    return float32 if d in SMALL_FLOATS else as_dtype(d)


def real_of(d: DType | dtype) -> DType:
    return _REAL[d] if d in _REAL else as_dtype(d)


def complex_of(d: DType | dtype) -> DType:
    return complex128 if d in (float64, complex128) else complex64


def kind(d: DType | dtype) -> str:
    """`bool`, `int`, `float` or `complex`: the order in which promotion climbs."""
    if d in FLOATS:
        return "float"
    if d in INTEGERS:
        return "int"
    return "complex" if d in COMPLEX else "bool"


# -- what users see ----------------------------------------------------------------------------------------


class dtype:
    """A dtype as users see it: `tb.float32`, `x.dtype`. There is one object of each: `is` tells them apart.

    It equals NumPy's dtype of that name and hashes like it, NumPy takes it wherever a dtype goes, and it has
    all attributes of NumPy's beside the questions that PyTorch's answer. `tb.dtype("float32")` finds one.
    """

    __slots__ = (
        "__numpy_dtype__", "dtype", "is_complex", "is_floating_point", "is_signed", "itemsize", "name",
    )  # fmt: skip
    __numpy_dtype__: DType  # asked for by NumPy, up to 2.3 under the name `dtype`
    dtype: DType
    is_floating_point: bool
    is_complex: bool
    is_signed: bool
    itemsize: int
    name: str

    def __new__(cls, spec: Any) -> Self:
        return shown(as_dtype(spec))  # type: ignore[return-value]  # it has no subclasses

    def __eq__(self, other: object) -> bool:
        if other is None or type(other) is dtype:
            return self is other
        return bool(self.dtype == other)

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"trilobite.{self.name}"

    def __format__(self, spec: str) -> str:
        """The name alone: in a message it stands beside a shape."""
        return format(self.name, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (self.name,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols of others: this is no NumPy dtype
            raise AttributeError(name)
        return getattr(self.dtype, name)

    def to_real(self) -> Any:
        """The dtype of the components of a complex one; others are their own."""
        return shown(real_of(self.dtype))

    def to_complex(self) -> Any:
        """The complex dtype with components of this one, or the smallest that there is."""
        return shown(complex_of(self.dtype))


def _shown(d: DType) -> dtype:
    out = object.__new__(dtype)
    out.dtype = out.__numpy_dtype__ = d
    out.is_floating_point, out.is_complex, out.is_signed = d in FLOATS, d in COMPLEX, d in INEXACT | SIGNED
    out.itemsize, out.name = d.itemsize, d.name
    return out


_SHOWN = {d: _shown(d) for d in ALL}
shown = _SHOWN.__getitem__
