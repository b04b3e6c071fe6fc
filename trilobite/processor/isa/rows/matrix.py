"""Matrix rows: products of every number format, convolution, what their backward passes need, and the
drain.

Float products are one fp32 chain of fused multiply-adds per output, k ascending (convolution: r, s, c),
starting from the destination when accumulating and from +0 otherwise; the array's geometry and any tiling
do not change a bit. Integer products are exact modulo 2^32 (2^64 into i64). The drain then adds the bias,
multiplies the scale, applies the activation, and rounds or saturates to the destination.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.processor.isa import arithmetic, functions
from trilobite.processor.isa.formats import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    I4,
    I8,
    I16,
    I32,
    I64,
    TF32,
    Array,
    Format,
)
from trilobite.processor.isa.numbers import canonical, finish, fma32, narrow, tf32, to_integer
from trilobite.processor.isa.row import (
    ACC,
    MATRIX,
    NRAM,
    WRAM,
    Flag,
    IllegalOperands,
    Operands,
    Region,
    Row,
    each,
    operands,
    region,
)
from trilobite.processor.isa.rows.window import col2im, im2col, unrolled

_FLOAT_PAIRS = (
    (F32, F32),
    (F16, F16),
    (BF16, BF16),
    (TF32, TF32),
    (E4M3, E4M3),
    (E5M2, E5M2),
    (E4M3, E5M2),
    (E5M2, E4M3),
)
_FLOAT_RESULTS = {
    F32: (F32,),
    TF32: (F32,),
    F16: (F16, F32),
    BF16: (BF16, F32),
    E4M3: (F16, BF16, F32),
    E5M2: (F16, BF16, F32),
}
_INT_PAIRS = ((I8, I8), (I16, I16), (I4, I4), (I16, I8), (I8, I4))
_INT_RESULTS = (I32, I64, I8, I16, F32, F16)
PRODUCTS = tuple(
    [(result, a, b) for a, b in _FLOAT_PAIRS for result in _FLOAT_RESULTS[a]]
    + [(result, a, b) for a, b in _INT_PAIRS for result in _INT_RESULTS]
)
FLOAT_PRODUCTS = tuple(p for p in PRODUCTS if p[1].kind == "float")

ACCUMULATE = Flag("acc", ("", "acc"))
DRAIN = (ACCUMULATE, Flag("bias", ("", "bias")), Flag("scale", ("", "scale")),
         Flag("activation", ("", "relu", "sigmoid", "tanh")))  # fmt: skip
TRANSPOSE = (Flag("ta", ("", "ta")), Flag("tb", ("", "tb")))
DEALT = Flag("lanes", ("", "lanes"))
LANES = 64  # to which the filters of a product may be dealt


def operand_value(fmt: Format, x: Array) -> Array:
    """What the multipliers see: float32 images of floats, int64 of integers."""
    if fmt.kind != "float":
        return x.astype(np.int64)
    return tf32(x) if fmt is TF32 else x.astype(np.float32)


def float_chain(a: Array, b: Array, start: Array) -> Array:
    """start[m][n] + a[m][k] b[k][n] as one fused chain per output, k ascending."""
    total = np.array(start, np.float32)
    for k in range(a.shape[1]):
        total = fma32(a[:, k, None], b[None, k, :], total)
    return total


def integer_chain(a: Array, b: Array, start: Array) -> Array:
    """Exact modulo 2^64."""
    return np.asarray(start + a @ b, np.int64)


def product(o: Operands, a: Array, b: Array, start: Array | None) -> Array:
    """The accumulators before the drain, float32 or int64."""
    chain = float_chain if o.f1.kind == "float" else integer_chain
    return chain(operand_value(o.f1, a), operand_value(o.f2, b), first_total(o, a, b, start))


def first_total(o: Operands, a: Array, b: Array, start: Array | None) -> Array:
    """Where the chains begin: at the destination, or at +0."""
    shape, wide = (a.shape[0], b.shape[1]), np.float32 if o.f1.kind == "float" else np.int64
    return np.zeros(shape, wide) if start is None else start.astype(wide).reshape(shape)


Product = Callable[[Operands, Array, Array, Array | None], Array]


def drain(o: Operands, total: Array, bias: Array | None, scale: Array | None) -> Array:
    """Accumulators to results of the destination's format; outputs run along the last axis."""
    result: Format = o.f0
    if o.f1.kind != "float" and result is not I64 and result.kind != "float":
        total = total.astype(np.int32).astype(np.int64)
    if bias is not None:
        total = total + bias.astype(total.dtype)
    if scale is not None:
        total = (
            total * scale
            if total.dtype == np.float32
            else total.astype(np.float64) * scale.astype(np.float64)
        )
    total = _activate(o.activation, total)
    if result.kind == "float":
        return (
            finish(result, total)
            if result is F32
            else narrow(result, canonical(total.astype(np.float32)), "rn")
        )
    if total.dtype.kind == "f":
        return to_integer(result, total, "rn")
    if result in (I32, I64):
        return total.astype(result.dtype)
    return to_integer(result, total.astype(np.float64), "rn")


