"""The processor's simulator.

One thread. Every row computes data and cycles, the ResNet row energy as well; programs are loaded beforehand.
SCALE-Sim 3.0.0 is asked for the cycles and addresses of AlexNet's fifth convolution on the same array; it
computes no data, and all five took it longer than ten minutes. It needs NumPy 1 and is run in an environment
of its own (`python -m venv .venv-scalesim`, then `pip install scalesim==3.0.0 "numpy<2"` in it), once, with a
limit of three minutes.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.row import Row, Work

ROOT = Path(__file__).resolve().parent.parent
SCALESIM = ROOT / ".venv-scalesim" / "bin" / "python"
LIMIT = 180  # seconds
LAYOUT_COLUMNS = 24  # of a file that SCALE-Sim wants although no layout of ours is used
# AlexNet's convolutions: input side with its border, channels, outputs, window, stride, groups
ALEXNET = ((227, 3, 96, 11, 4, 1), (31, 96, 256, 5, 1, 2), (15, 256, 384, 3, 1, 1),
           (15, 384, 384, 3, 1, 2), (15, 384, 256, 3, 1, 2))  # fmt: skip
Layers = tuple[tuple[int, int, int, int, int, int], ...]
LAST = ALEXNET[4:]  # what SCALE-Sim finishes
RECORDS = 64_000
MAPPINGS = 500_000


def scalar_loop() -> Work:
    """A hundred million scalar instructions."""
    from trilobite.processor import Device

    device = Device("dlp-s")
    text = "SMOVE $1, #25000000\nloop: SADD $2, $2, $1\nSXOR $3, $3, $2\nSADD $1, $1, #-1\nCB #loop, $1"
    module = device.load(text)
    return lambda: device.launch(module)


def small_vectors(with_time: bool) -> Work:
    """Instructions on 64 numbers each: loads, additions, stores."""
    from trilobite.processor import Device

    device = Device("dlp-s")
    data = device.array(np.ones(4096, np.float32))
    body = "VLOAD $10, $1, $0, #0\nVLOAD $11, $1, $0, #1024\nVAV $12, $1, $10, $11\nVSTORE $12, $1, $0, #2048"
    module = device.load(
        "LI $10, #nram(0)\nLI $11, #nram(4096)\nLI $12, #nram(8192)\nSMOVE $1, #64\n"
        f"SMOVE $2, #{RECORDS // 4}\nloop:\n{body}\nSADD $2, $2, #-1\nCB #loop, $2"
    )

    def work() -> object:
        run = device.launch(module, [data], traced=with_time)
        return run.cycles if with_time else run

    return work


def moving(with_time: bool) -> Work:
    """Instructions of eight kinds whose operands lie elsewhere each time."""
    from trilobite.processor import Device

    device = Device("dlp-m")
    data = device.array(np.random.default_rng(1).standard_normal(1 << 18).astype(np.float32))
    body = (
        "VLOAD $10, $1, $4, #0\nVEXP $11, $1, $10\nVTANH $11, $1, $11\nVSUM $12, $1, $11\n"
        "VMM $13, $3, $11, $14, $1\nVREDUCE.sum $13, $11, $20\nCOPY2 $15, $10, $3, $23\n"
        "VSTORE $11, $1, $4, #524288"
    )
    sizes = "LI $20, #4\nLI $21, #4\nLI $22, #4\nLI $23, #64\nLI $24, #64\nLI $25, #4\n"
    steps = "\n".join(f"SADD ${register}, ${register}, #4" for register in (10, 11, 12, 13, 14, 15))
    module = device.load(
        "LI $10, #nram(0)\nLI $11, #nram(16384)\nLI $12, #nram(32768)\nLI $13, #nram(49152)\n"
        "LI $14, #wram(0)\nLI $15, #nram(65536)\n"
        f"SMOVE $1, #64\nSMOVE $3, #16\nSMOVE $4, $0\n{sizes}"
        f"SMOVE $2, #{RECORDS // 8}\nloop:\n{body}\n{steps}\nSADD $4, $4, #64\nSADD $2, $2, #-1\nCB #loop, $2"
    )

    def work() -> object:
        run = device.launch(module, [data], traced=with_time)
        return run.cycles if with_time else run

    return work


def alexnet(layers: Layers = ALEXNET) -> Work:
    """Convolutions in fp32 on a 32 x 32 array, each from NRAM and WRAM, drained to NRAM."""
    from trilobite.processor import Device, load_machine
    from trilobite.processor.machine.description import MatrixUnit

    base = load_machine("tpu-v1")
    unit = MatrixUnit("systolic-ws", 32, 32, {"fp32": 1024}, weight_buffers=2)
    core = replace(base.core, mfu=unit, wram=replace(base.core.wram, kib=8192, fifo_tiles=0))
    device = Device(replace(base, name="array-32", core=core))
    rng = np.random.default_rng(1)
    launches = []
    for side, inputs, outputs, kernel, stride, groups in layers:
        image = device.array(rng.standard_normal((side, side, inputs), np.float32))
        filters = device.array(rng.standard_normal((outputs, kernel, kernel, inputs // groups), np.float32))
        run = (side, side, inputs, kernel, kernel, outputs, stride, stride, 1, 1, 0, 0, 0, 0, groups)
        moves = "\n".join(f"SMOVE ${20 + place}, #{value}" for place, value in enumerate(run))
        lengths = f"SMOVE $2, #{side * side * inputs}\nSMOVE $3, #{outputs * kernel**2 * inputs // groups}"
        module = device.load(
            f"{moves}\n{lengths}\nLI $10, #nram(0)\nLI $11, #wram(0)\nLI $12, #nram({8 << 20})\n"
            "VLOAD $10, $2, $0, #0\nMLOAD $11, $3, $1, #0\nCONV $12, $10, $11, $20, $40"
        )
        launches.append((module, [image, filters]))
    return lambda: sum(device.launch(module, given).cycles for module, given in launches)


SCALE_CONFIG = """[general]
run_name = alexnet
[architecture_presets]
ArrayHeight: 32
ArrayWidth: 32
IfmapSramSzkB: 16384
FilterSramSzkB: 8192
OfmapSramSzkB: 8192
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: ws
Bandwidth: 10
MemoryBanks: 1
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
FilterCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


