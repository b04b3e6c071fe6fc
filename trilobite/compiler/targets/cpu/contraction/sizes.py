"""Sizes and strides as products: exact while symbolic, two argument words of a kernel each.

A stride is a product of sizes, and a product of two symbolic sizes is not affine. So a kernel gets two
affine factors and multiplies them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from trilobite.base.records import dataclass
from trilobite.ir.types import Affine, Dim, affine


@dataclass(frozen=True)
class Product:
    """An integer times affine sizes whose coefficients have no common divisor."""

    number: int
    symbolic: tuple[Affine, ...] = ()

    def __mul__(self, other: Product) -> Product:
        factors = sorted((*self.symbolic, *other.symbolic), key=repr)
        number = self.number * other.number
        return Product(number, tuple(factors) if number else ())

    @property
    def known(self) -> int | None:
        return None if self.symbolic else self.number

    @property
    def words(self) -> tuple[Dim, Dim]:
        """Two factors; `fits` says whether two are enough."""
        first: Dim = self.number * self.symbolic[0] if self.symbolic else self.number
        return first, self.symbolic[1] if len(self.symbolic) > 1 else 1

    @property
    def fits(self) -> bool:
        return len(self.symbolic) <= 2

    @property
    def upper(self) -> int:
        out = self.number
        for s in self.symbolic:
            out *= s.bounds()[1]
        return out


ONE = Product(1)


def product(dims: Sequence[Dim]) -> Product:
    out = ONE
    for d in dims:
        out = out * _normal(d)
    return out


def _normal(d: Dim) -> Product:
    if not isinstance(d, Affine):
        return Product(int(d))
    common = gcd(d.constant, *(c for _, c in d.terms))
    rest = affine(d.constant // common, [(s, c // common) for s, c in d.terms])
    return Product(common, (rest,)) if isinstance(rest, Affine) else Product(common * rest)


@dataclass(frozen=True)
class Axis:
    """A size, and the distance in elements from one place to the next in each of some buffers."""

    size: Product
    strides: tuple[Product, ...]


def row_major(shape: Sequence[Dim]) -> list[Product]:
    """The stride of every axis."""
    return [product(shape[i + 1 :]) for i in range(len(shape))]


def collapse(axes: Sequence[Axis]) -> list[Axis]:
    """The same places in the same order with as few axes as possible; no axis of size 1 is left."""
    out: list[Axis] = []
    for axis in axes:
        if axis.size == ONE:
            continue
        if out and all(s == axis.size * i for s, i in zip(out[-1].strides, axis.strides, strict=True)):
            out[-1] = Axis(out[-1].size * axis.size, axis.strides)
        else:
            out.append(axis)
    return out
