"""Measures the kernels of this folder: the matmul ladder beside published times, and the way to the roofs.

    python examples/kernels/measure.py ladder          # in full size; takes a minute
    python examples/kernels/measure.py efficiency      # large shapes on mlu370-x4 and dlp-m

The roof of a kernel is max(multiplications / peak, compulsory bytes / DRAM bandwidth); launch overhead counts
into the time and is shown apart. Published milliseconds: an MLU370-X4 lab log of the same six steps.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import elementwise
import images
import matmul
import networks
import rows

from trilobite.processor import Device

PUBLISHED = {1: 3261.580, 2: 126.071, 3: 0.071, 4: 3.703, 5: 3.180, 6: 3.158}
SAYS = {
    1: "every multiplication waits for two scalar loads from DRAM",
    2: "the same loads come from NRAM; the scalar unit is the bound",
    3: "the matrix unit does it in a few thousand cycles; what is left is the launch",
    4: "load, multiply and store of a block wait for each other",
    5: "all three at once: DRAM bandwidth is the bound",
    6: "as step 5, with the traffic of a cluster in one hand",
}
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def ladder_step(step, many=524288):
    """One step in its published size: 1 to 3 on one core, 4 to 6 on all."""
    m, k, n = (128 if step < 4 else many), 256, 128
    dev = Device("mlu370-x4")
    args = [dev.array(normal(m, k)), dev.array(normal(k, n)), dev.empty((m, n)), m, k, n]
    dim = (1, 1, 1) if step < 4 else (dev.machine.cores, 1, 1)
    return dev.launch(getattr(matmul, f"step{step}"), args, dim=dim, task="union1" if step == 6 else "block")


def profile(run):
    """The share of the time behind the launch in which each queue of a core works or waits for bandwidth."""
    first = run.stalls[0]
    shares = []
    for row in run.stalls:
        if (row.cluster, row.core) == (first.cluster, first.core):
            work = row.cycles["busy"] + row.cycles["bandwidth"]
            shares.append(f"{row.queue} {work / (run.cycles - row.cycles['launch']):.0%}")
    return ", ".join(shares)


def ladder():
    print("| step | this kernel, ms | published, ms | error | queues at work | what bounds it |")
    print("|---|---|---|---|---|---|")
    for step, published in PUBLISHED.items():
        run = ladder_step(step)
        ms = run.seconds * 1e3
        error = f"{ms / published - 1:+.1%}"
        print(
            f"| {step} | {ms:.3f} | {published:.3f} | {error} | {profile(run)} | {SAYS[step]} |", flush=True
        )


def shapes(dev):
    """Name, kernel, arguments, multiplications, rate format, compulsory bytes."""
    cores = dev.machine.cores
    m, k, n = 128 * cores * 32, 256, 128
    yield ("matmul fp32", matmul.step5, [dev.array(normal(m, k)), dev.array(normal(k, n)), dev.empty((m, n)),
           m, k, n], m * k * n, "fp32", 4 * (m * k + k * n + m * n))  # fmt: skip
    yield ("matmul fp16", matmul.matmul_fp16, [dev.array(normal(m, k).astype(np.float16)),
           dev.array(normal(k, n).astype(np.float16)), dev.empty((m, n), "float16"), m, k, n],
           m * k * n, "fp16", 2 * (m * k + k * n + m * n))  # fmt: skip
    a, b = (rng.integers(-128, 128, s, dtype=np.int8) for s in ((m, k), (k, n)))
    yield ("matmul int8", matmul.matmul_int8, [dev.array(a), dev.array(b), dev.array(normal(n)),
           dev.empty((m, n)), m, k, n], m * k * n, "int8", m * k + k * n + 4 * m * n)  # fmt: skip
    b, h, c = 2 * cores, 56, 64
    yield ("convolution", images.convolution, [dev.array(normal(b, h, h, c)), dev.array(normal(c, 3, 3, c)),
           dev.array(normal(c)), dev.empty((b, h, h, c)), b, h, h, c, c],
           b * h * h * c * c * 9, "fp32", 4 * (2 * b * h * h * c + 9 * c * c))  # fmt: skip
    r, w = cores * 512, 1024
    yield "softmax", rows.softmax, [dev.array(normal(r, w)), dev.empty((r, w)), r, w], 0, "", 8 * r * w
    x, gamma, beta = (dev.array(normal(*shape)) for shape in ((r, w), (w,), (w,)))
    yield "layer norm", rows.layer_norm, [x, gamma, beta, dev.empty((r, w)), r, w, 1e-5], 0, "", 8 * r * w
    block, d = (192 if dev.machine.name == "dlp-m" else 256), 128  # what NRAM holds
    flash = networks.flash_attention.meta(rows=block)
    q, keys = cores * block, 2 * cores * block
    qkv = [dev.array(normal(1, many, d)) for many in (q, keys, keys)] + [dev.empty((1, q, d))]
    macs = 2 * q * keys * d
    yield "flash attention", flash, [*qkv, 1, q, keys, d**-0.5], macs, "fp32", 8 * (q + keys) * d
    many = cores * 8192 * 40
    yield (
        "sigmoid",
        elementwise.sigmoid,
        [dev.array(normal(many)), dev.empty((many,)), many],
        0,
        "",
        8 * many,
    )


def efficiency(names=("mlu370-x4", "dlp-m")):
    print("| kernel | machine | cycles | roof | of the roof | without launch |")
    print("|---|---|---|---|---|---|")
    for name in names:
        dev = Device(name)
        machine = dev.machine
        launch = machine.cycles(machine.launch.overhead_ns)
        for what, kernel, args, macs, rate, size in shapes(dev):
            run = dev.launch(kernel, args, dim=(machine.cores, 1, 1))
            compute = macs / (machine.peak_ops(rate) / 2e9 / machine.clock_ghz) if rate else 0
            roof = max(compute, size / machine.dram_bytes_per_cycle)
            print(f"| {what} | {name} | {run.cycles} | {roof:.0f} | {roof / run.cycles:.0%} "
                  f"| {roof / (run.cycles - launch):.0%} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    {"ladder": ladder, "efficiency": efficiency}[sys.argv[1] if len(sys.argv) > 1 else "ladder"]()
