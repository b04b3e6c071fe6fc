"""Dtypes as the array API standard asks about them: astype, can_cast, finfo, iinfo, isdtype, result_type."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import ml_dtypes

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType, as_dtype
from trilobite.base.errors import ArgumentError, DTypeError
from trilobite.base.locations import user_location
from trilobite.framework import promotion
from trilobite.framework.devices import check_device
from trilobite.framework.ops.registry import copy_value, method, tensor_op
from trilobite.framework.replay.plans import planned
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table
from trilobite.ir.transforms.tape import Taped

G = "dtypes"


class FloatInfo(NamedTuple):
    """The limits of a float dtype (of its components, for a complex one)."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dt.dtype

    @property
    def tiny(self) -> float:
        """The smallest normal number, as PyTorch and NumPy also call it."""
        return self.smallest_normal

    @property
    def resolution(self) -> float:
        """The decimal digits that are exact, as a power of ten."""
        return 10.0 ** -int(-math.log10(self.eps))


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: dt.dtype


def dtype_of(x: Any) -> DType:
    return as_dtype(x.dtype if isinstance(x, Tensor) else x)


@tensor_op(G, methods=())
def finfo(type: Any, /) -> FloatInfo:
    """The limits of a float dtype, or of the dtype of a tensor."""
    dtype = dt.real_of(dtype_of(type))
    if dtype not in dt.FLOATS:
        raise DTypeError(
            f"finfo of {dtype}",
            where=user_location(),
            expected="a float or complex dtype",
            remedy=f"tb.iinfo({dtype})",
        )
    return _float_info(dtype)


@cache
def _float_info(dtype: DType) -> FloatInfo:
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return FloatInfo(
        dt.bits(dtype),
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
        dt.shown(dtype),
    )


@tensor_op(G, methods=())
def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of the dtype of a tensor."""
    dtype = dtype_of(type)
    if dtype not in dt.INTEGERS:
        raise DTypeError(
            f"iinfo of {dtype}",
            where=user_location(),
            expected="an integer dtype",
            remedy=f"tb.finfo({dtype})",
        )
    return _integer_info(dtype)


@cache
def _integer_info(dtype: DType) -> IntegerInfo:
    bits, signed = dt.bits(dtype), dt.is_signed(dtype)
    low = -(1 << bits - 1) if signed else 0
    return IntegerInfo(bits, low + (1 << bits) - 1, low, dt.shown(dtype))


# -- questions -------------------------------------------------------------------------------------------

KINDS: dict[str, frozenset[DType]] = {
    "bool": frozenset({dt.bool_}),
    "signed integer": dt.SIGNED,
    "unsigned integer": dt.UNSIGNED,
    "integral": dt.INTEGERS,
    "real floating": dt.ALL & dt.FLOATS,
    "complex floating": dt.ALL & dt.COMPLEX,
    "numeric": dt.ALL - {dt.bool_},
}


@tensor_op(G, methods=())
def isdtype(dtype: Any, kind: Any) -> bool:
    """Is the dtype of this kind: a dtype, the name of a kind, or a tuple of these?"""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and (kind in KINDS or kind not in dt.BY_NAME):
        if kind not in KINDS:
            raise ArgumentError(
                f"isdtype of the kind {kind!r}",
                where=user_location(),
                expected=f"a dtype or one of {', '.join(KINDS)}",
            )
        return as_dtype(dtype) in KINDS[kind]
    return as_dtype(dtype) == as_dtype(kind)


@tensor_op(G, methods=())
def can_cast(from_: Any, to: Any, /) -> bool:
    """Does promotion lead from one dtype to the other, without loss of range or precision?"""
    source, target = dtype_of(from_), as_dtype(to)
    if source == target or source == dt.bool_:
        return True
    try:
        return promotion.promote(source, target) == target and _holds(source, target)
    except DTypeError:
        return False


def _holds(source: DType, target: DType) -> bool:
    """int64 promotes to float32, but does not fit into it."""
    if source not in dt.INTEGERS or target in dt.INTEGERS:
        return True
    precision = {dt.float16: 11, dt.bfloat16: 8, dt.float32: 24, dt.float64: 53}.get(dt.real_of(target), 0)
    return dt.bits(source) - dt.is_signed(source) <= precision


@tensor_op(G, methods=())
def result_type(*arrays_and_dtypes: Any) -> dt.dtype:
    """The dtype that tensors, dtypes and Python numbers meet in."""
    return dt.shown(promotion.result_type(*arrays_and_dtypes))


@tensor_op(G, methods=())
def promote_types(type1: Any, type2: Any, /) -> dt.dtype:
    """The dtype that two dtypes meet in."""
    return dt.shown(promotion.promote(as_dtype(type1), as_dtype(type2)))


# -- casts -----------------------------------------------------------------------------------------------


@tensor_op(G)
def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The same values in another dtype. Without `copy`, the tensor itself where it has that dtype already."""
    check_device(device)
    want, value = as_dtype(dtype), x._read()
    if want != value.dtype:
        done: Tensor | None = planned(table["cast"], (x,), {"dtype": want}) if type(value) is Taped else None
        return wrap(table["cast"](value, dtype=want)) if done is None else done
    return wrap(copy_value(value)) if copy else x


