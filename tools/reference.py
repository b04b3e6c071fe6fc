"""Write the reference pages from the tables: docs/reference.md (operations of `tb`), docs/primitives.md
(the IR) and docs/promotion.md (which dtypes meet in which).

`python -m tools.reference` writes them; `pages()` gives their texts, which a test compares with the files.
"""

from __future__ import annotations

import inspect
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
    return "\n".join([*lines, "", *only_methods()]) + "\n"


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
    from trilobite.ir.primitive import Absent
    from trilobite.ir.primitives import table

    lines = [
        "# Primitives",
        "",
        "Generated from the primitive table by `python -m tools.reference`. Everything else is composed of",
        "these. A dash under *derivative* comes with the reason. Those marked *cpu* are the CPU's own:",
        "its passes alone make them.",
        "",
        "| primitive | operands | what it means | derivative |",
        "|---|---|---|---|",
    ]
    own = {name for names in of_the_cpu.FAMILIES.values() for name in names.split()}
    for p in sorted(table.values(), key=lambda p: p.name):
        slope = f"- ({p.vjp.why})" if isinstance(p.vjp, Absent) else "yes" if p.operands else ""
        cells = (
            f"`{p.name}`",
            " ".join(p.operands),
            f"{'*cpu*: ' * (p.name in own)}{p.doc or f'{p.name} of each element'}",
            slope,
        )
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """Path and text of every generated page."""
    from trilobite.framework.promotion import page

    docs = ROOT / "docs"
    return {
        docs / "reference.md": operations(),
        docs / "primitives.md": primitives(),
        docs / "promotion.md": page(),
        **stubs(),
    }


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
