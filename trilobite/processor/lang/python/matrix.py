"""Matrix operations of Python kernels: products and convolutions with their drain."""

from __future__ import annotations

from typing import Any

from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.python.arrangement import known_sum, windows
from trilobite.processor.lang.python.context import current
from trilobite.processor.lang.python.operations import emit, intrinsic, same_format, same_shape, view_of
from trilobite.processor.lang.python.view import View

EVERYTHING = 1 << 40  # a reach beyond every row
NONE = 0  # the address of a bias or scale that is not there


def _drain(accumulate: bool, bias: Any, scale: Any, activation: str) -> tuple[str, str, str, str]:
    return ("acc" if accumulate else "", "bias" if bias is not None else "",
            "scale" if scale is not None else "", activation)  # fmt: skip


def _side(name: str, given: Any, operation: str, columns: Any) -> Any:
    """A bias or scale: one element for each column, or none at all."""
    if given is None:
        return NONE
    found = view_of(name, given, operation)
    same_shape(operation, f"the {name}", found, (columns,))
    return found


def _as(view: View, given: Any) -> Format:
    """The format the multipliers read an operand in; tf32 lies in memory as f32."""
    from trilobite.processor.lang.python.dtypes import dtype_of

    return view.fmt if given is None else dtype_of(given).fmt


def _fits(operation: str, what: str, a: Any, b: Any) -> None:
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise current().error(
            f"{operation}: {what} is {a} here and {b} there", "equal extents", "check the shapes"
        )


def _extents(operation: str, out: View, left: View, right: View, ta: bool, tb: bool) -> tuple[Any, Any, Any]:
    """m, n and k of a product."""
    if not left.ndim == right.ndim == out.ndim == 2:
        raise current().error(
            f"{operation} of {left} and {right} into {out}", "views of two axes", "use .view(m, k)"
        )
    k, m = left.shape if ta else left.shape[::-1]
    n, k2 = right.shape if tb else right.shape[::-1]
    _fits(operation, "k", k, k2)
    _fits(operation, "m", m, out.shape[0])
    _fits(operation, "n", n, out.shape[1])
    return m, n, k


@intrinsic
def matmul(
    dst: Any,
    a: Any,
    b: Any,
    accumulate: bool = False,
    bias: Any = None,
    scale: Any = None,
    activation: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
    read_as: Any = None,
) -> None:
    """dst[m][n] = a[m][k] b[k][n]: a in NRAM, b in WRAM; `read_as` multiplies f32 as tf32."""
    out, left, right = (view_of(n, v, "matmul") for n, v in (("dst", dst), ("a", a), ("b", b)))
    m, n, k = _extents("matmul", out, left, right, transpose_a, transpose_b)
    flags = (
        *_drain(accumulate, bias, scale, activation),
        "ta" if transpose_a else "",
        "tb" if transpose_b else "",
        "",
    )
    sides = [_side(name, given, "matmul", n) for name, given in (("bias", bias), ("scale", scale))]
    operands = [out, left, right, m, n, k, *sides]
    emit("MM", operands, (out.fmt, _as(left, read_as), _as(right, read_as)), flags)


