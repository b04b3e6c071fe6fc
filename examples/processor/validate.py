"""Writes docs/validation.md: every gate with our figure, the published figure and the error.

Run from the project's directory: `python examples/processor/validate.py`. It takes some minutes, because the
steps of the matmul ladder run in full size, in assembly and in both kernel languages. Published figures stand
here beside the gate that uses them.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np

from trilobite.processor import Device, Machine, Run, load_machine
from trilobite.processor.isa import assemble_program
from trilobite.processor.machine.description import Launch, MatrixUnit, ScalarUnit
from trilobite.processor.sim.timing import array_model
from trilobite.processor.sim.timing.arrays import output_stationary, product_cycles, weight_stationary

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Gate:
    """One line of the page. `passed` is None where a figure is only reported."""

    name: str
    ours: str
    published: str
    error: str
    aim: str
    passed: bool | None
    note: str = ""


def percent(ours: float, published: float) -> float:
    return 100 * (ours / published - 1)


# ---- closed forms


def unit_latencies(tiles: int = 200) -> Gate:
    """T1's closed forms against the per-cycle array, on random tiles of random arrays."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(tiles):
        rows, cols, m, n, k = (int(x) for x in rng.integers(1, 12, 5))
        a, b = rng.integers(-5, 5, (m, k)).astype(float), rng.integers(-5, 5, (k, n)).astype(float)
        count = -(-k // rows) * -(-n // cols)
        for buffers in (1, 2):
            run = array_model.weight_stationary(a, b, rows, cols, buffers)
            wrong += run.last_cycle != weight_stationary(rows, cols, buffers, m, count)
        run = array_model.output_stationary(a, b, rows, cols)
        wrong += run.last_cycle != output_stationary(rows, cols, k, -(-m // rows) * -(-n // cols))
    ours = f"{wrong} of {3 * tiles} differ"
    return Gate(
        "unit latencies, T1 = T2", ours, "0 differ", "0" if not wrong else str(wrong), "exact", wrong == 0
    )


# ---- TPU v1

TPU_NETWORK = """
    // fully connected int8 layers, all square: activations lie in NRAM as tiles [side][batch][256],
    // weights stream through the four slots of the FIFO
    // $0 weights, tile by tile   $1 batch   $2 tiles a side   $3 layers
    .entry network
    .equ OUT, 8388608                       // activations of even layers lie at 0, of odd ones here
    .equ SUMS, 16777216
    network:
        LI     $10, #nram(0)
        LI     $13, #nram(OUT)
        LI     $14, #nram(SUMS)
        LI     $12, #acc(0)
        LI     $50, #wram(0)
        SMOVE  $20, $1                      // m, n, k of a tile's product
        SMOVE  $21, #256
        SMOVE  $22, #256
        SMOVE  $23, #65536
        SMUL   $24, $1, #256
    layer:
        SMOVE  $15, $13
        SMOVE  $40, $2
    column:
        SMOVE  $11, $10
        CALL   $60, #tile
        MM.i32.i8.i8 $12, $11, $51, $20, $55
        SADD   $11, $11, $24
        SADD   $41, $2, #-1
    term:
        CALL   $60, #tile
        MM.i32.i8.i8.acc $12, $11, $51, $20, $55
        SADD   $11, $11, $24
        SADD   $41, $41, #-1
        CB     #term, $41
        VMOVE.i32 $14, $24, $12             // the sums leave the accumulators,
        VCVT.f32.i32 $14, $24, $14          // are scaled,
        VMS.f32 $14, $24, $14, #0.001
        VCVT.i8.f32 $15, $24, $14           // and are activations again
        SADD   $15, $15, $24
        SADD   $40, $40, #-1
        CB     #column, $40
        SMOVE  $16, $10                     // what left this layer enters the next
        SMOVE  $10, $13
        SMOVE  $13, $16
        SADD   $3, $3, #-1
        CB     #layer, $3
        HALT
    tile:                                   // a tile of weights goes to slot $51; $50 is the one after it
        MLOAD.i8 $50, $23, $0, #0
        SMOVE  $51, $50
        SADD   $0, $0, $23
        SADD   $52, $52, #1
        SAND   $53, $52, #3
        SMUL   $53, $53, $23
        LI     $50, #wram(0)
        SADD   $50, $50, $53
        RET    $60
"""
TPU = {  # weights, layers, batch, published TOPS, published per cent of cycles that wait for weights
    "MLP0": (20e6, 5, 200, 12.3, 53.9),
    "MLP1": (5e6, 4, 168, 9.7, 44.2),
}


def tpu_network(batch: int, side: int, layers: int) -> tuple[float, float]:
    """(seconds, share of the matrix unit's cycles that wait for operands) of layers of side x side tiles."""
    device = Device(_without_launch(load_machine("tpu-v1")))
    weights = device.empty((layers * side * side, 65536), "int8")
    run = device.launch(device.load(TPU_NETWORK)["network"], [weights, batch, side, layers])
    row = next(row for row in run.stalls if row.queue == "matrix")
    waits = {cause: cycles for cause, cycles in row.cycles.items() if cause != "busy"}
    assert max(waits, key=lambda cause: waits[cause]) == "operand", "the weight stall must be the largest row"
    return run.seconds, row.cycles["operand"] / run.cycles


def tpu() -> Iterator[Gate]:
    for name, (weights, layers, batch, published, stall) in TPU.items():
        side = round((weights / layers) ** 0.5 / 256)
        seconds, waited = tpu_network(batch, side, layers)
        work = 2 * batch * (side * 256) ** 2 / 1e12
        tops = layers * work / seconds
        error = percent(tops, published)
        alone = percent(work / tpu_network(batch, side, 1)[0], published)
        note = (
            f"{layers} square layers of {side} x {side} tiles in one launch; waiting for weights is the "
            f"largest cause of the matrix unit: {100 * waited:.1f}% of its cycles (published {stall}%); a "
            f"layer launched alone, with nothing to stream behind its end, {alone:+.1f}%"
        )
        yield Gate(
            f"TPU v1 {name}",
            f"{tops:.2f} TOPS",
            f"{published} TOPS",
            f"{error:+.1f}%",
            "12%",
            abs(error) <= 12,
            note,
        )
    bound = 2 * 64 * 34e9 * load_machine("tpu-v1").dram.efficiency / 1e12
    yield Gate(
        "TPU v1 LSTM0",
        f"{bound:.2f} TOPS",
        "3.7 TOPS",
        f"{percent(bound, 3.7):+.1f}%",
        "reported",
        None,
        "only the bound by weight bandwidth at batch 64; its 34 vector layers are not modelled",
    )
    yield Gate(
        "TPU v1 CNN0",
        "-",
        "86.0 TOPS",
        "-",
        "reported",
        None,
        "not modelled: its layers are unpublished, and its own columns disagree (78.2% of 92 is not 86)",
    )


# ---- the MLU370-X4 ladder

LADDER = {1: 3261.580, 2: 126.071, 3: 0.071, 4: 3.703, 5: 3.180, 6: 3.158}


def ladder_step(step: int, rows: int = 524288, part: str = "mlu370-x4") -> Run:
    """One step of the ladder: 1 to 3 on one core, 4 to 6 on all of a die."""
    device = Device(part)
    kernel = device.load(HERE / "ladder" / f"step{1 if step == 2 else step}.s")["matmul"]
    if step <= 3:
        shapes = ((128, 256), (256, 128), (128, 128))
        arrays = [device.empty(shape, "float32") for shape in shapes]
        return device.launch(kernel, [*arrays, 128, 128, 256, int(step == 2)])
    arrays = [device.empty(shape, "float32") for shape in ((rows, 256), (256, 128), (rows, 128))]
    return device.launch(kernel, [*arrays, rows], dim=(32, 1, 1), task="union1" if step == 6 else "block")


def uncalibrated() -> Machine:
    """The part with our defaults in place of what the ladder calibrates."""
    machine = load_machine("mlu370-x4")
    scalar = replace(machine.core.scalar, scratchpad=ScalarUnit.scratchpad, dram=ScalarUnit.dram)
    return replace(machine, core=replace(machine.core, scalar=scalar), launch=Launch())


def ladder() -> Iterator[Gate]:
    ours = {}
    for step, published in LADDER.items():
        run = ladder_step(step)
        ours[step] = run.seconds * 1e3
        before = percent(run.replay(uncalibrated()).seconds * 1e3, published)
        error = percent(ours[step], published)
        calibrates = step <= 3
        note = f"{before:+.1f}% before calibration" + (
            "; a calibration row never passes" if calibrates else ""
        )
        yield Gate(
            f"MLU370-X4 matmul step {step}",
            f"{ours[step]:.3f} ms",
            f"{published} ms",
            f"{error:+.1f}%",
            "calibrates" if calibrates else "35%",
            None if calibrates else abs(error) <= 35,
            note,
        )
    kept = ours[1] > ours[2] > ours[3] and ours[4] > ours[5]
    order = "1 > 2 > 3, 4 > 5"
    yield Gate("MLU370-X4 order of steps", order if kept else "another", order, "-", "kept", kept)


# ---- the same ladder on a sister part

SISTER = {1: 2716.14, 2: 126.067, 3: 0.050, 4: 4.563, 5: 3.824, 6: 4.073}


def carried_over() -> Machine:
    """The MLU370-X8 by its own published rates, with what the X4's ladder calibrated."""
    machine, known = load_machine("mlu370-x8"), load_machine("mlu370-x4")
    return replace(machine, core=replace(machine.core, scalar=known.core.scalar), launch=known.launch)


def sister_ladder() -> Iterator[Gate]:
    """Nothing is fitted to these rows: they show how far a calibration reaches. One die runs a launch."""
    machine = carried_over()
    for step, published in SISTER.items():
        run = ladder_step(step, part="mlu370-x8")
        before, after = run.seconds * 1e3, run.replay(machine).seconds * 1e3
        yield Gate(
            f"MLU370-X8 matmul step {step}",
            f"{after:.3f} ms",
            f"{published} ms",
            f"{percent(after, published):+.1f}%",
            "reported",
            None,
            f"with the X4's calibration; {percent(before, published):+.1f}% by its own published rates alone",
        )


# ---- ResNet-50


@dataclass(frozen=True)
class Layer:
    """A convolution: input side and channels, output side and channels, window."""

    side: int
    inputs: int
    out: int
    outputs: int
    kernel: int

    @property
    def macs(self) -> int:
        return self.out**2 * self.outputs * self.inputs * self.kernel**2


def resnet50() -> list[Layer]:
    """The form whose stride is in the first 1 x 1 of a stage: 3.86 GMAC."""
    layers = [Layer(224, 3, 112, 64, 7)]
    side, inputs = 56, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        middle = 64 << stage
        for block in range(blocks):
            out = side // 2 if stage and not block else side
            layers.append(Layer(side, inputs, out, middle, 1))
            layers.append(Layer(out, middle, out, middle, 3))
            layers.append(Layer(out, middle, out, 4 * middle, 1))
            if not block:
                layers.append(Layer(side, inputs, out, 4 * middle, 1))
            side, inputs = out, 4 * middle
    return [*layers, Layer(1, 2048, 1, 1000, 1)]


def array_size() -> Gate:
    """The published reason for 128 x 128: four of them against one 256 x 256, by useful work per cycle."""
    rates = {"bf16": 65536}
    large = MatrixUnit("systolic-ws", 256, 256, rates, 2, 1)
    small = MatrixUnit("systolic-ws", 128, 128, rates, 2, 4)

    def cycles(mfu: MatrixUnit) -> int:
        shapes = [(x.out**2, x.outputs, x.inputs * x.kernel**2) for x in resnet50()[:-1]]
        return sum(product_cycles(mfu, "bf16", *shape) for shape in shapes)

    ratio = cycles(large) / cycles(small)
    return Gate(
        "four 128 x 128 against one 256 x 256",
        f"x {ratio:.2f}",
        "1.4 to 1.8",
        "-",
        "1.4 to 1.8",
        1.4 <= ratio <= 1.8,
        "ResNet-50 convolutions, batch 1, utilisation ratio",
    )


def _without_launch(machine: Machine) -> Machine:
    return replace(machine, launch=replace(machine.launch, overhead_ns=0.0))


def gates() -> Iterator[Gate]:
    yield unit_latencies()
    yield from tpu()
    yield from ladder()
    yield from sister_ladder()
    yield array_size()


# ---- code length

NETWORKS = {"mlp": "64-150-150-14", "cnn": "LeNet-5's shape", "rnn": "26-93-61", "lstm": "26-93-61",
            "autoencoder": "320-200-100-50-10", "sparse_autoencoder": "320-200-320", "boltzmann": "500-500",
            "rbm": "500-500", "som": "64 inputs, 36 neurons", "hopfield": "100 neurons"}  # fmt: skip
LENGTHS = """
## Code length

The ten networks of Cambricon's paper (Liu et al., ISCA 2016) as `examples/processor` writes them, macros
expanded. No lengths of its own programs are published, only ratios to those of a GPU, x86 and MIPS, so there
is no figure to set beside ours. The last column counts the instructions that only build 64-bit addresses and
constants.

| network | shape | instructions | of these constants |
|---|---|---|---|
"""


def code_lengths() -> str:
    """Instructions of each network, and how many of them only build constants."""
    rows = []
    for name, shape in NETWORKS.items():
        path = HERE / f"{name}.s"
        program = assemble_program(path.read_text(encoding="utf-8"), str(path))
        names = [instruction.mnemonic for instruction in program.instructions]
        constants = sum(mnemonic in ("SLI", "SLIH", "SMOVE") for mnemonic in names)
        rows.append(f"| {name.replace('_', ' ')} | {shape} | {len(names)} | {constants} |")
    return LENGTHS + "\n".join(rows) + "\n"


HEAD = """# Validation

Written by `python examples/processor/validate.py`; do not edit by hand.

Cycle-level, within the errors below on these workloads. The one DRAM efficiency (0.85, for refresh and
turnaround) was fixed before any gate ran. Every parameter of a machine is marked published, calibrated or
default in its YAML file; calibration rows never count as passes. A miss is stated with its reason.

| gate | ours | published | error | aim | result | note |
|---|---|---|---|---|---|---|
"""


def loaded(path: Path) -> ModuleType:
    """An example beside this one, as a module."""
    name = f"validation_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernel_languages() -> ModuleType:
    """The measurements of examples/kernels."""
    return loaded(HERE.parent / "kernels" / "measure.py")


def page() -> str:
    lines = []
    for gate in gates():
        result = {None: "reported", True: "pass", False: "miss"}[gate.passed]
        cells = (gate.name, gate.ours, gate.published, gate.error, gate.aim, result, gate.note)
        lines.append("| " + " | ".join(cells) + " |")
    graphs, choices = loaded(HERE / "compiled.py"), loaded(HERE / "modelling.py")
    runs = {f"MLU370-X4 step {step}": (ladder_step(step), LADDER[step] * 1e-3) for step in (4, 5)}
    parts = (
        HEAD, "\n".join(lines) + "\n", graphs.page(), choices.ladder(),
        choices.options({**runs, **graphs.with_published_times()}), code_lengths(), kernel_languages().page(),
    )  # fmt: skip
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default=str(HERE.parents[1] / "docs" / "validation.md"))
    Path(parser.parse_args().output).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
