"""`trilobite inspect`: what a model file holds: inputs, outputs, operators, parameters, work, memory.

Enters: a model file. Leaves: tables or JSON. Operations and bytes come from the costs of the graph's own
primitives, for the sizes that are given (or usual ones where the model leaves them open).
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from trilobite.base.errors import ArgumentError
from trilobite.cli.models.feeds import Pixels, feeds, sizes_of
from trilobite.cli.models.subject import FileSubject

Json = Annotated[bool, typer.Option("--json", help="one JSON object instead of lines")]


def inspect(
    model: Annotated[str, typer.Argument(help="a model file")],
    layers: Annotated[bool, typer.Option("--layers", help="every node, in order")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="arithmetic and memory of one run, which compiles the model")
    ] = False,
    on: Annotated[str, typer.Option("--on", "--machine", help="of --cost: cpu, reference, ...")] = "cpu",
    size: Annotated[list[str] | None, typer.Option("--size", help="of --cost: an open size: h=256")] = None,
    json_: Json = False,
) -> None:
    """Show what a model file holds: inputs, outputs, operators, parameters, bytes; with --cost its work."""
    found = facts(model)
    if cost:
        found |= costs(model, on, size or (), found["layers"])
    if json_:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"{found['model']}: {found['bytes']:,} bytes, {found['parameters']:,} parameters in "
               f"{found['weights']} arrays, {found['nodes']} nodes")  # fmt: skip
    for way in ("inputs", "outputs"):
        for name, text in found[way].items():
            typer.echo(f"  {way[:-1]:<7} {name}: {text}")
    for name, count in found["operators"].items():
        typer.echo(f"  {count:>6}  {name}")
    if cost:
        typer.echo(
            f"  {found['operations'] / 1e6:,.3f} million operations, values of {found['values']:,} bytes"
        )
        if found["peak"] is not None:
            typer.echo(f"  memory of a run on {on}: {found['peak']:,} bytes besides weights")
    if layers:
        for row in found["layers"]:
            work = f" {row['operations']:>16,.0f}" if cost else ""
            typer.echo(f"  {row['operator']:<22} {row['name']:<34} {row['weights']:>12,}{work}")


def facts(model: str) -> dict[str, Any]:
    """Everything as plain data."""
    from trilobite import inference

    path = Path(model)
    if not os.path.isfile(path):
        raise ArgumentError(f"there is no file {model}", expected="a model file", remedy="check the path")
    graph: Any = inference.read(path).graph
    weights = {name: np.asarray(value) for name, value in graph.constants.items()}
    rows = [
        {
            "operator": f"{node.domain}.{node.op}" if node.domain else node.op,
            "name": node.name or next((o for o in node.outputs if o), ""),
            "label": node.label(),
            "weights": sum(weights[i].size for i in node.inputs if i in weights),
        }
        for node in graph.nodes
    ]
    operators = Counter(row["operator"] for row in rows)
    return {
        "model": path.name,
        "bytes": path.stat().st_size,
        "nodes": len(rows),
        "weights": len(weights),
        "parameters": int(sum(w.size for w in weights.values() if w.dtype.kind not in "O")),
        "inputs": {i.name: str(i.type) for i in graph.inputs},
        "outputs": {o.name: str(o.type) for o in graph.outputs},
        "operators": dict(operators.most_common()),
        "layers": rows,
    }


def costs(model: str, on: str, sizes: Sequence[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Operations and bytes of the values that one run makes, as the graph's primitives state them; rows of
    layers get their share. Bodies of control flow that runs on the host are not counted.
    """
    from trilobite.inference.program.steps import Compiled

    subject = FileSubject(Path(model), on)
    values = feeds(subject.inputs, (), sizes_of(sizes), Pixels())
    total: defaultdict[str, float] = defaultdict(float)
    moved, peaks = 0.0, []

    def note(step: Any, there: Any) -> None:
        nonlocal moved
        if isinstance(step, Compiled):
            step.run(there)
            executable: Any = step.executable(there)
            for e in executable.graph.equations:
                inputs, outputs = ([v.type for v in side] for side in (e.inputs, e.outputs))
                total[e.location.function] += float(e.primitive.cost(inputs, outputs, e.attributes))
                moved += sum(int(np.prod(t.shape)) * t.dtype.itemsize for t in outputs)
            peaks.append(_peak(executable))

    subject.session.program.run(values, before=note)
    for row in rows:
        row["operations"] = total[row["label"]]
    known = [p for p in peaks if p is not None]
    return {
        "operations": sum(total.values()), "values": int(moved), "peak": max(known) if known else None,
        "sizes": {name: list(v.shape) for name, v in values.items()},
    }  # fmt: skip


def _peak(executable: Any) -> int | None:
    try:
        return int(executable.memory().peak)
    except (ArgumentError, AttributeError):  # a target that plans no memory
        return None
