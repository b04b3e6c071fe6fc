"""Measures the kernels of this folder: the matmul ladder beside published times, and the way to the roofs.

    python examples/kernels/measure.py ladder          # in full size, both languages
    python examples/kernels/measure.py efficiency      # large shapes on mlu370-x4 and dlp-m, both languages

The roof of a kernel is max(multiplications / peak, compulsory bytes / DRAM bandwidth); launch overhead counts
into the time and is shown apart. Published milliseconds: an MLU370-X4 lab log of the same six steps.
`make validate` writes both tables into docs/validation.md. BANG C needs a clang; without one its rows are
left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import elementwise  # noqa: E402
import images  # noqa: E402
import matmul  # noqa: E402
import networks  # noqa: E402
import rows  # noqa: E402

from trilobite.processor import Device, Run  # noqa: E402
from trilobite.processor.lang.bang.clang import find_clang  # noqa: E402
from trilobite.processor.lang.bang.kernel import BangKernel  # noqa: E402
from trilobite.processor.lang.bang.source import Options  # noqa: E402

PUBLISHED = {1: 3261.580, 2: 126.071, 3: 0.071, 4: 3.703, 5: 3.180, 6: 3.158}
SAYS = {
    1: "every multiplication waits for two scalar loads from DRAM",
    2: "the same loads come from NRAM; the scalar unit is the bound",
    3: "the matrix unit does it in a few thousand cycles; what is left is the launch",
    4: "load, multiply and store of a block wait for each other",
    5: "all three at once: DRAM bandwidth is the bound",
    6: "as step 5; the bursts that a memory core has under way are next",
}
STEPS = {1: "1_scalar_gdram", 2: "2_scalar_nram", 3: "3_matrix", 4: "4_cores", 5: "5_pipeline", 6: "6_sram"}
LANGUAGES = ("Python", "BANG C") if find_clang() is not None else ("Python",)
MACHINES = ("mlu370-x4", "dlp-m")
AIMED = ("matmul fp32", "matmul fp16", "matmul int8", "convolution", "softmax", "layer norm",
         "flash attention")  # fmt: skip
rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape, dtype=np.float32)


def bang(file: str, entry: str, *defines: str) -> BangKernel:
    return BangKernel(HERE / "bang" / f"{file}.mlu", entry, Options(defines=("ROWS=128", *defines)))


def ladder_step(step: int, many: int = 524288, language: str = "Python") -> Run:
    """One step in its published size: 1 to 3 on one core, 4 to 6 on all."""
    m, k, n = (128 if step < 4 else many), 256, 128
    dev = Device("mlu370-x4")
    a, b, c = dev.array(normal(m, k)), dev.array(normal(k, n)), dev.empty((m, n))
    dim = (1, 1, 1) if step < 4 else (dev.machine.cores, 1, 1)
    python = language == "Python"
    union = "union1" if python else f"union{dev.machine.clusters}"  # BANG C counts the clusters of its union
    task = union if step == 6 else "block"
    if python:
        return dev.launch(getattr(matmul, f"step{step}"), [a, b, c, m, k, n], dim=dim, task=task)
    kernel = bang("matmul_ladder", f"matmul_{STEPS[step]}")
    return dev.launch(kernel, [c, a, b, m, n, k], dim=dim, task=task)


def profile(run: Run) -> str:
    """The share of the time behind the launch in which each queue of a core works or waits for bandwidth."""
    first = run.stalls[0]
    shares = []
    for row in run.stalls:
        if (row.cluster, row.core) == (first.cluster, first.core):
            work = row.cycles["busy"] + row.cycles["bandwidth"]
            shares.append(f"{row.queue} {work / (run.cycles - row.cycles['launch']):.0%}")
    return ", ".join(shares)


def ladder(languages: Sequence[str] = LANGUAGES) -> Iterator[str]:
    """Lines of a table."""
    yield "| step | language | ours, ms | published, ms | error | queues at work | what bounds it |"
    yield "|---|---|---|---|---|---|---|"
    for step, published in PUBLISHED.items():
        for language in languages:
            run = ladder_step(step, language=language)
            ms = run.seconds * 1e3
            error = f"{ms / published - 1:+.1%}"
            cells = (step, language, f"{ms:.3f}", f"{published:.3f}", error, profile(run), SAYS[step])
            yield "| " + " | ".join(map(str, cells)) + " |"


@dataclass(frozen=True)
class Large:
    """A large shape: what is launched, its multiplications in a format, and the bytes that it must move."""

    name: str
    kernel: Any
    args: Sequence[Any]
    macs: int
    rate: str
    bytes: int


@dataclass(frozen=True)
class Measured:
    """One launch beside its roof."""

    what: Large
    language: str
    machine: str
    run: Run
    roof: float
    launch: int

    @property
    def share(self) -> float:
        return self.roof / self.run.cycles

    @property
    def behind_launch(self) -> float:
        return self.roof / (self.run.cycles - self.launch)


def products(dev: Device, language: str) -> Iterator[Large]:
    """Matrix products; BANG C takes b by columns, which is the same array in another shape."""
    m, k, n = 128 * dev.machine.cores * 32, 256, 128
    python = language == "Python"
    for name, dtype, size, kernel, entry in (
        ("fp32", "float32", 4, matmul.step5, ("matmul_ladder", "matmul_5_pipeline")),
        ("fp16", "float16", 2, matmul.matmul_fp16, ("pipelines", "matmul_half")),
    ):
        a, b, c = dev.array(normal(m, k), dtype), dev.array(normal(k, n), dtype), dev.empty((m, n), dtype)
        args = [a, b, c, m, k, n] if python else [c, a, b, m, n, k]
        chosen = kernel if python else bang(*entry)
        yield Large(f"matmul {name}", chosen, args, m * k * n, name, size * (m * k + k * n + m * n))
    a, b = (dev.array(rng.integers(-128, 128, s, dtype=np.int8)) for s in ((m, k), (k, n)))
    scale, c = dev.array(normal(n)), dev.empty((m, n))
    args = [a, b, scale, c, m, k, n] if python else [c, a, b, scale, m, n, k]
    chosen = matmul.matmul_int8 if python else bang("pipelines", "matmul_int8")
    yield Large("matmul int8", chosen, args, m * k * n, "int8", m * k + k * n + 4 * m * n)


def convolutions(dev: Device, language: str) -> Iterator[Large]:
    b, h, c = 2 * dev.machine.cores, 56, 64
    shapes = ((b, h, h, c), (c, 3, 3, c), (c,))
    args: list[Any] = [*(dev.array(normal(*s)) for s in shapes), dev.empty((b, h, h, c)), b, h, h, c, c]
    kernel: Any = images.convolution
    if language != "Python":
        kernel, args = bang("pipelines", "convolution"), [*args, 3]
    yield Large(
        "convolution", kernel, args, b * h * h * c * c * 9, "fp32", 4 * (2 * b * h * h * c + 9 * c * c)
    )


def row_kernels(dev: Device, language: str) -> Iterator[Large]:
    """Python takes short rows several at a time; BANG C takes one, and its rows are longer."""
    python = language == "Python"
    r, w = (dev.machine.cores * 512, 1024) if python else (dev.machine.cores * 64, 8192)
    x, out, gamma, beta = (
        dev.array(normal(r, w)),
        dev.empty((r, w)),
        dev.array(normal(w)),
        dev.array(normal(w)),
    )
    soft = rows.softmax if python else bang("pipelines", "softmax")
    norm = rows.layer_norm if python else bang("pipelines", "layer_norm")
    yield Large("softmax", soft, [x, out, r, w], 0, "", 8 * r * w)
    yield Large("layer norm", norm, [x, gamma, beta, out, r, w, 1e-5], 0, "", 8 * r * w)


def attention(dev: Device, language: str) -> Iterator[Large]:
    python = language == "Python"
    d, block = 128, 192 if dev.machine.name == "dlp-m" else 256  # what NRAM holds
    q, keys = dev.machine.cores * block, 2 * dev.machine.cores * block
    arrays = [dev.array(normal(1, many, d)) for many in (q, keys, keys)] + [dev.empty((1, q, d))]
    kernel = (
        networks.flash_attention.meta(rows=block)
        if python
        else bang("pipelines", "flash_attention", f"QUERIES={block}")
    )
    args = [*arrays, 1, q, keys, d**-0.5] if python else [*arrays, q, keys, d]
    yield Large("flash attention", kernel, args, 2 * q * keys * d, "fp32", 8 * (q + keys) * d)


def streams(dev: Device, language: str) -> Iterator[Large]:
    if language == "Python":
        many = dev.machine.cores * 8192 * 40
        args = [dev.array(normal(many)), dev.empty((many,)), many]
        yield Large("sigmoid", elementwise.sigmoid, args, 0, "", 8 * many)


def large_shapes(dev: Device, language: str) -> Iterator[Large]:
    for family in (products, convolutions, row_kernels, attention, streams):
        yield from family(dev, language)


def measure(dev: Device, what: Large, language: str) -> Measured:
    machine = dev.machine
    run = dev.launch(what.kernel, what.args, dim=(machine.cores, 1, 1))
    compute = what.macs / (machine.peak_ops(what.rate) / 2e9 / machine.clock_ghz) if what.rate else 0
    roof = max(compute, what.bytes / machine.dram_bytes_per_cycle)
    return Measured(what, language, machine.name, run, roof, machine.cycles(machine.launch.overhead_ns))


def efficiencies(
    machines: Sequence[str] = MACHINES, languages: Sequence[str] = LANGUAGES
) -> Iterator[Measured]:
    for machine in machines:
        for language in languages:
            dev = Device(machine)
            for what in large_shapes(dev, language):
                yield measure(dev, what, language)


def efficiency() -> Iterator[str]:
    return table_of(efficiencies())


def table_of(measured: Iterable[Measured]) -> Iterator[str]:
    """Lines of a table."""
    yield "| kernel | language | machine | cycles | roof | of the roof | without launch | queues at work |"
    yield "|---|---|---|---|---|---|---|---|"
    for found in measured:
        cells = (found.what.name, found.language, found.machine, found.run.cycles, f"{found.roof:.0f}",
                 f"{found.share:.0%}", f"{found.behind_launch:.0%}", profile(found.run))  # fmt: skip
        yield "| " + " | ".join(map(str, cells)) + " |"


PAGE = """
## The ladder in the kernel languages