@method("to")
def to(
    x: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    copy: bool = False,
    non_blocking: bool = False,
    memory_format: Any = None,
    other: Any = None,
) -> Tensor:
    """x in a dtype, on a device, or like another tensor: x.to(tb.float64), x.to("cpu"), x.to(other)."""
    for a in (*args, other):
        if isinstance(a, Tensor):
            dtype = a.dtype
        elif isinstance(a, str) and a not in dt.BY_NAME:
            device = a
        elif a is not None and not isinstance(a, bool):  # non_blocking by its place
            dtype = a
    check_device(device)
    return astype(x, x.dtype if dtype is None else dtype, copy=copy)


@method("type")
def type_(x: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """x in another dtype; itself if it has it. Without one, the name that PyTorch gives to its class."""
    if dtype is None:
        return f"trilobite.{_CLASSES[x.dtype]}Tensor" if x.dtype in _CLASSES else f"trilobite.{x.dtype}"
    return astype(x, _of_class(dtype), copy=False)


_CLASSES = {
    dt.float32: "Float", dt.float64: "Double", dt.float16: "Half", dt.bfloat16: "BFloat16", dt.int64: "Long",
    dt.int32: "Int", dt.int16: "Short", dt.int8: "Char", dt.uint8: "Byte", dt.bool_: "Bool",
}  # fmt: skip


def _of_class(dtype: Any) -> Any:
    """A dtype, also by one of PyTorch's tensor classes or by the name of one, as `x.type()` gives it."""
    if isinstance(dtype, str) and dtype.startswith(("trilobite.", "torch.")):
        name = dtype.partition(".")[2]
        dtype = TENSOR_CLASSES.get(name, name)
    return getattr(dtype, "tensor_dtype", dtype)


class TypedTensor(type):
    """PyTorch's tensor classes by dtype: `tb.LongTensor([1, 2])` makes one, isinstance asks for its dtype."""

    tensor_dtype: DType

    def __call__(cls, *data: Any, **named: Any) -> Any:
        return Tensor(*data, dtype=cls.tensor_dtype, **named)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.tensor_dtype


TENSOR_CLASSES: dict[str, Any] = {
    f"{name}Tensor": TypedTensor(f"{name}Tensor", (), {"tensor_dtype": dtype})
    for dtype, name in _CLASSES.items()
}


def _shorthand(name: str, dtype: DType) -> None:
    def cast(x: Tensor, memory_format: Any = None) -> Tensor:
        return x if x._peek().dtype == dtype else astype(x, dtype, copy=False)

    cast.__name__, cast.__doc__ = name, f"The tensor in {dtype}; itself if it is."
    method(name)(cast)


for _name, _dtype in {
    "float": dt.float32,
    "double": dt.float64,
    "half": dt.float16,
    "bfloat16": dt.bfloat16,
    "int": dt.int32,
    "long": dt.int64,
    "short": dt.int16,
    "char": dt.int8,
    "byte": dt.uint8,
    "bool": dt.bool_,
    "cfloat": dt.complex64,
    "cdouble": dt.complex128,
}.items():
    _shorthand(_name, _dtype)


@method("type_as")
def type_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the dtype of another tensor."""
    return x if x._peek().dtype == other._peek().dtype else astype(x, other.dtype, copy=False)


@tensor_op(G)
def is_floating_point(x: Any, /) -> bool:
    """Is the dtype a float one?"""
    return dt.is_float(dtype_of(x))


@tensor_op(G)
def is_complex(x: Any, /) -> bool:
    """Is the dtype a complex one?"""
    return dt.is_complex(dtype_of(x))
