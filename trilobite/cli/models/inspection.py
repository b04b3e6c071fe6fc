"""`trilobite inspect`: what a model file holds: inputs, outputs, operators, parameters, work, memory.

Enters: a model file. Leaves: tables or JSON. Operations and bytes come from the costs of the graph's own
primitives, for the sizes that are given (or usual ones where the model leaves them open).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from trilobite.base.errors import ArgumentError

Json = Annotated[bool, typer.Option("--json", help="one JSON object instead of lines")]


def inspect(
    model: Annotated[str, typer.Argument(help="a model file")],
    layers: Annotated[bool, typer.Option("--layers", help="every node, in order")] = False,
    json_: Json = False,
) -> None:
    """Show what a model file holds: inputs, outputs, operators, parameters, bytes."""
    found = facts(model)
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
    if layers:
        for row in found["layers"]:
            typer.echo(f"  {row['operator']:<22} {row['name']:<34} {row['weights']:>12,}")


def facts(model: str) -> dict[str, Any]:
    """Everything as plain data."""
    from trilobite import inference

    path = Path(model)
    if not path.is_file():
        raise ArgumentError(f"there is no file {model}", expected="a model file", remedy="check the path")
    graph: Any = inference.read(path).graph
    weights = {name: np.asarray(value) for name, value in graph.constants.items()}
    rows = [
        {
            "operator": f"{node.domain}.{node.op}" if node.domain else node.op,
            "name": node.name or next((o for o in node.outputs if o), ""),
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
