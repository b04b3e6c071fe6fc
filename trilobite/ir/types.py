"""The types of values: a dtype and a shape whose dimensions are integers or affine expressions of bounded
symbols. A symbol is a size that a run decides, or one made of others: a quotient that is rounded down, or a
product (decision 0032).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import BY_NAME, DType
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location


class Floor(NamedTuple):
    """`size` over a positive number, rounded down."""

    size: Affine
    by: int


class Factors(NamedTuple):
    """A product of symbols, none of which is one itself."""

    symbols: tuple[Symbol, ...]


class Symbol(NamedTuple):
    """A size that a run decides, `lower <= name <= upper`; with `of`, one that follows from others."""

    name: str
    lower: int = 1
    upper: int = 2**31 - 1
    of: Floor | Factors | None = None

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return self[:3] < other[:3]

    def value(self, sizes: Mapping[Symbol, int]) -> int:
        """What it is where symbols are these numbers."""
        if self.of is None or self in sizes:
            return sizes[self]
        if isinstance(self.of, Floor):
            return self.of.size.value(sizes) // self.of.by
        return prod(s.value(sizes) for s in self.of.symbols)

    def bases(self) -> set[Symbol]:
        """The symbols that a run decides and that this one follows from."""
        if self.of is None:
            return {self}
        inner = [s for s, _ in self.of.size.terms] if isinstance(self.of, Floor) else self.of.symbols
        return {b for s in inner for b in s.bases()}


class Affine:
    """`constant + sum(coefficient * symbol)`: the only sizes a graph may have besides integers."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int, terms: Iterable[tuple[Symbol, int]]) -> None:
        self.constant = constant
        self.terms = tuple(sorted((s, c) for s, c in terms if c))

    def value(self, sizes: Mapping[Symbol, int]) -> int:
        return self.constant + sum(c * s.value(sizes) for s, c in self.terms)

    def bounds(self) -> tuple[int, int]:
        low = self.constant + sum(c * (s.lower if c > 0 else s.upper) for s, c in self.terms)
        high = self.constant + sum(c * (s.upper if c > 0 else s.lower) for s, c in self.terms)
        return low, high

    def _combine(self, other: Any, sign: int) -> Any:
        if isinstance(other, (int, np.integer)):
            return affine(self.constant + sign * int(other), self.terms)
        if not isinstance(other, Affine):
            return NotImplemented
        terms = dict(self.terms)
        for s, c in other.terms:
            terms[s] = terms.get(s, 0) + sign * c
        return affine(self.constant + sign * other.constant, terms.items())

    def __add__(self, other: Any) -> Any:
        return self._combine(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._combine(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __neg__(self) -> Any:
        return self * -1

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Affine):
            return _multiplied(self, other)
        if not isinstance(other, (int, np.integer)):
            return NotImplemented
        k = int(other)
        return affine(self.constant * k, [(s, c * k) for s, c in self.terms])

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dim:
        if isinstance(other, Affine):
            return _exact_ratio(self, other)
        return _floor(self, int(other))

    def __mod__(self, other: Any) -> int:
        if isinstance(other, Affine):
            _exact_ratio(self, other)  # raises if it is not one
            return 0
        if (
            isinstance(other, int)
            and self.constant % other == 0
            and all(c % other == 0 for _, c in self.terms)
        ):
            return 0
        raise ShapeError(
            f"whether {other} divides the size {self} depends on its symbols",
            where=user_location(),
            expected=f"a multiple of {other}",
            remedy=f"declare the size as a multiple: {other} * tb.dim(name, max=)",
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.constant == other.constant and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.constant, self.terms))

    def _order(self, other: Any, sense: str) -> bool:
        difference = self - other
        low, high = difference.bounds() if isinstance(difference, Affine) else (difference, difference)
        outcomes: tuple[bool, bool] = {"<": (high < 0, low >= 0), "<=": (high <= 0, low > 0)}[sense]
        if not any(outcomes):
            raise ShapeError(
                f"whether {self} {sense} {other} depends on the symbols",
                where=user_location(),
                expected="the same answer within the bounds of the symbols",
                remedy="tighten the bounds of the symbolic dimension: tb.dim(name, min=, max=)",
            )
        return outcomes[0]

    def __lt__(self, other: Any) -> bool:
        return self._order(other, "<")

    def __le__(self, other: Any) -> bool:
        return self._order(other, "<=")

    def __gt__(self, other: Any) -> bool:
        return not self._order(other, "<=")

    def __ge__(self, other: Any) -> bool:
        return not self._order(other, "<")

    def __bool__(self) -> bool:
        return self > 0

    def __index__(self) -> int:
        raise ShapeError(
            f"the symbolic size {self} was used where a number is needed",
            where=user_location(),
            expected="a size that the recording knows",
            remedy="build the value from tensors (tb.arange, broadcasting), or make it a fixed size",
        )

    __int__ = __index__

    def __repr__(self) -> str:
        parts = [f"{'' if c == 1 else f'{c}*'}{s.name}" for s, c in self.terms]
        return "+".join([*parts, str(self.constant)] if self.constant else parts).replace("+-", "-")


