"""Writes docs/style_machines.md: the style networks on three processors, with the bound of every layer.

Enters: nothing but the networks' files (`make demo` fetches them). Leaves: the page. Every figure is of one
simulated run; pictures are compared with the CPU's. `python -m tools.style_machines` takes minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.apps import assets
from trilobite.apps.style import pictures
from trilobite.apps.style.real_time import AnyStyle, Multistyle, style_weights
from trilobite.report.network import subjects_of
from trilobite.report.subjects import Kernel

PAGE = Path(__file__).resolve().parents[1] / "docs" / "style_machines.md"
MACHINES = ("dlp-s", "dlp-m", "mlu370-x4")
SIDE, STYLE = 256, 7
HEAD = """# Style transfer on three processors

Written by `python -m tools.style_machines`; every figure is simulated, every picture compared with the CPU's.
Frames a second are 1 over the simulated time of one picture; joules are those of the machine's energy model
([machines](machines.md)). `trilobite profile NETWORK.onnx --on dlp:MACHINE -o report.html` shows why.

{agreement}
"""
SAME = (
    "Pictures of the 8-bit pair are the CPU's, bit for bit: "
    "its products are rounded once, by one rule everywhere."
)
DIFFERENT = (
    "Pictures of the 8-bit pair differ from the CPU's by up to {0:.0f} levels of 255 in single pixels."
)


@dataclass(frozen=True)
class Result:
    """One network on one machine."""

    network: str
    machine: str
    seconds: float
    cycles: int
    joules: float
    apart: float  # levels of 255 from the CPU's picture
    kernels: tuple[Kernel, ...]


def measured(network: str, machine: str, session: Any, feeds: dict[str, Any], apart: float) -> Result:
    subjects = subjects_of(network, session.profile(feeds, 1))
    return Result(
        network,
        machine,
        sum(s.seconds for s in subjects),
        round(sum(s.numbers["cycles"] for s in subjects)),
        sum(s.numbers["energy in µJ"] for s in subjects) * 1e-6,
        apart,
        tuple(k for s in subjects for k in s.kernels),
    )


def results(machine: str) -> Iterator[Result]:
    photo = pictures.read(assets.fetch("chelsea")).pixels
    content = pictures.resized(photo[:, : photo.shape[0]], SIDE, SIDE)
    chip, cpu = Multistyle(f"dlp:{machine}"), Multistyle()
    apart = _apart(chip(content, STYLE), cpu(content, STYLE))
    image = np.ascontiguousarray(content.transpose(2, 0, 1)[None])
    feeds = {"image": image, "style_weights": style_weights(STYLE)}
    yield measured(f"multistyle26, {SIDE}²", machine, chip.session, feeds, apart)
    pair, here = AnyStyle(f"dlp:{machine}"), AnyStyle()
    brush = pictures.pattern()
    apart = _apart(pair(content, brush), here(content, brush))
    (style_name,) = (i.name for i in pair.reader.inputs)
    style_feeds = {style_name: pictures.resized(brush, pair.STYLE_SIDE, pair.STYLE_SIDE)[None]}
    yield measured("any style: reading it, 256²", machine, pair.reader, style_feeds, apart)
    content_name, code_name = (i.name for i in pair.painter.inputs)
    side = pair.CONTENT_SIDE
    feeds = {content_name: pictures.resized(content, side, side)[None], code_name: here.read_style(brush)}
    yield measured("any style: painting, 384²", machine, pair.painter, feeds, apart)


def _apart(one: Any, other: Any) -> float:
    return float(np.abs(one.astype(np.float64) - other).max() * 255)


def page(found: list[Result]) -> str:
    head = ("network", "machine", "cycles", "ms", "frames a second", "mJ a frame", "from the CPU, of 255")
    apart = max(r.apart for r in found if r.network.startswith("any style"))
    agreement = DIFFERENT.format(apart) if apart else SAME
    lines = [HEAD.format(agreement=agreement), f"| {' | '.join(head)} |", "|---|---|" + "---:|" * 5]
    lines += [
        f"| {r.network} | {r.machine} | {r.cycles:,} | {r.seconds * 1e3:.2f} | {1 / r.seconds:,.1f} "
        f"| {r.joules * 1e3:.1f} | {r.apart:.3f} |"
        for r in found
    ]
    for network in dict.fromkeys(r.network for r in found):
        lines += ["", *_layers([r for r in found if r.network == network])]
    return "\n".join(lines) + "\n"


def _layers(found: list[Result]) -> Iterator[str]:
    """Of every layer, on each machine, its share of the cycles and what bounds its longest kernel."""
    yield f"## {found[0].network}: what bounds each layer"
    yield ""
    yield "| layer | " + " | ".join(f"{r.machine}: share, bound by" for r in found) + " |"
    yield "|---|" + "---|" * len(found)
    tables = [_by_layer(r) for r in found]
    names = dict.fromkeys(name for table in tables for name in table)
    for name in names:
        cells = (f"{table[name][0]:.1%}, {table[name][1]}" if name in table else "" for table in tables)
        yield f"| {name} | " + " | ".join(cells) + " |"


def _by_layer(result: Result) -> dict[str, tuple[float, str]]:
    spent: dict[str, list[Kernel]] = {}
    for kernel in result.kernels:
        parts = kernel.module.split(".") if kernel.module else ["the rest"]
        spent.setdefault(".".join(p for p in parts[:2] if p not in ("norm", "conv")), []).append(kernel)
    whole = sum(k.time for k in result.kernels) or 1
    return {
        name: (sum(k.time for k in mine) / whole, max(mine, key=lambda k: k.time).bound)
        for name, mine in spent.items()
    }


def main() -> None:
    found = []
    for machine in MACHINES:
        for result in results(machine):
            print(f"{result.network} on {machine}: {1 / result.seconds:,.1f} frames/s", flush=True)
            found.append(result)
    order = list(dict.fromkeys(r.network for r in found))
    PAGE.write_text(page(sorted(found, key=lambda r: order.index(r.network))), encoding="utf-8")


if __name__ == "__main__":
    main()
