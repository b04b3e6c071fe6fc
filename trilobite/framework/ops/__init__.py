"""The operator table, filled: importing this room defines every operation and gives Tensor its methods.

Enters: tensors, arrays, numbers. Leaves: tensors. An operation is one function over values that binds
primitives; it may import `ir` and, of `framework`, what stands below `nn` and `jit`. Read `registry.py`
first, then `linear.py`.
"""

from trilobite.framework.methods import attach
from trilobite.framework.ops import (
    arithmetic,
    choosing,
    conversion,
    creation,
    cumulative,
    dtypes,
    einsum,
    indexing,
    inplace,
    joining,
    keys,
    late_methods,
    linear,
    makers,
    more_pointwise,
    normalising,
    pointwise,
    products,
    reducing,
    searching,
    sets,
    shaping,
    sorting,
    statistics,
    strides,
    taking,
    two_meanings,
)
from trilobite.framework.ops.registry import operators

two_meanings.install()
late_methods.install()
attach()

__all__ = [
    "arithmetic",
    "choosing",
    "conversion",
    "creation",
    "cumulative",
    "dtypes",
    "einsum",
    "indexing",
    "inplace",
    "joining",
    "keys",
    "late_methods",
    "linear",
    "makers",
    "more_pointwise",
    "normalising",
    "operators",
    "pointwise",
    "products",
    "reducing",
    "searching",
    "sets",
    "shaping",
    "sorting",
    "statistics",
    "strides",
    "taking",
    "two_meanings",
]