def _activate(name: str, x: Array) -> Array:
    if name == "":
        return x
    if name == "relu":
        return np.where((x > 0) | (x != x), x, x.dtype.type(0))
    curve = functions.sigmoid if name == "sigmoid" else functions.tanh
    wide = curve(x.astype(np.float64))
    return wide.astype(np.float32) if x.dtype == np.float32 else wide


def unlawful_drain(formats: Sequence[Format], flags: Mapping[str, str]) -> str | None:
    integer = formats[1].kind != "float"
    if flags["acc"] and integer and formats[0] not in (I32, I64):
        return f"integer products accumulate in i32 or i64, not in {formats[0]}"
    if flags["activation"] in ("sigmoid", "tanh") and integer and not flags["scale"]:
        return f"{flags['activation']} of an integer product needs a scale"
    if flags["activation"] in ("sigmoid", "tanh") and formats[0] in (I32, I64):
        return f"{flags['activation']} into {formats[0]} would only be 0 or 1"
    return None


def unlawful_product(formats: Sequence[Format], flags: Mapping[str, str]) -> str | None:
    if flags["lanes"] and not flags["tb"]:
        return "rows that are dealt to lanes lie as [n][k]: tb is missing"
    return unlawful_drain(formats, flags)


def in_order(o: Operands, filters: Array) -> Array:
    """Filters by their number: dealt to lanes, number r is the one at (r % 64) (n / 64) + r / 64."""
    count = filters.shape[0]
    if not o.lanes or count % LANES:
        return filters
    dealt = filters.reshape(LANES, count // LANES, *filters.shape[1:])
    return np.swapaxes(dealt, 0, 1).reshape(filters.shape)


def _drain_reads(o: Operands, shape: Sequence[int]) -> list[Region]:
    found = [region(o.dst, o.f0, shape, NRAM + ACC)] if o.acc else []
    bias = F32 if o.f1.kind == "float" else I32
    found += [region(o.bias_at, bias, shape[-1:])] if o.bias else []
    found += [region(o.scale_at, F32, shape[-1:])] if o.scale else []
    return found


def _parts(o: Operands, rest: Sequence[Array]) -> tuple[Array | None, Array | None, Array | None]:
    """Start, bias and scale, of the arrays that were read because of their flags."""
    left = iter(rest)
    start, bias, scale = (next(left) if wanted else None for wanted in (o.acc, o.bias, o.scale))
    return start, bias, scale


def mm(o: Operands, a: Array, b: Array, *rest: Array, product: Product = product) -> Sequence[Array]:
    start, bias, scale = _parts(o, rest)
    left, right = (a.T if o.ta else a), (in_order(o, b).T if o.tb else b)
    return (drain(o, product(o, left, right, start), bias, scale),)


def _mm_reads(o: Operands) -> Sequence[Region]:
    a = (o.k, o.m) if o.ta else (o.m, o.k)
    b = (o.n, o.k) if o.tb else (o.k, o.n)
    return [region(o.a, o.f1, a), region(o.b, o.f2, b, WRAM), *_drain_reads(o, (o.m, o.n))]


def _vector_product(
    o: Operands, left: Array, right: Array, rest: Sequence[Array], product: Product
) -> Sequence[Array]:
    """MMV and VMM: no drain but the rounding."""
    start = rest[0] if o.acc else None
    plain = Operands({**o.values, "activation": ""})
    return (drain(plain, product(o, left, right, start), None, None).reshape(-1),)


def mmv(
    o: Operands, matrix: Array, vector: Array, *rest: Array, product: Product = product
) -> Sequence[Array]:
    return _vector_product(o, matrix, vector.reshape(-1, 1), rest, product)


def vmm(
    o: Operands, vector: Array, matrix: Array, *rest: Array, product: Product = product
) -> Sequence[Array]:
    return _vector_product(o, vector.reshape(1, -1), matrix, rest, product)


def _start(o: Operands, count: int) -> list[Region]:
    return [region(o.dst, o.f0, (count,), NRAM + ACC)] if o.acc else []


CONV = "run:h,w,ci,kh,kw,co,sh,sw,dh,dw,top,bottom,left,right,groups"


def _groups(o: Operands) -> int:
    if o.groups < 1 or o.ci % o.groups or o.co % o.groups:
        raise IllegalOperands(f"{o.ci} inputs and {o.co} outputs do not fall into {o.groups} groups")
    return int(o.groups)


def _grouped(o: Operands, x: Array) -> list[Array]:
    return np.split(x, _groups(o), axis=-1)


def conv(o: Operands, x: Array, w: Array, *rest: Array, product: Product = product) -> Sequence[Array]:
    start, bias, scale = _parts(o, rest)
    p, q = unrolled(o)
    starts = [None] * _groups(o) if start is None else np.split(start.reshape(p * q, -1), _groups(o), axis=1)
    filters = np.split(in_order(o, w.reshape(o.co, -1)), _groups(o), axis=0)
    totals = [product(o, im2col(o, xg), wg.T, begin)
              for xg, wg, begin in zip(_grouped(o, x), filters, starts, strict=True)]  # fmt: skip
    return (drain(o, np.concatenate(totals, axis=1), bias, scale).reshape(p, q, o.co),)


def _conv_reads(o: Operands) -> Sequence[Region]:
    p, q = unrolled(o)
    return [region(o.a, o.f1, (o.h, o.w, o.ci)), _filter(o, o.b, o.f2, WRAM), *_drain_reads(o, (p, q, o.co))]


def _filter(o: Operands, address: int, fmt: Format, spaces: str) -> Region:
    return region(address, fmt, (o.co, o.kh, o.kw, o.ci // _groups(o)), spaces)


def conv_dx(o: Operands, g: Array, w: Array, *rest: Array, product: Product = product) -> Sequence[Array]:
    """Per tap the chain over the outputs, then the taps are added in order (col2im)."""
    p, q = unrolled(o)
    filters = np.split(w.reshape(o.co, -1), _groups(o), axis=0)
    images = []
    for gg, wg in zip(np.split(g.reshape(p * q, -1), _groups(o), axis=1), filters, strict=True):
        columns = product(o, gg, wg, None)
        images.append(col2im(o, columns, o.ci // _groups(o)))
    image = np.concatenate(images, axis=2)
    if o.acc:
        image = rest[0].astype(image.dtype) + image
    return (drain(Operands({**o.values, "activation": ""}), image, None, None),)


def conv_dw(o: Operands, g: Array, x: Array, *rest: Array, product: Product = product) -> Sequence[Array]:
    """One chain per weight over the output places in order, from the destination when accumulating."""
    p, q = unrolled(o)
    gradients = np.split(g.reshape(p * q, -1), _groups(o), axis=1)
    starts = np.split(rest[0].reshape(o.co, -1), _groups(o), axis=0) if o.acc else [None] * _groups(o)
    parts = [product(o, gg.T, im2col(o, xg), begin)
             for gg, xg, begin in zip(gradients, _grouped(o, x), starts, strict=True)]  # fmt: skip
    plain = Operands({**o.values, "activation": ""})
    shape = (o.co, o.kh, o.kw, o.ci // _groups(o))
    return (drain(plain, np.concatenate(parts, axis=0), None, None).reshape(shape),)


def _conv_work(o: Operands) -> Mapping[str, int]:
    p, q = unrolled(o)
    return {"m": p * q, "n": o.co, "k": o.ci, "taps": o.kh * o.kw, "groups": _groups(o), "kh": o.kh, "q": q}


def _gradient(o: Operands) -> Region:
    p, q = unrolled(o)
    return region(o.g, o.f1, (p, q, o.co))


def _elementwise_row(mnemonic: str, function: Any, line: str) -> Row:
    return Row(mnemonic, operands("dst n a b"), each(F32, F16, BF16, I8, I16, I32), MATRIX, "vector", line,
               lambda o, a, b: (function(o.f0, a, b),),
               lambda o: [region(o.a, o.f0, (o.n,), NRAM + WRAM), region(o.b, o.f0, (o.n,), NRAM + WRAM)],
               lambda o: [region(o.dst, o.f0, (o.n,), NRAM + WRAM)])  # fmt: skip


def _matrix_scalar(o: Operands, a: Array) -> Sequence[Array]:
    from trilobite.processor.isa.rows.scalar import from_register

    return (arithmetic.multiply(o.f0, a, np.broadcast_to(from_register(o.f0, o.s), a.shape)),)


def _outer(o: Operands, a: Array, b: Array) -> Sequence[Array]:
    return (arithmetic.multiply(o.f0, np.repeat(a, o.n).reshape(o.m, o.n), np.tile(b, (o.m, 1))),)


BACKWARD = tuple(p for p in FLOAT_PRODUCTS if p[1] not in (E4M3, E5M2) or p[0] is F32)
ROWS = (
    Row("MMV", operands("dst m a b k"), PRODUCTS, MATRIX, "matrix",
        "dst[m] = a[m][k] b[k]; a in WRAM, b in NRAM", mmv,
        lambda o: [region(o.a, o.f1, (o.m, o.k), WRAM), region(o.b, o.f2, (o.k,)), *_start(o, o.m)],
        lambda o: [region(o.dst, o.f0, (o.m,), NRAM + ACC)], (ACCUMULATE,),
        lambda o: {"m": 1, "n": o.m, "k": o.k, "taps": 1, "groups": 1},
        lambda formats, flags: unlawful_drain(formats, {**flags, "activation": "", "scale": ""})),
    Row("VMM", operands("dst n a b k"), PRODUCTS, MATRIX, "matrix",
        "dst[n] = a[k] b[k][n]; a in NRAM, b in WRAM", vmm,
        lambda o: [region(o.a, o.f1, (o.k,)), region(o.b, o.f2, (o.k, o.n), WRAM), *_start(o, o.n)],
        lambda o: [region(o.dst, o.f0, (o.n,), NRAM + ACC)], (ACCUMULATE,),
        lambda o: {"m": 1, "n": o.n, "k": o.k, "taps": 1, "groups": 1},
        lambda formats, flags: unlawful_drain(formats, {**flags, "activation": "", "scale": ""})),
    Row("MM", operands("dst a b run:m,n,k drain:bias_at,scale_at"), PRODUCTS, MATRIX, "matrix",
        "dst[m][n] = a[m][k] b[k][n], drained; ta, tb: a lies as [k][m], b as [n][k]; lanes: where 64"
        " divides n, row r of b lies as row (r % 64) (n / 64) + r / 64", mm, _mm_reads,
        lambda o: [region(o.dst, o.f0, (o.m, o.n), NRAM + ACC)], (*DRAIN, *TRANSPOSE, DEALT),
        lambda o: {"m": o.m, "n": o.n, "k": o.k, "taps": 1, "groups": 1}, unlawful_product),
    Row("CONV", operands(f"dst a b {CONV} drain:bias_at,scale_at"), PRODUCTS, MATRIX, "matrix",
        "dst[p][q][co] = convolution of a[h][w][ci] with b[co][kh][kw][ci / groups], drained; lanes: filters"
        " lie as the rows of MM's b", conv, _conv_reads,
        lambda o: [region(o.dst, o.f0, (*unrolled(o), o.co), NRAM + ACC)], (*DRAIN, DEALT), _conv_work,
        unlawful_drain),
    Row("CONVDX", operands(f"dst g b {CONV}"), BACKWARD, MATRIX, "matrix",
        "dst[h][w][ci] = gradient of CONV's a, of g[p][q][co] and b[co][kh][kw][ci / groups]", conv_dx,
        lambda o: [_gradient(o), _filter(o, o.b, o.f2, WRAM),
                   *([region(o.dst, o.f0, (o.h, o.w, o.ci))] if o.acc else [])],
        lambda o: [region(o.dst, o.f0, (o.h, o.w, o.ci))], (ACCUMULATE,), _conv_work),
    Row("CONVDW", operands(f"dst g a {CONV}"), BACKWARD, MATRIX, "matrix",
        "dst[co][kh][kw][ci / groups] = gradient of CONV's b, of g[p][q][co] and a[h][w][ci]", conv_dw,
        lambda o: [_gradient(o), region(o.a, o.f2, (o.h, o.w, o.ci), NRAM + WRAM),
                   *([_filter(o, o.dst, o.f0, NRAM)] if o.acc else [])],
        lambda o: [_filter(o, o.dst, o.f0, NRAM)], (ACCUMULATE,), _conv_work),
    Row("OP", operands("dst m a b n"), each(F32, F16, BF16, I16, I32), MATRIX, "vector",
        "dst[m][n] = a[m] b[n], the outer product", _outer,
        lambda o: [region(o.a, o.f0, (o.m,)), region(o.b, o.f0, (o.n,))],
        lambda o: [region(o.dst, o.f0, (o.m, o.n), NRAM + WRAM)]),
    Row("MMS", operands("dst n a s"), each(F32, F16, BF16, I16, I32), MATRIX, "vector",
        "dst[i] = a[i] * s over a matrix of n elements", _matrix_scalar,
        lambda o: [region(o.a, o.f0, (o.n,), NRAM + WRAM)],
        lambda o: [region(o.dst, o.f0, (o.n,), NRAM + WRAM)]),
    _elementwise_row("MAM", arithmetic.add, "dst[i] = a[i] + b[i] over matrices of n elements"),
    _elementwise_row("MSM", arithmetic.subtract, "dst[i] = a[i] - b[i] over matrices of n elements"),
)  # fmt: skip
