"""Vector operations of Python kernels: tables of names with the ISA rows behind them.

Every operation takes its destination first. Operands are views of one format in NRAM; the second operand of a
binary operation may be a scalar, or a view of fewer axes whose elements repeat (row-broadcast). The number of
elements is the destination's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trilobite.processor.isa.formats import I32, Format
from trilobite.processor.lang.intrinsics import TENSOR_ROWS, lawful
from trilobite.processor.lang.python.context import current
from trilobite.processor.lang.python.view import View, product

Function = TypeVar("Function", bound=Callable[..., Any])


def intrinsic(function: Function) -> Function:
    """Marks a function that the compiler calls instead of looking inside."""
    function.__dlp__ = True  # type: ignore[attr-defined]
    return function


def view_of(name: str, given: Any, operation: str) -> View:
    """A contiguous view, or an error in the user's words."""
    if not isinstance(given, View):
        number = isinstance(given, (int, float)) or not hasattr(given, "shape")
        raise current().error(
            f"{operation}: {name} is {type(given).__name__}, not a view",
            "a view of a buffer",
            "fill a buffer with it: dlp.fill(dst, value)" if number else "pass a buffer or a slice of one",
        )
    if not given.contiguous:
        raise current().error(
            f"{operation}: {name} = {given} has gaps between its rows",
            "a contiguous view",
            "copy it into a buffer of its own first",
        )
    return given


def emit(
    row: str, operands: list[Any], formats: tuple[Format, ...] = (), flags: tuple[str, ...] = (),
    is_async: bool = False,
) -> list[Any]:  # fmt: skip
    """One tensor row, after asking the row whether these formats and flags exist."""
    found = TENSOR_ROWS[row]
    chosen = flags or tuple(flag.choices[0] for flag in found.flags)
    wrong = lawful(found, formats, chosen)
    if wrong and found.formats and formats not in found.formats:
        known = sorted({".".join(fmt.name for fmt in one) for one in found.formats})
        raise current().error(
            f"{wrong}: {found.line}", f"one of {', '.join(known)}", "convert with dlp.convert first"
        )
    if wrong:
        raise current().error(wrong, found.line, "see the instruction in docs/isa.md")
    return current().tensor(row, operands, formats, chosen, is_async)


def same_size(operation: str, a: View, b: View) -> None:
    """Sizes that are known must agree."""
    x, y = a.size, b.size
    if isinstance(x, int) and isinstance(y, int) and x != y:
        raise current().error(
            f"{operation}: {a} and {b} differ in size", "operands with as many elements", "slice one of them"
        )


def known_size(extents: tuple[Any, ...]) -> int | None:
    """Elements of a shape, or None where only a run knows."""
    return product(extents) if all(isinstance(e, int) for e in extents) else None


def need_room(operation: str, dst: View, *written: Any) -> None:
    """A destination has room for what is written, where both are known."""
    room, count = known_size(dst.shape), known_size(written)
    if room is not None and count is not None and room < count:
        raise current().error(
            f"{operation}: {dst} has room for {room} of the {count} elements that are written",
            f"a destination of {count} elements",
            "make it larger, or check the operands' shapes",
        )


def same_shape(operation: str, what: str, given: View, wanted: tuple[Any, ...]) -> None:
    """Extents that are known must be those that are wanted; a view of other axes has as many elements."""
    if given.ndim != len(wanted):
        sizes = known_size(given.shape), known_size(wanted)
        differs = None not in sizes and sizes[0] != sizes[1]
    else:
        pairs = zip(given.shape, wanted, strict=True)
        differs = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
    if differs:
        extents = "x".join(str(e) if isinstance(e, int) else "?" for e in wanted)
        raise current().error(f"{operation}: {what} is {given}", f"{extents} elements", "check the shapes")


def same_format(operation: str, *views: View) -> Format:
    formats = {view.fmt for view in views}
    if len(formats) > 1:
        names = ", ".join(view.fmt.name for view in views)
        raise current().error(
            f"{operation}: operands of different formats: {names}", "one format", "convert with dlp.convert"
        )
    return views[0].fmt


