"""Matrix product, convolution, and the filter layout that they read out of WRAM.

Rows (output channels) are dealt to 64 lanes: with n a multiple of 64, row r of the right operand lies as row
(r % 64) * (n / 64) + r / 64 of WRAM, which is what `__bang_reshape_filter` and a plain copy leave there. With
n = 64, or n no multiple of it, rows lie in order.
"""

# ruff: noqa: E501 (a row of the table is one line, its C++ has braces of its own)
from __future__ import annotations

import re

from trilobite.processor.lang.bang.table.row import Intrinsic, form

PRODUCTS = ("f32-f32-f32", "f32-f16-f16", "f16-f16-f16", "f32-bf16-bf16", "bf16-bf16-bf16", "f32-i8-i8", "f16-i8-i8",
            "i32-i8-i8", "i16-i8-i8", "f32-i16-i16", "f16-i16-i16", "i32-i16-i16", "i16-i16-i16", "f32-i16-i8",
            "f16-i16-i8", "i32-i16-i8", "f32-i4-i4", "f16-i4-i4", "i32-i4-i4", "f32-i8-i4", "f16-i8-i4", "i32-i8-i4",
            "i16-i16-i8", "i8-i8-i8")  # fmt: skip
FLOAT_PRODUCTS = tuple(types for types in PRODUCTS if "-i" not in types)
_CONV = "ci: h: w: kh: kw: sw: sh: co:"


def _products() -> list[Intrinsic]:
    made = []
    for position in ("", " position:"):
        made += [
            form("__bang_matmul", f"dst>D left<S right<I m: k: n:{position}", PRODUCTS, "@matmul",
                 "dst[m][n] = left[m][k] right[n][k]", space="nram, right wram", in_place=False),
            form("__bang_mlp", f"dst>D src<S right<I height: width:{position}", PRODUCTS, "@mlp",
                 "dst[height] = right[height][width] src[width]", space="nram, right wram", in_place=False),
            form("__bang_mlp", f"dst>D src<S bias<D right<I height: width:{position}", PRODUCTS, "@mlp",
                 "dst[height] = right[height][width] src[width] + bias", space="nram, right wram", in_place=False),
            form("__bang_conv", f"dst>D src<S right<I {_CONV}{position}", PRODUCTS, "@conv",
                 "convolution of [h][w][ci] with [co][kh][kw][ci]", space="nram, right wram", in_place=False),
            form("__bang_conv", f"dst>D src<S right<I bias<D {_CONV}{position}", PRODUCTS, "@conv",
                 "convolution plus bias", space="nram, right wram", in_place=False),
            form("__bang_conv_partial", f"dst>D src<S right<I partial<D {_CONV}{position}", PRODUCTS, "@conv.partial",
                 "convolution added to a partial sum", space="nram, right wram", in_place=False),
        ]  # fmt: skip
    for name, extra, how in (("__bang_conv", "", "@conv"), ("__bang_conv", " bias<D", "@conv"),
                             ("__bang_conv_partial", " partial<D", "@conv.partial")):  # fmt: skip
        head = f"dst>D src<S right<I{extra} {_CONV}"
        made += _dilated(name, f"{head} position: dw: dh:", PRODUCTS, how)
        made += _dilated(name, f"{head} dw: dh:", FLOAT_PRODUCTS, how)
    return made


def _dilated(name: str, parameters: str, types: tuple[str, ...], how: str) -> list[Intrinsic]:
    """Floats have no fix position; either kind may name the output's dilation, too."""
    call = ", ".join(re.findall(r"(\w+)[><:]", parameters))
    body = f"{{ if (ow != 1 || oh != 1) __abort(); {name}({call}); }}"
    return [
        form(name, parameters, types, how, "convolution with dilation", space="nram, right wram", in_place=False),
        form(name, f"{parameters} ow: oh:", types, body,
             "convolution with dilation; an output dilation other than 1 stops the launch",
             space="nram, right wram", in_place=False),
    ]  # fmt: skip


INTRINSICS = tuple(_products())
