"""What each primitive can do with split operands: its sharding rule.

A rule names the *factors* of an equation: sizes that dimensions of operands and results share. Splitting a
factor splits all those dimensions; a factor that results do not have is reduced, and they are partial. A
dimension without a factor must be whole: what comes split is gathered. `linear` are sets of operands that
may be partial sums, which the results then are too. Elementwise, layout and reduction rules stand here;
products and convolutions in `rules_products.py`, indexed reads in `rules_indexed.py`, loops in `regions.py`.
A test walks the table: every primitive has a rule, or a word why its operands are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import count
from typing import Any, NamedTuple

from trilobite.base.dtypes import bits, bool_, is_inexact
from trilobite.cluster.sharding.placements import Range
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import TensorType


class Factor(NamedTuple):
    """A factor, and how many of its elements one place of the dimension stands for."""

    name: int
    rest: Fraction = Fraction(1)


Dims = tuple[Factor | None, ...]
Attributes = Mapping[str, Any]


class Splitting(NamedTuple):
    """What a lowering of its own gets: where this rank stands, and how to add equations."""

    equation: Equation
    inputs: tuple[Var, ...]  # this rank's parts of the operands
    attributes: Attributes  # for this rank's types
    ranges: list[list[Range]]  # of this rank, per operand and dimension
    n: int  # ranks along the side that splits the factor
    at: int  # which of them this is
    emit: Callable[..., Var]  # (primitive's name, *values, **attributes)
    shift: Callable[[Var, int], Var]  # (value, by): what the rank `by` places before has, zeros at the edge


Lowering = Callable[[Splitting, int], tuple[Var, ...]]
Localised = Callable[[Attributes, Sequence[TensorType], Sequence[tuple[int, ...]]], Mapping[str, Any]]


def _same(attributes: Attributes, ins: Sequence[TensorType], outs: Sequence[tuple[int, ...]]) -> Attributes:
    return attributes


class Rule(NamedTuple):
    """Of one equation. `localised`: the attributes for this rank's types; `lowerings`: factors that take more
    than the same primitive on parts, and how; `needs_partial`: operands that must be partial sums when a
    factor is split; `once`: factors whose dimensions differ in size, which only one side may split.
    """

    ins: tuple[Dims, ...]
    outs: tuple[Dims, ...]
    reduces: Mapping[int, str] = {}
    linear: tuple[frozenset[int], ...] = ()
    localised: Localised = _same
    lowerings: Mapping[int, Lowering] = {}
    needs_partial: Mapping[int, tuple[int, ...]] = {}
    once: frozenset[int] = frozenset()
    refuses: Callable[[int, int], str] | None = None  # (factor, ranks along the side) -> why not, or nothing


Types = Sequence[TensorType]
RuleOf = Callable[[Types, Types, Attributes], Rule]
RULES: dict[str, RuleOf] = {}
GATHERED: dict[str, str] = {}  # primitives whose operands are made whole, and why
REGIONS = {
    "call": "its body is split as the graph around it is",
    "scan": "its body is split; carries settle on one placement",
    "cond": "its branches are split alike; the index is whole",
    "while": "its body is split; the test is whole",
}


def rule(*names: str) -> Callable[[RuleOf], RuleOf]:
    def enter(made: RuleOf) -> RuleOf:
        for name in names:
            RULES[name] = made
        return made

    return enter


def gathered(why: str, *names: str) -> None:
    """Every rank computes the whole. What its consumers want is a slice of it."""
    for name in names:
        GATHERED[name] = why
        RULES[name] = lambda ins, outs, attributes: Rule(_none(ins), _none(outs))


def _none(types: Types) -> tuple[Dims, ...]:
    return tuple((None,) * t.ndim for t in types)


def factors(n: int, start: int = 0) -> Dims:
    return tuple(Factor(start + i) for i in range(n))


def only(*operands: int) -> frozenset[int]:
    return frozenset(operands)


# -- elementwise ---------------------------------------------------------------------------------------------

_LINEAR: dict[str, tuple[frozenset[int], ...]] = {
    "add": (only(0, 1),), "sub": (only(0, 1),), "neg": (only(0),), "mul": (only(0), only(1)),
    "div": (only(0),), "conj": (only(0),), "real": (only(0),), "imag": (only(0),),
    "complex": (only(0, 1),), "select": (only(1, 2),), "stop_gradient": (only(0),), "barrier": (only(0),),
}  # fmt: skip

_ELEMENTWISE = """
not and or xor shift_left shift_right popcount clz bitcast eq ne lt le gt ge is_finite is_nan is_inf signbit
select maximum minimum conj real imag complex stop_gradient barrier add sub mul div neg floor_div rem pow sqrt
rsqrt hypot abs sign copysign nextafter floor ceil trunc round exp exp2 expm1 log log2 log10 log1p logaddexp
erf erfc erf_inv lgamma digamma polygamma sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh atan2
""".split()


def _elementwise(name: str) -> RuleOf:
    def made(ins: Types, outs: Types, attributes: Attributes) -> Rule:
        ndim = outs[0].ndim
        dims = tuple(factors(ndim) if t.ndim == ndim else (None,) * t.ndim for t in ins)
        inexact = is_inexact(outs[0].dtype)
        return Rule(dims, (factors(ndim),), linear=_LINEAR.get(name, ()) if inexact else ())

    return made


for _name in _ELEMENTWISE:
    RULES[_name] = _elementwise(_name)


@rule("cast")
def _cast(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    """A sum of numbers that are rounded to fewer bits is not the rounded sum."""
    a, b = ins[0].dtype, outs[0].dtype
    widens = is_inexact(a) and is_inexact(b) and a.kind == b.kind and bits(b) >= bits(a)
    dims = factors(ins[0].ndim)
    return Rule((dims,), (dims,), linear=(only(0),) if widens else ())


@rule("quantise", "requantise", "dequantise")
def _quantised(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = factors(outs[0].ndim)
    axis = attributes["axis"]
    scales = tuple((dims[axis],) if t.ndim == 1 and axis is not None else (None,) * t.ndim for t in ins[1:])
    return Rule((dims, *scales), (dims,))


# -- layout --------------------------------------------------------------------------------------------------


def _shape(attributes: Attributes, ins: Types, outs: Sequence[tuple[int, ...]]) -> Attributes:
    return {**attributes, "shape": outs[0]}


@rule("broadcast")
def _broadcast(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = factors(outs[0].ndim)
    from_x = tuple(
        dims[a] if d == outs[0].shape[a] else None
        for a, d in zip(attributes["axes"], ins[0].shape, strict=True)
    )
    return Rule((from_x,), (dims,), linear=(only(0),), localised=_shape)


@rule("transpose")
def _transpose(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = factors(ins[0].ndim)
    return Rule((dims,), (tuple(dims[a] for a in attributes["axes"]),), linear=(only(0),))


@rule("reshape")
def _reshape(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    """Of dimensions that become others, the outermost of each side stand for the same elements in order."""
    a, b = list(ins[0].shape), list(outs[0].shape)
    x: list[Factor | None] = [None] * len(a)
    y: list[Factor | None] = [None] * len(b)
    number = count()
    for left, right in _runs(a, b):
        left, right = [i for i in left if a[i] != 1], [j for j in right if b[j] != 1]
        if left and right:
            f, total = next(number), _product(a, left)
            x[left[0]] = Factor(f, Fraction(total, int(a[left[0]])))
            y[right[0]] = Factor(f, Fraction(total, int(b[right[0]])))
    return Rule((tuple(x),), (tuple(y),), linear=(only(0),), localised=_shape)


def _product(shape: Sequence[Any], dims: Sequence[int]) -> int:
    total = 1
    for d in dims:
        total *= shape[d]
    return total


def _runs(a: Sequence[Any], b: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of dimensions on both sides that hold equally many elements."""
    if 0 in a or 0 in b:
        return []
    out = []
    i = j = 0
    while i < len(a) or j < len(b):
        left, right = [i] if i < len(a) else [], [j] if j < len(b) else []
        i, j = i + len(left), j + len(right)
        while _product(a, left) != _product(b, right):
            if _product(a, left) < _product(b, right):
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        out.append((left, right))
    return out


