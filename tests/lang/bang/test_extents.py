"""The manual's columns `reads` and `writes` are true: every form runs on arrays of just that size, and the checkers,
who know where each array ends, have nothing to say; at counts of zero, one, odd and large."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from bang_harness import needs_clang, written

from trilobite.processor.device import Device, Module
from trilobite.processor.lang.bang.kernel import compile_bang
from trilobite.processor.lang.bang.manual import FAMILIES
from trilobite.processor.lang.bang.source import Options
from trilobite.processor.lang.bang.table import C_NAMES, Intrinsic
from trilobite.processor.lang.bang.table.extents import extent
from trilobite.processor.lang.bang.table.row import Parameter

pytestmark = needs_clang
BYTES = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "f64": 8,
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "u16": 2,
    "i32": 4,
    "u32": 4,
    "i64": 8,
    "u64": 8,
    "i4": 1,
    "void": 1,
}
COUNTS = (0, 1, 77, 994)
OTHERS = {"c": 3, "h": 5, "w": 7, "kh": 2, "kw": 3, "sw": 2, "sh": 1, "top": 1, "bottom": 2, "left": 3, "right_": 1, "ph": 1, "pw": 2, "channels": 5,
          "m": 7, "k": 64, "height": 64, "width": 64, "ci": 64, "co": 64, "dw": 1, "dh": 1, "ow": 1, "oh": 1, "position": 0, "index": 1, "n_b": 7, "n_c": 7,
          "segments": 3, "dst_stride0": 0, "src_stride0": 0, "dst_n1": 2, "src_n1": 2, "dst_n2": 1, "src_n2": 1}  # fmt: skip
ENUMERATORS = {"op": "FUSION_FMA", "direction": "NRAM2NRAM", "overlap": "OVERLAP_ACC"}
_ELSEWHERE = re.compile(
    r"__(bang_)?(gather|scatter)|__extension|__bang_(trans_)?tiling|_value_index|maxpool_bp|atomic|_[dsw]ram|_(gdram|sram|wram|ldram)$|__(gdram|sram|wram|ldram)set|__is_|__vv_|_taylor|__bang_rand"
)


def forms() -> list[tuple[str, Intrinsic]]:
    rows = [row for _, family in FAMILIES for row in family if not row.name.startswith("__dlp_")]
    found = [
        row for row in rows if any(p.is_array for p in row.parameters) and not _ELSEWHERE.search(row.name)
    ]
    near = [
        row
        for row in found
        if "cluster" not in [p.name for p in row.parameters] and "@" not in [p.sign for p in row.parameters]
    ]
    return [(f"{row.name}_{place}", row) for place, row in enumerate(near)]


def values(row: Intrinsic, n: int) -> dict[str, int]:
    names = [p.name for p in row.parameters]
    made = {name: OTHERS.get(name, 0) for name in names} | {"n": n}
    if row.name == "__bang_pad" and "right" in names:
        made["right"] = OTHERS["right_"]
    if {"m", "n_b"} & set(names) and "k" not in names:  # whole repetitions
        made |= {"n": n // 7 * 7 if n > 1 else n} | dict.fromkeys(("m", "n_b", "n_c"), 7 if n > 1 else 1)
    if "k" in names:
        made |= {"n": 64, "m": max(1, n % 9)}
    if row.name.startswith("__bang_reshape"):
        made |= {"n": 64, "c": 64, "h": 1, "w": 2} if "filter" in row.name else {"n": 2}
    if row.name.startswith("__bang_conv"):
        made |= {"h": 4, "w": 5}
    return made | strides(names, made)


def strides(names: list[str], made: dict[str, int]) -> dict[str, int]:
    """Pieces with gaps between them."""
    n = 40 if made["n"] > 400 and "segments" in names else made["n"]
    known = dict.fromkeys(("dst_stride", "src_stride"), n + 6) | dict.fromkeys(
        ("dst_stride0", "src_stride0"), 2 * n + 4
    )
    known |= dict.fromkeys(("dst_stride1", "src_stride1", "stride1"), 8192) | {
        "stride0": 8 * n + 8,
        "n1": 2,
        "n2": 1,
    }
    return {"n": n} | {
        name: value for name, value in known.items() if name in names and "stride" in " ".join(names)
    }


def formats(row: Intrinsic) -> dict[str, str]:
    """The first types that a form exists in; places of pools are whole numbers as wide as a float."""
    named = dict(zip(row.letters, row.types[0].split("-"), strict=False)) if row.letters else {}
    return {"I": "i32"} | named if "I" in row.letters else named


def size(row: Intrinsic, p: Parameter, made: dict[str, int]) -> int:
    """Bytes that the manual says."""
    kinds = formats(row)
    found = extent(row, p)
    element = BYTES[kinds.get(p.type, p.type)]
    if p.type == "void" and any(q.sign == "=" for q in row.parameters):  # fills: elements of the value's type
        element = BYTES[next(kinds.get(q.type, q.type) for q in row.parameters if q.sign == "=")]
    head, both, tail = found.text.partition(" bytes and ")
    amount = eval(head, {"max": max}, made)
    return amount + eval(tail, {}, made) * element if both else amount * (1 if found.is_bytes else element)


def counts(row: Intrinsic) -> tuple[int, ...]:
    """An extreme of nothing stops the launch: there is none."""
    return COUNTS[1:] if re.fullmatch(r"__bang_(arg)?(max|min)", row.name) else COUNTS


def kernel(label: str, row: Intrinsic, n: int) -> str:
    kinds, made = formats(row), values(row, n)
    spaces = dict(word.split(" ") for word in row.space.split(", ")[1:])
    first = row.space.split(", ")[0]
    lines, words = [], []
    for p in row.parameters:
        c_type = C_NAMES[kinds.get(p.type, p.type)][0] if p.type else ""
        if p.is_array:
            space = spaces.get(p.name, first if first in ("nram", "wram") else "nram")
            wide, room = size(row, p, made), f"{p.name}_of_{label}_{n}"
            lines.append(f"  __{space}__ char {room}[{wide or 64}];")
            if wide and p.sign != ">":
                lines.append(f"  __memcpy({room}, x, {wide}, GDRAM2{space.upper()});")
            words.append(f"({c_type} *)({room}{'' if wide else ' + 64'})")
        elif p.sign == "?":
            words.append(ENUMERATORS[p.name])
        else:
            words.append(f"({c_type})1" if p.sign == "=" else str(made[p.name]))
    return (
        f"__mlu_global__ void k_{label}_{n}(const char *x) {{\n"
        + "\n".join(lines)
        + f"\n  {row.name}({', '.join(words)});\n}}\n"
    )


def held(chosen: list[tuple[str, Intrinsic]], folder: Path) -> None:
    text = "#include <bang.h>\n" + "".join(
        kernel(label, row, n) for label, row in chosen for n in counts(row)
    )
    device = Device("mlu370-x4")
    program = compile_bang(written(text, folder), device.machine, Options(level=2))
    x = device.array(np.ones(1 << 19, np.uint8))
    for label, row in chosen:
        for n in counts(row):
            device.launch(Module(program)[f"k_{label}_{n}"], [x], checks=True, traced=False)


def test_most_forms_are_measured() -> None:
    assert len(forms()) > 250


@pytest.mark.parametrize("part", range(16))
def test_every_form_touches_what_the_manual_says(part: int, tmp_path: Path) -> None:
    held(forms()[part::16], tmp_path)


def test_a_byte_too_few_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measure itself: with one byte less than the manual says the checkers object."""
    whole = size
    monkeypatch.setitem(globals(), "size", lambda row, p, made: max(0, whole(row, p, made) - 1))
    from trilobite.processor.tools.findings import CheckFailed

    with pytest.raises(CheckFailed, match="outside the array"):
        held([form for form in forms() if form[1].name == "__bang_add"][:1], tmp_path)