def scalesim(layers: Layers = LAST) -> Work:
    """The same layers; grouped ones as one group, as many times."""
    if not SCALESIM.exists():
        raise RuntimeError("SCALE-Sim is not installed: see the text of this section")

    def work() -> float:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            lines = ["Layer,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides,"]
            for number, (side, inputs, outputs, kernel, stride, groups) in enumerate(layers):
                shape = f"{side},{side},{kernel},{kernel},{inputs // groups},{outputs // groups},{stride},"
                lines += [f"Conv{number}g{group},{shape}" for group in range(groups)]
            (place / "topology.csv").write_text("\n".join(lines) + "\n")
            layouts = [f"{line.split(',')[0]},{'1,' * LAYOUT_COLUMNS}" for line in lines]
            (place / "layout.csv").write_text("\n".join(layouts) + "\n")
            (place / "config.cfg").write_text(SCALE_CONFIG)
            command = [str(SCALESIM), "-m", "scalesim.scale", "-c", "config.cfg",
                       "-t", "topology.csv", "-l", "layout.csv", "-p", "."]  # fmt: skip
            begun = time.perf_counter()
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False
                )
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"SCALE-Sim was not done after {LIMIT} s") from None
            if not list(place.rglob("COMPUTE_REPORT.csv")):  # it ends with 0 also when it did nothing
                raise RuntimeError(f"SCALE-Sim made no report: {(done.stdout + done.stderr).strip()[-200:]}")
            return time.perf_counter() - begun

    return work


def _example(name: str) -> Any:
    """A program of the examples, which are no package."""
    path = ROOT / "examples" / "processor" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def resnet() -> Work:
    """A picture through ResNet-50 in int8: data, cycles, energy."""
    from trilobite.processor import Device

    resnet50 = _example("resnet50")
    device = Device("tpu-v1")
    writer = resnet50.network(device.machine.core.wram.bytes)
    module = device.load("\n".join(writer.lines))
    raw = resnet50.parameters(writer.layers)
    picture = np.random.default_rng(1).integers(-128, 128, (224, 224, 3), dtype=np.int8)

    def work() -> float:
        _, run = resnet50.launch(device, module, raw, picture)
        return float(run.cycles + run.energy.total)

    return work


def mappings() -> Work:
    """Half a million mappings of a product by the closed forms."""
    from trilobite.processor import load_machine
    from trilobite.processor.sim.timing.roofline import product_bounds

    machine = load_machine("dlp-m")
    m, n, k = np.random.default_rng(1).integers(1, 4096, (3, 500_000))
    return lambda: product_bounds(machine, "int8", 1, m, n, k)


