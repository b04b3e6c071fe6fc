"""Random arrays of any dtype that discriminate, and how results are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitives.common import float_range, integer_range
from trilobite.ir.types import Affine, Symbol, TensorType, bind_symbols, substitute

Array = np.ndarray[Any, Any]
WILD = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.0)


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: dt.DType, wild: bool = True) -> Array:
    """Signed numbers over a wide range; a wild array has NaN, infinities and both zeros among them."""
    if dtype == dt.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if dt.is_integer(dtype):
        return _random_integers(rng, shape, dtype)
    if dt.is_complex(dtype):
        parts = [random_array(rng, shape, dt.real_of(dtype), wild) for _ in range(2)]
        out = np.empty(shape, dtype)
        out.real, out.imag = parts
        return out
    numbers = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 4, shape)
    if wild:
        chosen = rng.random(shape) < 0.3
        numbers = np.where(chosen, rng.choice([*WILD, *float_range(dtype)], shape), numbers)
    with np.errstate(all="ignore"):
        return np.asarray(numbers).astype(np.float64).astype(dtype)


def _random_integers(rng: np.random.Generator, shape: Sequence[int], dtype: dt.DType) -> Array:
    low, high = integer_range(dtype)
    few = rng.integers(max(low, -9), min(high, 9), shape, np.int64, endpoint=True)
    small = few.astype(np.int8).astype(dtype) if dt.bits(dtype) == 4 else few.astype(dtype)
    raw = rng.integers(0, 256, (int(np.prod(shape)), dtype.itemsize), np.uint8).reshape(-1)
    wide = (raw & 15 if dt.bits(dtype) == 4 else raw).view(dtype).reshape(shape)
    edges = np.stack([np.asarray(n).astype(dtype) for n in (low, high)])[rng.integers(0, 2, shape)]
    pick = rng.integers(0, 3, shape)
    return np.asarray(np.where(pick == 0, small, np.where(pick == 1, wide, edges)))


def inputs_of(
    graph: Graph, rng: np.random.Generator, wild: bool = True, sizes: Mapping[Symbol, int] | None = None
) -> list[Array]:
    """An array for every input of a graph; symbolic sizes as given, else between their bounds."""
    known = dict(sizes or {})
    for s in sorted(graph.symbols):
        known.setdefault(s, int(rng.integers(s.lower, min(s.upper, s.lower + 6), endpoint=True)))
    return [random_array(rng, _fixed(t, known), t.dtype, wild) for t in graph.input_types]


def _fixed(t: TensorType, sizes: Mapping[Symbol, int]) -> list[int]:
    return [d.value(sizes) if isinstance(d, Affine) else d for d in t.shape]


def bits_of(a: Array) -> Array:
    """An array's bits, every NaN as one."""
    if a.dtype == dt.bool_:
        return a.view(np.uint8)
    if dt.is_complex(a.dtype):
        return np.stack([bits_of(a.real.copy()), bits_of(a.imag.copy())])
    words = np.ascontiguousarray(a).reshape(-1).view(f"u{a.dtype.itemsize}").copy()
    if dt.is_inexact(a.dtype):
        words[np.isnan(a.reshape(-1).astype(np.float64))] = np.iinfo(words.dtype).max
    return words


def assert_same_bits(found: Array, expected: Array, what: str = "") -> None:
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    a, b = bits_of(found).reshape(-1), bits_of(expected).reshape(-1)
    if not np.array_equal(a, b):
        raise AssertionError(f"{what}: found {found!r}\nexpected {expected!r}")


