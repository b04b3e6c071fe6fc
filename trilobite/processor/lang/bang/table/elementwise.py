"""Vector intrinsics that go element by element: functions, two vectors, vector and scalar, cyclic, fusion."""

# ruff: noqa: E501, PERF401 (a row of the table is one line, its C++ has braces of its own)
from __future__ import annotations

from trilobite.processor.lang.bang.table.row import (
    FLOATS,
    INTEGERS,
    NUMBERS,
    VECTOR_2XX,
    Intrinsic,
    form,
)

_UNARY = """
abs=VABS: |x|; active_abs=VABS: |x|; neg=VNEG: -x; relu=VRELU: max(x, 0); active_relu=VRELU: max(x, 0);
not=VNOT: 1 where x is 0, else 0; bnot=VBNOT: every bit inverted
"""
_FUNCTIONS = """
active_cos=VCOS: cosine; active_exp=VEXP: e^x; active_exp_less_0=VEXP: e^x for x <= 0;
active_exphp=VEXP: e^x; exp=VEXP: e^x; exp_less_0=VEXP: e^x for x <= 0; active_gelu=VGELU: GELU; active_gelup=VGELU: GELU; gelu=VGELU: GELU;
active_log=VLOG: ln x; active_loghp=VLOG: ln x; log=VLOG: ln x; log2=VLOG2: binary logarithm;
active_pow2=VEXP2: 2^x; pow2=VEXP2: 2^x; active_recip=VRECIP: 1 / x;
active_recip_greater_1=VRECIP: 1 / x for x >= 1; active_reciphp=VRECIP: 1 / x; recip=VRECIP: 1 / x;
active_rsqrt=VRSQRT: 1 / sqrt x; active_rsqrthp=VRSQRT: 1 / sqrt x; rsqrt=VRSQRT: 1 / sqrt x;
active_sigmoid=VSIGM: logistic; active_sigmoid_hp=VSIGM: logistic; sigmoid=VSIGM: logistic; active_sin=VSIN: sine; sin=VSIN: sine;
cos=VCOS: cosine; active_sqrt=VSQRT: square root; active_sqrthp=VSQRT: square root; sqrt=VSQRT: square root;
active_tanh=VTANH: tanh; tanh=VTANH: tanh; erf=VERF: error function;
floor=VFLOOR: rounded down; ceil=VCEIL: rounded up; trunc=VTRUNC: rounded to zero;
round=VROUND: rounded to nearest, ties away from zero; rint=VRINT: rounded to nearest, ties to even
"""
_BINARY = """
add=VAV: a + b; sub=VSV: a - b; mul=VMV: a * b; maxequal=VGTM: the larger; minequal=VLTM: the smaller;
maximum=VGTM: the larger; minimum=VLTM: the smaller; eq=VE: 1 where a = b; ne=VNE: 1 where a != b;
lt=VLT: 1 where a < b; le=VLE: 1 where a <= b; gt=VGT: 1 where a > b; ge=VGE: 1 where a >= b;
and=VAND: both are not 0; or=VOR: one is not 0; xor=VXOR: exactly one is not 0;
band=VBAND: bits of both; bor=VBOR: bits of either; bxor=VBXOR: bits of one
"""
_SCALAR = """
add=VAS: a + c; sub=VSS: a - c; mul=VMS: a * c; maxeq=VGTMS: max(a, c); mineq=VLTMS: min(a, c);
eq=VES: 1 where a = c; ne=VNES: 1 where a != c; lt=VLTS: 1 where a < c; le=VLES: 1 where a <= c;
gt=VGTS: 1 where a > c; ge=VGES: 1 where a >= c; maximum=VGTMS: max(a, c); minimum=VLTMS: min(a, c)
"""
_CYCLE = """
add=VCAV: a + b; sub=VCSV: a - b; mul=VCMV: a * b; div=VCDV: a / b; maxequal=VCGTM: the larger;
minequal=VCLTM: the smaller; maximum=VCGTM: the larger; minimum=VCLTM: the smaller; eq=VCE: 1 where a = b;
ne=VCNE: 1 where a != b; lt=VCLT: 1 where a < b; le=VCLE: 1 where a <= b; gt=VCGT: 1 where a > b;
ge=VCGE: 1 where a >= b; and=VCAND: both are not 0; or=VCOR: one is not 0
"""


