"""Rearrangement, selection, reduction, lookup, windows."""

# ruff: noqa: E501, UP031 (a row of the table is one line, its C++ has braces of its own)
from __future__ import annotations

from trilobite.processor.lang.bang.table.row import FLOATS, NARROW, NUMBERS, Intrinsic, form

_WINDOW = "c: h: w: kh: kw:"
_ROTATE = """{
    for (long __i = 0; __i < h; ++__i)
        __dlp_copy3(ADDRESS, (const char *)src + __i * w * (long)sizeof(T), sizeof(T), NRAM2NRAM, STRIDE, sizeof(T), w, 0, 0, 1);
}"""
_ROTATE90 = _ROTATE.replace("ADDRESS", "(char *)dst + (h - 1 - __i) * (long)sizeof(T)").replace(
    "STRIDE", "h * (long)sizeof(T)"
)
_ROTATE270 = _ROTATE.replace("ADDRESS", "(char *)dst + ((w - 1) * h + __i) * (long)sizeof(T)").replace(
    "STRIDE", "-h * (long)sizeof(T)"
)
_BITS = """{
    unsigned char *__to = (unsigned char *)dst;
    for (long __i = 0; __i < n; __i += 8) {
        unsigned __byte = 0;
        for (long __j = 0; __j < 8 && __i + __j < n; ++__j) __byte |= (unsigned)(a[__i + __j] OP b[__i + __j]) << __j;
        __to[__i >> 3] = __byte;
    }
}"""
_COLLECT_BITS = """{
    long __k = 0;
    for (long __i = 0; __i < n; ++__i)
        if (((const unsigned char *)mask)[__i >> 3] >> (__i & 7) & 1) dst[__k++] = src[__i];
    RETURN
}"""
_SELECT = """{
    long __k = 0;
    T *__to = (T *)((char *)dst + 128);
    for (long __i = 0; __i < n; ++__i) if (CONDITION) __to[__k++] = src[__i];
    *(unsigned int *)dst = __k;
}"""
_BIT_SET = "((const unsigned char *)mask)[__i >> 3] >> (__i & 7) & 1"
_INDEX = """{
    long __p = (h - kh) / sh + 1, __q = (w - kw) / sw + 1;
    for (long __i = 0; __i < __p; ++__i)
        for (long __j = 0; __j < __q; ++__j)
            for (long __c = 0; __c < c; ++__c) {
                long __best = 0;
                T __most = src[(__i * sh * w + __j * sw) * c + __c];
                for (long __t = 1; __t < kh * kw; ++__t) {
                    T __x = src[((__i * sh + __t / kw) * w + __j * sw + __t % kw) * c + __c];
                    if (__x OP __most) { __most = __x; __best = __t; }
                }
                STORE
            }
}"""
_PLACE = "(__i * __q + __j) * c + __c"
_UNPOOL = """{
    long __p = (h - kh) / sh + 1, __q = (w - kw) / sw + 1;
    __bang_write_zero(dst, h * w * c);
    for (long __i = 0; __i < __p * __q * c; ++__i) {
        long __t = mask[__i], __c = __i % c, __y = __i / c / __q * sh + __t / kw, __x = __i / c % __q * sw + __t % kw;
        dst[(__y * w + __x) * c + __c] = OVER dst[(__y * w + __x) * c + __c] + src[__i];
    }
}"""


def _pools() -> list[Intrinsic]:
    made = []
    spelled = {"sub": "sum"}  # in one public list of names
    for word in ("sum", "avg", "max", "min", "sub"):
        kind = spelled.get(word, word)
        types = FLOATS if kind == "avg" else NUMBERS
        name = f"__bang_{word}pool"
        line = f"{kind} over windows of [h][w][c]"
        made.append(form(name, f"dst>T src<T {_WINDOW} sw: sh:", types,
                         f"VPOOL.{kind} dst src h w c kh kw sh sw", line))  # fmt: skip
        made.append(form(name, f"dst>T src<T {_WINDOW}", types, f"VPOOL.{kind} dst src h w c kh kw kh kw",
                         f"{line}, the windows beside each other"))  # fmt: skip
    for kind, op in (("max", ">"), ("min", "<")):
        body = _INDEX.replace("OP", op)
        for stride, place in (
            ("sw: sh:", body),
            (
                "",
                body.replace("/ sh", "/ kh")
                .replace("* sh", "* kh")
                .replace("/ sw", "/ kw")
                .replace("* sw", "* kw"),
            ),
        ):
            store = place.replace("STORE", f"dst[{_PLACE}] = __best;")
            made.append(form(f"__bang_{kind}pool_index", f"dst>I src<T {_WINDOW} {stride}", FLOATS, store,
                             "the tap r kw + s of each window's extreme", in_place=False))  # fmt: skip
        both = body.replace("STORE", f"dst[{_PLACE}] = __most; __dlp_index(dst, offset, {_PLACE}, __best);")
        made.append(form(f"__bang_{kind}pool_value_index", f"dst>T src<T {_WINDOW} sw: sh: offset:", FLOATS, both,
                         "extremes, and their taps `offset` bytes behind them", in_place=False))  # fmt: skip
    for ending, over in (("", ""), (" overlap?", "overlap == OVERLAP_COVER ? src[__i] :")):
        made.append(form("__bang_maxpool_bp", f"dst>T src<T mask<I {_WINDOW} sw: sh:{ending}", FLOATS,
                         _UNPOOL.replace("OVER", over), "gradients to where the mask points", in_place=False))  # fmt: skip
        made.append(form("__bang_avgpool_bp", f"dst>T src<T {_WINDOW} sw: sh:{ending}", FLOATS,
                         "VUNPOOLA dst src h w c kh kw sh sw", "gradients in equal shares", in_place=False))  # fmt: skip
    made.append(form("__bang_unpool", f"dst>T src<T {_WINDOW} sw: sh: index:", FLOATS,
                     _UNPOOL.replace("OVER", "").replace("mask[__i]", "index"), "values to one tap of each window", in_place=False))  # fmt: skip
    return made


