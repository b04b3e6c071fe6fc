"""`trilobite demo`: the whole system in a few minutes, and a page that shows what happened.

Enters: nothing, or a picture of one's own. Leaves: `out/demo/` with the stylised pictures, timings, and
`index.html`. Each part says what it does while it runs; a part that cannot run here (no network for the
pictures, say) is told with its reason, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from trilobite.apps import assets
from trilobite.apps.demo_page import write_index
from trilobite.apps.style import pictures
from trilobite.apps.style.pictures import Pixels
from trilobite.base.errors import TrilobiteError
from trilobite.processor.machine.description import DEFAULT

SHOWN_STYLES = (2, 7, 11, 18)
CHIP_SIDE = 64  # of the picture that the simulated processor paints: every multiplication is done bit by bit


@dataclass
class Part:
    """One thing that was shown: a heading, lines of figures, pictures by caption."""

    title: str
    lines: list[str] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)
    failed: str = ""

    def say(self, text: str) -> None:
        self.lines.append(text)
        typer.echo(f"  {text}")

    def show(self, directory: Path, name: str, caption: str, pixels: Pixels) -> None:
        pictures.write(directory / name, pixels)
        self.shown.append((name, caption))


def main(
    picture: Annotated[str, typer.Option(help="a picture of your own")] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="where the pages go")] = Path("out/demo"),
    machine: Annotated[str, typer.Option(help="the processor: a preset or a YAML file")] = DEFAULT,
    side: Annotated[int, typer.Option(help="largest side of the picture on the CPU")] = 512,
) -> None:
    """Stylise a photograph on the CPU and on the processor, train a digit reader, run a kernel."""
    output.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    parts = [
        _part("A photograph in other styles, on this CPU", lambda p: _on_cpu(p, output, picture, side)),
        _part(
            f"The same network on the processor {machine}", lambda p: _on_chip(p, output, picture, machine)
        ),
        _part("A network learns to read digits", _digits),
        _part("A BANG C kernel, run and checked", lambda p: _kernel(p, output)),
    ]
    page = write_index(output / "index.html", parts, machine, time.perf_counter() - began)
    typer.echo(f"\n{time.perf_counter() - began:.0f} s in all. Open {page}")
    typer.echo(
        "Next: trilobite style YOUR.jpg 11 -o styled.png    (styles 0 to 25, or a picture as the style)"
    )
    if all(part.failed for part in parts):
        raise typer.Exit(1)


def _part(title: str, run: Callable[[Part], None]) -> Part:
    typer.echo(title)
    part = Part(title)
    try:
        run(part)
    except (TrilobiteError, ImportError) as error:
        part.failed = str(error)
        typer.echo(f"  left out: {part.failed}")
    return part


def _content(picture: str, side: int) -> Pixels:
    return pictures.read(picture or assets.fetch("chelsea"), side).pixels


def _on_cpu(part: Part, output: Path, picture: str, side: int) -> None:
    from trilobite.apps.style.real_time import AnyStyle, Multistyle

    content = _content(picture, side)
    part.show(output, "content.png", picture or "the photograph", content)
    network = Multistyle()
    network(content, 0)  # the first call compiles
    for number in SHOWN_STYLES:
        began = time.perf_counter()
        painted = network(content, number)
        seconds = time.perf_counter() - began
        part.show(output, f"style-{number}.png", f"style {number}, {seconds * 1e3:.0f} ms", painted)
    height, width = content.shape[:2]
    part.say(f"{len(SHOWN_STYLES)} styles of {width} x {height} pixels, {seconds * 1e3:.0f} ms the last")
    brush = pictures.pattern()
    began = time.perf_counter()
    painted = AnyStyle()(content, brush)
    part.show(output, "brush.png", "a pattern drawn by code", brush)
    part.show(output, "any-style.png", "the photograph in the style of that pattern", painted)
    part.say(
        f"any picture as the style, 8-bit networks: {time.perf_counter() - began:.1f} s with compilation"
    )


def _on_chip(part: Part, output: Path, picture: str, machine: str) -> None:
    from trilobite.apps.style.real_time import Multistyle
    from trilobite.report import processor_subject, write_page

    content = _content(picture, CHIP_SIDE)
    on_chip = Multistyle(f"dlp:{machine}")
    began = time.perf_counter()
    painted = on_chip(content, SHOWN_STYLES[0])
    host_seconds = time.perf_counter() - began
    reference = Multistyle()(content, SHOWN_STYLES[0])
    apart = float(np.abs(painted.astype(np.float64) - reference).max() * 255)
    part.show(output, "chip.png", f"painted by {machine}", painted)
    part.show(output, "chip-cpu.png", "painted by this CPU", reference)
    runs: list[Any] = on_chip.session.last_runs
    cycles, seconds = sum(run.cycles for run in runs), sum(run.seconds for run in runs)
    joules = sum(run.energy.total for run in runs)
    part.say(f"{cycles:,} cycles, {seconds * 1e3:.2f} ms, {joules * 1e3:.2f} mJ simulated")
    part.say(f"simulated in {host_seconds:.1f} s with compilation; at most {apart:.3f} of 255 from the CPU")
    write_page(output / "chip.html", f"One picture on {machine}", [processor_subject(run) for run in runs])
    part.say("chip.html shows where the cycles went")


def _digits(part: Part) -> None:
    from trilobite.apps import digits

    data = digits.load()
    began = time.perf_counter()
    _, history = digits.train(data, epochs=1, progress=False)
    right = history["validation_accuracy"][-1]
    counts = f"{len(data.train[1])} digits of {data.source}"
    part.say(f"{counts}, one epoch in {time.perf_counter() - began:.1f} s: {right:.2%} read right")


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


def _kernel(part: Part, output: Path) -> None:
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
    exact = np.array_equal(on_device.numpy(), np.float32(2.5) * x + y)
    part.say(f"saxpy of {x.size:,} floats on 16 cores: {run.cycles:,} cycles; no races, no memory errors")
    part.say("the result equals NumPy's bit for bit" if exact else "the result DIFFERS from NumPy's")
