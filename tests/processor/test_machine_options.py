"""Options of a machine: rates that follow the geometry, sweeps, pools, rows of DRAM, zeros, a host link."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError, KernelError, MachineError, ProcessorFault
from trilobite.processor.device import Device
from trilobite.processor.isa.table import MNEMONICS
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.codegen.compile import compile_module
from trilobite.processor.lang.ir import Buffer, Function, KernelModule
from trilobite.processor.lang.types import Pointer
from trilobite.processor.machine import Machine, load_machine
from trilobite.processor.machine.load import parse_machine, preset_names
from trilobite.processor.sim.area import area_of
from trilobite.processor.sim.run import Run
from trilobite.processor.sim.timing.arrays import product_cycles
from trilobite.processor.tools.sweep import grid


def changed(machine: str | Machine, part: str, **values: Any) -> Machine:
    base = load_machine(machine)
    if part.startswith("core."):
        name = part.removeprefix("core.")
        inner = replace(getattr(base.core, name), **values)
        return replace(base, core=replace(base.core, **{name: inner}))
    return replace(base, **{part: replace(getattr(base, part), **values)})


PRODUCT = """
    LI $10, #nram(0)
    LI $11, #wram(0)
    LI $12, #nram(65536)
    SMOVE $20, #64
    SMOVE $21, #128
    SMOVE $22, #256
    SMOVE $5, #4
    again: MM.i32.i8.i8 $12, $10, $11, $20, $24
    SADD $5, $5, #-1
    CB #again, $5
