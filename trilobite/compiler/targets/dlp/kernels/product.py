"""Plain products: one core after the other takes tiles of the result, the matrix unit where it has the
format, the vector unit elsewhere.

Enters: a `Product` with strides. Leaves: a function of three pointers. This is the way for products that the
contraction room leaves; it searches nothing.
"""

from __future__ import annotations

from trilobite.base.dtypes import bfloat16, float16, float32, int8, int16, int32, int64
from trilobite.compiler.targets.dlp.interfaces import LoweredGroup, Product, Tensor
from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.vector.formats import format_of
from trilobite.compiler.targets.dlp.writer import GDRAM, Int, Writer, nram_room
from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.ir import Constant, KernelModule, Value
from trilobite.processor.lang.types import Pointer
from trilobite.processor.machine import Machine

NONE = Constant(Pointer("nram"), 0)  # where a bias or scale would be
_MATRIX = {
    (float32, float32), (float16, float32), (bfloat16, float32), (int8, int32), (int16, int32),
    (int8, int64), (int16, int64),
}  # fmt: skip


def on_matrix_unit(p: Product) -> bool:
    """Does a matrix row exist for these formats, with these sums?"""
    return (p.x.dtype, p.accumulate) in _MATRIX and p.out.dtype in (p.accumulate, p.x.dtype)


def write_product(module: KernelModule, name: str, p: Product, machine: Machine, cores: int) -> LoweredGroup:
    w = Writer(module, name, [GDRAM] * 3, machine, cores)
    unit = on_matrix_unit(p) and machine.core.wram.bytes > 0
    mapping = _matrix(w, p) if unit else _vector(w, p)
    w.finish()
    return LoweredGroup(name, "matrix" if unit else "vector", mapping=mapping)


