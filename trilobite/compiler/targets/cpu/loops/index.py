"""Integer expressions over loop variables and symbolic sizes: where a statement reads and writes.

Enters: names of loop variables, sizes. Leaves: `Index`, a sum of integer (or symbolic) multiples of atoms.
An atom is a loop variable, the quotient or remainder of an index by a size (a fused loop taken apart, a
reshape), or a loaded integer held inside a range (gather). It emits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from trilobite.base.records import dataclass
from trilobite.ir.types import Affine, Dim, Symbol, symbols_of

if TYPE_CHECKING:
    from trilobite.compiler.targets.cpu.loops.ir import Load


@dataclass(frozen=True)
class Quotient:
    """An index over a positive size, rounded down."""

    index: Index
    by: Dim

    def __str__(self) -> str:
        return f"({self.index}) div {_bracketed(self.by)}"


@dataclass(frozen=True)
class Remainder:
    index: Index
    by: Dim

    def __str__(self) -> str:
        return f"({self.index}) mod {_bracketed(self.by)}"


@dataclass(frozen=True)
class Indirect:
    """A loaded integer, held inside low..high (both included)."""

    load: Load
    low: Dim
    high: Dim

    def __str__(self) -> str:
        return f"clamp({self.load}, {self.low}, {self.high})"


Atom = str | Quotient | Remainder | Indirect


def _bracketed(d: Dim) -> str:
    return f"({d})" if isinstance(d, Affine) else str(d)


@dataclass(frozen=True)
class Index:
    """`constant + sum(coefficient * atom)`."""

    constant: Dim = 0
    terms: tuple[tuple[Atom, Dim], ...] = ()

    def __add__(self, other: Index | Dim) -> Index:
        other = as_index(other)
        terms = dict(self.terms)
        for atom, c in other.terms:
            terms[atom] = terms.get(atom, 0) + c
        return _index(self.constant + other.constant, terms)

    def __sub__(self, other: Index | Dim) -> Index:
        return self + as_index(other) * -1

    def __mul__(self, k: Dim) -> Index:
        return _index(times(self.constant, k), {atom: times(c, k) for atom, c in self.terms})

    def coefficient(self, atom: Atom) -> Dim:
        return dict(self.terms).get(atom, 0)

    def without(self, atom: Atom) -> Index:
        return Index(self.constant, tuple(t for t in self.terms if t[0] != atom))

    @property
    def variables(self) -> frozenset[str]:
        """The loop variables it depends on, also inside quotients and loads."""
        return frozenset(v for atom, _ in self.terms for v in _variables(atom))

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def loads(self) -> Iterator[Load]:
        """The loads inside, inner ones first."""
        for atom, _ in self.terms:
            if isinstance(atom, Indirect):
                for i in atom.load.index:
                    yield from i.loads()
                yield atom.load
            elif not isinstance(atom, str):
                yield from atom.index.loads()

    def __str__(self) -> str:
        parts = [_term(atom, c) for atom, c in self.terms]
        if not parts or self.constant != 0:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def _term(atom: Atom, c: Dim) -> str:
    return str(atom) if c == 1 else f"{_bracketed(c)}*{atom}"


def _variables(atom: Atom) -> frozenset[str]:
    if isinstance(atom, str):
        return frozenset((atom,))
    if isinstance(atom, Indirect):
        inner = (*atom.load.index, *atom.load.guards)
        return frozenset().union(*(i.variables for i in inner))
    return atom.index.variables


def _index(constant: Dim, terms: Mapping[Atom, Dim]) -> Index:
    kept = [(a, c) for a, c in terms.items() if c != 0]
    if len(kept) < 2:
        return Index(constant, tuple(kept))
    return Index(constant, tuple(sorted(kept, key=lambda t: (not isinstance(t[0], str), str(t[0])))))


def as_index(value: Index | Dim) -> Index:
    return value if isinstance(value, Index) else Index(value)


def variable(name: str) -> Index:
    return Index(0, ((name, 1),))


def atom_index(atom: Atom) -> Index:
    return Index(0, ((atom, 1),))


def substitute(index: Index, by: Mapping[str, Index]) -> Index:
    """The index with loop variables replaced."""
    if not index.variables & by.keys():
        return index
    out = Index(index.constant)
    for atom, c in index.terms:
        if isinstance(atom, str):
            out = out + by.get(atom, variable(atom)) * c
        elif isinstance(atom, Indirect):
            out = out + atom_index(Indirect(atom.load.substituted(by), atom.low, atom.high)) * c
        else:
            out = out + _divided_by(type(atom), substitute(atom.index, by), atom.by) * c
    return out


def _divided_by(kind: type[Quotient | Remainder], index: Index, by: Dim) -> Index:
    """A quotient or a remainder; of numbers, the number."""
    if index.terms or not isinstance(index.constant, int) or not isinstance(by, int):
        return atom_index(kind(index, by))
    return Index(index.constant // by if kind is Quotient else index.constant % by)


def evaluate(
    index: Index,
    variables: Mapping[str, int],
    sizes: Mapping[Symbol, int],
    load: Callable[[Load], int],
) -> int:
    """The number that an index is, once everything in it is known."""
    total = size_value(index.constant, sizes)
    for atom, c in index.terms:
        if isinstance(atom, str):
            value = variables[atom]
        elif isinstance(atom, Indirect):
            low, high = size_value(atom.low, sizes), size_value(atom.high, sizes)
            value = min(max(load(atom.load), low), high)
        else:
            inner = evaluate(atom.index, variables, sizes, load)
            by = size_value(atom.by, sizes)
            value = inner // by if isinstance(atom, Quotient) else inner % by
        total += size_value(c, sizes) * value
    return total


def size_value(d: Dim, sizes: Mapping[Symbol, int]) -> int:
    if not isinstance(d, Affine):
        return d
    total = d.constant
    for s, c in d.terms:
        pair = factors(s)
        total += c * (sizes[s] if pair is None else size_value(pair[0], sizes) * size_value(pair[1], sizes))
    return total


# -- ranges ------------------------------------------------------------------------------------------------

Ranges = Mapping[str, Dim]  # loop variable -> extent; every variable counts from 0


def upper(d: Dim) -> int:
    return d.bounds()[1] if isinstance(d, Affine) else d


def lower(d: Dim) -> int:
    return d.bounds()[0] if isinstance(d, Affine) else d


def bounds(index: Index, ranges: Ranges) -> tuple[int, int] | None:
    """The lowest and the highest value over the ranges of its variables, or None where that is not known."""
    low, high = lower(index.constant), upper(index.constant)
    for atom, c in index.terms:
        span = _atom_bounds(atom, ranges)
        if span is None:
            return None
        corners = [k * v for k in (lower(c), upper(c)) for v in span]
        low, high = low + min(corners), high + max(corners)
    return low, high


def _atom_bounds(atom: Atom, ranges: Ranges) -> tuple[int, int] | None:
    if isinstance(atom, str):
        extent = ranges.get(atom)
        return None if extent is None else (0, max(upper(extent) - 1, 0))
    if isinstance(atom, Indirect):
        return lower(atom.low), upper(atom.high)
    by, inner = atom.by, bounds(atom.index, ranges)
    if not isinstance(by, int) or inner is None:
        return (0, upper(by) - 1) if isinstance(atom, Remainder) else None
    first, last = inner[0] // by, inner[1] // by
    if isinstance(atom, Quotient):
        return first, last
    return (inner[0] % by, inner[1] % by) if first == last else (0, by - 1)


def divided(index: Index, by: Dim, ranges: Ranges) -> tuple[Index, Index]:
    """Quotient and remainder of an index that is never negative, as plain sums where the ranges of the
    variables allow it.
    """
    if by == 1:
        return index, Index(0)
    multiple, rest = _multiples(index, by)
    span = bounds(rest, ranges)
    if span is not None and span[0] >= 0 and _below(rest, span[1], by, ranges):
        return multiple, rest
    if span is None or span[0] < 0:
        # The index itself is never negative, but what is left of it may be, and machines divide towards 0.
        return atom_index(Quotient(index, by)), atom_index(Remainder(index, by))
    return multiple + atom_index(Quotient(rest, by)), atom_index(Remainder(rest, by))


def _below(rest: Index, highest: int, by: Dim, ranges: Ranges) -> bool:
    """Is the remainder always less than `by`?"""
    if highest < lower(by):
        return True
    if len(rest.terms) == 1 and rest.constant == 0 and rest.terms[0][1] == 1:
        atom = rest.terms[0][0]
        return isinstance(atom, str) and ranges.get(atom) == by
    return False


def _multiples(index: Index, by: Dim) -> tuple[Index, Index]:
    """index = by * first + second, taking out of it what is visibly a multiple."""
    whole: dict[Atom, Dim] = {}
    rest: dict[Atom, Dim] = {}
    for atom, c in index.terms:
        k = ratio(c, by)
        if k is None:
            rest[atom] = c
        else:
            whole[atom] = k
    constant = index.constant
    k = ratio(constant, by)
    first = 0 if k is None else k
    if k is None and isinstance(constant, int) and isinstance(by, int):
        first = constant // by
    return _index(first, whole), _index(constant - times(by, first), rest)


def ratio(a: Dim, b: Dim) -> Dim | None:
    """a / b where that is exact for every value of the symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if isinstance(a, int):
        return 0 if a == 0 else None
    if isinstance(b, int):
        exact = b != 0 and a.constant % b == 0 and all(c % b == 0 for _, c in a.terms)
        return a // b if exact else None
    symbol, c = b.terms[0]
    k = dict(a.terms).get(symbol, 0) // c
    return k if b * k == a else None


