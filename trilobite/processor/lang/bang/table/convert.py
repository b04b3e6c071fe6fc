"""Conversions, vector and scalar: every pair of types by the names that sources use, every rounding mode.

`_rd` is to nearest with ties away from zero, `_rn` to nearest even, `_tz` to zero, `_dn` down, `_up` up,
`_oz` away from zero, `_rm` to nearest with ties up. Without a suffix: vectors to nearest even between floats,
to zero from float to integer; scalars to zero. A fix position p means: integer = round(x / 2^p), x = integer * 2^p.
"""

# ruff: noqa: E501, UP031 (a row of the table is one line, its C++ has braces of its own)
from __future__ import annotations

from trilobite.processor.lang.bang.table.row import Intrinsic, form

NAMES = {
    "float": "f32", "half": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32",
    "int": "i32", "short": "i16", "char": "i8", "uchar": "u8", "ushort": "u16", "uint": "u32", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "int64": "i64", "fix16": "i16", "fix8": "i8", "int4": "i4", "tf32": "f32",
}  # fmt: skip
MODES = {"": "", "_rd": "ra", "_rn": "rn", "_tz": "rz", "_dn": "rd", "_up": "ru", "_oz": "", "_rm": ""}
FLOATS = ("f32", "f16", "bf16")

# Modes that no instruction has go through the nearest whole numbers, one by one.
_SLOW = {
    "_oz": "__dlp_away(__x)",
    "_rm": "__builtin_floor(__x + 0.5)",
}


def _rounding(source: str, target: str, mode: str) -> str:
    if MODES[mode]:
        return MODES[mode]
    return "rz" if source in FLOATS and target not in FLOATS else "rn"


def _vector(source: str, target: str, mode: str) -> list[Intrinsic]:
    name = f"__bang_{source}2{target}{mode}"
    s, d = NAMES[source], NAMES[target]
    is_narrow = s in FLOATS and d not in FLOATS
    line = f"{source} to {target}" + (f", rounding {mode[1:]}" if mode else "")
    plain = f"VCVT.{_rounding(s, d, mode)}:{d}:{s} dst n src"
    wide = d not in ("i4",) and s not in ("i4",)
    if mode in _SLOW and d in FLOATS and {source, target} <= set(_SCALARS):
        plain = f"{{ for (long __i = 0; __i < n; ++__i) dst[__i] = __{source}2{target}{mode}(src[__i]); }}"
    if mode in _SLOW and is_narrow and wide:
        plain = "{ for (long __i = 0; __i < n; ++__i) { double __x = src[__i]; dst[__i] = __dlp_whole<%s>(%s); } }" % (
            _c(d), _SLOW[mode])  # fmt: skip
    made = [form(name, f"dst>{d} src<{s} n#", (), plain, line, in_place=_bits(d) <= _bits(s), ahead=True)]
    if (source, target) == ("half", "uchar"):  # sources for older parts give it room to work in
        made.append(
            form(
                name,
                "dst>u8 src<f16 scratch<f16 n#",
                (),
                "{ %s(dst, src, n); }" % name,
                f"{line}; scratch stays as it is",
            )
        )
    if target == "uchar":  # the vendor's own declaration takes signed bytes, too
        made.append(form(name, f"dst>i8 src<{s} n#", (), "{ %s((unsigned char *)dst, src, n); }" % name,
                         f"{line}; the bytes are unsigned", in_place=_bits(d) <= _bits(s), ahead=True))  # fmt: skip
    if (s in FLOATS and d in FLOATS) or not wide:
        return made
    made.append(form(name, f"dst>{d} src<{s} n# position:", (), _positioned(name, d, is_narrow, mode, s),
                     f"{line}, with a fix position", in_place=_bits(d) <= _bits(s), ahead=True))  # fmt: skip
    return made