def _full_range(attributes: Attributes, t: TensorType) -> list[bool]:
    keys = zip(attributes["start"], attributes["stop"], attributes["step"], t.shape, strict=True)
    return [(start, stop, step) == (0, size, 1) for start, stop, step, size in keys]


def _some(dims: Dims, kept: Sequence[bool]) -> Dims:
    return tuple(d if k else None for d, k in zip(dims, kept, strict=True))


def _sliced(kept: Sequence[bool]) -> Localised:
    def localised(attributes: Attributes, ins: Types, outs: Sequence[tuple[int, ...]]) -> Attributes:
        stop = tuple(
            size if k else old for k, old, size in zip(kept, attributes["stop"], ins[0].shape, strict=True)
        )
        return {**attributes, "stop": stop}

    return localised


@rule("slice")
def _slice(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    kept = _full_range(attributes, ins[0])
    dims = _some(factors(ins[0].ndim), kept)
    return Rule((dims,), (dims,), linear=(only(0),), localised=_sliced(kept))


@rule("update_slice")
def _update_slice(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    kept = _full_range(attributes, ins[0])
    dims = _some(factors(ins[0].ndim), kept)
    return Rule((dims, dims), (dims,), linear=(only(0, 1),), localised=_sliced(kept))


@rule("pad")
def _pad(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    rows = zip(attributes["low"], attributes["high"], attributes["between"], strict=True)
    dims = _some(factors(ins[0].ndim), [row == (0, 0, 0) for row in rows])
    return Rule((dims,), (dims,), linear=(only(0),) if attributes["value"] == 0 else ())


@rule("concatenate")
def _concatenate(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _some(factors(outs[0].ndim), [i != attributes["axis"] for i in range(outs[0].ndim)])
    return Rule((dims,) * len(ins), (dims,), linear=(frozenset(range(len(ins))),))


@rule("reverse")
def _reverse(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _some(factors(ins[0].ndim), [i not in attributes["axes"] for i in range(ins[0].ndim)])
    return Rule((dims,), (dims,), linear=(only(0),))


@rule("full")
def _full(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    return Rule((), (factors(outs[0].ndim),), localised=_shape)


@rule("iota")
def _iota(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _some(factors(outs[0].ndim), [i != attributes["axis"] for i in range(outs[0].ndim)])
    return Rule((), (dims,), localised=_shape)


gathered("an array that stands in the graph", "constant")
gathered("the words of a stream are numbered over the whole tensor", "random_bits")

# -- reductions, and what works along an axis ----------------------------------------------------------------

_REDUCES = {"reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min"}


def _reduction(name: str) -> RuleOf:
    def made(ins: Types, outs: Types, attributes: Attributes) -> Rule:
        op = None if ins[0].dtype == bool_ else _REDUCES.get(name)  # no collective takes truth values
        x, axes = factors(ins[0].ndim), attributes["axes"]
        dims = x if op else _some(x, [i not in axes for i in range(len(x))])
        reduces = {x[a].name: op for a in axes} if op else {}
        out = tuple(d for i, d in enumerate(x) if i not in axes)
        return Rule((dims,), (out,), reduces, linear=(only(0),) if op == "sum" else ())

    return made


for _name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or"):
    RULES[_name] = _reduction(_name)


@rule("argmax", "argmin")
def _arg(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x = factors(ins[0].ndim)
    dims = _some(x, [i != attributes["axis"] for i in range(len(x))])
    return Rule((dims,), (tuple(d for i, d in enumerate(x) if i != attributes["axis"]),))


@rule("cumulative")
def _cumulative(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _but(ins[0].ndim, (attributes["axis"],))
    return Rule((dims,), (dims,), linear=(only(0),) if attributes["kind"] == "sum" else ())


def _but(ndim: int, axes: Sequence[int]) -> Dims:
    """Factors of all dimensions but these."""
    taken = {a % ndim for a in axes}
    return _some(factors(ndim), [i not in taken for i in range(ndim)])


@rule("sort")
def _sort(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _but(ins[0].ndim, (attributes["axis"],))
    return Rule((dims,) * len(ins), (dims,) * len(outs))


@rule("top_k")
def _top_k(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _but(ins[0].ndim, (attributes.get("axis", -1),))
    return Rule((dims,), (dims,) * len(outs))


@rule("fft")
def _fft(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _but(ins[0].ndim, attributes["axes"])
    return Rule((dims,), (dims,), linear=(only(0),))


@rule("rfft", "irfft")
def _rfft(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _but(ins[0].ndim, (attributes["axis"],))
    return Rule((dims,), (dims,), linear=(only(0),))


@rule("lu", "qr", "eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "cholesky", "triangular_solve")
def _matrices(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    """Batches of matrices: each is whole, the batch may be split."""
    lead = ins[0].ndim - 2
    dims = factors(lead)
    return Rule(
        tuple((*dims, *(None,) * (t.ndim - lead)) for t in ins),
        tuple((*dims, *(None,) * (t.ndim - lead)) for t in outs),
    )


gathered("its tolerance belongs to the whole", "pinv")
gathered("Python code or a foreign routine sees whole arrays", "callback", "custom_call", "print")
gathered("kernels are made after sharding", "fusion")