# name: (two vectors, vector and scalar, vector and repeated vector); "" where the ISA has no such row
BINARY = {
    "add": ("VAV", "VAS", "VCAV"), "sub": ("VSV", "VSS", "VCSV"), "mul": ("VMV", "VMS", "VCMV"),
    "div": ("VDV", "VDS", "VCDV"), "rem": ("VREM", "", ""),
    "maximum": ("VGTM", "VGTMS", "VCGTM"), "minimum": ("VLTM", "VLTMS", "VCLTM"),
    "greater": ("VGT", "VGTS", "VCGT"), "greater_equal": ("VGE", "VGES", "VCGE"),
    "equal": ("VE", "VES", "VCE"), "not_equal": ("VNE", "VNES", "VCNE"),
    "less": ("VLT", "VLTS", "VCLT"), "less_equal": ("VLE", "VLES", "VCLE"),
    "logical_and": ("VAND", "", "VCAND"), "logical_or": ("VOR", "", "VCOR"), "logical_xor": ("VXOR", "", ""),
    "bit_and": ("VBAND", "VBANDS", ""), "bit_or": ("VBOR", "VBORS", ""), "bit_xor": ("VBXOR", "VBXORS", ""),
    "shift_left": ("VSHL", "VSHLS", ""), "shift_right": ("VSHR", "VSHRS", ""),
    "rotate_left": ("VROL", "VROLS", ""), "mul_high": ("VMULH", "", ""),
    "rsub": ("", "VRSS", ""), "rdiv": ("", "VRDS", ""),
}  # fmt: skip
UNARY = {
    "exp": "VEXP", "exp2": "VEXP2", "log": "VLOG", "log2": "VLOG2", "sin": "VSIN", "cos": "VCOS",
    "tanh": "VTANH", "sigmoid": "VSIGM", "erf": "VERF", "gelu": "VGELU", "sqrt": "VSQRT", "rsqrt": "VRSQRT",
    "recip": "VRECIP", "abs": "VABS", "neg": "VNEG", "sign": "VSIGN", "relu": "VRELU", "floor": "VFLOOR",
    "ceil": "VCEIL", "trunc": "VTRUNC", "rint": "VRINT", "round": "VROUND", "logical_not": "VNOT",
    "bit_not": "VBNOT", "popcount": "VPOPC", "leading_zeros": "VCLZ", "trailing_zeros": "VCTZ",
}  # fmt: skip
SCALAR_UNARY = ("exp", "log", "sin", "cos", "sqrt", "rsqrt", "floor", "ceil", "abs")
REDUCTIONS = {"sum": "VSUM", "max": "VMAX", "min": "VMIN", "prod": "VPROD", "argmax": "VARGMAX",
              "argmin": "VARGMIN"}  # fmt: skip


# the operation that gives the same with its operands in the other order
TURNED = {
    **{name: name for name in ("add", "mul", "maximum", "minimum", "equal", "not_equal", "bit_and", "bit_or",
                               "bit_xor")},
    "sub": "rsub", "div": "rdiv", "rsub": "sub", "rdiv": "div", "greater": "less", "less": "greater",
    "greater_equal": "less_equal", "less_equal": "greater_equal",
}  # fmt: skip


def _binary(name: str, rows: tuple[str, str, str]) -> Callable[..., None]:
    both, scalar, cyclic = rows

    def operation(dst: Any, a: Any, b: Any) -> None:
        if isinstance(b, View) and not isinstance(a, View) and name in TURNED:
            TABLE[TURNED[name]](dst, b, a)
            return
        out, left = view_of("dst", dst, name), view_of("a", a, name)
        same_size(name, out, left)
        if not isinstance(b, View):
            fmt = same_format(name, out, left)
            _need(name, scalar, "a scalar as second operand")
            emit(scalar, [out, out.size, left, b], (fmt,))
            return
        right = view_of("b", b, name)
        fmt = same_format(name, out, left, right)
        if right.ndim < left.ndim:
            _need(name, cyclic, "a row that repeats as second operand")
            same_shape(name, "the row that repeats", right, left.shape[left.ndim - right.ndim :])
            emit(cyclic, [out, out.size, left, right, right.size], (fmt,))
        else:
            _need(name, both, "two vectors")
            same_size(name, left, right)
            emit(both, [out, out.size, left, right], (fmt,))

    return _named(operation, name, both or scalar)


def _need(name: str, row: str, what: str) -> None:
    if not row:
        raise current().error(f"{name} has no form with {what}", "one that the ISA has", "see docs/isa.md")


def _unary(name: str, row: str) -> Callable[..., Any]:
    def operation(dst: Any, a: Any = None) -> Any:
        if a is None:
            if name not in SCALAR_UNARY or isinstance(dst, View):
                raise current().error(
                    f"{name} lacks its source", f"dlp.{name}(dst, src)", "name destination and source"
                )
            return current().unary(name, dst)
        out, source = view_of("dst", dst, name), view_of("a", a, name)
        same_size(name, out, source)
        emit(row, [out, out.size, source], (same_format(name, out, source),))
        return None

    return _named(operation, name, row)


