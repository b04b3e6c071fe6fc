"""Texts, tables and small parts of the processor beside the description that they are made of."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import IRError, MachineError
from trilobite.processor.device import ALIGN, HEAP, Device
from trilobite.processor.isa import assemble
from trilobite.processor.isa.functions import tanh
from trilobite.processor.lang.verify import MOST_WORDS, _linkage
from trilobite.processor.machine import load_machine, preset_names
from trilobite.processor.machine.description import RATE_FORMATS, Machine, Noc
from trilobite.processor.machine.drawing import _noc_lines
from trilobite.processor.machine.noc import links_of
from trilobite.processor.sim import typed_python
from trilobite.processor.sim.timing.arrays import product_cycles
from trilobite.processor.sim.timing.roofline import product_bounds
from trilobite.processor.tools.commands import machines_show

MACHINES = sorted(preset_names())


def cells(text: str) -> dict[str, list[str]]:
    """Rows of all tables of a text, by their first words."""
    rows = {}
    for line in text.splitlines():
        parts = [part for part in line.split("  ") if part.strip()]
        if len(parts) > 1:
            rows[parts[0].strip()] = [part.strip() for part in parts[1:]]
    return rows


@pytest.mark.parametrize("name", MACHINES)
def test_rates_of_a_drawing_are_the_descriptions(name: str) -> None:
    machine = load_machine(name)
    text, core, ghz = machines_show(name), machine.core, machine.clock_ghz
    sustained = machine.dram.gb_per_s * machine.dram.efficiency
    rows = cells(text)
    assert rows["DRAM"] == [f"{machine.dram.gb_per_s:g}", f"part, {machine.dram.channels} channel(s)"]
    assert rows["DRAM sustained"] == [f"{sustained:.4g}", "part"]
    assert rows["NRAM"] == [f"{core.nram.bytes_per_cycle * ghz:g}", "core"]
    assert rows["WRAM"] == [f"{core.wram.bytes_per_cycle * ghz:g}", "core"]
    assert ("SRAM" in rows) == bool(machine.sram.kib) and ("NoC link" in rows) == (machine.noc.kind != "none")
    if "SRAM" in rows:
        assert rows["SRAM"] == [f"{machine.sram.bytes_per_cycle * ghz:g}", "cluster"]
        assert f"SRAM {machine.sram.kib} KiB, {machine.sram.banks} banks" in text
        assert text.count("[memory core]") == machine.memory_core
    if "NoC link" in rows:
        assert rows["NoC link"] == [f"{machine.noc.link_bytes_per_cycle * ghz:g}", "direction"]
        assert all(f"[c{n}]" in text for n in range(machine.clusters))
    for fmt in RATE_FORMATS:
        rate = core.mfu.macs_per_cycle.get(fmt)
        if rate is None:
            assert rows[fmt] == ["-", "on the vector unit", "-"]
        else:
            peak = 2 * rate * machine.cores * ghz * 1e9
            assert rows[fmt][:2] == [str(rate), f"{peak / 1e12:.4g}"]
            assert float(rows[fmt][2]) == pytest.approx(peak / (sustained * 1e9), rel=1e-3)
    assert f"{core.nram.kib} KiB, {core.nram.banks} banks, {core.nram.bytes_per_cycle} B/cycle" in text


def machine_with(geometry: str, **changed: Any) -> Machine:
    machine = load_machine("dlp-s")
    size = {name: getattr(machine.core.mfu, name) for name in ("rows", "cols", "count")} | changed
    rate = size["rows"] * size["cols"] * size["count"]
    mfu = replace(
        machine.core.mfu, geometry=geometry, macs_per_cycle={"int8": rate, "fp16": rate // 2}, **changed
    )
    core = replace(machine.core, mfu=mfu)
    return replace(machine, core=core, dram=replace(machine.dram, gb_per_s=1e9))


@pytest.mark.parametrize(
    ("geometry", "changed"),
    [
        ("systolic-ws", {"weight_buffers": 1}),
        ("systolic-ws", {"weight_buffers": 2}),
        ("systolic-ws", {"rows": 16, "cols": 64, "count": 3}),
        ("systolic-os", {"rows": 16, "cols": 32}),
        ("systolic-os", {"rows": 32, "cols": 16, "count": 3}),
        ("adder-tree", {"rows": 64, "cols": 16, "count": 2}),
    ],
)
def test_closed_forms_of_every_geometry(geometry: str, changed: dict[str, Any]) -> None:
    machine = machine_with(geometry, **changed)
    rng = np.random.default_rng(3)
    shapes = rng.integers(1, 700, (40, 3))
    shapes[:6] = [[1, 1, 1], [16, 16, 16], [32, 32, 32], [33, 17, 65], [64, 64, 64], [65, 1, 1]]
    got = product_cycles(machine.core.mfu, "int8", *shapes.T)
    for found, shape in zip(got, shapes.tolist(), strict=True):
        assert found == product_cycles(machine.core.mfu, "int8", *shape), shape


def test_products_that_memory_bounds() -> None:
    machine = replace(machine_with("systolic-ws"), dram=replace(load_machine("dlp-s").dram, gb_per_s=0.5))
    per_cycle = machine.dram_bytes_per_cycle
    found = product_bounds(machine, "fp16", 2, np.asarray([7, 30]), np.asarray([5, 20]), np.asarray([3, 10]))
    moved = [(7 * 3 + 3 * 5 + 7 * 5) * 2, (30 * 10 + 10 * 20 + 30 * 20) * 2]
    compute = [product_cycles(machine.core.mfu, "fp16", *s) for s in ((7, 5, 3), (30, 20, 10))]
    assert found.tolist() == [
        max(c, int(np.ceil(b / per_cycle))) for b, c in zip(moved, compute, strict=True)
    ]


@pytest.mark.parametrize("nram,wram,pool,fits", [(64, 32, 64, True), (64, 32, 63, False), (32, 64, 63, False),
                                                (32, 64, 64, True), (64, 32, 0, True)])  # fmt: skip
def test_a_pool_holds_each_of_its_memories(nram: int, wram: int, pool: int, fits: bool) -> None:
    machine = load_machine("dlp-s")
    core = replace(
        machine.core, pool_kib=pool, nram=replace(machine.core.nram, kib=nram, reserved_kib=0),
        wram=replace(machine.core.wram, kib=wram),
    )  # fmt: skip
    if fits:
        assert replace(machine, core=core).core.pool_kib == pool
    else:
        with pytest.raises(MachineError, match="a pool of 63 KiB cannot hold"):
            replace(machine, core=core)


@pytest.mark.parametrize("at", [0, 1, 5, 8, 63, 64])
@pytest.mark.parametrize("to", [1, 8, 64])
def test_places_are_aligned_upwards(at: int, to: int) -> None:
    unit = assemble(f".nram\npad: .space {at}\n.align {to}\nx: .space 4\n.text\nHALT")
    assert unit.symbols["x"].offset == -(-at // to) * to
    data = assemble(f".data\npad: .space {at}\n.align {to}\nx: .word8 7\n.text\nHALT")
    assert data.symbols["x"].offset == -(-at // to) * to


@pytest.mark.parametrize("size", [1, ALIGN - 1, ALIGN, ALIGN + 1, 3 * ALIGN - 5])
def test_freed_memory_is_whole_again(size: int) -> None:
    device = Device("dlp-s")
    before = list(device._free)
    first, second = (device.array(np.zeros(size, np.int8)) for _ in range(2))
    step = -(-size // ALIGN) * ALIGN
    assert second.address - first.address == step and first.address >= HEAP
    assert device.statistics.used == 2 * size and device.statistics.peak == 2 * size
    del first
    gc.collect()
    assert device.statistics.used == size and device._free[0][1] - device._free[0][0] == step
    again = device.array(np.ones(size, np.int8))
    assert again.address == second.address - step
    del second, again
    gc.collect()
    assert device._free == before and device.statistics.used == 0


def test_tanh_on_both_sides_of_its_bound() -> None:
    x = np.concatenate([np.linspace(-0.3, 0.3, 601), [0.17, np.nextafter(0.17, 0), np.nextafter(0.17, 1)],
                        [-9.0, 9.0, 0.0, -0.0, 1e-30]])  # fmt: skip
    np.testing.assert_allclose(tanh(x), np.tanh(x), rtol=3e-13, atol=0)
    assert np.isnan(tanh(np.asarray([np.nan]))).all() and np.signbit(tanh(np.asarray([-0.0]))).all()


@pytest.mark.parametrize(("params", "results"), [(MOST_WORDS, 1), (MOST_WORDS + 1, 1), (1, MOST_WORDS),
                                                (1, MOST_WORDS + 1), (0, 0)])  # fmt: skip
def test_words_that_a_routine_takes_and_gives(params: int, results: int) -> None:
    routine = SimpleNamespace(params=(0,) * params, results=(0,) * results, is_entry=False)
    module: Any = SimpleNamespace(routines={"r": routine}, functions={})
    import trilobite.processor.lang.verify as verify

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "reached", lambda module, name: set())
        said = list(_linkage(module))
    assert bool(said) == (max(params, results) > MOST_WORDS)


def text_of(source: str) -> str:
    """LLVM text of typed functions that stand in a text."""
    module = ModuleType("typed")
    exec(compile("from __future__ import annotations\n" + source, "typed.py", "exec"), vars(module))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed_python.inspect, "getsource", lambda module: source)
        return typed_python.module_text([module], vars(module)["State"], ["f"])


STATE = "class State:\n    n: int\n    x: float\n"


def test_numbers_are_converted_only_to_the_other_kind() -> None:
    made = text_of(STATE + "def f(s: State) -> None:\n    s.x = float(s.n)\n    s.n = int(s.x)\n")
    assert "sitofp i64" in made and "fptosi double" in made
    for wrong in ("s.x = float(s.x)", "s.n = int(s.n)"):
        with pytest.raises(IRError):
            text_of(STATE + f"def f(s: State) -> None:\n    {wrong}\n")


@pytest.mark.parametrize(
    ("noc", "clusters"),
    [
        (Noc("mesh", (2, 2), 64, 4), 4), (Noc("mesh", (1, 3), 64, 4), 3), (Noc("mesh", (3, 1), 64, 4), 3),
        (Noc("mesh", (3, 4), 64, 4), 12), (Noc("torus", (3, 3), 64, 4), 9), (Noc("ring", (), 64, 4), 4),
        (Noc("links", (), 64, 4, ((0, 1), (0, 3), (1, 2))), 4),
        (Noc("links", (2, 2), 64, 4, ((0, 2), (3, 0), (1, 3))), 4),
    ],
)  # fmt: skip
def test_a_drawing_of_the_network_shows_each_link_once(noc: Noc, clusters: int) -> None:
    """Read back: clusters by their places, links between neighbours by their strokes, the others by name."""
    machine = replace(load_machine("dlp-m"), noc=noc, clusters=clusters)
    head, *lines = _noc_lines(machine).splitlines()
    assert head.startswith(f"network: {noc.kind}, 64 B/cycle a link, 4 cycles")
    far = lines.pop().split()[1:] if lines[-1].startswith("  and ") else []
    rows, cols = noc.shape or (1, clusters)
    assert len(lines) == 2 * rows - 1
    found = {tuple(int(end[1:]) for end in pair.split("-")) for pair in far}
    at: dict[tuple[int, int], int] = {}
    for row, line in enumerate(lines[::2]):
        starts = [m.start() for m in re.finditer(r"\[c\d+\]", line)]
        names = [int(n) for n in re.findall(r"\[c(\d+)\]", line)]
        assert names == list(range(row * cols, (row + 1) * cols))
        found |= {
            (a, a + 1)
            for a, joint in zip(names, re.split(r"\[c\d+\]", line)[1:], strict=True)
            if "--" in joint
        }
        at |= {(row, s): n for s, n in zip(starts, names, strict=True)}
    for row, line in enumerate(lines[1::2]):
        for m in re.finditer(r"\|", line):
            above = [n for (r, s), n in at.items() if r == row and s <= m.start() < s + len(f"[c{n}]")]
            assert len(above) == 1
            found.add((above[0], above[0] + cols))
    assert found == {(min(a, b), max(a, b)) for a, b in links_of(noc, clusters)}