@intrinsic
def matmul_top(
    dst: Any,
    a: Any,
    b: Any,
    top: Any,
    reach: Any = None,
    accumulate: bool = False,
    scale: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> None:
    """matmul into f32, and top[j] = the larger of top[j] and column j; -inf where i > j + reach."""
    out, left, right, largest = (
        view_of(name, given, "matmul_top") for name, given in (("dst", dst), ("a", a), ("b", b), ("top", top))
    )
    m, n, k = _extents("matmul_top", out, left, right, transpose_a, transpose_b)
    same_shape("matmul_top", "the top", largest, (n,))
    side = _side("scale", scale, "matmul_top", n)
    flags = ("acc" if accumulate else "", "scale" if scale is not None else "",
             "ta" if transpose_a else "", "tb" if transpose_b else "")  # fmt: skip
    operands = [out, left, right, m, n, k, EVERYTHING if reach is None else reach, side, largest]
    emit("MMTOP", operands, (out.fmt, left.fmt, right.fmt), flags)


@intrinsic
def softmax_weights(dst: Any, a: Any, top: Any, total: Any) -> None:
    """dst[i][j] = e to the power a[i][j] - top[j], total[j] += column j of dst; all but dst are f32."""
    out, scores, largest, sums = (
        view_of(name, given, "softmax_weights")
        for name, given in (("dst", dst), ("a", a), ("top", top), ("total", total))
    )
    if scores.ndim != 2:
        raise current().error(f"softmax_weights of {scores}", "a view of two axes", "use .view(m, n)")
    same_shape("softmax_weights", "dst", out, scores.shape)
    for name, given in (("the top", largest), ("the total", sums)):
        same_shape("softmax_weights", name, given, scores.shape[1:])
    formats = out.fmt, same_format("softmax_weights", scores, largest, sums)
    emit("VSOFT", [out, scores, largest, sums, *scores.shape], formats)


@intrinsic
def matvec(dst: Any, a: Any, b: Any, accumulate: bool = False) -> None:
    """dst[m] = a[m][k] b[k]: a in WRAM, b in NRAM."""
    out, left, right = (view_of(n, v, "matvec") for n, v in (("dst", dst), ("a", a), ("b", b)))
    same_shape("matvec", "a", left, (out.size, right.size))
    flags = ("acc" if accumulate else "",)
    emit("MMV", [out, out.size, left, right, right.size], (out.fmt, left.fmt, right.fmt), flags)


@intrinsic
def vecmat(dst: Any, a: Any, b: Any, accumulate: bool = False) -> None:
    """dst[n] = a[k] b[k][n]: a in NRAM, b in WRAM."""
    out, left, right = (view_of(n, v, "vecmat") for n, v in (("dst", dst), ("a", a), ("b", b)))
    same_shape("vecmat", "b", right, (left.size, out.size))
    flags = ("acc" if accumulate else "",)
    emit("VMM", [out, out.size, left, right, left.size], (out.fmt, left.fmt, right.fmt), flags)


@intrinsic
def outer(dst: Any, a: Any, b: Any) -> None:
    """dst[m][n] = a[m] b[n]."""
    out, left, right = (view_of(n, v, "outer") for n, v in (("dst", dst), ("a", a), ("b", b)))
    same_shape("outer", "dst", out, (left.size, right.size))
    emit("OP", [out, left.size, left, right, right.size], (out.fmt,))


def _pair(given: Any) -> tuple[Any, Any]:
    return given if isinstance(given, tuple) else (given, given)


def _geometry(image: View, kernel: View, stride: Any, dilation: Any, border: Any, groups: Any) -> list[Any]:
    if image.ndim != 3 or kernel.ndim != 4:
        raise current().error(
            f"a convolution of {image} with {kernel}",
            "an image [h][w][ci] and a filter [co][kh][kw][ci / groups]",
            "use .view",
        )  # fmt: skip
    (h, w, ci), (co, kh, kw, depth) = image.shape, kernel.shape
    if isinstance(ci, int) and isinstance(groups, int):
        _fits("a convolution", "the depth of a filter", ci // max(groups, 1), depth)
    return [h, w, ci, kh, kw, co, *_pair(stride), *_pair(dilation), *border, groups]


def _convolved(geometry: list[Any]) -> tuple[Any, ...]:
    h, w, _, kh, kw, co, sh, sw, dh, dw, top, bottom, left, right, _ = geometry
    down = windows(h, kh, sh, dh, known_sum(top, bottom))
    return (down, windows(w, kw, sw, dw, known_sum(left, right)), co)


@intrinsic
def conv(
    dst: Any,
    a: Any,
    b: Any,
    stride: Any = (1, 1),
    dilation: Any = (1, 1),
    border: Any = (0, 0, 0, 0),
    groups: Any = 1,
    accumulate: bool = False,
    bias: Any = None,
    scale: Any = None,
    activation: str = "",
) -> None:
    """dst[p][q][co] = a[h][w][ci] convolved with b[co][kh][kw][ci / groups]; border t b l r."""
    out, image, kernel = (view_of(n, v, "conv") for n, v in (("dst", dst), ("a", a), ("b", b)))
    geometry = _geometry(image, kernel, stride, dilation, border, groups)
    same_shape("conv", "dst", out, _convolved(geometry))
    sides = [_side(name, v, "conv", kernel.shape[0]) for name, v in (("bias", bias), ("scale", scale))]
    operands = [out, image, kernel, *geometry, *sides]
    flags = (*_drain(accumulate, bias, scale, activation), "")
    emit("CONV", operands, (out.fmt, image.fmt, kernel.fmt), flags)


@intrinsic
def conv_input_gradient(
    dst: Any, g: Any, b: Any, stride: Any = (1, 1), dilation: Any = (1, 1), border: Any = (0, 0, 0, 0),
    groups: Any = 1, accumulate: bool = False,
) -> None:  # fmt: skip
    """dst[h][w][ci] = gradient of conv's image, of g[p][q][co] and the filter b in WRAM."""
    out, grad, kernel = (view_of(n, v, "conv_input_gradient") for n, v in (("dst", dst), ("g", g), ("b", b)))
    geometry = _geometry(out, kernel, stride, dilation, border, groups)
    same_shape("conv_input_gradient", "g", grad, _convolved(geometry))
    operands = [out, grad, kernel, *geometry]
    emit("CONVDX", operands, (out.fmt, grad.fmt, kernel.fmt), ("acc" if accumulate else "",))


@intrinsic
def conv_filter_gradient(
    dst: Any, g: Any, a: Any, stride: Any = (1, 1), dilation: Any = (1, 1), border: Any = (0, 0, 0, 0),
    groups: Any = 1, accumulate: bool = False,
) -> None:  # fmt: skip
    """dst[co][kh][kw][ci / groups] = gradient of conv's filter, of g[p][q][co] and the image a."""
    out, grad, image = (view_of(n, v, "conv_filter_gradient") for n, v in (("dst", dst), ("g", g), ("a", a)))
    geometry = _geometry(image, out, stride, dilation, border, groups)
    same_shape("conv_filter_gradient", "g", grad, _convolved(geometry))
    operands = [out, grad, image, *geometry]
    emit("CONVDW", operands, (out.fmt, grad.fmt, image.fmt), ("acc" if accumulate else "",))