def rows(text: str) -> list[tuple[str, str, str]]:
    """`name=ROW: line` entries between semicolons."""
    found = []
    for entry in text.split(";"):
        left, line = entry.strip().split(":", 1)
        name, row = left.split("=")
        found.append((name.strip(), row.strip(), line.strip()))
    return found


def _plain() -> list[Intrinsic]:
    made = []
    for name, row, line in rows(_UNARY):
        made.append(
            form(f"__bang_{name}", "dst>T src<T n#", NUMBERS, f"{row} dst n src", line, alignment=VECTOR_2XX)
        )
    for name, row, line in rows(_FUNCTIONS):
        made.append(
            form(f"__bang_{name}", "dst>T src<T n#", FLOATS, f"{row} dst n src", line, alignment=VECTOR_2XX)
        )
    for name, row, line in rows(_BINARY):
        made.append(
            form(
                f"__bang_{name}", "dst>T a<T b<T n#", NUMBERS, f"{row} dst n a b", line, alignment=VECTOR_2XX
            )
        )
    for name, row, line in rows(_SCALAR):
        for suffix in ("_scalar", "_const"):
            made.append(form(f"__bang_{name}{suffix}", "dst>T src<T c=T n#", NUMBERS, f"{row} dst n src c", line,
                             alignment=VECTOR_2XX))  # fmt: skip
    for name, row, line in rows(_CYCLE):
        made.append(form(f"__bang_cycle_{name}", "dst>T src<T seg<T n# m#", NUMBERS, f"{row} dst n src seg m",
                         f"b = seg repeated: {line}", alignment=VECTOR_2XX))  # fmt: skip
    return made


_CHUNK = """{
    for (long __i = 0; __i < n; __i += m) __bang_NAME(dst + __i, src + __i, seg, m < n - __i ? m : n - __i);
}"""

# The second operand may be the destination: then the first result cannot be put there.
_FUSED = """{
    if ((const void *)dst != (const void *)c) {
        __dlp_first(op, dst, a, b, n);
        __dlp_second(op, dst, dst, c, n);
        return;
    }
    alignas(128) T __part[64];
    for (long __i = 0; __i < n; __i += 64) {
        long __n = n - __i < 64 ? n - __i : 64;
        __dlp_first(op, __part, a + __i, FIRST, __n);
        __dlp_second(op, dst + __i, __part, c + __i, __n);
    }
}"""
_FUSED_SCALAR = "{ __dlp_first(op, dst, a, b, n); __dlp_second(op, dst, dst, c, n); }"
_FUSED_CYCLIC = """{
    __dlp_first_cycle(op, dst, a, b, n, n_b);
    __dlp_second_cycle(op, dst, dst, c, n, n_c);
}"""
_FUSED_ROUND = "{ __dlp_first_cycle(op, dst, a, b, n, m); __dlp_second(op, dst, dst, c, n); }"
_FUSED_SECOND = """{
    if (m >= n) __bang_fusion(op, dst, a, b, c, n);
    else { __dlp_first(op, dst, a, b, n); __dlp_second_cycle(op, dst, dst, c, n, m); }
}"""
_FUSION_LINE = "FMA a b + c, FMS a b - c, FAM (a + b) c, FSM (a - b) c, FAA FAS FSA FSS: sums and differences"