# -- networks through the compiler ---------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _int8_resnet() -> Any:
    """ResNet-50 in int8 on dlp-m, compiled, its mappings on disk; and its inputs."""
    from benchmarks.chip_resnet import compiled

    return compiled("dlp-m", 1)


def compile_resnet(cold: bool) -> Work:
    """From the graph to a loaded program: with mappings searched, or read from disk."""
    from benchmarks.chip_resnet import compiled

    _int8_resnet()

    def work() -> object:
        from trilobite.compiler.targets.dlp.contraction import choose

        choose._KNOWN.clear()
        if not cold:
            return compiled("dlp-m", 1)
        with tempfile.TemporaryDirectory() as folder:
            before, os.environ["TRILOBITE_CACHE"] = os.environ.get("TRILOBITE_CACHE"), folder
            try:
                return compiled("dlp-m", 1)
            finally:
                os.environ.pop("TRILOBITE_CACHE")
                if before is not None:
                    os.environ["TRILOBITE_CACHE"] = before

    return work


def launch_resnet(with_data: bool) -> Work:
    """A picture through the compiled network: data, cycles and energy, or the last two alone."""
    made, values = _int8_resnet()

    def work() -> float:
        if with_data:
            made.run(values, [], 0)
            done = made.last_run
        else:
            done = made.time(values)
        return float(done.cycles + done.energy.total)

    work()
    return work


def searched_mappings() -> Work:
    """All mappings of a convolution of ResNet-50 on dlp-m, in the order of T0's cycles."""
    from benchmarks.chip_layers import problem_of, resnet50
    from trilobite.base.dtypes import int8
    from trilobite.compiler.targets.dlp.contraction.lower import nest_for
    from trilobite.compiler.targets.dlp.contraction.predict import Prediction
    from trilobite.compiler.targets.dlp.contraction.search import shape_of
    from trilobite.compiler.targets.dlp.contraction.space import Space
    from trilobite.processor import load_machine

    machine = load_machine("dlp-m")
    layer = next(each for each in resnet50() if each.name == "layer3.conv1")
    problem, epilogue = problem_of(layer, 1, int8, machine)
    nest = nest_for(problem, epilogue)
    space, shape = Space(nest, machine, machine.cores), shape_of(nest, epilogue)

    def work() -> int:
        seen, figures = 0, space.figures(shape)
        while seen < MAPPINGS:
            for walking in space.walks(1):
                made = Prediction(nest, machine, shape, figures, walking)
                seen += int(made.fits.size + 0 * made.cycles.size)
        return seen

    return work


def _row(name: str, ours: Callable[[], Work], aim: float, rounds: int = 5) -> Row:
    return Row(name, {"trilobite": ours}, unit="ms", aim=aim, most_rounds=rounds)


ROWS = (
    _row("100 M scalar instructions", scalar_loop, 1.0),
    _row("64,000 small tensor instructions", partial(small_vectors, False), RECORDS / 1e6),
    _row("64,000 small tensor instructions, and cycles", partial(small_vectors, True), RECORDS / 1e6),
    _row("64,000 tensor instructions of eight kinds that move", partial(moving, False), RECORDS / 1e6),
    _row("64,000 that move, and cycles", partial(moving, True), RECORDS / 1e6),
    _row("AlexNet's convolutions on 32×32, data and cycles", alexnet, 0.5),
    _row("AlexNet's fifth convolution on 32×32, data and cycles", partial(alexnet, LAST), 0.5),
    Row(
        "AlexNet's fifth convolution on 32×32 by SCALE-Sim, no data",
        {"scalesim": scalesim},
        unit="ms",
        times_itself=True,
        most_rounds=1,
    ),
    _row("ResNet-50 int8: data, cycles, energy", resnet, 2.0, 3),
    _row("500,000 products by closed forms", mappings, 1.0),
    _row("500,000 mappings of a convolution on dlp-m by T0", searched_mappings, 1.0),
    _row("ResNet-50 int8 for dlp-m compiled, mappings searched", partial(compile_resnet, True), 20.0, 1),
    _row("ResNet-50 int8 for dlp-m compiled, mappings on disk", partial(compile_resnet, False), 1.0, 3),
    _row("ResNet-50 int8 on dlp-m, compiled: data, cycles, energy", partial(launch_resnet, True), 2.0, 3),
    _row(
        "ResNet-50 int8 on dlp-m, compiled: cycles and energy without data",
        partial(launch_resnet, False),
        0.3,
        3,
    ),
)