_COUNT = "unsigned __k = 0; for (long __i = 0; __i < n; ++__i) __k += src[__i] != (T)0;"
_FIRST = "long __k = 0; while (__k < n && src[__k] == (T)0) ++__k;"
_LAST = "long __k = n - 1; while (__k >= 0 && src[__k] == (T)0) --__k;"


_UNIT = 64  # bytes that the strides of tilings count in
_LINES = """{
    char *__to = (char *)dst;
    for (long __r = 0; __r < WIDE; ++__r)
        for (long __c = 0; __c < WIDE; ++__c)
            __memcpy(__to + (__c / n6 * s7 + __c % n6 * s6) * 64 + __r * BYTES,
                     (const char *)src + (__r / n1 * s2 + __r % n1 * s1) * 64 + __c * BYTES, BYTES, NRAM2NRAM);
}"""
_BLOCKS = """{
    for (long __i = 0; __i < n3 * n4 * n5; ++__i)
        PIECE((char *)dst + (__i / n8 / n9 * s10 + __i / n8 % n9 * s9 + __i % n8 * s8) * 64,
              (const char *)src + (__i / n3 / n4 * s5 + __i / n3 % n4 * s4 + __i % n3 * s3) * 64, REST);
}"""
_PLANE, _OUTER = "n2: s2: n1: s1: n7: s7: n6: s6:", "n5: s5: n4: s4: n3: s3:"
_TARGET = "n10: s10: n9: s9: n8: s8:"