def _reduction(name: str, row: str) -> Callable[..., None]:
    arg = name.startswith("arg")

    def operation(dst: Any, a: Any, axis: int | None = None) -> None:
        out, source = view_of("dst", dst, name), view_of("a", a, name)
        if arg and out.fmt is not I32:
            raise current().error(
                f"{name} gives i32, dst is {out.fmt.name}", "an i32 destination", "use dlp.i32"
            )
        fmt = source.fmt if arg else same_format(name, out, source)
        if axis is None:
            need_room(name, out, 1)
            emit(row, [out, source.size, source], (fmt,))
            return
        if not -source.ndim <= axis < source.ndim:
            raise current().error(
                f"{name}: axis {axis} of {source}", f"an axis from {-source.ndim} to {source.ndim - 1}",
                "choose one of the view's axes",
            )  # fmt: skip
        axis %= source.ndim
        extents = [product(source.shape[:axis]), source.shape[axis], product(source.shape[axis + 1 :])]
        need_room(name, out, extents[0], extents[2])
        emit("VREDUCE", [out, source, *extents], (fmt,), (name,))

    made = _named(operation, name, row)
    made.__doc__ = f"{TENSOR_ROWS[row].line}; with `axis`, along that axis of a."
    return made


def _named(operation: Callable[..., Any], name: str, row: str) -> Callable[..., Any]:
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = TENSOR_ROWS[row].line + f" ({row})."
    return intrinsic(operation)


TABLE: dict[str, Callable[..., Any]] = {
    **{name: _binary(name, rows) for name, rows in BINARY.items()},
    **{name: _unary(name, row) for name, row in UNARY.items()},
    **{name: _reduction(name, row) for name, row in REDUCTIONS.items()},
}


@intrinsic
def fma(dst: Any, a: Any, b: Any, c: Any = None) -> Any:
    """dst = a * b + c, rounded once; with three scalars their value."""
    if c is None:
        return current().fused(dst, a, b)
    views = [view_of(n, v, "fma") for n, v in (("dst", dst), ("a", a), ("b", b), ("c", c))]
    for other in views[1:]:
        same_size("fma", views[0], other)
    emit("VFMA", [views[0], views[0].size, *views[1:]], (same_format("fma", *views),))
    return None


@intrinsic
def where(dst: Any, mask: Any, a: Any, b: Any) -> None:
    """dst[i] = mask[i] != 0 ? a[i] : b[i]; all of one format."""
    views = [view_of(n, v, "where") for n, v in (("dst", dst), ("mask", mask), ("a", a), ("b", b))]
    for other in views[1:]:
        same_size("where", views[0], other)
    emit("VSEL", [views[0], views[0].size, *views[1:]], (same_format("where", *views),))


@intrinsic
def fill(dst: Any, value: Any) -> None:
    """Every element of dst becomes the value."""
    out = view_of("dst", dst, "fill")
    emit("VSET", [out, out.size, value], (out.fmt,))


@intrinsic
def iota(dst: Any, start: Any = 0, step: Any = 1) -> None:
    """dst[i] = start + i * step."""
    out = view_of("dst", dst, "iota")
    emit("VIOTA", [out, out.size, start, step], (out.fmt,))


@intrinsic
def random(dst: Any) -> None:
    """dst[i] = the core's next random number in [0, 1)."""
    out = view_of("dst", dst, "random")
    emit("RV", [out, out.size], (out.fmt,))


@intrinsic
def convert(dst: Any, a: Any, rounding: str = "rn") -> None:
    """dst[i] = a[i] in the format of dst; `rounding` is rn, rz, rd, ru or ra."""
    out, source = view_of("dst", dst, "convert"), view_of("a", a, "convert")
    same_size("convert", out, source)
    if out.fmt is source.fmt:
        from trilobite.processor.lang.python.copies import copy

        copy(out, source)
        return
    emit("VCVT", [out, out.size, source], (out.fmt, source.fmt), (rounding,))


@intrinsic
def dot(dst: Any, a: Any, b: Any) -> None:
    """dst[0] = sum of a[i] * b[i]."""
    out, x, y = view_of("dst", dst, "dot"), view_of("a", a, "dot"), view_of("b", b, "dot")
    same_size("dot", x, y)
    need_room("dot", out, 1)
    emit("VDP", [out, x.size, x, y], (same_format("dot", out, x, y),))


@intrinsic
def scan(dst: Any, a: Any) -> None:
    """dst[i] = a[0] + ... + a[i]."""
    out, source = view_of("dst", dst, "scan"), view_of("a", a, "scan")
    same_size("scan", out, source)
    emit("VSCAN", [out, out.size, source], (same_format("scan", out, source),))


__all__ = ["TABLE", "convert", "dot", "emit", "fill", "fma", "intrinsic", "iota", "random", "scan", "where"]
