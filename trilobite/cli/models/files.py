"""build, convert and optimize: model files into other files.

Enters: words of a command line. Leaves: a file, and a line on it (or one JSON object with `--json`).
"""

from __future__ import annotations

import json
import os
import time
from typing import Annotated, Any

import numpy as np
import typer

from trilobite.base.errors import ArgumentError
from trilobite.cli.models.feeds import Pixels, feeds, sizes_of
from trilobite.cli.models.subject import open_model
from trilobite.cli.models.verbs import DIFFERENT, WRITTEN, apart
from trilobite.framework.checkpoint.durable import storage_errors

Json = Annotated[bool, typer.Option("--json", help="one JSON object instead of a line")]


def _said(path: str, seconds: float, json_: bool, **facts: object) -> str:
    size = os.path.getsize(path)
    if json_:
        return json.dumps({"file": path, "bytes": size, "seconds": round(seconds, 3), **facts})
    return f"{path}: {size:,} bytes, in {seconds:.1f} s"


def build(
    model: Annotated[str, typer.Argument(help="a model file of any format that is read")],
    output: Annotated[str, typer.Option("--output", "-o", help="the bundle, a .tbm")] = "",
    size: Annotated[list[str] | None, typer.Option("--size", help="an open size of the model: h=256")] = None,
    on: Annotated[str, typer.Option("--on", "--machine", help="cpu or reference")] = "cpu",
    json_: Json = False,
) -> str:
    """Network, weights and code for this CPU in one file that starts without compiling."""
    from trilobite import inference

    path = output or os.path.splitext(model)[0] + ".tbm"
    began = time.perf_counter()
    inference.build(model, path, sizes=sizes_of(size or ()), target=on)
    return _said(path, time.perf_counter() - began, json_, target=on)


def optimize(
    model: Annotated[str, typer.Argument(help="a model file of any format that is read")],
    output: Annotated[str, typer.Option("--output", "-o", help="the .onnx to write")] = "",
    size: Annotated[list[str] | None, typer.Option("--size", help="an open size, to compare: h=256")] = None,
    compare: Annotated[bool, typer.Option(help="run both and compare what they give")] = True,
    tolerance: Annotated[float, typer.Option(help="of the largest value")] = 1e-3,
    json_: Json = False,
) -> str:
    """The same network with fewer nodes: constants and shapes computed, normalisations in their layers."""
    from trilobite import inference
    from trilobite.inference.reader import onnx_module

    path = output or os.path.splitext(model)[0] + ".smaller.onnx"
    if not path.endswith(".onnx"):
        raise ArgumentError(f"optimize to {path!r}", expected="a path that ends in .onnx")
    began = time.perf_counter()
    found = inference.optimize(model)
    rows = _compared(model, found.model, size, tolerance) if compare else []
    with storage_errors("the file could not be written", path, WRITTEN):
        onnx_module().save(found.model, path)
    seconds = time.perf_counter() - began
    facts = {"nodes": found.after, "before": found.before, "rewrites": dict(found.counts), "outputs": rows}
    said = _said(path, seconds, json_, **facts)
    if not json_:
        lines = [f"{count:>6}  {name}" for name, count in found.counts.items() if count]
        lines += [f"  {row['name']}: at most {row['error']:.3g} apart" for row in rows]
        said = "\n".join([said, f"{found.before} nodes became {found.after}", *lines])
    if not all(row["agrees"] for row in rows):
        typer.echo(said)
        raise typer.Exit(DIFFERENT)
    return said


def _compared(model: str, smaller: Any, sizes: list[str] | None, tolerance: float) -> list[dict[str, Any]]:
    """Both with the same random inputs."""
    from trilobite import inference

    first = open_model(model)
    values = feeds(first.inputs, (), sizes_of(sizes or ()), Pixels())
    left, right = first.run(values), inference.load(smaller).run(values)
    return [apart(name, np.asarray(left[name]), np.asarray(right[name]), tolerance) for name in left]


def convert(
    source: Annotated[
        str, typer.Argument(help="a network: .tflite .pb .prototxt .h5 .keras model.json .onnx")
    ],
    destination: Annotated[str, typer.Argument(help="the .onnx to write")],
    weights: Annotated[str, typer.Option(help="the caffemodel of a prototxt, if not beside it")] = "",
    output: Annotated[
        list[str] | None, typer.Option(help="a node of a TensorFlow graph that is an output")
    ] = None,
    json_: Json = False,
) -> str:
    """A network of another format as ONNX."""
    from trilobite.inference.formats import to_onnx
    from trilobite.inference.reader import onnx_module

    if not destination.endswith(".onnx"):
        raise ArgumentError(f"convert to {destination!r}", expected="a path that ends in .onnx")
    options: dict[str, object] = {"weights": weights} if weights else {}
    options |= {"outputs": output} if output else {}
    began = time.perf_counter()
    onnx = onnx_module()
    proto = onnx.load(source) if source.endswith(".onnx") else to_onnx(source, **options)
    with storage_errors("the file could not be written", destination, WRITTEN):
        onnx.save(proto, destination)
    return _said(destination, time.perf_counter() - began, json_, nodes=len(proto.graph.node))