def _tilings() -> list[Intrinsic]:
    """Lines of 64 bytes are read at two levels of strides, as many as a line has elements, and written transposed;
    that they are transposed follows from the counts, which the vendor's text gives."""
    made = []
    for bits in (8, 16, 32, 64, 128, 256):
        size = bits // 8
        body = _LINES.replace("WIDE", str(_UNIT // size)).replace("BYTES", str(size))
        name = f"__bang_tiling_2d_b{bits}"
        made.append(
            form(
                name,
                f"dst>void src<void {_PLANE}",
                (),
                body,
                "lines of 64 bytes, transposed; strides in units of 64 bytes (inferred)",
                in_place=False,
            )
        )
        outer = _BLOCKS.replace("PIECE", name).replace("REST", "n2, s2, n1, s1, n7, s7, n6, s6")
        made.append(
            form(
                f"__bang_trans_tiling_b{bits}",
                f"dst>void src<void {_OUTER} n2: s2: n1: s1: {_TARGET} n7: s7: n6: s6:",
                (),
                outer,
                "tiling_2d of blocks that lie at three levels of strides (inferred)",
                in_place=False,
            )
        )
    moved = _BLOCKS.replace("PIECE", "__memcpy").replace("REST", "op, NRAM2NRAM")
    made.append(
        form(
            "__bang_tiling_3d_b1024",
            f"dst>void src<void {_OUTER} {_TARGET} op:",
            (),
            moved,
            "pieces of op bytes between three levels of strides (inferred)",
            in_place=False,
        )
    )
    return made  # fmt: skip


def _counts() -> list[Intrinsic]:
    made = []
    for name, find, found in (("count", _COUNT, "__k"), ("findfirst1", _FIRST, "(__k < n ? (unsigned)__k : ~0u)"),
                              ("findlast1", _LAST, "(unsigned)__k")):  # fmt: skip
        line = {
            "count": "how many are not 0",
            "findfirst1": "the first that is not 0",
            "findlast1": "the last that is not 0",
        }[name]
        made.append(
            form(
                f"__bang_{name}",
                "src<T n#",
                NUMBERS,
                "{ %s return %s; }" % (find, found),
                line,
                returns="u32",
            )
        )
        made.append(
            form(f"__bang_{name}", "dst>u32 src<T n#", NUMBERS, "{ %s *dst = %s; }" % (find, found), line)
        )
    bits = "unsigned __k = 0; for (long __i = 0; __i < n; ++__i) __k += ((const unsigned char *)src)[__i >> 3] >> (__i & 7) & 1;"
    made.append(
        form(
            "__bang_count_bitindex",
            "src<void n#",
            (),
            "{ %s return __k; }" % bits,
            "set bits of n",
            returns="u32",
        )
    )
    made.append(
        form(
            "__bang_popcnt",
            "src<T n#",
            ("u32", "i32"),
            "{ unsigned __k = 0; for (long __i = 0; __i < n; ++__i) __k += __builtin_popcount(src[__i]); return __k; }",
            "set bits",
            returns="u32",
        )
    )
    return made


_HISTOGRAM = """{
    for (long __j = 0; n > 0 && __j < 64; ++__j) {
        S __bin = kernel[__j];
        long __k = 0;
        for (long __i = 0; __i < n; ++__i) __k += src[__i] == __bin;
        dst[__j] = (D)__k;
    }
}"""
_COUNTED = ("f16-i8", "f32-i8", "i16-i8", "i32-i8", "f16-i16", "f32-i16", "i16-i16", "i32-i16", "f32-f16")
_COMPARED = (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
_LANES = "{ for (long __i = 0; __i < n * (long)sizeof(T) / 128; ++__i) __dlp_sum_into(dst + __i * (128 / sizeof(T)), src + __i * (128 / sizeof(T)), 128 / sizeof(T)); }"

INTRINSICS = (
    *_pools(),
    *_counts(),
    *_tilings(),
    form("__bang_transpose", "dst>T src<T h: w:", NUMBERS, "VTRANS dst src 1 h w", "[h][w] to [w][h]", in_place=False),
    form("__bang_reshape_nchw2nhwc", "dst>T src<T n: h: w: c:", NUMBERS, "VTRANS dst src n c h*w", "[n][c][h w] to [n][h w][c]", in_place=False),
    form("__bang_reshape_nhwc2nchw", "dst>T src<T n: h: w: c:", NUMBERS, "VTRANS dst src n h*w c", "[n][h w][c] to [n][c][h w]", in_place=False),
    form("__bang_reshape_filter", "dst>T src<T n: h: w: c:", NUMBERS, "VRSHF dst src n h w c", "filter r to lane r % 64, slot r / 64", in_place=False),
    form("__bang_mirror", "dst>T src<T h: w:", NUMBERS, "VMIRROR.x dst src h w 1", "every row in reverse", in_place=False),
    form("__bang_rotate180", "dst>T src<T h: w:", NUMBERS, "VMIRROR.x dst src 1 h*w 1", "turned by half", in_place=False),
    form("__bang_rotate90", "dst>T src<T h: w:", NUMBERS, _ROTATE90, "turned clockwise", in_place=False),
    form("__bang_rotate270", "dst>T src<T h: w:", NUMBERS, _ROTATE270, "turned counterclockwise", in_place=False),
    form("__bang_pad", "dst>T src<T c: h: w: top: bottom: left: right:", NUMBERS, "VPAD dst src h w c top bottom left right 0", "zeros around [h][w][c]", in_place=False),
    form("__bang_pad", "dst>T src<T c: h: w: ph: pw:", NUMBERS, "VPAD dst src h w c ph ph pw pw 0", "zeros around [h][w][c]", in_place=False),
    form("__bang_collect", "dst>T src<T mask<T n#", NUMBERS, "VPACK dst n src mask", "the src[i] with mask[i] != 0; what lies behind them stays"),
    form("__bang_filter", "dst>T src<T mask<T n#", NUMBERS, "VPACK dst n src mask", "as collect; gives how many", returns="u32"),
    form("__bang_collect_bitindex", "dst>T src<T mask<void n#", NUMBERS, _COLLECT_BITS.replace("RETURN", ""), "the src[i] whose bit is set"),
    form("__bang_filter_bitindex", "dst>T src<T mask<void n#", NUMBERS, _COLLECT_BITS.replace("RETURN", "return __k;"), "as collect_bitindex; gives how many", returns="u32"),
    form("__bang_select", "dst>T src<T mask<T n#", FLOATS, _SELECT.replace("CONDITION", "mask[__i] != (T)0"), "count in the first word, values from byte 128 on", in_place=False),
    form("__bang_select_bitindex", "dst>T src<T mask<void n#", FLOATS, _SELECT.replace("CONDITION", _BIT_SET), "as select, by bits", in_place=False),
    form("__bang_maskmove", "dst&T src<T mask<void n#", FLOATS, "{ for (long __i = 0; __i < n; ++__i) if (%s) dst[__i] = src[__i]; }" % _BIT_SET, "src where the bit is set, else dst stays"),
    form("__bang_maskmove_bitindex", "dst&T src<T mask<void n#", FLOATS, "{ for (long __i = 0; __i < n; ++__i) if (%s) dst[__i] = src[__i]; }" % _BIT_SET, "src where the bit is set, else dst stays"),
    *(form(f"__bang_{name}_bitindex", "dst>void a<T b<T n#", FLOATS, _BITS.replace("OP", op), f"bit i: a[i] {op} b[i]") for name, op in _COMPARED),
    form("__bang_max", "dst>T src<T n#", NARROW, "@extreme.max", "dst[0] = the largest, its place behind it", alignment="dst holds 2 elements or 8 bytes"),
    form("__bang_min", "dst>T src<T n#", NARROW, "@extreme.min", "dst[0] = the smallest, its place behind it", alignment="dst holds 2 elements or 8 bytes"),
    form("__bang_argmax", "dst>T src<T n#", NARROW, "@extreme.max", "dst[0] = the largest, its place behind it", alignment="dst holds 10 bytes (half) or 12 (float)"),
    form("__bang_argmin", "dst>T src<T n#", NARROW, "@extreme.min", "dst[0] = the smallest, its place behind it", alignment="dst holds 10 bytes (half) or 12 (float)"),
    form("__bang_sum", "src<T n#", NUMBERS, "@sum", "the sum of n elements", returns="T"),
    form("__dlp_sum_into", "dst>T src<T n#", NUMBERS, "VSUM dst n src", "dst[0] = the sum"),
    form("__bang_reduce_sum", "dst>T src<T n#", FLOATS, _LANES, "every 128 bytes summed into their first element"),
    form("__bang_mul_reduce_sum", "dst>T a<T b<T n#", FLOATS, "{ __bang_mul(dst, a, b, n); __bang_reduce_sum(dst, dst, n); }", "products, then reduce_sum"),
    form("__bang_mul_pad", "dst>T a<T b<T n#", FLOATS, "VMV dst n a b", "a * b"),
    form("__bang_lut", "dst>T index<u16 table<T n# m#", NUMBERS, "VGATH.zero:T:u16 dst n table index m", "dst[i] = table[index[i]]; 0 where the index is outside the table (assumed)"),
    form("__bang_lut", "dst>T index<u32 table<T n# m#", NUMBERS, "VGATH.zero:T:i32 dst n table index m", "dst[i] = table[index[i]]; 0 where the index is outside the table (assumed)"),
    form("__bang_lut_s32", "dst>i32 src<i32 table<i32 n# m#", (), "VGATH.zero:i32:i32 dst n table src m", "dst[i] = table[src[i]]; 0 where the index is outside the table (assumed)"),
    form("__bang_lut_s16", "dst>i16 src<i16 table<i16 n# m#", (), "VGATH.zero:i16:u16 dst n table src m", "dst[i] = table[src[i]]; 0 where the index is outside the table (assumed)"),
    form("__bang_histogram", "dst>D src<S kernel<S n#", _COUNTED, _HISTOGRAM, "dst[j] = how many src[i] equal kernel[j], for 64 bins (assumed)", space="nram, kernel wram", in_place=False),
    form("__bang_incseq", "dst>T n#", NUMBERS, "VIOTA dst n 0 1", "0, 1, 2, ..."),
    form("__bang_incseq", "dst>T n# start=T step=T", NUMBERS, "VIOTA dst n start step", "start + i step"),
    form("__bang_rand", "dst>i16 n#", (), "@random", "random 16-bit numbers"),
    form("__bang_expand_channel_mul", "dst>T a<T scratch>T b<T n# channels:", FLOATS, "{ for (long __i = 0; __i < n; ++__i) __bang_mul_scalar(dst + __i * channels, b + __i * channels, a[__i], channels); }", "dst[i][c] = a[i] b[i][c]"),
    form("__bang_expand_channel_mul_add", "dst>T a<T scratch>T b<T add<T n# channels:", FLOATS, "{ for (long __i = 0; __i < n; ++__i) { __bang_mul_scalar(dst + __i * channels, b + __i * channels, a[__i], channels); __bang_add(dst + __i * channels, dst + __i * channels, add + __i * channels, channels); } }", "dst[i][c] = a[i] b[i][c] + add[i][c]"),
)  # fmt: skip