def _tile_sizes(p: Product, machine: Machine, cores: int) -> tuple[int, int, int]:
    """m, n, k of a tile: what fits, and at least a tile of the result for every core."""
    b, m, n, k = p.sizes
    item, wide = p.x.dtype.itemsize, p.accumulate.itemsize + p.out.dtype.itemsize
    room, weights = nram_room(machine) - 2048, machine.core.wram.bytes - 256
    if pool := machine.core.pool_kib * 1024:  # each takes half of a memory that they share
        room, weights = min(room, pool // 2 - 2048), min(weights, pool // 2)
    tn = min(n, 256)
    tk = max(1, min(k, weights // (tn * item), room // 2 // item))
    tn = max(1, min(tn, weights // (tk * item)))
    tm = max(1, min(m, room // (tk * item + tn * wide)))
    while b * -(-m // tm) * -(-n // tn) < cores and (tm > 16 or tn > 64):
        tm, tn = (-(-tm // 2), tn) if tm > 16 else (tm, -(-tn // 2))
    return tm, tn, tk


class _Tile:
    """A tile of the result: which batch, where it begins, how large it is."""

    def __init__(self, w: Writer, p: Product, sizes: tuple[int, int, int], number: Int) -> None:
        _, m, n, _ = p.sizes
        tm, tn, _ = sizes
        rows, columns = -(-m // tm), -(-n // tn)
        self.batch = w.div(number, rows * columns)
        piece = w.rem(number, rows * columns)
        self.row, self.column = w.mul(w.div(piece, columns), tm), w.mul(w.rem(piece, columns), tn)
        self.m: Int = tm if m % tm == 0 else w.least(tm, w.sub(m, self.row))
        self.n: Int = tn if n % tn == 0 else w.least(tn, w.sub(n, self.column))


def _place(w: Writer, pointer: Value, t: Tensor, *index: Int) -> Value:
    total: Int = 0
    for i, s in zip(index, t.strides, strict=True):
        total = w.add(total, w.mul(i, s))
    return w.at(pointer, w.mul(total, t.dtype.itemsize))


def _load(w: Writer, dst: Value, src: Value, t: Tensor, rows: Int, columns: Int) -> bool:
    """A tile of the last two axes, contiguous along the one that is so in memory; True if that is the
    first.
    """
    r, c = t.strides[-2:]
    turned = c != 1 and r == 1
    if turned:
        axes = [Axis(columns, rows, c), Axis(rows, 1, r)]
    else:
        axes = [Axis(rows, columns, r), Axis(columns, 1, c)]
    strided_copy(w, dst, src, axes, t.dtype.itemsize)
    return turned


def _matrix(w: Writer, p: Product) -> str:
    b, m, n, k = p.sizes
    tm, tn, tk = sizes = _tile_sizes(p, w.machine, w.cores)
    fmt, wide, out = (format_of(d) for d in (p.x.dtype, p.accumulate, p.out.dtype))
    item = p.x.dtype.itemsize
    x = w.buffer("x", tm * tk * item)
    y = w.buffer("y", tk * tn * item, "wram")
    sums = w.buffer("sums", tm * tn * p.accumulate.itemsize)
    narrow = w.buffer("narrow", tm * tn * p.out.dtype.itemsize) if out is not wide else sums
    zero = Constant(wide, 0.0 if wide.kind == "float" else 0)
    with w.shared_loop(b * -(-m // tm) * -(-n // tn)) as number:
        tile = _Tile(w, p, sizes, number)
        count = w.mul(tile.m, tile.n)
        w.vector("VSET", wide, sums, count, zero)
        with w.loop(0, k, tk) as at:
            depth = tk if k % tk == 0 else w.least(tk, w.sub(k, at))
            here = _place(w, w.params[0], p.x, tile.batch, tile.row, at)
            ta = "ta" if _load(w, x, here, p.x, tile.m, depth) else ""
            there = _place(w, w.params[1], p.y, tile.batch, at, tile.column)
            tb = "tb" if _load(w, y, there, p.y, depth, tile.n) else ""
            flags = ("acc", "", "", "", ta, tb, "")
            w.vector("MM", (wide, fmt, fmt), sums, x, y, tile.m, tile.n, depth, NONE, NONE, flags=flags)
        if out is not wide:
            w.vector("VCVT", (out, wide), narrow, count, sums, flags=("rn",))
        _store(w, p, tile, narrow)
    return f"{m}x{n}x{k} in tiles of {tm}x{tn}x{tk}"


def _store(w: Writer, p: Product, tile: _Tile, sums: Value) -> None:
    there = _place(w, w.params[2], p.out, tile.batch, tile.row, tile.column)
    r, c = p.out.strides[-2:]
    strided_copy(w, there, sums, [Axis(tile.m, r, tile.n), Axis(tile.n, c, 1)], p.out.dtype.itemsize)


def _vector(w: Writer, p: Product) -> str:
    """Row by row: every element of x scales a row of y, which is added. A tile of y serves several rows."""
    b, m, n, k = p.sizes
    fmt: Format = format_of(p.x.dtype)
    item = p.x.dtype.itemsize
    tm, tn, tk = sizes = _vector_sizes(p, w.machine, w.cores)
    parts = (("x", tm * tk), ("y", tk * tn), ("sums", tm * tn), ("scaled", tn))
    x, y, sums, scaled = (w.buffer(name, size * item) for name, size in parts)
    zero = Constant(fmt, 0.0 if fmt.kind == "float" else 0)
    with w.shared_loop(b * -(-m // tm) * -(-n // tn)) as number:
        tile = _Tile(w, p, sizes, number)
        w.vector("VSET", fmt, sums, w.mul(tile.m, tile.n), zero)
        with w.loop(0, k, tk) as at:
            depth = tk if k % tk == 0 else w.least(tk, w.sub(k, at))
            here = _place(w, w.params[0], p.x, tile.batch, tile.row, at)
            strided_copy(w, x, here, [Axis(tile.m, tk, p.x.strides[1]), Axis(depth, 1, p.x.strides[2])], item)
            there = _place(w, w.params[1], p.y, tile.batch, at, tile.column)
            axes = [Axis(depth, tile.n, p.y.strides[1]), Axis(tile.n, 1, p.y.strides[2])]
            strided_copy(w, y, there, axes, item)
            with w.loop(0, tile.m) as r, w.loop(0, depth) as i:
                factor = w.load(fmt, x, w.mul(w.add(w.mul(r, tk), i), item))
                total = w.at(sums, w.mul(r, w.mul(tile.n, item)))
                w.vector("VMS", fmt, scaled, tile.n, w.at(y, w.mul(i, w.mul(tile.n, item))), factor)
                w.vector("VAV", fmt, total, tile.n, total, scaled)
        _store(w, p, tile, sums)
    return f"{m}x{n}x{k}, {tm} rows of {tn} on the vector unit"


def _vector_sizes(p: Product, machine: Machine, cores: int) -> tuple[int, int, int]:
    """Rows, columns and depth of a tile: long rows, then as many that share one as leave work for all."""
    b, m, n, k = p.sizes
    room = (nram_room(machine) - 2048) // p.x.dtype.itemsize
    tn = max(1, min(n, room // 4, 2048))
    tm = max(1, min(m, 16, room // (4 * tn), -(-b * m * -(-n // tn) // cores)))
    return tm, tn, max(1, min(k, (room - (tm + 1) * tn) // (tm + tn)))
