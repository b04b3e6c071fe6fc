"""`trilobite demo`: the whole system in a few minutes, and a page that shows what happened.

Enters: nothing, or a picture of one's own. Leaves: `out/demo/` with the stylised pictures, `timings.json`, a
report page, and `index.html`, which shows them. Each part says what it does while it runs; a part that cannot
run here (no network for the pictures, say) is told with its reason, and the others go on.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from trilobite.apps.demo_page import next_steps, write_index
from trilobite.apps.demo_part import Part
from trilobite.base.errors import TrilobiteError
from trilobite.processor.machine.description import DEFAULT


def main(
    picture: Annotated[str, typer.Option(help="a picture of your own")] = "",
    output: Annotated[Path, typer.Option("--output", "-o", help="where the pages go")] = Path("out/demo"),
    machine: Annotated[str, typer.Option(help="the processor: a preset or a YAML file")] = DEFAULT,
    side: Annotated[int, typer.Option(help="largest side of the picture on the CPU")] = 512,
    chip_side: Annotated[int, typer.Option(help="largest side of the picture on the processor")] = 256,
) -> None:
    """Stylise a photograph on the CPU and on the processor, train a digit reader, run a kernel."""
    from trilobite.apps import demo_parts as parts

    if missing := lacking():
        typer.echo(
            f"Not installed here: {', '.join(missing)}; parts that need it are left out.\n"
            'For all of them: pip install "trilobite[demo]"\n'
        )
    output.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    plan: list[tuple[str, Callable[[Part], None]]] = [
        ("A photograph in other styles, on this CPU", lambda p: parts.on_cpu(p, output, picture, side)),
        (
            f"The same network on the processor {machine}",
            lambda p: parts.on_chip(p, output, picture, machine, chip_side),
        ),
        ("8-bit networks, bit for bit", lambda p: parts.int8(p, output, picture, machine)),
        ("A network learns to read digits", lambda p: parts.digits(p, output)),
        ("A BANG C kernel, run and checked", lambda p: parts.kernel(p, output)),
    ]
    done = [_part(f"{n} of {len(plan)}  {title}", title, run) for n, (title, run) in enumerate(plan, start=1)]
    seconds = time.perf_counter() - began
    timings = {part.title: {"seconds": part.seconds, **part.numbers} for part in done}
    (output / "timings.json").write_text(json.dumps(timings, indent=1), encoding="utf-8")
    page = write_index(output / "index.html", done, machine, seconds)
    failed = [part for part in done if part.failed or part.wrong]
    typer.echo(
        f"\n{seconds:.0f} s in all{f', {len(failed)} parts with a word of warning' if failed else ''}."
    )
    typer.echo(f"Open    {page.resolve().as_uri()}")
    for number, (_, line) in enumerate(next_steps(machine)):
        typer.echo(f"{'' if number else 'Try':<8}{line}")
    if any(part.wrong for part in done) or all(part.failed for part in done):
        raise typer.Exit(1)


def lacking() -> list[str]:
    """What parts of the demonstration need and a plain installation does not have."""
    there = {
        "onnx": find_spec("onnx") is not None,
        "scikit-learn": find_spec("sklearn") is not None,
        "ziglang": find_spec("ziglang") is not None or shutil.which("clang++") is not None,
    }
    return [name for name, found in there.items() if not found]


def _part(line: str, title: str, run: Callable[[Part], None]) -> Part:
    typer.echo(line)
    part = Part(title)
    began = time.perf_counter()
    try:
        run(part)
    except (TrilobiteError, ImportError) as error:
        part.failed = str(error)
        typer.echo(f"    left out: {part.failed}")
    part.seconds = time.perf_counter() - began
    return part
