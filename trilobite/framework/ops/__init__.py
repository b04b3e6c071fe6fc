"""The operator table, filled: importing this room defines every operation and gives Tensor its methods."""

from trilobite.framework.methods import attach
from trilobite.framework.ops import (
    arithmetic,
    conversion,
    creation,
    cumulative,
    dtypes,
    einsum,
    indexing,
    inplace,
    joining,
    keys,
    linear,
    normalising,
    pointwise,
    reducing,
    searching,
    sets,
    shaping,
    sorting,
    taking,
)
from trilobite.framework.ops.registry import operators

attach()

__all__ = [
    "arithmetic",
    "conversion",
    "creation",
    "cumulative",
    "dtypes",
    "einsum",
    "indexing",
    "inplace",
    "joining",
    "keys",
    "linear",
    "normalising",
    "operators",
    "pointwise",
    "reducing",
    "searching",
    "sets",
    "shaping",
    "sorting",
    "taking",
]
