"""Random operands for any row of the table, and a core to run single instructions on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trilobite.processor.isa.address import address
from trilobite.processor.isa.formats import Array, Format
from trilobite.processor.isa.row import JOINED, NRAM, WRAM, Operands, Row

EDGES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    -2.5,
    3.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-45,
    65504.0,
    3e38,
    1e-8,
    88.0,
)


def random_values(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], edges: bool = True) -> Array:
    """Signed, of wide range, with edge values mixed in."""
    if fmt.kind == "float":
        wide = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape)
        if edges:
            wide = np.where(rng.random(shape) < 0.15, rng.choice(EDGES, shape), wide)
        with np.errstate(all="ignore"):
            return wide.astype(np.float32).astype(fmt.dtype)
    low, high = (-8, 7) if fmt.bits == 4 else (np.iinfo(fmt.dtype).min, np.iinfo(fmt.dtype).max)
    full = rng.integers(low, high, shape, fmt.dtype, endpoint=True)
    small = rng.integers(-4 if low else 0, 5, shape).astype(fmt.dtype)
    pick = rng.random(shape)
    edge = rng.choice(np.array([low, high, 0, 1], fmt.dtype), shape)
    return np.where(pick < 0.4, full, np.where(pick < 0.85, small, edge)).astype(fmt.dtype)


SIZES = {
    "n": (0, 70),
    "m": (1, 9),
    "k": (0, 12),
    "h": (5, 9),
    "w": (5, 9),
    "c": (1, 4),
    "kh": (1, 3),
    "kw": (1, 3),
    "sh": (1, 2),
    "sw": (1, 2),
    "dh": (1, 2),
    "dw": (1, 2),
    "top": (0, 2),
    "bottom": (0, 2),
    "left": (0, 2),
    "right": (0, 2),
    "outer": (1, 4),
    "length": (1, 9),
    "inner": (1, 5),
    "batch": (1, 3),
    "rows": (1, 6),
    "cols": (1, 7),
    "count": (1, 4),
    "count0": (1, 3),
    "count1": (1, 3),
    "reach": (-6, 8),
}
SIZED = {"MM", "MMTOP", "VSOFT", "VMM", "MMV", "OP", "VARGMAX", "VARGMIN", "VGATH", "VSCAT"}
IN_WRAM = {
    ("MMV", "a"),
    ("VMM", "b"),
    ("MM", "b"),
    ("MMTOP", "b"),
    ("CONV", "b"),
    ("CONVDX", "b"),
    ("MLOAD", "dst"),
    ("MMOVE", "dst"),
    ("MSTORE", "a"),
}


def random_operands(rng: np.random.Generator, row: Row, formats: tuple[Format, ...]) -> Operands:
    """Lawful values for every operand: separate places in memory, small sizes, random scalars."""
    values: dict[str, Any] = {f"f{i}": fmt for i, fmt in enumerate(formats)}
    names = [name for operand in row.operands for name in (operand.fields or (operand.name,))]
    for place, name in enumerate(names):
        low, high = SIZES.get(name, (-1, -1))
        if name in SIZES:
            values[name] = int(
                rng.integers(
                    max(low, int(row.mnemonic in SIZED)) if name != "reach" else low, high, endpoint=True
                )
            )
        elif name in (
            "dst",
            "a",
            "b",
            "c",
            "g",
            "table",
            "index",
            "mask",
            "bias_at",
            "scale_at",
            "top_at",
            "total_at",
        ):
            space = WRAM if (row.mnemonic, name) in IN_WRAM else NRAM
            values[name] = address(space, place * 8192)
        else:
            values[name] = int(rng.integers(0, 1 << 31)) if name == "imm" else int(rng.integers(0, 1 << 62))
    for flag in row.flags:
        values[flag.name] = flag.choices[int(rng.integers(len(flag.choices)))]
    _fit(values, row, rng)
    return Operands(values)


def _fit(values: dict[str, Any], row: Row, rng: np.random.Generator) -> None:
    if row.mnemonic in ("VPAD", "VPOOL") or "groups" in values:
        values["value"] = int(rng.integers(0, 1 << 15))
    if "groups" in values:
        groups = int(rng.integers(1, 4))
        values |= {
            "groups": groups,
            "ci": groups * int(rng.integers(1, 4)),
            "co": groups * int(rng.integers(1, 4)),
        }
    if row.mnemonic.startswith("VC") and "m" in values:
        values["n"] = values["m"] * int(rng.integers(0, 8))
    if row.mnemonic == "VRSHF":
        values |= {"count": 64 * int(rng.integers(1, 3)), "h": 1, "w": int(rng.integers(1, 3)), "c": 3}
    if row.mnemonic == "RV":
        values |= {"seed": 7, "counter": 3}
    if row.mnemonic == "VJOIN":  # numbers of float32, ordinary ones mostly
        for name in JOINED:
            number = rng.choice([rng.standard_normal() * 4, *EDGES[:8]], p=[0.6, *[0.05] * 8])
            values[name] = int(np.float32(number).view(np.uint32))
    if "activation" not in values:
        values["activation"] = ""


# Timing runs, whose programs may leave out a SYNC or read what nobody filled, and what a reader would type.
TIMED = frozenset("timing run page perfetto sweep validation queues docs".split())


@pytest.fixture(autouse=True)
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch is checked for races and memory errors, but for timing runs."""
    if request.path.stem.removeprefix("test_") not in TIMED and "tools" not in request.path.parts:
        monkeypatch.setattr("trilobite.processor.device.Device.checks", True)


@pytest.fixture
def operands_for() -> Callable[..., Operands]:
    return random_operands


@pytest.fixture
def values_for() -> Callable[..., Array]:
    return random_values


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20261115)