Dim = int | Affine
Shape = tuple[Dim, ...]


def affine(constant: int, terms: Iterable[tuple[Symbol, int]]) -> Dim:
    out = Affine(constant, terms)
    return out if out.terms else out.constant


def _exact_ratio(a: Affine, b: Affine) -> Dim:
    symbol, coefficient = b.terms[0]
    found: Dim | None = dict(a.terms).get(symbol, 0) // coefficient
    if b * found != a:
        found = _without(a, symbol, coefficient) if len(b.terms) == 1 and not b.constant else None
    if found is None:
        raise ShapeError(
            f"the size {a} is not a multiple of {b} for every value of their symbols",
            where=user_location(),
            expected=f"a multiple of {b}",
            remedy="declare one size in terms of the other, or make one of them fixed",
        )
    return found


# -- sizes made of others ------------------------------------------------------------------------------------
# Equal sizes have equal forms: what divides comes out of a quotient, a quotient of a quotient is one by the
# product, and products are multiplied out.


def _floor(a: Affine, k: int) -> Dim:
    """a over k, rounded down."""
    if k <= 0:
        raise ShapeError(f"the size {a} over {k}", where=user_location(), expected="a positive number")
    if len(a.terms) == 1 and a.terms[0][1] == 1 and isinstance(a.terms[0][0].of, Floor):
        inner = a.terms[0][0].of
        return (inner.size + a.constant * inner.by) // (inner.by * k)  # type: ignore[no-any-return]
    whole = affine(a.constant // k, [(s, c // k) for s, c in a.terms])
    rest = affine(a.constant % k, [(s, c % k) for s, c in a.terms])
    low, high = (n // k for n in (rest.bounds() if isinstance(rest, Affine) else (rest, rest)))
    if not isinstance(rest, Affine) or low == high:
        return whole + low
    part = Symbol(f"q_{_word(rest)}_over_{k}", low, high, Floor(rest, k))
    total: Dim = whole + Affine(0, [(part, 1)])
    return total


def _word(a: Affine) -> str:
    """A size as part of a name."""
    return str(a).replace("+", "_p_").replace("-", "_m_").replace("*", "_")


def _factors(s: Symbol) -> tuple[Symbol, ...]:
    return s.of.symbols if isinstance(s.of, Factors) else (s,)


def _product(symbols: Iterable[Symbol]) -> Dim:
    """The symbols multiplied."""
    each = tuple(sorted(symbols))
    if len(each) < 2:
        return Affine(0, [(each[0], 1)]) if each else 1
    ends = [1]
    for s in each:
        ends = [e * n for e in ends for n in (s.lower, s.upper)]
    name = "_by_".join(s.name for s in each)
    return Affine(0, [(Symbol(name, min(ends), max(ends), Factors(each)), 1)])


def _multiplied(a: Affine, b: Affine) -> Dim:
    total: Dim = a.constant * b + b.constant * Affine(0, a.terms)
    for s, c in a.terms:
        for t, k in b.terms:
            total = total + c * k * _product((*_factors(s), *_factors(t)))
    return total


def _without(a: Affine, symbol: Symbol, coefficient: int) -> Dim | None:
    """a over a symbol times a number, where that is exact term by term."""
    total: Dim = 0
    for s, c in a.terms:
        mine, theirs = Counter(_factors(s)), Counter(_factors(symbol))
        if theirs - mine or c % coefficient:
            return None
        total = total + c // coefficient * _product((mine - theirs).elements())
    return None if a.constant else total


def dim(name: str, *, min: int = 1, max: int = 2**31 - 1) -> Affine:
    """A symbolic dimension: one compiled program serves every size from `min` to `max`."""
    if not name.isidentifier() or not 0 <= min <= max:
        raise ShapeError(
            f"tb.dim({name!r}, min={min}, max={max}) is not a size",
            where=user_location(),
            expected="a name and 0 <= min <= max",
            remedy='for example tb.dim("n", min=1, max=512)',
        )
    return Affine(0, [(Symbol(name, min, max), 1)])


def symbols_of(shape: Sequence[Dim]) -> set[Symbol]:
    return {s for d in shape if isinstance(d, Affine) for s, _ in d.terms}


def substitute(value: Any, sizes: Mapping[Symbol, int]) -> Any:
    """Replace symbolic sizes inside an attribute by numbers."""
    if isinstance(value, Affine):
        return value.value(sizes)
    if isinstance(value, tuple):
        return tuple(substitute(v, sizes) for v in value)
    return value


class TensorType:
    """dtype and shape. Immutable; equal by value."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        return size_of(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"


def size_of(shape: Sequence[Dim]) -> Dim:
    total: Dim = 1
    for d in shape:
        total = total * d
    return total


_SHORT = {"bool": "bool", "complex64": "c64", "complex128": "c128", "bfloat16": "bf16"}


def short_name(dtype: DType) -> str:
    name = dtype.name
    if name in _SHORT:
        return _SHORT[name]
    for long, short in (("float", "f"), ("uint", "u"), ("int", "i")):
        if name.startswith(long):
            return short + name[len(long) :]
    return name


FROM_SHORT: dict[str, DType] = {short_name(d): d for d in BY_NAME.values()}


def type_of(value: Any) -> TensorType:
    return TensorType(value.shape, value.dtype)


def bind_symbols(shapes: Iterable[tuple[Shape, Sequence[Any]]]) -> dict[Symbol, int]:
    """Sizes of the symbols from declared shapes and actual ones; a contradiction or a bound exceeded is an
    error.
    """
    sizes: dict[Symbol, int] = {}
    pending = [
        (d, n)
        for declared, actual in shapes
        for d, n in zip(declared, actual, strict=True)
        if isinstance(d, Affine)
    ]
    for d, n in sorted(pending, key=lambda p: (any(s.of for s, _ in p[0].terms), len(p[0].terms))):
        unknown = [(s, c) for s, c in d.terms if s not in sizes and not _follows(s, sizes)]
        if len(unknown) == 1:
            ((s, c),) = unknown
            rest = n - d.constant - sum(k * t.value(sizes) for t, k in d.terms if t is not s)
            if rest % c or not s.lower <= rest // c <= s.upper:
                raise ShapeError(
                    f"size {n} does not fit the symbolic dimension {d}",
                    where=user_location(),
                    expected=f"{s.lower} <= {s} <= {s.upper}",
                    remedy="widen the bounds: tb.dim(name, min=, max=), or pass another size",
                )
            sizes[s] = rest // c
        elif not unknown and d.value(sizes) != n:
            raise ShapeError(
                f"size {n} contradicts the symbolic dimension {d} = {d.value(sizes)}",
                where=user_location(),
                expected="one size for one symbol: " + ", ".join(f"{s} = {k}" for s, k in sizes.items()),
                remedy="use another symbol for a size that differs",
            )
    made = {s for d, _ in pending for s, _ in d.terms if s not in sizes and _follows(s, sizes)}
    return {**sizes, **{s: s.value(sizes) for s in made}}


def _follows(s: Symbol, sizes: Mapping[Symbol, int]) -> bool:
    """Is it made of symbols that have a size?"""
    return s.of is not None and all(b in sizes for b in s.bases())
