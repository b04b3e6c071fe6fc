"""Convolutions and products of bytes: an indirect matrix product over pixels with int32 sums.

Enters: an epilogue, and which forms of weights the host has instructions for. Leaves: the text of one kernel
for every size. The weight's first word says its form; rows are words of four bytes or of two 16-bit numbers
to match, so that a row, a place and a panel are the same in both but for their lengths. A unit is a block of
pixels, a group and a run of panels, as in the direct convolution, whose code this is. Sums wrap around, so
their order does not matter.
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.base.dtypes import int32
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.contraction.direct.kernel import Direct, DirectWords
from trilobite.compiler.targets.cpu.contraction.multiply import Multiply
from trilobite.compiler.targets.cpu.contraction.tiling import Tiling
from trilobite.compiler.targets.cpu.contraction.words import (
    AxisWords,
    EpilogueWords,
    Form,
    TapWords,
    W,
    Words,
    joined,
    read,
)
from trilobite.compiler.targets.cpu.epilogue import Epilogue
from trilobite.compiler.targets.cpu.primitives.conv_integer import HEADER
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value

MULTIPLY: dict[int, Multiply] = {1: "quads", 2: "pairs"}
"""By the form of a weight."""


@dataclass(frozen=True)
class FormWords(Words[W]):
    """What is counted in words of a form, and where they are."""

    x: W
    tables: TapWords[W]
    tap_block: W
    depth: W
    depth_block: W
    panel_size: W
    group_x: W
    image: W
    axes: tuple[AxisWords[W], ...]


@dataclass(frozen=True)
class IntegerWords(Words[W]):
    w: W
    epilogue: EpilogueWords[W]
    rows_at: W
    places_at: W
    runs: W
    run: W
    panels: W
    groups: W
    blocks: W
    block: W
    pixels: W
    taps: W
    columns: W
    image_rows: W
    group_columns: W
    group_rows: W
    width: W
    forms: tuple[FormWords[W], ...]


def integer_text(
    host: Host, tiling: Tiling, epilogue: Epilogue, forms: tuple[int, ...], words: IntegerWords[Form]
) -> str:
    t = Text(host)
    w: IntegerWords[Value] = read(t, words)
    found = t.load_type("i32", w.w)
    for form, own in zip(forms, w.forms, strict=True):
        with t.when(t.icmp("eq", found, form)):
            kept = replace(tiling, multiply=MULTIPLY[form])
            _Integer(t, kept, epilogue, joined(DirectWords, w, own)).emit()
    return t.module()


class _Integer(Direct):
    """Emits the part of a kernel that runs one form of weights. Before the panels stand the form and ones."""

    def __init__(self, t: Text, tiling: Tiling, epilogue: Epilogue, w: DirectWords[Value]) -> None:
        super().__init__(t, tiling, epilogue, w)
        self.ones = (t.address(w.w, 1, int32),)
        self.first_panel = t.address(w.w, HEADER + tiling.columns, int32)
