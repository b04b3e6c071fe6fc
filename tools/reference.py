"""Write the reference pages from the tables and docstrings: docs/reference.md (operations of `tb`, then `nn`,
`optim`, `data`, `metrics`, `logs`), docs/primitives.md (the IR), docs/promotion.md (which dtypes
meet), the tables of docs/machines.md and the solutions at the end of the labs' pages, in both languages.

`python -m tools.reference` writes them; `pages()` gives their texts, which a test compares with the files.
"""

from __future__ import annotations

import importlib
import inspect
import re
from itertools import groupby
from pathlib import Path
from typing import Any

from tools.stubs import stubs

ROOT = Path(__file__).resolve().parent.parent


def signature(fn: Any) -> str:
    """Parameters without their annotations."""
    parameters = inspect.signature(fn).parameters.values()
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(bare))


def first_line(fn: Any) -> str:
    """The first paragraph of the docstring, on one line, fit for a table."""
    text = inspect.getdoc(fn) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def operations() -> str:
    from trilobite.framework.ops import fft, linalg  # noqa: F401  the extensions enter the table when imported
    from trilobite.framework.ops.registry import operators

    lines = [
        "# Operations",
        "",
        "Generated from the operator table by `python -m tools.reference`. Every row is a function of `tb`;",
        "the last column names the methods of `Tensor` that are the same operation.",
    ]
    rows = sorted(operators.values(), key=lambda r: r.group)
    for group, members in groupby(rows, key=lambda r: r.group):
        lines += [
            "",
            f"## {group[0].upper()}{group[1:]}",
            "",
            "| function | what it gives | methods |",
            "|---|---|---|",
        ]
        for row in sorted(members, key=lambda r: r.name):
            methods = ", ".join(f"`{m}`" for m in row.methods)
            call = f"{row.name}{signature(row.public)}".replace("|", "\\|")
            lines.append(f"| `{call}` | {first_line(row.public)} | {methods} |")
    return "\n".join([*lines, "", *only_methods(), *rooms(), *networks()]) + "\n"


ROOMS = {
    "nn": "modules, containers, losses",
    "nn.functional": "the same as functions without state",
    "nn.init": "first values of parameters, in place",
    "nn.utils": "norms, vectors of parameters, sequences of uneven length",
    "optim": "optimisers, schedules, clipping, averages, loss scaling",
    "data": "datasets, samplers, loaders",
    "data.transforms": "changes of pictures",
    "metrics": "how well it went",
    "logs": "where figures of a run go",
}


def networks() -> list[str]:
    """The zoo: every network by name, with what its file says of itself."""
    from trilobite import zoo

    lines = [
        "",
        "## `tb.zoo`: networks by name",
        "",
        "`tb.zoo.create(name)`; parameters have published names.",
        "",
    ]
    lines += ["| name | what it is |", "|---|---|"]
    for name in zoo.names():
        file, _ = zoo._NETWORKS[name]
        lines.append(f"| `{name}` | {first_line(importlib.import_module(f'trilobite.zoo.{file}'))} |")
    return lines


def rooms() -> list[str]:
    """What the rooms of the framework offer, a table each, from their docstrings."""
    import trilobite

    lines: list[str] = []
    for path, what in ROOMS.items():
        room: Any = trilobite
        for step in path.split("."):
            room = getattr(room, step)
        lines += ["", f"## `tb.{path}`: {what}", "", "| name | what it is |", "|---|---|"]
        listed = getattr(room, "__all__", None) or [n for n in vars(room) if not n.startswith("_")]
        for name in sorted(listed, key=str.lower):
            member = getattr(room, name)
            if inspect.isclass(member) or inspect.isfunction(member):
                lines.append(f"| `{_called(name, member)}` | {first_line(member)} |")
    return lines


def _called(name: str, member: Any) -> str:
    """How a class is made or a function called. What is imported to write annotations has no docstring."""
    try:
        call = signature(member)
    except (TypeError, ValueError):
        return name
    call = re.sub(r"<(?:function|class) '?([\w.]+)(?: at 0x[0-9a-f]+)?'?>", r"\1", call)
    return f"{name}{call}".replace("|", "\\|")


def only_methods() -> list[str]:
    """Methods that are no functions, or that are called otherwise than the function of their name."""
    from trilobite.framework.ops.registry import methods

    lines = ["## Methods alone", "", "| method | what it gives |", "|---|---|"]
    for name, fn in sorted(methods.items()):
        call = f"{name}{signature(fn)}".replace("|", "\\|")
        lines.append(f"| `{call}` | {first_line(fn)} |")
    return lines


def primitives() -> str:
    from trilobite.compiler.targets.cpu import primitives as of_the_cpu
    from trilobite.compiler.targets.dlp import primitives as of_the_dlp
    from trilobite.ir.primitive import Absent, Primitive
    from trilobite.ir.primitives import table

    lines = [
        "# Primitives",
        "",
        "Generated from the primitive table by `python -m tools.reference`. Everything else is composed of",
        "these. A dash under *derivative* comes with the reason. Those marked *cpu* or *dlp* are a",
        "target's own: its passes alone make them.",
        "",
        "| primitive | operands | what it means | derivative |",
        "|---|---|---|---|",
    ]
    own = {name: "*cpu*: " for names in of_the_cpu.FAMILIES.values() for name in names.split()}
    own |= {p.name: "*dlp*: " for p in vars(of_the_dlp).values() if isinstance(p, Primitive)}
    for p in sorted(table.values(), key=lambda p: p.name):
        slope = f"- ({p.vjp.why})" if isinstance(p.vjp, Absent) else "yes" if p.operands else ""
        cells = (
            f"`{p.name}`",
            " ".join(p.operands),
            f"{own.get(p.name, '')}{p.doc or f'{p.name} of each element'}",
            slope,
        )
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """Path and text of every generated page."""
    from trilobite.framework.promotion import page

    docs = ROOT / "docs"
    written = {page: _with_generated(page, text) for page, text in generated_parts().items()}
    return {
        **written,
        docs / "reference.md": operations(),
        docs / "primitives.md": primitives(),
        docs / "promotion.md": page(),
        **stubs(),
    }


MARK = "<!-- below: written by tools.reference -->"


def generated_parts() -> dict[Path, str]:
    """Pages of which the end is generated: what stands below their mark."""
    from trilobite.apps.labs.catalogue import LABS, material
    from trilobite.processor.machine.manual import table

    docs = ROOT / "docs"
    found = {docs / "machines.md": table()}
    for name in LABS:
        for language in (docs, docs / "zh"):
            page = language / "labs" / f"{name}.md"
            if page.is_file():
                found[page] = f"```python\n{material(name, 'solution')}```\n"
    return found


def _with_generated(page: Path, text: str) -> str:
    head, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        raise ValueError(f"{page} has no line {MARK}")
    return f"{head}{mark}\n\n{text}"


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
