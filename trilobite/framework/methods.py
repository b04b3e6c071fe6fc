"""The operator table becomes methods of Tensor: each row under the names it gives, binary ones also
reflected and in place.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base import dtypes
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework import display
from trilobite.framework.ops.registry import methods, operators
from trilobite.framework.tensor import Tensor
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.tape import moment
from trilobite.ir.types import Affine

REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "pow": "__rpow__",
    "matmul": "__rmatmul__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "bitwise_left_shift": "__rlshift__",
    "bitwise_right_shift": "__rrshift__",
}
COMPARISONS = frozenset({"eq", "not_equal", "less", "less_equal", "greater", "greater_equal"})
IN_PLACE = ("elementwise", "products with additions")
ALSO_IN_PLACE = frozenset(
    "cumsum cumprod tril triu index_copy index_fill masked_scatter scatter_reduce renorm put xlogy".split()
)
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
_OPERANDS = (Tensor, bool, int, float, complex, np.ndarray, np.generic, Affine)


def _operator(public: Callable[..., Any]) -> Callable[..., Any]:
    def dunder(self: Tensor, other: Any, /) -> Any:
        return public(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return dunder


def _reflected(public: Callable[..., Any]) -> Callable[..., Any]:
    def dunder(self: Tensor, other: Any, /) -> Any:
        return public(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return dunder


def _in_place(name: str, public: Callable[..., Any]) -> Callable[..., Any]:
    from trilobite.framework.ops.inplace import assign

    operands, factors = _FACTORS.get(name, (0, ()))

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        since = moment()
        if factors and 0 < (before := len(args) - operands) <= len(factors):
            args, kwargs = args[before:], {**kwargs, **dict(zip(factors, args[:before], strict=False))}
        return assign(self, public(self, *args, **kwargs), name, since)

    return method


_PRODUCT = (2, ("beta", "alpha"))
_FACTORS = {
    **dict.fromkeys(("add_", "sub_", "subtract_"), (1, ("alpha",))),
    **dict.fromkeys(("addcmul_", "addcdiv_"), (2, ("value",))),
    **dict.fromkeys(("addmm_", "addmv_", "addr_", "addbmm_", "baddbmm_"), _PRODUCT),
}
"""How many operands a method has, and its factors, which PyTorch's old order puts before them: sources still
write `x.add_(0.1, y)`, `x.addcmul_(0.1, y, z)`, `x.addmm_(1, -2, y, z)`."""


def _in_place_operator(name: str, public: Callable[..., Any]) -> Callable[..., Any]:
    from trilobite.framework.ops.inplace import assign

    def dunder(self: Tensor, other: Any, /) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        since = moment()
        return assign(self, public(self, other), name, since)

    return dunder


# -- what no row of the table gives ----------------------------------------------------------------------


def array_namespace(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The module whose functions work on this tensor, as the array API standard asks for it."""
    if api_version is not None and api_version not in VERSIONS:
        raise ArgumentError(
            f"version {api_version!r} of the array API",
            where=user_location(),
            expected=f"one of {', '.join(VERSIONS)}",
        )
    return importlib.import_module("trilobite")


def array_function(self: Tensor, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's functions (np.sum, np.sort, ...) work on the values and give NumPy's results."""

    def plain(x: Any) -> Any:
        if isinstance(x, Tensor):
            return x.numpy()
        if type(x) in (list, tuple):
            return type(x)(plain(v) for v in x)
        return {k: plain(v) for k, v in x.items()} if type(x) is dict else x

    return function(*plain(args), **plain(kwargs))


def _contains(self: Tensor, element: Any, /) -> bool:
    return bool(operators["any"].public(operators["eq"].public(self, element)))


def _attribute(function: str) -> property:
    """A property that is a function of the table."""
    return property(lambda self: operators[function].public(self), doc=operators[function].public.__doc__)


def _attach_properties() -> None:
    from trilobite.framework.ops import late_methods
    from trilobite.framework.ops.shaping import t_property

    named = {
        "T": property(t_property),
        "mT": _attribute("matrix_transpose"),
        "real": _attribute("real"),
        "imag": _attribute("imag"),
    }
    named["itemsize"] = property(lambda self: self.dtype.itemsize, doc="Bytes of one element.")
    named["nbytes"] = property(lambda self: self.size * self.dtype.itemsize, doc="Bytes of all elements.")
    named["H"] = named["mH"] = property(lambda self: operators["adjoint"].public(self), doc="Adjoint.")
    named["data"] = property(_data, _set_data, doc="The values as a constant, sharing memory; may be set.")
    for name in _NEVER:
        named[name] = property(lambda self: False, doc="Never.")
    named["is_cpu"] = property(lambda self: True, doc="Always.")
    named["layout"] = property(lambda self: "strided", doc="How PyTorch calls what is not sparse.")
    named["retains_grad"] = property(lambda self: not self.is_leaf and self.grad is not None, doc="Kept?")
    named["names"] = property(lambda self: (None,) * self.ndim, doc="Axes have no names.")
    named["at"] = property(late_methods._at, doc="Updates that make a new tensor: x.at[i].set(v), .add(v).")
    named["is_meta"] = property(lambda self: False, doc="Never.")
    for name, value in named.items():
        setattr(Tensor, name, value)


_NEVER = "is_cuda is_mps is_xla is_sparse is_quantized is_mkldnn is_nested is_inference_tensor".split()


def _data(x: Tensor) -> Tensor:
    """As in PyTorch: what is written through it, backward() does not hear of."""
    out = x.detach()
    out._note("unchecked", True)
    return out


def _set_data(x: Tensor, new: Any) -> None:
    """Other values, perhaps of another shape or dtype, under the same handle and gradient."""
    source = new if isinstance(new, Tensor) else operators["tensor"].public(new)
    value = source.detach()._read()
    if x.grad_fn is not None and value.shape == x.shape and value.dtype == x.dtype:
        _data(x)._store(value)  # the history of a computed tensor stays
        return
    cells.write(x._cell, value.copy() if source._view is not None and type(value) is np.ndarray else value)


def attach() -> None:
    """Give Tensor its methods."""
    for row in operators.values():
        binary = row.name in REFLECTED or row.name in COMPARISONS
        for name in row.methods:
            setattr(Tensor, name, _operator(row.public) if binary and name.startswith("__") else row.public)
            if not name.startswith("__") and (row.group in IN_PLACE or name in ALSO_IN_PLACE):
                setattr(Tensor, f"{name}_", _in_place(f"{name}_", row.public))
        if row.name in REFLECTED:
            reflected = REFLECTED[row.name]
            setattr(Tensor, reflected, _reflected(row.public))
            setattr(Tensor, "__i" + reflected[3:], _in_place_operator(f"{row.name} in place", row.public))
    for name, fn in methods.items():
        setattr(Tensor, name, fn)
    _attach_properties()
    own: dict[str, Callable[..., Any]] = {
        "__array_namespace__": array_namespace,
        "__array_function__": array_function,
        "__contains__": _contains,
        "get_device": lambda x: -1,
        "is_inference": lambda x: False,
        "is_shared": lambda x: False,
        "is_pinned": lambda x, device=None: False,
        "is_conj": lambda x: False,
        "is_neg": lambda x: False,
        "is_signed": lambda x: dtypes.kind(x.dtype) != "bool" and x.dtype not in dtypes.UNSIGNED,
    }
    for name, fn in {**own, **display.METHODS}.items():
        setattr(Tensor, name, fn)