def _positioned(name: str, d: str, is_narrow: bool, mode: str, s: str) -> str:
    if is_narrow:
        how = _SLOW.get(mode) or f"__dlp_round_{_rounding(s, d, mode)}(__x)"
        return (
            "{ if (position == 0) { %s(dst, src, n); return; }"
            " for (long __i = 0; __i < n; ++__i) { double __x = (double)src[__i] * __dlp_power(-position);"
            " dst[__i] = __dlp_whole<%s>(%s); } }" % (name, _c(d), how)
        )
    if d in FLOATS:
        return (
            "{ %s(dst, src, n); if (position != 0) __bang_mul_scalar(dst, dst, (%s)__dlp_power(position), n); }"
            % (name, _c(d))
        )
    return "{ %s(dst, src, n); }" % name


def _c(fmt: str) -> str:
    return {"i8": "signed char", "u8": "unsigned char", "i16": "short", "u16": "unsigned short", "i32": "int",
            "u32": "unsigned int", "i64": "long", "f32": "float", "f16": "half", "bf16": "bfloat16_t"}[fmt]  # fmt: skip


def _bits(fmt: str) -> int:
    return int(fmt.lstrip("ifub"))


def _pairs() -> list[tuple[str, str]]:
    floats = ("float", "half", "bfloat16")
    whole = (
        "int8",
        "int16",
        "int32",
        "int",
        "short",
        "char",
        "uchar",
        "uint8",
        "ushort",
        "uint",
        "int64",
        "fix8",
        "fix16",
        "int4",
    )
    found = [(a, b) for a in floats for b in (*floats, *whole) if a != b]
    found += [(a, b) for a in whole for b in floats]
    integers = ("int8", "int16", "int32", "int", "short", "char", "uchar", "int4", "int64", "uint8")
    found += [(a, b) for a in integers for b in integers if a != b and NAMES[a] != NAMES[b]]
    return found


def _vectors() -> list[Intrinsic]:
    return [row for a, b in _pairs() for mode in MODES for row in _vector(a, b, mode)]


_SCALARS = "float half bfloat16 int uint short ushort char uchar int32 int16 int8 uint32".split()
# Between floats, modes that no instruction has choose among the neighbours of the number.
_CHOSEN = {
    "_oz": "{ return x < 0 ? NAME_dn(x) : NAME_up(x); }",
    "_rm": "{ double __x = x, __low = NAME_dn(x), __high = NAME_up(x);"
    " return __high - __x <= __x - __low ? __high : __low; }",
}


def _scalars() -> list[Intrinsic]:
    """`__float2half_rd(x)` and the like; without a suffix to zero, as the vendor's text has it."""
    made = []
    for a in _SCALARS:
        for b in _SCALARS:
            if a == b or not {a, b} & {"float", "half", "bfloat16"}:
                continue
            for mode in MODES:
                s, d = NAMES[a], NAMES[b]
                rounding = _rounding(s, d, mode) if mode else "rz"
                if mode in _SLOW and d not in FLOATS:
                    how = "{ double __x = x; return __dlp_whole<%s>(%s); }" % (_c(d), _SLOW[mode])
                elif mode in _SLOW:
                    how = _CHOSEN[mode].replace("NAME", f"__{a}2{b}")
                else:
                    how = f"@convert.{rounding}"
                made.append(
                    form(f"__{a}2{b}{mode}", f"x={s}", (), how, f"{a} to {b}{mode}", returns=d, space="")
                )
    return made


def _rescaled() -> list[Intrinsic]:
    """Integers with a fix position on either side: dst 2^dst_position = src 2^src_position, to nearest even."""
    body = (
        "{ double __f = __dlp_power(src_position - dst_position); for (long __i = 0; __i < n; ++__i)"
        " dst[__i] = __dlp_whole<%s>(__dlp_round_rn((double)src[__i] * __f)); }"
    )
    pairs = [(a, b) for a in ("int32", "int16", "int8") for b in ("int32", "int16", "int8") if a != b]
    return [
        form(f"__bang_{a}2{b}", f"dst>{NAMES[b]} src<{NAMES[a]} n# dst_position: src_position:", (),
             body % _c(NAMES[b]), f"{a} to {b}, each with a fix position", in_place=_bits(NAMES[b]) <= _bits(NAMES[a]), ahead=True)
        for a, b in pairs
    ]  # fmt: skip


INTRINSICS = (*_vectors(), *_scalars(), *_rescaled())