def _fusion() -> list[Intrinsic]:
    forms = (
        ("b<T c<T n#", _FUSED.replace("FIRST", "b + __i")),
        ("b=T c<T n#", _FUSED.replace("FIRST", "b")),
        ("b<T c=T n#", _FUSED_SCALAR),
        ("b=T c=T n#", _FUSED_SCALAR),
        ("b<T c<T n# n_b# n_c#", _FUSED_CYCLIC),
        (
            "b<T c<T n# m#",
            "{ if (m >= n) __bang_fusion(op, dst, a, b, c, n); else __bang_fusion(op, dst, a, b, c, n, m, m); }",
        ),
        ("b<T c=T n# m#", _FUSED_ROUND),
        ("b=T c<T n# m#", _FUSED_SECOND),
    )
    return [
        form("__bang_fusion", f"op? dst>T a<T {rest}", FLOATS, body, _FUSION_LINE) for rest, body in forms
    ]


_TZ = """{
    for (long __i = 0; __i < n; ++__i) dst[__i] = __dlp_add_tz(a[__i], bAT);
}"""
_OF_BITS = (
    "{ if (sizeof(T) == 2) { union { T value; unsigned short bits; } __u; __u.value = c; "
    "NAME((unsigned short *)dst, (const unsigned short *)src, __u.bits, n); } else { "
    "union { T value; unsigned int bits; } __u; __u.value = c; "
    "NAME((unsigned int *)dst, (const unsigned int *)src, __u.bits, n); } }"
)
_NAN = """{
    for (long __i = 0; __i < n; ++__i)
        dst[__i] = a[__i] != a[__i] ? a[__i] : bAT != bAT ? bAT : a[__i] OP bAT ? a[__i] : bAT;
}"""
# A repeated NaN, or the least number added to NaNs: element by element, with the bits that these parts keep.
_MASKING = """{
    if (seg[0] == seg[0]) { __bang_cycle_mul(dst, src, seg, n, m); return; }
    for (long __i = 0; __i < n; ++__i)
        if (src[__i] == (T)0) dst[__i] = (T)0; else __builtin_memcpy(dst + __i, seg + __i % m, sizeof(T));
}"""
_KEEPING = """{
    if ((double)seg[0] == 0 || (double)seg[0] > 1e-40 || (double)seg[0] < -1e-40 || sizeof(T) != 4) { __bang_cycle_add(dst, src, seg, n, m); return; }
    for (long __i = 0; __i < n; ++__i)
        if (src[__i] != src[__i]) __builtin_memcpy(dst + __i, src + __i, sizeof(T)); else dst[__i] = src[__i] + seg[__i % m];
}"""
_SIGN = "VGES dst n src 0; VMS dst n dst 2; VSS dst n dst 1"


def _taylor() -> list[Intrinsic]:
    made = []
    for name, row in (("sin", "VSIN"), ("cos", "VCOS"), ("tanh", "VTANH"), ("sigmoid", "VSIGM")):
        for terms in (3, 4):
            made.append(form(f"__bang_taylor{terms}_{name}", "dst>T src<T aux1>T aux2>T n#", FLOATS,
                             f"{row} dst n src", f"{name}; the scratch vectors are left alone", in_place=False))  # fmt: skip
    for terms in (3, 4):
        made.append(form(f"__bang_taylor{terms}_softplus", "dst>T src<T aux1>T aux2>T n#", FLOATS,
                         "VEXP dst n src; VAS dst n dst 1; VLOG dst n dst", "ln(1 + e^x)", in_place=False))  # fmt: skip
    return made


def _counted_first() -> list[Intrinsic]:
    """The device library's vectors: the count comes first, the format stands in the name."""
    made = []
    for kind in ("f32", "f16"):
        for name, row, line in rows(_FUNCTIONS):
            if not name.startswith("active_"):
                made.append(
                    form(
                        f"__cn_vector_{name}_{kind}",
                        f"n# dst>{kind} src<{kind}",
                        (),
                        f"{row}:{kind} dst n src",
                        line,
                    )
                )
        made.append(
            form(f"__cn_vector_abs_{kind}", f"n# dst>{kind} src<{kind}", (), f"VABS:{kind} dst n src", "|x|")
        )
        for name, row, line in (
            ("add", "VAV", "a + b"),
            ("sub", "VSV", "a - b"),
            ("mul", "VMV", "a * b"),
            ("div", "VDV", "a / b"),
        ):
            for mode in ("", "_rn"):
                made.append(
                    form(
                        f"__cn_vector_{name}_{kind}{mode}",
                        f"n# dst>{kind} a<{kind} b<{kind}",
                        (),
                        f"{row}:{kind} dst n a b",
                        line,
                    )
                )
    return made