The six steps of `examples/kernels` (`matmul.py`, `bang/matmul_ladder.mlu`) on `mlu370-x4` in the published
size: 128 x 256 x 128 on one core, then 524288 x 256 x 128 on all. Steps 1 to 3 calibrate scalar latencies and
the launch, by the assembly of the gates above. `queues at work` is a compute core behind the launch; in step
6 the memory core carries the io. Step 4 is slower than published because of how the cores meet: in the model
all begin in the same cycle and share DRAM fairly, so that they load, multiply and store in step, and DRAM
rests while all multiply. Cores that begin apart fill each other's gaps: by a trial on an eighth of the rows,
times eight, 4.7 ms become 4.0 ms with starts spread over 4,500 cycles and 3.5 ms over 12,000. How far apart
the part starts its cores is not published, and nothing is fitted to this row. The way DRAM serves decides as
much: whole copies in the order in which they are asked for would take 3.1 ms, and the published time lies
between that and fair shares. Bursts of 512 bytes in turn instead of a flow, or DRAM at the corners of the
mesh (`noc.dram_at`), change it by less than 1%.

{ladder}

## Large shapes beside their roofs

The roof is max(multiplications / peak, compulsory bytes / bandwidth); the launch counts into the time. The
aim is 80% for matrix products, convolution, softmax, layer norm and flash attention{met}.

{efficiency}
"""


def page() -> str:
    """What docs/validation.md says of the kernel languages."""
    found = list(efficiencies())
    missed = [m for m in found if m.what.name in AIMED and m.share < 0.8]
    names = sorted({f"{m.what.name} in {m.language}" for m in missed})
    met = f"; missed: {', '.join(names)}" if names else "; all reach it"
    return PAGE.format(ladder="\n".join(ladder()), efficiency="\n".join(table_of(found)), met=met)


if __name__ == "__main__":
    for text in {"ladder": ladder, "efficiency": efficiency}[
        sys.argv[1] if len(sys.argv) > 1 else "ladder"
    ]():
        print(text, flush=True)
