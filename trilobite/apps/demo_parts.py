"""What the demo shows, a function a part: styles on the CPU and on the processor, int8, digits, a kernel.

Enters: a `Part` to tell it to, and where files go. Leaves: lines, pictures and pages there. Every claim that
two things agree is checked when it is made.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.apps import assets
from trilobite.apps.demo_part import Part
from trilobite.apps.style import pictures
from trilobite.apps.style.pictures import Pixels

STYLES = {2: "ink", 7: "stained glass", 11: "engraving", 18: "woodcut"}  # number: what it looks like
CHIP_STYLES = (2, 7, 18)
MEASURED_CALLS = 20  # of the CPU for the report: others on the machine disturb some
READ = 12  # new digits that are shown


def _content(picture: str, side: int) -> Pixels:
    return pictures.read(picture or assets.fetch("chelsea"), side).pixels


def on_cpu(part: Part, output: Path, picture: str, side: int) -> None:
    """Four styles of the network of 26, and any picture as the style."""
    from trilobite.apps.style.real_time import AnyStyle, Multistyle

    content = _content(picture, side)
    height, width = content.shape[:2]
    part.show(output, "content.png", "your picture" if picture else "the photograph", content)
    with part.doing("compiling the network of 26 styles"):
        network = Multistyle()
        network(content, 0)
    spent = []
    for number, look in STYLES.items():
        began = time.perf_counter()
        painted = network(content, number)
        spent.append(time.perf_counter() - began)
        part.show(output, f"style-{number}.png", f"style {number}, {look}: {spent[-1] * 1e3:.0f} ms", painted)
    part.numbers |= {"a picture": min(spent), "width": width, "height": height}
    part.say(f"{len(spent)} styles of {width} x {height} pixels, {min(spent) * 1e3:.0f} ms each at best")
    brush = pictures.pattern()
    with part.doing("compiling the 8-bit pair for any style"):
        any_style = AnyStyle()
        any_style(content, brush)
    began = time.perf_counter()
    painted = any_style(content, brush)
    part.numbers["any style"] = time.perf_counter() - began
    part.beside(
        output,
        ("brush.png", "any picture is a style: this one was drawn by code", brush),
        ("any-style.png", "the photograph in its style, by 8-bit networks", painted),
    )
    part.say(f"any picture as the style, 8-bit networks: {part.numbers['any style'] * 1e3:.0f} ms")


def on_chip(part: Part, output: Path, picture: str, machine: str, side: int) -> None:
    """The same network as machine code of the simulated processor, beside the CPU, with a report of both."""
    from trilobite.apps.style.real_time import Multistyle

    content = _content(picture, side)
    on_chip, on_cpu = Multistyle(f"dlp:{machine}"), Multistyle()
    with part.doing(f"compiling for {machine}"):
        on_chip(content, 0)
    apart = 0.0
    for number in CHIP_STYLES:
        with part.doing(f"simulating style {number}"):
            painted = on_chip(content, number)
        reference = on_cpu(content, number)
        apart = max(apart, float(np.abs(painted.astype(np.float64) - reference).max() * 255))
        part.beside(
            output,
            (f"chip-{number}.png", f"style {number}, painted by {machine}", painted),
            (f"chip-{number}-cpu.png", "painted by this CPU", reference),
        )
    subject = _report(part, output, machine, content, on_chip, on_cpu)
    cycles, seconds = int(subject.numbers["cycles"]), subject.seconds
    joules = subject.numbers["energy in µJ"] * 1e-6
    part.numbers |= {"cycles": cycles, "chip seconds": seconds, "joules": joules, "levels apart": apart}
    part.numbers |= {"chip width": content.shape[1], "chip height": content.shape[0]}
    size, took = f"{content.shape[1]} x {content.shape[0]}", f"{seconds * 1e3:.2f} ms, {joules * 1e3:.1f} mJ"
    part.say(f"a picture of {size}: {cycles:,} cycles, {took} simulated")
    part.check(
        apart <= 1,
        f"pictures of CPU and {machine} are at most {apart:.3f} of 255 levels apart",
        f"pictures of CPU and {machine} are {apart:.1f} of 255 levels apart; at most 1 was expected",
    )


def _report(part: Part, output: Path, machine: str, content: Pixels, chip: Any, cpu: Any) -> Any:
    """Writes the page; leaves what it shows of the processor, whose figures the demo tells."""
    from trilobite.report.network import subjects_of
    from trilobite.report.page import write_page

    feeds = chip.feeds(content, CHIP_STYLES[-1])  # the picture whose cycles are told
    with part.doing("writing the report"):
        subjects = [
            s
            for which, n in ((cpu, MEASURED_CALLS), (chip, 1))
            for s in subjects_of("26 styles", which.session.profile(feeds, n))
        ]
        write_page(output / "report.html", f"One picture on this CPU and on {machine}", subjects)
    part.pages.append(("report.html", "where the time and the cycles of this network went, layer by layer"))
    return subjects[-1]


def int8(part: Part, output: Path, picture: str, machine: str) -> None:
    """The 8-bit pair: convolutions alone, then the picture of both networks, on CPU and processor."""
    from trilobite.apps.style.int8 import compare, convolutions

    equal, shown = 0, []
    with part.doing("8-bit convolutions on both"):
        for number, model in enumerate(convolutions("arbitrary_transform")):
            if number % 8 == 0:
                shown.append(model.name)
                equal += compare(model, f"dlp:{machine}")
    part.check(
        equal == len(shown),
        f"{equal} convolutions of the style transform, each bit for bit on CPU and {machine}",
        f"{len(shown) - equal} of {len(shown)} convolutions have other bits on {machine}",
    )
    _any_style(part, output, picture, machine)


def _any_style(part: Part, output: Path, picture: str, machine: str) -> None:
    """Any picture as the style, by the 8-bit networks of both."""
    from trilobite.apps.style.real_time import AnyStyle

    content, brush = _content(picture, AnyStyle.CONTENT_SIDE), pictures.pattern()
    reference = AnyStyle()(content, brush)
    on_chip = AnyStyle(f"dlp:{machine}")
    with part.doing(f"compiling the 8-bit pair for {machine}, and simulating it"):
        painted = on_chip(content, brush)
    apart = float(np.abs(painted.astype(np.float64) - reference).max() * 255)
    runs = [run for session in (on_chip.reader, on_chip.painter) for run in session.last_runs]
    cycles, joules = sum(run.cycles for run in runs), sum(run.energy.total for run in runs)
    part.numbers |= {"pair cycles": cycles, "pair joules": joules, "pair levels apart": apart}
    side = AnyStyle.CONTENT_SIDE
    part.say(f"any style at {side} x {side}: {cycles:,} cycles, {joules * 1e3:.1f} mJ simulated")
    same = "the same" if apart == 0 else f"at most {apart:.3f} of 255 levels apart"
    part.check(
        apart <= 1,
        f"pictures of CPU and {machine} are {same}",
        f"pictures of CPU and {machine} are {apart:.1f} of 255 levels apart; at most 1 was expected",
    )
    part.beside(
        output,
        ("any-chip.png", f"any style, painted by {machine}", painted),
        ("any-chip-cpu.png", "painted by this CPU", reference),
    )


def digits(part: Part, output: Path) -> None:
    """A digit reader: steps one by one as Python runs them, and the same step compiled."""
    from trilobite.apps import digits as reader

    data = reader.load()
    eager, jitted = (reader.seconds_of_steps(data, compiled) for compiled in (False, True))
    part.numbers |= {"eager step": eager, "jit step": jitted}
    part.say(f"a training step of 32 digits: {eager * 1e3:.2f} ms eager, {jitted * 1e3:.2f} ms with tb.jit")
    began = time.perf_counter()
    network, history = reader.train(data, epochs=1 if len(data.train[1]) > 10_000 else 4, progress=False)
    right = history["validation_accuracy"][-1]
    counts = f"{len(data.train[1]):,} digits of {data.source}"
    part.say(f"{counts}, {time.perf_counter() - began:.1f} s of training: {right:.1%} of new ones read right")
    part.numbers["read right"] = right
    images, labels = (array[:READ] for array in data.test)
    found = reader.read(network, images)
    part.show(output, "digits.png", _reading(found, labels), _strip(images))


def _reading(found: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> str:
    wrong = [f"the {label} as {n}" for n, label in zip(found, labels, strict=True) if n != label]
    said = f"read as {' '.join(map(str, found))}"
    return f"{said}; wrong: {', '.join(wrong)}" if wrong else f"{said}, all of them right"


def _strip(images: np.ndarray[Any, Any]) -> Pixels:
    """Digits side by side, dark on light, each pixel large enough to be seen."""
    row = np.concatenate([image[0] for image in images], axis=1)
    light = 1 - (row - row.min()) / max(float(np.ptp(row)), 1e-6)
    large = np.kron(light, np.ones((4, 4)))
    return np.repeat(large[..., None], 3, axis=2).astype(np.float32)


KERNEL = """
#include <bang.h>
#define N 1024
__mlu_entry__ void saxpy(float *y, const float *x, float a, int n) {
    __nram__ float xs[N];
    __nram__ float ys[N];
    for (int i = taskId * N; i < n; i += taskDim * N) {
        int count = n - i < N ? n - i : N;
        __memcpy(xs, x + i, count * sizeof(float), GDRAM2NRAM);
        __memcpy(ys, y + i, count * sizeof(float), GDRAM2NRAM);
        __bang_mul_scalar(xs, xs, a, N);
        __bang_add(ys, ys, xs, N);
        __memcpy(y + i, ys, count * sizeof(float), NRAM2GDRAM);
    }
}
"""


def kernel(part: Part, output: Path) -> None:
    """A kernel of one's own in BANG C, compiled, run with the checker, and compared."""
    from trilobite.processor import Device
    from trilobite.processor.lang.bang.kernel import BangKernel

    source = output / "saxpy.mlu"
    source.write_text(KERNEL, encoding="utf-8")
    device = Device("mlu370-x4")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(100_000).astype(np.float32) for _ in range(2))
    on_device = device.array(y)
    args = [on_device, device.array(x), np.float32(2.5), np.int32(x.size)]
    run = device.launch(BangKernel(source), args, dim=(16, 1, 1), task="union4", checks=True)
    part.numbers["cycles"] = run.cycles
    part.say(f"saxpy of {x.size:,} floats on 16 cores: {run.cycles:,} cycles; no races, no memory errors")
    exact = np.array_equal(on_device.numpy(), np.float32(2.5) * x + y)
    part.check(exact, "the result is NumPy's, bit for bit", "the result is not NumPy's")
    part.code = ("saxpy.mlu", KERNEL.strip())
    run.report(output / "kernel.html")
    part.pages.append(("kernel.html", "the kernel's timeline, stalls and energy"))
