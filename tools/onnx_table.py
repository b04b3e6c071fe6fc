"""docs/onnx.md: which operators of ONNX run, since which version, and where.

Enters: the table of operators and the schemas of the installed onnx package. Leaves: the page.

    python -m tools.onnx_table
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "onnx.md"
HEAD = """# ONNX operators

Generated from the operator table by `python -m tools.onnx_table`, beside the schemas of onnx
{version} (operator set {opset}). *Compiled*: part of the graphs that the target runs. *Host*: runs
between them, because the operator works on strings, sequences, optionals or maps, or because the
shape of its result depends on values. An operand under *shapes* decides the shape of the result:
where it follows from shapes and constants the node is compiled, else it runs on the host.

| | of ONNX | here |
|---|---|---|
"""


def _schemas() -> dict[tuple[str, str], list[Any]]:
    import onnx

    found: dict[tuple[str, str], list[Any]] = {}
    for s in onnx.defs.get_all_schemas_with_history():
        found.setdefault((s.domain, s.name), []).append(s)
    return found


_IN_PLACE = {
    "If": "; compiled on shapes",
    "Loop": "; compiled if it is counted and its states keep their types",
    "Scan": "; compiled if its states keep their types",
}
"""Operators with bodies, and when they are part of the graph around them."""


def _place(rows: Iterable[Any]) -> str:
    newest = list(rows)[-1]
    if newest.subgraphs:
        return "host, its bodies compiled" + _IN_PLACE.get(newest.op, "")
    return "host" if newest.host else "compiled"


def _operands(schema: Any, rows: list[Any]) -> str:
    """Names of the operands that decide shapes."""
    known = sorted(rows[-1].known)
    if schema is None:
        return ", ".join(f"operand {i}" for i in known)
    return ", ".join(schema.inputs[i].name for i in known if i < len(schema.inputs))


def page() -> str:
    import onnx

    from trilobite.inference import operators
    from trilobite.inference.operators.registry import rows

    operators.load_all()
    schemas = _schemas()
    domains = sorted(d for d in {d for d, _ in (*schemas, *rows)} if not d.startswith("trilobite"))
    text = HEAD.format(version=onnx.__version__, opset=onnx.defs.onnx_opset_version())
    for d in domains:
        defined = {n for e, n in schemas if e == d}
        here = {n for e, n in rows if e == d}
        count = f"{len(defined & here)} of {len(defined)}" if defined else "-"
        more = f", and {len(here - defined)} more" if here - defined and defined else ""
        text += f"| {_named(d)} | {count} | {len(here & defined) if defined else len(here)} rows{more} |\n"
    for d in domains:
        text += (
            f"\n## {_named(d)}\n\n| operator | versions | since | where | shapes |\n|---|---|---|---|---|\n"
        )
        for name in sorted({n for e, n in (*schemas, *rows) if e == d}):
            history, own = schemas.get((d, name), []), rows.get((d, name), [])
            versions = ", ".join(str(v) for v in sorted(s.since_version for s in history)) or "-"
            newest = max(history, key=lambda s: s.since_version) if history else None
            if not own:
                text += f"| `{name}` | {versions} | **not supported** | | |\n"
                continue
            since = ", ".join(str(r.since) for r in own)
            text += f"| `{name}` | {versions} | {since} | {_place(own)} | {_operands(newest, own)} |\n"
    return text


def _named(domain: str) -> str:
    return domain or "ai.onnx"


if __name__ == "__main__":
    PAGE.write_text(page())