INTRINSICS = (
    *_plain(),
    *_taylor(),
    *_fusion(),
    form("__bang_div", "dst>T a<T b<T n#", NUMBERS, "VDV dst n a b", "a / b"),
    form("__bang_div", "dst>T a<T c=T n#", NUMBERS, "VDS dst n a c", "a / c"),
    form("__bang_div", "dst>T a<T b<T scratch>T n#", FLOATS, "VDV dst n a b", "a / b; the scratch is left alone"),
    form("__bang_div_scalar", "dst>T a<T c=T n#", NUMBERS, "VDS dst n a c", "a / c"),
    form("__bang_rem", "dst>T a<T b<T n#", INTEGERS, "VREM dst n a b", "remainder of a / b"),
    form("__bang_rem", "dst>T a<T c=T n#", NUMBERS,
         "{ for (long __i = 0; __i < n; ++__i) dst[__i] = __dlp_rem(a[__i], c); }", "remainder of a / c, with the sign of a"),
    form("__bang_rem", "dst>T a<T b<T n#", FLOATS,
         "{ for (long __i = 0; __i < n; ++__i) dst[__i] = __dlp_rem(a[__i], b[__i]); }", "remainder of a / b, with the sign of a"),
    form("__bang_active_sign", "dst>T src<T n#", FLOATS, _SIGN, "-1 below 0, else 1"),
    form("__bang_sign", "dst>T src<T n#", FLOATS, "VSIGN dst n src", "-1, 0 or 1"),
    form("__bang_square", "dst>T src<T n#", NUMBERS, "VMV dst n src src", "x * x"),
    form("__bang_relun", "dst>T src<T n# upper=T", NUMBERS, "VRELU dst n src; VLTMS dst n dst upper", "min(max(x, 0), upper)"),
    form("__bang_fabsmax", "dst>T a<T b<T n#", FLOATS,
         "{ for (long __i = 0; __i < n; ++__i) { T __a = a[__i] < 0 ? -a[__i] : a[__i], __b = b[__i] < 0 ? -b[__i] : b[__i]; dst[__i] = __a > __b ? __a : __b; } }",
         "max(|a|, |b|)"),
    form("__bang_fabsmin", "dst>T a<T b<T n#", FLOATS,
         "{ for (long __i = 0; __i < n; ++__i) { T __a = a[__i] < 0 ? -a[__i] : a[__i], __b = b[__i] < 0 ? -b[__i] : b[__i]; dst[__i] = __a < __b ? __a : __b; } }",
         "min(|a|, |b|)"),
    form("__bang_band_scalar", "dst>T src<T c=T n#", INTEGERS, "VBANDS dst n src c", "bits of a and c"),
    form("__bang_bor_scalar", "dst>T src<T c=T n#", INTEGERS, "VBORS dst n src c", "bits of a or c"),
    form("__bang_bxor_scalar", "dst>T src<T c=T n#", INTEGERS, "VBXORS dst n src c", "bits of one of a and c"),
    *(form(f"__bang_{op}_scalar", "dst>T src<T c=T n#", FLOATS, _OF_BITS.replace("NAME", f"__bang_{op}_scalar"), line)
      for op, line in (("band", "bits of a and c"), ("bor", "bits of a or c"), ("bxor", "bits of one of a and c"))),
    form("__bang_and_scalar", "dst>T src<T c=T n#", NUMBERS,
         "{ if (c == (T)0) __bang_write_zero(dst, n); else __bang_ne_scalar(dst, src, (T)0, n); }", "both are not 0"),
    form("__bang_or_scalar", "dst>T src<T c=T n#", NUMBERS,
         "{ if (c != (T)0) __bang_write_value(dst, n, (T)1); else __bang_ne_scalar(dst, src, (T)0, n); }", "one is not 0"),
    form("__bang_xor_scalar", "dst>T src<T c=T n#", NUMBERS,
         "{ if (c != (T)0) __bang_not(dst, src, n); else __bang_ne_scalar(dst, src, (T)0, n); }", "exactly one is not 0"),
    form("__bang_srl", "dst>T src<T c=T n#", ("u8", "u16", "u32", "u64"), "VSHRS dst n src c", "a >> c, zeros from above"),
    *(form("__bang_srl", "dst>T src<T c=T n#", (f"i{bits}",), f"VSHRS:u{bits} dst n src c", "a >> c, zeros from above")
      for bits in (32, 8, 16, 64)),
    form("__bang_sll", "dst>T src<T c=T n#", INTEGERS, "VSHLS dst n src c", "a << c"),
    form("__bang_sra", "dst>T src<T c=T n#", ("i8", "i16", "i32", "i64"), "VSHRS dst n src c", "a >> c, with the sign"),
    form("__bang_add_tz", "dst>T a<T b<T n#", ("f32", "f16"), _TZ.replace("bAT", "b[__i]"), "a + b, rounded to zero"),
    form("__bang_cycle_add_tz", "dst>T a<T b<T n# m#", ("f32", "f16"), _TZ.replace("bAT", "b[__i % m]"), "a + b repeated, rounded to zero"),
    form("__bang_nan_maximum", "dst>T a<T b<T n#", FLOATS, _NAN.replace("bAT", "b[__i]").replace("OP", ">"), "the larger; NaN if one is NaN"),
    form("__bang_nan_minimum", "dst>T a<T b<T n#", FLOATS, _NAN.replace("bAT", "b[__i]").replace("OP", "<"), "the smaller; NaN if one is NaN"),
    form("__bang_cycle_nan_maximum", "dst>T a<T b<T n# m#", FLOATS, _NAN.replace("bAT", "b[__i % m]").replace("OP", ">"), "the larger; NaN if one is NaN"),
    form("__bang_cycle_nan_minimum", "dst>T a<T b<T n# m#", FLOATS, _NAN.replace("bAT", "b[__i % m]").replace("OP", "<"), "the smaller; NaN if one is NaN"),
    *(form(f"__bang_cycle_{op}", "dst>T src<T seg<T n# m#", NUMBERS, _CHUNK.replace("NAME", op), f"b = seg repeated: {op}")
      for op in ("xor", "band", "bor", "bxor")),
    form("__dlp_cycle_mul_2xx", "dst>T src<T seg<T n# m#", NUMBERS, _MASKING, "a * b, where 0 times NaN is 0"),
    form("__dlp_cycle_add_2xx", "dst>T src<T seg<T n# m#", NUMBERS, _KEEPING, "a + b, where a NaN keeps its bits"),
    *_counted_first(),
    form("__cn_vector_div_s32", "n# dst>i32 a<i32 b<i32", (), "VDV:i32 dst n a b", "a / b"),
    form("__cn_vector_cast_f32_to_s32", "n# dst>i32 src<f32", (), "VCVT.rz:i32:f32 dst n src", "float to int, to zero"),
    form("__cn_vector_hypot_f32", "n# dst>f32 a<f32 b<f32", (),
         "{ for (long __i = 0; __i < n; ++__i) dst[__i] = __builtin_sqrtf(a[__i] * a[__i] + b[__i] * b[__i]); }", "sqrt(a a + b b)"),
    form("__cn_vector_mod_scalar_u64", "n# dst>u64 src<u64 c=u64", (),
         "{ for (long __i = 0; __i < n; ++__i) dst[__i] = src[__i] % c; }", "remainder of a / c"),
)  # fmt: skip