def assert_close(found: Array, expected: Array, ulps: float = 4.0, what: str = "") -> None:
    """Equal to within a few units of the last place of each element; NaN, infinities and integers alike."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    if not dt.is_inexact(found.dtype):
        return assert_same_bits(found, expected, what)
    wide = np.complex128 if dt.is_complex(found.dtype) else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        near = (a == b) | (np.isnan(a) & np.isnan(b)) | (abs(a - b) <= ulps * _spacing(b, found.dtype))
    if not near.all():
        raise AssertionError(f"{what}: found {found!r}\nexpected {expected!r}")


def _spacing(x: Array, dtype: dt.DType) -> Array:
    info = _finfo(dt.real_of(dtype))
    return np.maximum(abs(x) * float(info.eps), float(info.smallest_subnormal))


def _finfo(dtype: dt.DType) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dtype)


def assert_same_results(before: Graph, after: Graph, rng: np.random.Generator, exact: bool = True) -> None:
    """Two graphs give the same for the same random inputs: tame ones, and wild ones."""
    for wild in (False, True):
        values = inputs_of(before, rng, wild)
        pairs = zip(run(after, values), run(before, values), strict=True)
        for i, (found, expected) in enumerate(pairs):
            check = assert_same_bits if exact else assert_close
            check(found, expected, what=f"output {i} of\n{before}\nbecame\n{after}\nfor {values}")


# -- how far rounding alone may lead ------------------------------------------------------------------------


def rounding_spread(
    graph: Graph, values: Sequence[Array], rng: np.random.Generator, trials: int = 8
) -> list[Array]:
    """For each result, how far it moves when every inexact intermediate, and every term of a sum, is off by a
    unit or so in its last place: the distance that another order of the same algebra may have. NaN where even
    that is not sure, as the parts of a complex number that is not finite.
    """
    results = [_perturbed(graph, values, rng) for _ in range(trials)]
    plain = run(graph, values)
    return [_largest_distance(p, [r[i] for r in results]) for i, p in enumerate(plain)]


def _largest_distance(plain: Array, others: Sequence[Array]) -> Array:
    wide = np.complex128 if dt.is_complex(plain.dtype) else np.float64
    with np.errstate(all="ignore"):
        a = plain.astype(wide)
        gaps = [
            np.where((o == a) | (np.isnan(o) & np.isnan(a)), 0, abs(o - a))
            for o in (x.astype(wide) for x in others)
        ]
        largest = np.asarray(np.max(np.stack(gaps), axis=0))
        return np.where(np.isfinite(a), largest, np.nan) if dt.is_complex(plain.dtype) else largest


SUMS = frozenset(
    "dot conv conv_input_grad conv_weight_grad reduce_sum reduce_prod cumulative window_reduce scatter_along"
    .split()
)  # fmt: skip
EXTREMES = frozenset("maximum minimum reduce_max reduce_min cumulative window_reduce".split())
# conv_input_grad between strides: zeros that are not there may be multiplied by an infinite weight, or not.


def _perturbed(graph: Graph, values: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    env = dict(zip(graph.inputs, values, strict=True))
    sizes = bind_symbols((t.shape, v.shape) for t, v in zip(graph.input_types, values, strict=True))
    for e in graph.equations:
        attributes = {k: substitute(v, sizes) for k, v in e.attributes.items()}
        operands = [env[v] for v in e.inputs]
        if e.primitive.name in SUMS:
            operands = [_nudged(x, rng) for x in operands]
        out = e.primitive.evaluate(*operands, **attributes)
        outs = out if e.primitive.multiple else (out,)
        if e.primitive.name in EXTREMES:
            outs = [_zeros_of_any_sign(o, rng) for o in outs]
        if e.primitive.name == "conv_input_grad" and not all(_all_finite(x) for x in operands):
            outs = [_anything(np.ones(o.shape, np.bool_), o, rng) for o in outs]
        if e.primitive.name in SUMS and dt.is_inexact(outs[0].dtype):
            outs = [_anything(_may_overflow(e.primitive, operands, attributes), outs[0], rng)]
        env.update(zip(e.outputs, (_nudged(o, rng) if e.inputs else o for o in outs), strict=True))
    return [env[v] for v in graph.outputs]


def _zeros_of_any_sign(x: Array, rng: np.random.Generator) -> Array:
    """NumPy gives the one or the other of two zeros as its loop's alignment will have it."""
    if not dt.is_float(x.dtype):
        return x
    return np.asarray(np.where((x == 0) & (rng.random(x.shape) < 0.5), -x, x)).astype(x.dtype)


def _may_overflow(primitive: Any, operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    """Where the sum of the terms' sizes has no finite value, a partial sum may be infinite or not."""
    sizes = [
        np.where(np.isfinite(x), abs(x), 0).astype(x.dtype) if dt.is_inexact(x.dtype) else x for x in operands
    ]
    return ~np.isfinite(primitive.evaluate(*sizes, **attributes))


def _anything(where: Array, x: Array, rng: np.random.Generator) -> Array:
    return np.asarray(np.where(where, rng.choice([np.nan, np.inf, -np.inf], x.shape), x)).astype(x.dtype)


def _all_finite(x: Array) -> bool:
    return not dt.is_inexact(x.dtype) or bool(np.isfinite(x.astype(np.complex128)).all())


def _nudged(x: Array, rng: np.random.Generator) -> Array:
    if not dt.is_inexact(x.dtype):
        return x
    eps = float(_finfo(dt.real_of(x.dtype)).eps)
    with np.errstate(all="ignore"):
        wide = x.astype(np.complex128 if dt.is_complex(x.dtype) else np.float64)
        factor = 1 + eps * rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0], x.shape)
        return np.asarray(np.where(np.isfinite(wide), wide * factor, wide)).astype(x.dtype)


def assert_within_rounding(found: Array, expected: Array, spread: Array, what: str = "") -> None:
    """As far apart as rounding may lead, and a few units in the last place."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    if not dt.is_inexact(found.dtype):
        return assert_same_bits(found, expected, what)
    wide = np.complex128 if dt.is_complex(found.dtype) else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        near = (a == b) | (np.isnan(a) & np.isnan(b)) | ~np.isfinite(spread)
        near |= abs(a - b) <= 16 * spread + 4 * _spacing(b, found.dtype)
    if not near.all():
        raise AssertionError(f"{what}: found {found[~near]!r}\nexpected {expected[~near]!r}")
