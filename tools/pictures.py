"""Draws the pictures of the pages as SVG: the house, the chip, the way of a step, the ladder's timelines.

`python -m tools.pictures` writes them into docs/pictures; a test compares. The house is read off the folders,
the chip off the machine dlp-m, the way of a step off a compilation, the timelines off simulated launches.
Colours follow the reader's choice of light or dark; every picture says its content in words as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2a33}.small{font-size:11px;fill:#51626d}"
    ".title{font-weight:600}"
    ".box{fill:#eef5f4;stroke:#2f7f79;stroke-width:1.2}.deep{fill:#d6eae7;stroke:#2f7f79;stroke-width:1.2}"
    ".arrow{stroke:#51626d;stroke-width:1.4;fill:none;marker-end:url(#tip)}.tip{fill:#51626d}"
    ".io{fill:#3f7fc1}.matrix{fill:#d9822b}.vector{fill:#5b9e57}.move{fill:#8a6fb3}.control{fill:#9aa5ab}"
    "@media (prefers-color-scheme:dark){text{fill:#e4ecef}.small{fill:#a5b4bb}"
    ".box{fill:#1d2c2f}.deep{fill:#25403f}"
    ".arrow{stroke:#a5b4bb}.tip{fill:#a5b4bb}}"
)
QUEUES = ("io", "matrix")


def picture(width: int, height: int, title: str, words: str, body: Sequence[str]) -> str:
    """An SVG with a title and a description; `body` are its elements."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-labelledby="t d">'
    )
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'
    )
    named = f'<title id="t">{escape(title)}</title><desc id="d">{escape(words)}</desc>'
    return "\n".join([head, f"<style>{STYLE}</style>", named, tip, *body, "</svg>"]) + "\n"


