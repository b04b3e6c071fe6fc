"""build and convert: model files into other files.

Enters: words of a command line. Leaves: a file, and a line on it (or one JSON object with `--json`).
"""

from __future__ import annotations

import json
import os
import time
from typing import Annotated

import typer

from trilobite.base.errors import ArgumentError
from trilobite.cli.models.feeds import sizes_of

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
    onnx.save(proto, destination)
    return _said(destination, time.perf_counter() - began, json_, nodes=len(proto.graph.node))
