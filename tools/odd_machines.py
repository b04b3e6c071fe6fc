"""Random legal machines, and networks on them beside the CPU.

    python -m tools.odd_machines 40                # the first forty machines
    python -m tools.odd_machines 12 --first 100 --networks mlp,lenet,resnet18

Machines have prime sizes, tiny or lopsided scratchpads, one pool or accumulators beside, arrays of every
geometry, one to a dozen cores with and without SRAM and memory cores, slow and fast DRAM. From number
`WITH_OPTIONS` on they have what else can be described, too: a few KiB of scratchpads whose ports are shared,
weight FIFOs, instruction caches, formats of 4 and 8 bits, meshes and chains of clusters, two dies, a
last-level cache, DRAM with rows and refresh, granules and bursts of odd sizes. A machine that the description
refuses is drawn again. Each is written as a YAML file and given to the compiler as a user's file
would be. Prints one line a network; ends with status 1 if one disagrees or does not compile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tools import chip_networks
from trilobite.base.errors import MachineError, TrilobiteError
from trilobite.processor.machine import load_machine

Description = dict[str, Any]
GEOMETRIES = ("systolic-ws", "systolic-os", "adder-tree", "row-stationary")
FORMATS = ("int8", "int16", "fp16", "bf16", "fp32")
WITH_OPTIONS = 500  # the first number of a machine with optional parts
NETWORKS = ("mlp", "lenet", "resnet18", "char_lstm", "bert_base")


def _matrix_unit(rng: np.random.Generator) -> Description:
    geometry = str(rng.choice(GEOMETRIES))
    rows, columns = (int(n) for n in rng.choice([1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 31, 32, 64], 2))
    count = int(rng.choice([1, 1, 2, 3]))
    formats = [str(f) for f in FORMATS if rng.random() < 0.6] or ["int8"]
    most = rows * columns * count
    unit: Description = {
        "geometry": geometry, "rows": rows, "cols": columns, "count": count,
        "macs_per_cycle": {f: max(1, most // int(rng.integers(1, 5))) for f in formats},
    }  # fmt: skip
    if geometry == "systolic-ws":
        unit["weight_buffers"] = int(rng.integers(1, 3))
    if geometry == "row-stationary":
        unit["register_bytes"] = int(rng.integers(64, 700))
    return unit


def _core(rng: np.random.Generator) -> Description:
    nram, wram = (int(n) for n in rng.choice([24, 29, 37, 64, 67, 96, 131, 256, 509], 2))
    reserved = int(rng.integers(3, max(4, nram // 3)))
    width = int(rng.choice([7, 16, 61, 64, 128]))
    core: Description = {
        "nram": {"kib": nram, "banks": 1, "bytes_per_cycle": width, "reserved_kib": reserved},
        "wram": {"kib": wram, "banks": 1, "bytes_per_cycle": int(rng.choice([5, 32, 53, 256]))},
        "acc": {"kib": int(rng.choice([0, 0, 8, 31, 64]))},
        "mfu": _matrix_unit(rng),
        "vfu": {"bytes_per_cycle": int(rng.choice([8, 24, 64])),
                "granule_bytes": int(rng.choice([8, 16, 64]))},
        "queues": {"depth": int(rng.choice([1, 2, 3, 16]))},
        "io_dma": {"bytes_per_cycle": int(rng.choice([1, 5, 32])), "outstanding": int(rng.choice([1, 2, 8]))},
        "move_dma": {"bytes_per_cycle": int(rng.choice([3, 7, 128]))},
    }  # fmt: skip
    if core["acc"]["kib"]:
        core["acc"] |= {"banks": 1, "bytes_per_cycle": 64}
    if rng.random() < 0.3:
        core["pool_kib"] = max(nram, wram) + int(rng.choice([0, 17, 64]))
    return core


def description(seed: int) -> Description:
    """A machine by number, not yet checked."""
    found = _plain(seed)
    if seed % 1000 >= WITH_OPTIONS:
        rng = np.random.default_rng([seed, 1])
        for change in (_odd_pads, _odd_units, _odd_dram, _odd_clusters):
            change(found, rng)
    return found


def _one(rng: np.random.Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _odd_pads(machine: Description, rng: np.random.Generator) -> None:
    core = machine["core"]
    is_tiny = rng.random() < 0.4
    for name in ("nram", "wram"):
        pad = core[name]
        if is_tiny:
            pad |= {"kib": _one(rng, 4, 5, 8, 12, 17), "reserved_kib": _one(rng, 0, 1) * (name == "nram")}
        pad |= {"contended": bool(rng.random() < 0.3), "banks": _one(rng, 1, 2, 4)}
    core["wram"]["fifo_tiles"] = _one(rng, 0, 0, 1, 4)
    if is_tiny:
        core.pop("pool_kib", None)
    if rng.random() < 0.5:
        core["fetch"] = {"kib": _one(rng, 1, 4, 32), "line_bytes": _one(rng, 8, 64, 256)}


def _odd_units(machine: Description, rng: np.random.Generator) -> None:
    core = machine["core"]
    unit = core["mfu"]
    if rng.random() < 0.3:
        sizes = _one(rng, (1, 1, 1), (256, 256, 1), (1, 97, 1), (128, 2, 5))
        unit["rows"], unit["cols"], unit["count"] = sizes
    most = unit["rows"] * unit["cols"] * unit["count"]
    rates = {f: min(r, most) for f, r in unit["macs_per_cycle"].items() if f != "fp32" or rng.random() < 0.7}
    rates |= {f: most for f in ("tf32", "fp8", "int4") if rng.random() < 0.4}
    unit["macs_per_cycle"] = rates or {"int8": most}
    unit["zero_gating"] = _one(rng, "none", "weights", "activations", "both")
    core["vfu"] |= {"granule_bytes": _one(rng, 1, 3, 8, 128, 512), "latency": _one(rng, 1, 60)}
    core["scalar"] = {"add": _one(rng, 1, 7), "scratchpad": _one(rng, 1, 40), "dram": _one(rng, 1, 500)}
    core["queues"]["dispatch"] = _one(rng, 1, 2, 9)
    core["io_dma"]["setup"] = _one(rng, 0, 1, 99)
    machine["barrier_cycles"] = _one(rng, 1, 8, 300)


def _odd_dram(machine: Description, rng: np.random.Generator) -> None:
    dram = machine["dram"]
    dram |= {"granule_bytes": _one(rng, 1, 32, 48, 256), "burst_bytes": _one(rng, 7, 64, 512, 4096)}
    dram["gib"] = _one(rng, 1, 2, 16)
    if rng.random() < 0.4:
        dram |= {
            "row_bytes": dram["burst_bytes"] * _one(rng, 1, 4, 16), "banks": _one(rng, 1, 3, 8),
            "row_ns": _one(rng, 5, 40.5), "refresh_interval_ns": 3900, "refresh_ns": _one(rng, 0, 295),
        }  # fmt: skip
    if rng.random() < 0.3:
        machine["llc"] = {"kib": _one(rng, 64, 1000), "line_bytes": _one(rng, 64, 512), "bytes_per_cycle": 64}


def _odd_clusters(machine: Description, rng: np.random.Generator) -> None:
    if rng.random() < 0.5:
        return
    count = _one(rng, 2, 4, 6)
    network = _one(
        rng,
        {"kind": "ring", "hop_cycles": 3},
        {"kind": "mesh", "shape": [2, count // 2]},
        {"kind": "torus", "shape": [2, count // 2], "dram_at": [0]},
        {"kind": "links", "links": [[i, i + 1] for i in range(count - 1)], "dram_at": [count - 1]},
    )
    machine |= {"clusters": count, "cores_per_cluster": _one(rng, 1, 4, 5), "chips": _one(rng, 1, 2)}
    machine["noc"] = {"link_bytes_per_cycle": _one(rng, 1, 4, 33), **network}


def _plain(seed: int) -> Description:
    rng = np.random.default_rng(seed)
    clusters, cores = int(rng.choice([1, 1, 1, 2, 3])), int(rng.choice([1, 1, 2, 3, 4]))
    sram = int(rng.choice([0, 0, 96, 257, 1024]))
    shared: Description = {"kib": 0}
    if sram:
        shared = {
            "kib": sram, "reserved_kib": int(rng.integers(4, sram // 4)), "banks": 1,
            "bytes_per_cycle": int(rng.choice([16, 61, 256])),
            "bus_bytes_per_cycle": int(rng.choice([8, 64])), "multicast": bool(rng.random() < 0.7),
        }  # fmt: skip
    noc: Description = {"kind": "none"}
    if clusters > 1:
        noc = {"kind": "ring", "link_bytes_per_cycle": int(rng.choice([8, 64])), "hop_cycles": 3}
    return {
        "name": f"machine{seed}", "clock_ghz": float(np.round(rng.uniform(0.2, 2), 2)),
        "interlock": str(rng.choice(["none", "ranges"])), "clusters": clusters, "cores_per_cluster": cores,
        "memory_core": bool(sram and rng.random() < 0.6), "core": _core(rng), "sram": shared, "noc": noc,
        "dram": {"gb_per_s": float(np.round(rng.uniform(0.5, 200), 1)),
                 "channels": int(rng.choice([1, 2, 3])), "latency_ns": int(rng.integers(20, 400)),
                 "efficiency": 0.85, "granule_bytes": int(rng.choice([32, 64])), "burst_bytes": 512},
    }  # fmt: skip


def written(seed: int, folder: Path) -> Path:
    """The file of a legal machine: the first of this number's that the description accepts."""
    path = folder / f"machine{seed}.yaml"
    for attempt in range(100):
        path.write_text(yaml.safe_dump(description(seed + 1000 * attempt)), encoding="utf-8")
        try:
            load_machine(str(path))
        except MachineError:
            continue
        return path
    raise RuntimeError(f"no legal machine among a hundred from {seed}")


def compared(path: Path, networks: list[str]) -> Iterator[tuple[str, bool]]:
    """A line for every network on a machine, and whether it agrees."""
    rates = load_machine(str(path)).core.mfu.macs_per_cycle
    for row in chip_networks.ROWS:
        if row.name not in networks:
            continue
        try:
            found = chip_networks.compare(row, str(path), "", integers="fp32" not in rates)
        except TrilobiteError as error:
            yield f"{row.name:<16} {path.stem:<10} {type(error).__name__}: {error}", False
            continue
        yield str(found).replace(str(path), path.stem), found.agrees


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(given.first, given.first + given.count):
            for line, agrees in compared(written(seed, Path(folder)), given.networks.split(",")):
                print(line, flush=True)
                wrong += not agrees
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