# Products of symbolic sizes are no sizes of the IR; here each is a symbol of its own, computed at the start.
_PRODUCTS: dict[Symbol, tuple[Dim, Dim]] = {}


def times(a: Dim, b: Dim) -> Dim:
    """a * b for any sizes."""
    if not isinstance(a, Affine) or not isinstance(b, Affine):
        return a * b
    first, second = sorted((a, b), key=str)
    symbol = Symbol(f"({first})*({second})", lower(a) * lower(b), upper(a) * upper(b))
    _PRODUCTS[symbol] = (first, second)
    return Affine(0, [(symbol, 1)])


def factors(symbol: Symbol) -> tuple[Dim, Dim] | None:
    """The two sizes whose product a symbol stands for; None for one that a run passes."""
    return _PRODUCTS.get(symbol)


def with_products(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Symbols and those inside products, every one after what it is made of."""
    out: dict[Symbol, None] = {}
    for s in sorted(symbols):
        pair = factors(s)
        if pair is not None:
            out.update(dict.fromkeys(with_products(symbols_of(pair))))
        out[s] = None
    return list(out)


def product(a: Dim, b: Dim) -> Dim | None:
    """a * b, or None where both are symbolic: that is no longer affine."""
    return None if isinstance(a, Affine) and isinstance(b, Affine) else a * b
