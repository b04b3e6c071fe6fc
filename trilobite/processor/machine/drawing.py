"""Machines as text: a table of many, a drawing of one.

Enters: `Machine`s. Leaves: plain text of fixed columns. It computes nothing of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trilobite.processor.machine.description import RATE_FORMATS, Machine
from trilobite.processor.machine.noc import links_of


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell: first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        return "  ".join(cells).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(rows[0]), rule, *(line(row) for row in rows[1:])]) + "\n"


def machine_table(machines: Sequence[Machine]) -> str:
    head = [
        "machine",
        "cores",
        "GHz",
        "nm",
        "NRAM/WRAM KiB",
        "SRAM KiB",
        "int8 TOPS",
        "fp16 TFLOPS",
        "fp32 TFLOPS",
        "GB/s",
        "interlock",
    ]
    return table([head, *(_row(machine) for machine in machines)])


def _row(machine: Machine) -> list[str]:
    core = machine.core
    peaks = [_tera(machine.peak_ops(name)) for name in ("int8", "fp16", "fp32")]
    layout = f"{machine.clusters}x{machine.cores_per_cluster}" + ("+1" if machine.memory_core else "")
    return [
        machine.name,
        layout,
        f"{machine.clock_ghz:g}",
        str(machine.process_nm),
        f"{core.nram.kib}/{core.wram.kib}",
        str(machine.sram.kib or "-"),
        *peaks,
        f"{machine.dram.gb_per_s:g}",
        machine.interlock,
    ]


def _tera(ops: float) -> str:
    return f"{ops / 1e12:.3g}" if ops else "-"


def machine_drawing(machine: Machine) -> str:
    """The chip in text, then its peaks per number format, bandwidths and ridge points."""
    parts = [
        _title(machine),
        _core_box(machine),
        _cluster_lines(machine),
        _noc_lines(machine),
        _peaks(machine),
        _bandwidths(machine),
    ]
    return "\n".join(part for part in parts if part)


def _title(machine: Machine) -> str:
    chips = f"{machine.chips} chips, " if machine.chips > 1 else ""
    line = (
        f"{machine.name}: {chips}{machine.clusters} cluster(s) of {machine.cores_per_cluster} core(s)"
        f"{' and a memory core' if machine.memory_core else ''}, {machine.clock_ghz:g} GHz, "
        f"{machine.process_nm} nm, interlock {machine.interlock}\n"
    )
    return line + (f"{machine.note}\n" if machine.note else "")


def _core_box(machine: Machine) -> str:
    core = machine.core
    mfu = core.mfu
    buffers = f", {mfu.weight_buffers} weight buffer(s)" if mfu.geometry == "systolic-ws" else ""
    count = f"{mfu.count} x " if mfu.count > 1 else ""
    acc = f"ACC {core.acc.kib} KiB" if core.acc.kib else "accumulates in NRAM"
    cache = f" from {core.fetch.kib} KiB" if core.fetch.kib else ""
    fifo = f", FIFO of {core.wram.fifo_tiles} tiles" if core.wram.fifo_tiles else ""
    lines = [
        f"core: fetch{cache}, decode, dispatch in order -> queues of {core.queues.depth}",
        f"  scalar   64 GPRs of 64 bits; add {core.scalar.add}, divide {core.scalar.divide} cycles",
        f"  matrix   {count}{mfu.geometry} {mfu.rows} x {mfu.cols}{buffers}; {acc}",
        f"  vector   {core.vfu.bytes_per_cycle} B/cycle in granules of {core.vfu.granule_bytes} B",
        f"  io DMA   {core.io_dma.bytes_per_cycle} B/cycle, {core.io_dma.outstanding} outstanding",
        f"  move DMA {core.move_dma.bytes_per_cycle} B/cycle",
        f"  NRAM     {core.nram.kib} KiB, {core.nram.banks} banks, {core.nram.bytes_per_cycle} B/cycle,"
        f" {core.nram.reserved_kib} KiB for the stack",
        f"  WRAM     {core.wram.kib} KiB, {core.wram.banks} banks, {core.wram.bytes_per_cycle} B/cycle{fifo}",
    ]
    return _box(lines)


def _box(lines: Sequence[str]) -> str:
    width = max(map(len, lines))
    rule = "+" + "-" * (width + 2) + "+"
    return "\n".join([rule, *(f"| {line.ljust(width)} |" for line in lines), rule]) + "\n"


def _cluster_lines(machine: Machine) -> str:
    sram = machine.sram
    if not sram.kib:
        return ""
    cores = [f"core {i}" for i in range(machine.cores_per_cluster)] + ["memory core"] * machine.memory_core
    row = "  ".join(f"[{name}]" for name in cores)
    return _box(
        [
            "cluster: " + row,
            f"  bus  {sram.bus_bytes_per_cycle} B/cycle{', multicast' if sram.multicast else ''}",
            f"  SRAM {sram.kib} KiB, {sram.banks} banks, {sram.bytes_per_cycle} B/cycle,"
            f" {sram.reserved_kib} KiB reserved",
        ]
    )


def _noc_lines(machine: Machine) -> str:
    noc = machine.noc
    if noc.kind == "none":
        return ""
    rows, cols = noc.shape if len(noc.shape) == 2 else (1, machine.clusters)
    present = set(links_of(noc, machine.clusters))
    lines = [f"network: {noc.kind}, {noc.link_bytes_per_cycle} B/cycle a link, {noc.hop_cycles} cycles a hop"]
    for row in range(rows):
        names = [row * cols + col for col in range(cols)]
        joints = [" -- " if (a, b) in present else "    " for a, b in pairwise(names)] + [""]
        lines.append("  " + "".join(f"[c{name}]{joint}" for name, joint in zip(names, joints, strict=True)))
        if row + 1 < rows:
            lines.append("  " + "    ".join(" |  " if (n, n + cols) in present else "    " for n in names))
    drawn = {(a, b) for a, b in present if abs(a - b) in (1, cols)}
    far = [f"c{a}-c{b}" for a, b in sorted(present - drawn) if a < b]
    if far:
        lines.append("  and " + " ".join(far))
    return "\n".join(lines) + "\n"


def _peaks(machine: Machine) -> str:
    rows = [["format", "MAC/cycle/core", "peak Tops/s", "ridge ops/B"]]
    for name in RATE_FORMATS:
        rate = machine.core.mfu.macs_per_cycle.get(name)
        if rate is None:
            rows.append([name, "-", "on the vector unit", "-"])
        else:
            rows.append(
                [name, str(rate), f"{machine.peak_ops(name) / 1e12:.4g}", f"{machine.ridge(name):.4g}"]
            )
    return table(rows)


def _bandwidths(machine: Machine) -> str:
    ghz, core = machine.clock_ghz, machine.core
    rows = [
        ["memory", "GB/s", "of"],
        ["DRAM", f"{machine.dram.gb_per_s:g}", f"part, {machine.dram.channels} channel(s)"],
        ["DRAM sustained", f"{machine.dram.gb_per_s * machine.dram.efficiency:.4g}", "part"],
        ["NRAM", f"{core.nram.bytes_per_cycle * ghz:g}", "core"],
        ["WRAM", f"{core.wram.bytes_per_cycle * ghz:g}", "core"],
    ]
    if machine.sram.kib:
        rows.append(["SRAM", f"{machine.sram.bytes_per_cycle * ghz:g}", "cluster"])
    if machine.noc.kind != "none":
        rows.append(["NoC link", f"{machine.noc.link_bytes_per_cycle * ghz:g}", "direction"])
    return table(rows)