"""


ORDER = {field: place for place, field in enumerate(MNEMONICS["COPY2"][0].operands[-1].fields)}


def run_on(machine: Machine, source: str) -> Run:
    device = Device(machine)
    return device.launch(device.load(source), [device.array(np.zeros(1 << 20, np.uint8))], checks=False)


def test_rates_beyond_the_geometry_are_refused() -> None:
    mfu = load_machine("dlp-s").core.mfu
    with pytest.raises(MachineError) as caught:
        changed("dlp-s", "core.mfu", rows=1)
    text = str(caught.value)
    assert "8192 products of int4 a cycle are more than 1 x 1 x 64 multipliers make" in text
    assert "at most 128: rows x cols x count x 2 for int4" in text
    stated = changed("dlp-s", "core.mfu", macs_per_cycle={"fp16": 8192}, factors={"fp16": 2})
    assert stated.core.mfu.factor("fp16") == 2 and mfu.factor("fp16") == 1
    for wrong in (0, -1, 64.5, 65, "2", True):
        with pytest.raises(MachineError, match=f"the factor of fp16 is {wrong!r}") as caught:
            changed("dlp-s", "core.mfu", factors={"fp16": wrong})
        assert "above 0 and at most 64" in str(caught.value)
    assert changed("dlp-s", "core.mfu", factors={"fp16": 64}).core.mfu.factor("fp16") == 64


@pytest.mark.parametrize("name", preset_names())
def test_rates_of_every_preset_follow_its_geometry(name: str) -> None:
    mfu = load_machine(name).core.mfu
    for fmt, rate in mfu.macs_per_cycle.items():
        assert rate <= mfu.rows * mfu.cols * mfu.count * mfu.factor(fmt)
    assert pickle.loads(pickle.dumps(mfu)) == mfu


def test_a_sweep_over_the_geometry_scales_rates_and_area() -> None:
    base = load_machine("dlp-s")
    points = grid(base, {"core.mfu.rows": [16, 64, 256], "core.mfu.count": [1, 2]})
    small = points["core.mfu.rows=16, core.mfu.count=1"]
    large = points["core.mfu.rows=256, core.mfu.count=2"]
    assert small.core.mfu.macs_per_cycle["int8"] == 16 * 64
    assert large.core.mfu.macs_per_cycle["int8"] == 2 * 256 * 64
    assert area_of(large).mm2["matrix"] == pytest.approx(32 * area_of(small).mm2["matrix"])
    cycles = [run_on(points[f"core.mfu.rows={rows}, core.mfu.count=1"], PRODUCT).cycles for rows in (16, 64)]
    assert cycles[0] > cycles[1]


@pytest.mark.parametrize("name", ["mlu270", "mlu290", "mlu370-x4", "mlu370-x8", "mlu590"])
def test_an_unpublished_geometry_cannot_be_swept(name: str) -> None:
    with pytest.raises(ArgumentError, match="the geometry of this part is not published"):
        grid(load_machine(name), {"core.mfu.cols": [32, 64]})
    assert grid(load_machine(name), {"dram.gb_per_s": [100.0]})


def test_a_pool_is_shared_by_activations_and_weights() -> None:
    base = load_machine("dlp-s")
    both = base.core.nram.kib + base.core.wram.kib
    pooled = replace(base, core=replace(base.core, pool_kib=max(base.core.nram.kib, base.core.wram.kib)))
    with pytest.raises(MachineError, match="a pool of 1 KiB cannot hold"):
        replace(base, core=replace(base.core, pool_kib=1))
    # its ports carry weights as well
    slow = changed(pooled, "core.nram", bytes_per_cycle=16)
    plain = changed(base, "core.nram", bytes_per_cycle=16)
    assert run_on(slow, PRODUCT).cycles > run_on(plain, PRODUCT).cycles
    assert set(area_of(pooled).mm2) & {"nram", "wram", "pool"} == {"pool"}
    assert area_of(base).mm2["nram"] + area_of(base).mm2["wram"] == pytest.approx(
        area_of(pooled).mm2["pool"] * both / pooled.core.pool_kib
    )
    # and its bytes are given once
    source = f".nram\n.space {300 << 10}\n.wram\n.space {base.core.wram.bytes - 4096}\n.text\nHALT"
    run_on(base, source)
    with pytest.raises(ProcessorFault, match="bytes of the pool that NRAM and WRAM are"):
        run_on(pooled, source)


def test_kernels_must_fit_into_the_pool() -> None:
    base = load_machine("dlp-s")
    pooled = replace(base, core=replace(base.core, pool_kib=max(base.core.nram.kib, base.core.wram.kib)))
    module = KernelModule()
    b = Builder(module, module.add_function(Function("main", entry=True)))
    x = b.block.add_argument(Pointer("gdram"), "x")
    sizes = {"nram": 256 << 10, "wram": base.core.wram.bytes}
    places = [b.address(module.add_buffer(Buffer(space, space, size))) for space, size in sizes.items()]
    for place in places:
        b.tensor("COPY", [place, x, b.integer(64)])
    b.tensor("COPY", [x, places[0], b.integer(64)])  # both hold something at one time
    b.ret()
    compile_module(module, base)
    with pytest.raises(KernelError, match="the pool overflows by"):
        compile_module(module, pooled)


def test_routines_that_never_run_together_share_the_pool() -> None:
    """One fills NRAM, another WRAM: neither needs what the other has."""
    base = load_machine("dlp-s")
    pooled = replace(base, core=replace(base.core, pool_kib=max(base.core.nram.kib, base.core.wram.kib)))
    module = KernelModule()
    for space, size in (("nram", 256 << 10), ("wram", base.core.wram.bytes)):
        b = Builder(module, module.add_function(Function(space, routine=True)))
        x = b.block.add_argument(Pointer("gdram"), "x")
        b.tensor("COPY", [b.address(module.add_buffer(Buffer(space, space, size))), x, b.integer(64)])
        b.ret()
    b = Builder(module, module.add_function(Function("main", entry=True)))
    x = b.block.add_argument(Pointer("gdram"), "x")
    for space in ("nram", "wram"):
        b.call(space, [x], [])
    b.ret()
    made = compile_module(module, pooled)
    assert made.sizes["nram"] + made.sizes["wram"] > made.sizes["pool"] == base.core.wram.bytes


def strided(size: int, stride: int, count: int) -> str:
    """Pieces of DRAM, some bytes apart, one behind the other in NRAM."""
    values = {"count": count, "dst_stride": size, "a_stride": stride}
    lines = [f"LI ${20 + place}, #{values[name]}" for name, place in ORDER.items()]
    return "\n".join(["LI $10, #nram(0)", f"LI $11, #{size}", *lines, "COPY2 $10, $0, $11, $20"])


def test_dram_with_rows_makes_scattered_transfers_dear() -> None:
    base = changed("dlp-s", "dram", efficiency=1.0)
    rows = changed(base, "dram", row_bytes=2048, row_ns=40.0, banks=1)
    banked = changed(rows, "dram", banks=8)
    near, far = strided(64, 64, 256), strided(64, 4096, 256)
    flat = {text: run_on(base, text).cycles for text in (near, far)}
    opened = {text: run_on(rows, text).cycles for text in (near, far)}
    assert opened[near] > flat[near]  # eight or nine rows
    assert opened[far] - flat[far] > 10 * (opened[near] - flat[near])  # 256 of them
    assert flat[far] <= run_on(banked, far).cycles < opened[far]
    run = run_on(rows, far)
    assert run.energy.joules["dram"] == run_on(base, far).energy.joules["dram"]


def test_refresh_takes_its_share_of_the_bandwidth() -> None:
    base = load_machine("dlp-s")
    away = changed(base, "dram", refresh_interval_ns=3900.0, refresh_ns=390.0)
    assert away.dram_bytes_per_cycle == pytest.approx(0.9 * base.dram_bytes_per_cycle)
    with pytest.raises(MachineError, match=r"DRAM is away for 4000\.0 of every 3900\.0 ns"):
        changed(base, "dram", refresh_interval_ns=3900.0, refresh_ns=4000.0)
    with pytest.raises(MachineError, match="no whole number of bursts"):
        changed(base, "dram", row_bytes=1000)


def test_zeros_that_are_gated_cost_nothing() -> None:
    base = load_machine("dlp-s")
    full = run_on(base, PRODUCT)
    zeros = replace(base, activity=replace(base.activity, zero_weights=0.5, zero_activations=0.2))
    assert run_on(zeros, PRODUCT).energy.joules == full.energy.joules  # nobody gates them
    for gating, share in (("weights", 0.5), ("activations", 0.8), ("both", 0.4)):
        run = run_on(changed(zeros, "core.mfu", zero_gating=gating), PRODUCT)
        assert run.energy.joules["matrix"] == pytest.approx(share * full.energy.joules["matrix"])
        assert run.cycles == full.cycles and run.energy.joules["nram"] == full.energy.joules["nram"]
    with pytest.raises(MachineError, match="zero_gating is 'all'"):
        changed(base, "core.mfu", zero_gating="all")
    with pytest.raises(MachineError, match="a share from 0 to 1"):
        replace(base, activity=replace(base.activity, zero_weights=1.5))


def test_sparse_weights_are_skipped() -> None:
    base = load_machine("dlp-s")
    full, sparse = run_on(base, PRODUCT), run_on(changed(base, "core.mfu", sparse=True), PRODUCT)
    assert 0.4 * full.cycles < sparse.cycles < full.cycles
    assert sparse.energy.joules["matrix"] == pytest.approx(0.5 * full.energy.joules["matrix"])


def test_a_host_link_is_described_and_costed_apart() -> None:
    base = load_machine("dlp-s")
    assert base.host.seconds(1 << 30) == 0.0
    linked = replace(base, host=replace(base.host, gb_per_s=16.0, latency_ns=1000.0))
    assert linked.host.seconds(16_000_000, 3) == pytest.approx(1e-3 + 3e-6)
    assert run_on(linked, PRODUCT).cycles == run_on(base, PRODUCT).cycles


def test_options_are_read_from_yaml() -> None:
    import yaml

    from trilobite.processor.machine.load import _presets

    tree = yaml.safe_load((_presets() / "dlp-s.yaml").read_text(encoding="utf-8"))
    tree["core"]["mfu"] |= {"zero_gating": "both", "sparse": True, "factors": {"int4": 2}}
    tree["dram"] |= {"row_bytes": 2048, "banks": 8, "row_ns": 30}
    tree |= {"host": {"gb_per_s": 16}, "activity": {"zero_weights": 0.4}}
    machine = parse_machine(yaml.safe_dump(tree))
    assert machine.core.mfu.sparse and machine.dram.banks == 8 and machine.host.gb_per_s == 16.0
    assert hash(machine) != hash(load_machine("dlp-s"))


def test_a_row_stationary_array_by_hand() -> None:
    """AlexNet's convolutions on 12 x 14 elements: sets of kh x outputs, folded and replicated."""
    mfu = load_machine("eyeriss").core.mfu
    layers = {  # outputs of a row, input and output channels of a group, filter rows, groups
        "conv1": ((55, 3, 96, 11, 1), 4 * 288 * 11 * 55),
        "conv2": ((27, 48, 128, 5, 2), 2 * (48 * 128 * 2 // 2) * 5 * 27),
        "conv3": ((13, 256, 384, 3, 1), 256 * 384 // 4 * 3 * 13),
    }
    for (q, inner, outer, kh, groups), wanted in layers.values():
        found = product_cycles(mfu, "int16", q * q, outer * groups, inner * groups, kh * kh, groups, kh, q)
        assert found == wanted + 12 + 14 - 2
        macs = q * q * inner * outer * groups * kh * kh
        assert macs / 168 <= found  # never above its multipliers


def test_register_files_cost_energy_and_are_checked() -> None:
    eyeriss = load_machine("eyeriss")
    source = (
        PRODUCT.replace("MM.i32.i8.i8", "MM.i32.i16.i16").replace("65536", "32768").replace("#128", "#64")
    )
    run = run_on(eyeriss, source.replace("#256", "#32"))
    assert run.energy.joules["registers"] > 0 and "registers" in run.energy.defaults
    assert run.cycles >= run.roofline.cycles
    with pytest.raises(MachineError, match="a row-stationary array with register files of 0 bytes"):
        changed(eyeriss, "core.mfu", register_bytes=0)
    with pytest.raises(MachineError, match="a systolic-ws array with register files of 64 bytes"):
        changed("dlp-s", "core.mfu", register_bytes=64)
