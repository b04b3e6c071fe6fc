"""Sums of products written with letters: tb.einsum("bij,bjk->bik", x, y).

The letters are read here; what remains is a sequence of pairwise `dot`s, in the order in which the
intermediate results stay smallest at every step (greedily, as opt_einsum and NumPy choose by default).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.meeting import NUMERIC, accepted, common
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.primitives.common import count
from trilobite.ir.types import Dim

Letters = tuple[str, ...]


class Term(NamedTuple):
    """A value and the letter of each of its axes."""

    value: Value
    letters: Letters


def _wrong(why: str, equation: str, expected: str) -> ArgumentError:
    return ArgumentError(f"einsum {equation!r}: {why}", where=user_location(), expected=expected)


def parse(equation: str, shapes: Sequence[Sequence[Dim]]) -> tuple[list[Letters], Letters]:
    """Letters per operand and of the result. Axes under "..." get letters of their own, counted from the
    right.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise _wrong(f"{len(parts)} terms for {len(shapes)} operands", equation, "one term per operand")
    terms = [_term(p, len(s), equation) for p, s in zip(parts, shapes, strict=True)]
    dots = max((len([c for c in t if c.startswith(".")]) for t in terms), default=0)
    if arrow:
        return terms, _result(right, dots, terms, equation)
    flat = [c for t in terms for c in t if not c.startswith(".")]
    once = sorted(c for c in set(flat) if flat.count(c) == 1)
    return terms, (*(f".{i}" for i in range(dots, 0, -1)), *once)


def _term(part: str, ndim: int, equation: str) -> Letters:
    head, dots, tail = part.partition("...")
    if not (head + tail).isalpha() and head + tail:
        raise _wrong(f"the term {part!r}", equation, "letters and at most one '...'")
    hidden = ndim - len(head) - len(tail)
    if hidden < 0 or (hidden and not dots):
        raise _wrong(
            f"the term {part!r} for an operand with {ndim} dimensions", equation, "one letter per dimension"
        )
    return (*head, *(f".{i}" for i in range(hidden, 0, -1)), *tail)


def _result(right: str, dots: int, terms: Sequence[Letters], equation: str) -> Letters:
    head, there, tail = right.partition("...")
    out = (*head, *(f".{i}" for i in range(dots, 0, -1) if there), *tail)
    known = {c for t in terms for c in t}
    for c in out:
        if c not in known:
            raise _wrong(f"{c!r} of the result stands in no term", equation, "letters of the terms")
    if len(set(out)) != len(out):
        raise _wrong(f"the result {right!r} names a letter twice", equation, "distinct letters")
    return out


def _sizes(terms: Sequence[Term], equation: str) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for t in terms:
        for c, d in zip(t.letters, t.value.shape, strict=True):
            if sizes.setdefault(c, d) == 1:
                sizes[c] = d
            elif d not in (1, sizes[c]):
                raise ShapeError(
                    f"einsum {equation!r}: {c!r} has sizes {sizes[c]} and {d}",
                    where=user_location(),
                    expected="one size per letter",
                    remedy="give axes of different sizes different letters",
                )
    return sizes


def _tidied(t: Term, sizes: dict[str, Dim], needed: set[str]) -> Term:
    """Each letter once: diagonals taken, axes of size 1 that only repeat dropped, letters nobody else needs
    summed.
    """
    value, letters = t
    drop = [i for i, c in enumerate(letters) if value.shape[i] == 1 and sizes[c] != 1]
    if drop:
        value = table["reshape"](value, shape=tuple(d for i, d in enumerate(value.shape) if i not in drop))
        letters = tuple(c for i, c in enumerate(letters) if i not in drop)
    for c in [c for c in dict.fromkeys(letters) if letters.count(c) > 1]:
        axes = tuple(i for i, other in enumerate(letters) if other == c)
        value = _diagonal(value, axes)
        letters = (c, *(other for other in letters if other != c))
    alone = tuple(i for i, c in enumerate(letters) if c not in needed)
    if alone:
        value = table["reduce_sum"](value, axes=alone)
    return Term(value, tuple(c for c in letters if c in needed))


def _diagonal(value: Value, axes: tuple[int, ...]) -> Value:
    """Where all these axes have the same index: one axis, in front."""
    n = value.shape[axes[0]]
    from trilobite.base.dtypes import int64

    points = table["iota"](shape=(n, len(axes)), dtype=int64, axis=0)
    return table["gather_nd"](value, points, axes=axes)


def _pair(a: Term, b: Term, needed: set[str]) -> Term:
    """Two terms as one: letters of both are batch if needed further on, else they are summed over."""
    both = [c for c in a.letters if c in b.letters]
    batch = [c for c in both if c in needed]
    summed = [c for c in both if c not in needed]
    out = table["dot"](
        a.value,
        b.value,
        contract=(_axes(a, summed), _axes(b, summed)),
        batch=(_axes(a, batch), _axes(b, batch)),
        dtype=a.value.dtype,
    )
    free = [c for t in (a, b) for c in t.letters if c not in both]
    return Term(out, (*batch, *free))


def _axes(t: Term, letters: Sequence[str]) -> tuple[int, ...]:
    return tuple(t.letters.index(c) for c in letters)


def _volume(letters: Sequence[str], sizes: dict[str, Dim]) -> float:
    total = 1.0
    for c in letters:
        total *= count(sizes[c])
    return total


def _needed(terms: Sequence[Term], but: Sequence[int], result: Letters) -> set[str]:
    return set(result).union(*(t.letters for i, t in enumerate(terms) if i not in but))


def _cheapest(terms: Sequence[Term], sizes: dict[str, Dim], result: Letters) -> tuple[int, int]:
    """The pair whose product adds least to what has to be kept; then the one with the fewest
    multiplications.
    """

    def cost(pair: tuple[int, int]) -> tuple[float, float]:
        a, b = terms[pair[0]].letters, terms[pair[1]].letters
        union = set(a) | set(b)
        left = union & _needed(terms, pair, result)
        grows = _volume(sorted(left), sizes) - _volume(a, sizes) - _volume(b, sizes)
        return grows, _volume(sorted(union), sizes)

    return min(combinations(range(len(terms)), 2), key=cost)


@op("linear algebra", methods=(), plan=True)
def einsum(equation: str, /, *operands: Any) -> Value:
    """A sum of products written with letters: einsum("ij,jk->ik", x, y). "..." stands for axes that
    broadcast.
    """
    if not isinstance(equation, str):
        raise ArgumentError(
            f"einsum of {type(equation).__name__}",
            where=user_location(),
            expected='letters first: einsum("ij,jk->ik", x, y)',
        )
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not given:
        raise _wrong("no operands", equation, "one operand per term")
    values = common(*given)
    accepted("einsum", NUMERIC, values[0].dtype)
    letters, result = parse(equation, [v.shape for v in values])
    terms = [Term(v, t) for v, t in zip(values, letters, strict=True)]
    sizes = _sizes(terms, equation)
    terms = [_tidied(t, sizes, _needed(terms, (i,), result)) for i, t in enumerate(terms)]
    while len(terms) > 1:
        i, j = _cheapest(terms, sizes, result)
        joined = _pair(terms[i], terms[j], _needed(terms, (i, j), result))
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [joined]
    return _finished(terms[0], result)


def _finished(t: Term, result: Letters) -> Value:
    order = tuple(t.letters.index(c) for c in result)
    return t.value if order == tuple(range(len(order))) else table["transpose"](t.value, axes=order)