def box(x: float, y: float, w: float, h: float, lines: Sequence[str], kind: str = "box") -> str:
    """A box with a bold first line and small further ones, in its middle."""
    first = y + h / 2 + 5 - 7.5 * (len(lines) - 1)
    texts = [
        f'<text x="{x + w / 2:g}" y="{first + 15 * n:g}" text-anchor="middle" '
        f'class="{"title" if n == 0 else "small"}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    ]
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="6"/>' + "".join(texts)


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="arrow" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


def text(x: float, y: float, words: str, kind: str = "small", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


# -- the house ---------------------------------------------------------------------------------------------

FLOORS = (
    ("cli", "report", "apps"),
    ("dlp",),
    ("zoo", "inference", "cluster"),
    ("framework",),
    ("compiler",),
    ("ir", "processor"),
    ("native",),
    ("base",),
)


def house() -> str:
    """Rooms by floor: each may use what stands below it. The words are those of the rooms themselves."""
    width, floor = 760, 58
    body = []
    floors = [[room for room in rooms if (ROOT / "trilobite" / room).is_dir()] for rooms in FLOORS]
    floors = [rooms for rooms in floors if rooms]
    for level, rooms in enumerate(floors):
        each = (width - 20 - 10 * (len(rooms) - 1)) / len(rooms)
        for place, room in enumerate(rooms):
            said = _wrapped(_says(room), int(each / 6.4))
            lines = [room, *said[:2]] if len(said) < 3 else [room, said[0], said[1] + " …"]
            kind = "deep" if room in ("framework", "compiler", "processor") else "box"
            body.append(box(10 + place * (each + 10), 10 + level * (floor + 8), each, floor, lines, kind))
    height = 12 + len(floors) * (floor + 8)
    words = "; ".join(f"floor {n}: {', '.join(rooms)}" for n, rooms in enumerate(floors[::-1]))
    return picture(width, height, "The house: every room may use what stands below it", words, body)


def _says(room: str) -> str:
    """The first sentence of a room's docstring."""
    tree = ast.parse((ROOT / "trilobite" / room / "__init__.py").read_text(encoding="utf-8"))
    first = (ast.get_docstring(tree) or "").split("\n\n")[0].replace("\n", " ").replace("`", "")
    return first.split(". ")[0].rstrip(".")


def _wrapped(words: str, width: int) -> list[str]:
    lines, line = [], ""
    for word in words.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


# -- the chip ----------------------------------------------------------------------------------------------


def chip(name: str = "dlp-m") -> str:
    """A machine as blocks, with its own figures."""
    from trilobite.processor import load_machine

    m = load_machine(name)
    core, mfu = m.core, m.core.mfu
    rate = mfu.macs_per_cycle["int8"]
    body = [
        box(
            10,
            10,
            740,
            44,
            [f"{m.name}: {m.clusters} clusters of {m.cores_per_cluster} cores, {m.clock_ghz:g} GHz"],
        ),
        box(10, 330, 740, 40, [f"DRAM, {m.dram.gb_per_s:g} GB/s, {m.dram.gib} GiB"], "deep"),
        box(40, 66, 680, 240, [""]),
        text(56, 86, "one cluster", "title"),
        box(
            56,
            250,
            648,
            40,
            [f"SRAM of the cluster, {m.sram.kib} KiB, {m.sram.bytes_per_cycle} B/cycle"],
            "deep",
        ),
        box(56, 98, 520, 140, [""]),
        text(68, 116, "one core", "title"),
        box(68, 128, 120, 40, ["NRAM", f"{core.nram.kib} KiB"]),
        box(68, 184, 120, 40, ["WRAM", f"{core.wram.kib} KiB"]),
        box(210, 128, 180, 40, ["vector unit", f"{core.vfu.bytes_per_cycle} B/cycle"]),
        box(210, 184, 180, 40, ["matrix unit", f"{mfu.rows} × {mfu.cols}, {rate} int8 MAC/cycle"]),
        box(412, 128, 150, 96, ["control", "scalar registers", "queues: io, move,", "matrix, vector"]),
        box(
            592,
            98,
            112,
            140,
            ["memory core", "moves between", "DRAM and SRAM"] if m.memory_core else ["more cores"],
        ),
        arrow(188, 148, 208, 148),
        arrow(188, 204, 208, 204),
        arrow(390, 148, 410, 148),
        arrow(300, 250, 300, 240),
        arrow(648, 240, 648, 250),
        arrow(380, 292, 380, 328),
    ]
    words = (
        f"{m.clusters} clusters with {m.sram.kib} KiB of SRAM each; a core has {core.nram.kib} KiB of NRAM, "
        f"{core.wram.kib} KiB of WRAM, a vector unit and a matrix unit of {mfu.rows} by {mfu.cols}; one DRAM"
    )
    return picture(760, 380, f"The chip {m.name}", words, body)


# -- the way of a training step ----------------------------------------------------------------------------


def step() -> str:
    """From the user's lines to one native call, with the names of the stages that a compilation has."""
    import trilobite as tb

    model = tb.nn.Linear(4, 2)
    opt = tb.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss

    stages = list(tb.jit(train).lower(tb.ones((3, 4)), tb.ones((3, 2))).stages)
    order = [stages.index(name) for name in ("graph", "fuse", "program", "loops", "llvm", "asm")]
    assert order == sorted(order), "the picture shows the stages in another order than the compiler has them"
    columns = (
        ["your step", "forward, backward,", "optimiser: Python"],
        ["graph", "one recording;", "state as inputs, results"],
        ["passes", "graph to graph,", "one file each"],
        ["fuse", "groups of equations", "become kernels"],
        ["program", "kernels in order,", "one arena of memory"],
        ["loops, llvm, asm", "native code,", "kept on disk"],
        ["one native call", "a step, no Python", "between kernels"],
    )
    body = []
    for n, lines in enumerate(columns):
        x, y = 10 + (n % 4) * 190, 10 + (n // 4) * 96
        body.append(box(x, y, 166, 64, lines, "deep" if n in (0, 6) else "box"))
        if n + 1 < len(columns):
            body.append(
                arrow(x + 166, y + 32, x + 188, y + 32) if n % 4 < 3 else arrow(x + 83, y + 66, 93, 104)
            )
    words = " → ".join(lines[0] for lines in columns)
    return picture(760, 180, "A training step under tb.jit, from Python to one native call", words, body)


# -- the ladder --------------------------------------------------------------------------------------------


def ladder() -> str:
    """What the queues of one core do in the last three steps of the matmul ladder, in simulated cycles."""
    runs = list(ladder_runs())
    longest = max(cycles for _, cycles, _ in runs)
    scale = 600 / longest
    body, y = [], 20.0
    for name, cycles, bars in runs:
        body.append(text(10, y + 4, f"{name}: {cycles} cycles", "title"))
        for row, queue in enumerate(QUEUES):
            top = y + 12 + row * 18
            body.append(text(10, top + 11, queue))
            body += [
                f'<rect class="{queue}" x="{110 + start * scale:.1f}" y="{top:g}" '
                f'width="{max(0.4, (end - start) * scale):.1f}" height="13"/>'
                for kind, start, end in bars
                if kind == queue
            ]
        y += 66
    body.append(
        text(
            110,
            y,
            f"0 to {longest} cycles, what one core of dlp-m does for 512 rows of A; 128 x 64 weights, fp32",
        )
    )
    words = "; ".join(f"{name}: {cycles} cycles" for name, cycles, _ in runs)
    return picture(740, int(y) + 14, "The matmul ladder: load, multiply and store move together", words, body)


def ladder_runs() -> Iterator[tuple[str, int, list[tuple[str, int, int]]]]:
    """Name, cycles, and (queue, start, end) of the first core's instructions."""
    from trilobite.apps.labs.launching import reference
    from trilobite.apps.labs.matmul_ladder_lab import STEPS, measured

    for entry in ("step3", "step4", "step5"):
        tasks = 1 if entry == "step3" else 16
        run = measured(reference("matmul-ladder"), entry, (512 * tasks, 64, 128))
        core = run.timeline.cores[0]
        bars = [(op.record.queue, int(op.start), int(op.finish)) for op in core.operations]
        yield f"{entry}, {STEPS[entry]}", run.cycles, bars


def pictures() -> dict[Path, str]:
    """Every picture that is drawn by code."""
    drawn = {"house": house, "chip": chip, "step": step, "ladder": ladder}
    return {PICTURES / f"{name}.svg": draw() for name, draw in drawn.items()}


def main() -> None:
    for path, drawing in pictures().items():
        path.write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main()
