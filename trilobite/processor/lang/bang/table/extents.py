"""How far an intrinsic reaches: what it reads and writes of each array, from where the operand points.

Enters: a form and one of its arrays. Leaves: an `Extent`: a number of elements (or bytes) as an expression in
the form's other parameters. Nothing outside is touched, whatever the count; what is written only in part
(results that are counted, places behind a mask) is written `up to` there, and the rest of it stays as it was.
"""

# ruff: noqa: E501 (a rule is one line)
from __future__ import annotations

import re
from dataclasses import dataclass

from trilobite.processor.lang.bang.table.row import Intrinsic, Parameter

_OUTPUTS = "((h-kh)//sh+1)*((w-kw)//sw+1)*c"
_BESIDE = "(h//kh)*(w//kw)*c"
_SPAN = "max(0,{0}_stride*segments)+n"
_CUBE = "{0}_stride0*{0}_n1+{0}_stride1*{0}_n2+n"
_CONV = "((h-kh)//sh+1)*((w-kw)//sw+1)*co"
_DILATED = "((h-dh*(kh-1)-1)//sh+1)*((w-dw*(kw-1)-1)//sw+1)*co"
_LINE = 128  # bytes in front of the values that `__bang_select` leaves


@dataclass(frozen=True)
class Extent:
    """`text` is an expression in the names of the form's parameters; `is_bytes` if it counts bytes."""

    text: str
    is_bytes: bool = False
    is_partly: bool = False  # what is written of it depends on the data

    def __str__(self) -> str:
        plain = self.text.replace("max(0,", "(").replace("//", "/").replace("*", " ")
        return f"{'up to ' if self.is_partly else ''}{plain}{' bytes' if self.is_bytes else ''}"


def extent(form: Intrinsic, array: Parameter) -> Extent:
    """Of a parameter that is an array."""
    for pattern, rule in _RULES:
        if re.fullmatch(pattern, form.name) and array.name in rule:
            return _sized(rule[array.name])
    return _by_parameters(form, array)


def _sized(text: str) -> Extent:
    """Counted in bytes where a rule says so; `?` in front: as far as the data say."""
    partly = text.startswith("?")
    plain = text.removeprefix("?")
    return Extent(plain.removesuffix("B"), plain.endswith("B"), partly)


_BITS = "(n+7)//8B"
_PIECES = "max(0,stride*(count-1))+n"
_RULES: tuple[tuple[str, dict[str, str]], ...] = (
    (r"__(bang_)?gather(_async)?", {"dst": f"?{_PIECES}B", "src": "?offset+nB", "offset": "count", "mask": "(count+7)//8B"}),
    (r"__scatter(_async)?", {"dst": "?offset+nB", "src": f"?{_PIECES}B", "offset": "count", "mask": "(count+7)//8B"}),
    (r"__extension", {"dst": "?255*n*countB", "src": "n*countB", "index": "count"}),
    (r"__bang_(max|min)pool_value_index", {"dst": f"{_OUTPUTS} and as many at byte offset", "src": "h*w*c"}),
    (r"__bang_\w+pool_bp|__bang_unpool", {"dst": "h*w*c", "src": _OUTPUTS, "mask": _OUTPUTS}),
    (r"__bang_(trans_)?tiling_\w+", {"dst": "by counts and strides", "src": "by counts and strides"}),
    (r"__bang_(transpose|mirror|rotate\d+)", {"dst": "h*w", "src": "h*w"}),
    (r"__bang_reshape_\w+", {"dst": "n*h*w*c", "src": "n*h*w*c"}),
    (r"__bang_(collect|filter)(_bitindex)?", {"dst": "?n"}),
    (r"__bang_select(_bitindex)?", {"dst": f"?{_LINE} bytes and n"}),
    (r"__bang_maskmove(_bitindex)?", {"dst": "?n"}),
    (r"__bang_(collect|filter|select|maskmove)_bitindex|__bang_maskmove", {"mask": _BITS}),
    (r"__bang_(eq|ne|lt|le|gt|ge)_bitindex", {"dst": _BITS}),
    (r"__bang_count_bitindex", {"src": _BITS}),
    (r"__bang_(count|findfirst1|findlast1)", {"dst": "1"}),
    (r"__bang_histogram", {"dst": "64", "kernel": "64"}),
    (r"__bang_(arg)?(max|min)", {"dst": "?8B"}),
    (r"__bang_reduce_sum", {"dst": "?n"}),
    (r"__bang_half2uchar\w*", {"scratch": "0"}),
    (r"__bang_expand_channel_mul(_add)?", {"dst": "n*channels", "b": "n*channels", "add": "n*channels", "a": "n", "scratch": "0"}),
    (r"__bang_matmul", {"dst": "m*n", "left": "m*k", "right": "n*k"}),
    (r"__bang_mlp", {"dst": "height", "src": "width", "bias": "height", "right": "height*width"}),
    (r"__bang_conv(_partial)?", {"src": "h*w*ci", "right": "co*kh*kw*ci", "bias": "co"}),
    (r"__is_\w+", {"p": "0"}),
    (r"__(load|store)_\w+", {"p": "1"}),
)  # fmt: skip


def _by_parameters(form: Intrinsic, array: Parameter) -> Extent:
    names = [p.name for p in form.parameters]
    if "co" in names:
        return Extent(_DILATED if "dh" in names else _CONV)
    if "kh" in names:
        return _window(names, array.name)
    if "bottom" in names or "ph" in names:
        return _padded(names, array.name)
    return _counted(form, names, array)


def _window(names: list[str], array: str) -> Extent:
    return Extent("h*w*c" if array == "src" else _OUTPUTS if "sh" in names else _BESIDE)


def _padded(names: list[str], array: str) -> Extent:
    if array == "src":
        return Extent("h*w*c")
    return Extent("(h+top+bottom)*(w+left+right)*c" if "top" in names else "(h+2*ph)*(w+2*pw)*c")


def _counted(form: Intrinsic, names: list[str], array: Parameter) -> Extent:
    """Copies, fills and whatever has a count of elements; one element where there is none."""
    is_bytes = any(p.name == "n" and p.sign == "%" for p in form.parameters)
    if "segments" in names:
        return Extent(_SPAN.format(array.name), True)
    if "dst_stride0" in names and "n1" in names:  # atomics: strides in bytes, a count of elements
        return Extent(f"{array.name}_stride0*n1+{array.name}_stride1*n2 bytes and n")
    if "dst_stride0" in names:
        return Extent(_CUBE.format(array.name), True)
    if "stride0" in names:
        return Extent("stride0*n1+stride1*n2 bytes and n")
    repeated = {"seg": "m", "table": "m", "n_b": "n_b", "n_c": "n_c"}
    if f"n_{array.name}" in names:
        return Extent(f"n_{array.name}")
    if "m" in names and (array.name in repeated or _is_repeated(form, array)):
        return Extent("m")
    alone = "256" if form.name.startswith("__vv_") else "1"  # a whole register, or one element
    return Extent("n" if "n" in names else alone, is_bytes or (alone == "256" and "n" not in names))


def _is_repeated(form: Intrinsic, array: Parameter) -> bool:
    """The last vector of a form with two counts is the one that repeats; the first is the result."""
    arrays = [p.name for p in form.parameters if p.is_array]
    if form.name == "__bang_fusion":
        return array.name in ("b", "c")
    return array.name == arrays[-1] and len(arrays) > 2
