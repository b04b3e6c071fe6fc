"""run, bench, compare and convert on model files.

Enters: words of a command line. Leaves: lines for a person, or one JSON object with `--json`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from trilobite.base.errors import ArgumentError, FileError
from trilobite.cli.models.feeds import Pixels, feeds, numbers, sizes_of
from trilobite.cli.models.layers import first_apart, layers_apart, other_engine
from trilobite.cli.models.subject import Array, Subject, open_model
from trilobite.framework.checkpoint.durable import storage_errors

DIFFERENT = 3  # exit code of `compare`
WRITTEN = "a path in a directory that is there and may be written to"
PROGRAMS = (".s", ".dlp", ".mlu", ".py")
Model = Annotated[str, typer.Argument(help="a model file, or a network of the zoo")]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", help="FILE or NAME=FILE: .npy .npz .json .wav or a picture; else random"),
]
On = Annotated[str, typer.Option("--on", "--machine", help="cpu, reference, or dlp:MACHINE")]
Sizes = Annotated[list[str] | None, typer.Option("--size", help="an open size of the model: h=256")]
Mean = Annotated[str, typer.Option(help="of pixels between 0 and 1, by channel: 0.485,0.456,0.406")]
Deviation = Annotated[str, typer.Option("--std", help="of pixels between 0 and 1, by channel")]
Raw = Annotated[bool, typer.Option("--raw", help="pixels from 0 to 255 instead of 0 to 1")]
Bgr = Annotated[bool, typer.Option("--bgr", help="blue first, as OpenCV and Caffe have it")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object instead of lines")]


def given(
    subject: Subject, inputs: Sequence[str] | None, sizes: Sequence[str] | None, pixels: Pixels
) -> dict[str, Array]:
    return feeds(subject.inputs, inputs or (), sizes_of(sizes or ()), pixels)


def pixels_of(mean: str, deviation: str, raw: bool, bgr: bool) -> Pixels:
    return Pixels(numbers(mean, "mean"), numbers(deviation, "standard deviation"), raw, bgr)


def run(
    model: Model,
    input: Inputs = None,
    on: On = "cpu",
    size: Sizes = None,
    mean: Mean = "0",
    std: Deviation = "1",
    raw: Raw = False,
    bgr: Bgr = False,
    labels: Annotated[str, typer.Option(help="a text file, a class a line: the best five are named")] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="outputs as .npz, or one as .npy or a picture")
    ] = "",
    json_: Json = False,
) -> None:
    """Run a model once and show what comes out: `trilobite run model.onnx -i cat.png`."""
    if Path(model).suffix in PROGRAMS:
        raise ArgumentError(
            f"{model} is a program of the processor",
            expected="a model file",
            remedy=f"trilobite kernel run {model} runs a kernel, trilobite profile {model} a program",
        )
    names = _labels(labels)
    subject = open_model(model, on)
    values = given(subject, input, size, pixels_of(mean, std, raw, bgr))
    on = subject.target  # of a bundle, the one that it was built for
    began = time.perf_counter()
    found = subject.run(values)
    seconds = time.perf_counter() - began
    rows = {name: described(np.asarray(value), names) for name, value in found.items()}
    if names and not any("best" in row for row in rows.values()):
        raise ArgumentError(
            f"{len(names)} labels in {labels}",
            expected="as many as some output has along its last axis: "
            + ", ".join(f"{name} of shape {row['shape']}" for name, row in rows.items()),
        )
    if output:
        with storage_errors("the outputs could not be written", output, WRITTEN):
            write_outputs(output, found)
    simulated = _simulated(subject)
    if json_:
        typer.echo(json.dumps({"model": model, "on": on, "seconds": seconds, "outputs": rows, **simulated}))
        return
    for name, row in rows.items():
        typer.echo(f"{name}: {_line(row)}")
    typer.echo(f"{seconds * 1e3:.1f} ms on {on}, with compilation" + _cycles(simulated))


def _labels(path: str) -> list[str]:
    if not path:
        return []
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"the labels cannot be read: {error}", where=path) from error


def described(value: Array, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Shape, dtype, range; of scores with labels the best five."""
    row: dict[str, Any] = {"shape": list(value.shape), "dtype": str(value.dtype)}
    if value.size and value.dtype.kind in "fiub":
        flat = value.astype(np.float64).ravel()
        row.update(min=float(flat.min()), max=float(flat.max()), mean=float(flat.mean()))
        row["first"] = [float(v) for v in flat[:8]]
        if labels and value.shape[-1] == len(labels):
            best = np.argsort(-value.reshape(-1, len(labels))[0].astype(np.float64), kind="stable")[:5]
            row["best"] = [[labels[int(n)], float(value.reshape(-1, len(labels))[0, n])] for n in best]
    elif value.dtype == object:
        row["first"] = [str(v) for v in value.ravel()[:8]]
    return row


def _line(row: Mapping[str, Any]) -> str:
    text = f"{row['dtype']}[{', '.join(map(str, row['shape']))}]"
    if "min" in row:
        text += f" from {row['min']:.6g} to {row['max']:.6g}, mean {row['mean']:.6g}"
    if "best" in row:
        return text + "".join(f"\n  {score:10.4f}  {label}" for label, score in row["best"])
    shown = " ".join(v if isinstance(v, str) else f"{v:.6g}" for v in row.get("first", []))
    return f"{text}\n  {shown}" if shown else text


def write_outputs(path: str, found: Mapping[str, Any]) -> None:
    """All outputs as .npz; one of them as .npy, or as a picture where it is one."""
    suffix = Path(path).suffix.lower()
    arrays = {name: np.asarray(value) for name, value in found.items()}
    if suffix == ".npz":
        with Path(path).open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        return
    if len(arrays) != 1:
        raise ArgumentError(f"{len(arrays)} outputs for {path}", expected="a path that ends in .npz")
    (value,) = arrays.values()
    if suffix == ".npy":
        np.save(path, value)
        return
    from trilobite.apps.style import pictures

    image = value[0] if value.ndim == 4 else value
    image = image.transpose(1, 2, 0) if image.ndim == 3 and image.shape[0] in (1, 3) else image
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        raise ArgumentError(f"an output of shape {value.shape} as a picture", expected=".npy or .npz")
    scale = 255.0 if float(image.max(initial=0)) > 2 else 1.0
    pictures.write(path, np.broadcast_to(image / scale, (*image.shape[:2], 3)).astype(np.float32))


def _simulated(subject: Subject) -> dict[str, Any]:
    runs = subject.last_runs
    if not runs:
        return {}
    return {
        "cycles": sum(int(run.cycles) for run in runs),
        "simulated_seconds": sum(float(run.seconds) for run in runs),
        "joules": sum(float(run.energy.total) for run in runs),
    }


def _cycles(simulated: Mapping[str, Any]) -> str:
    if not simulated:
        return ""
    seconds, joules = simulated["simulated_seconds"], simulated["joules"]
    return f"; simulated: {simulated['cycles']:,} cycles, {seconds * 1e3:.3f} ms, {joules * 1e3:.4g} mJ"


def bench(
    model: Annotated[str, typer.Argument(help="a model file or a network; without one, all peers")] = "",
    on: On = "cpu",
    input: Inputs = None,
    size: Sizes = None,
    repeats: Annotated[int, typer.Option(help="calls that are measured")] = 30,
    against: Annotated[str, typer.Option(help="measure beside it: onnxruntime")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="without a model: a few rows")] = False,
    only: Annotated[str, typer.Option(help="without a model: rows where 'module: name' matches this")] = "",
    json_: Json = False,
) -> None:
    """Measure a model, alone or beside ONNX Runtime; without one, the package beside its peers."""
    if not model:
        from trilobite.cli.compiler import bench as whole

        whole(quick, only)
        return
    if repeats < 1:
        raise ArgumentError(f"{repeats} repeats", expected="at least 1")
    subject = open_model(model, on)
    values = given(subject, input, size, Pixels())
    began = time.perf_counter()
    subject.run(values)
    first = time.perf_counter() - began
    systems: dict[str, Callable[[], Any]] = {on: lambda: subject.run(values)}
    if against:
        other = _other(against, model)
        other(values)
        systems[against] = lambda: other(values)
    spent: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(repeats):
        for name, call in systems.items():
            began = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - began)
    rows = {name: {"minimum": min(t), "median": float(np.median(t))} for name, t in spent.items()}
    if json_:
        typer.echo(json.dumps({"model": model, "first_call": first, "repeats": repeats, "systems": rows}))
        return
    typer.echo(f"{subject.name}: the first call took {first * 1e3:.1f} ms")
    for name, row in rows.items():
        typer.echo(
            f"{name:<14} minimum {row['minimum'] * 1e3:9.3f} ms   median {row['median'] * 1e3:9.3f} ms"
        )


def _other(name: str, model: str) -> Callable[[Mapping[str, Array]], dict[str, Any]]:
    """A function of feeds: the same file in another engine."""
    if Path(model).suffix.lower() != ".onnx":
        raise ArgumentError(f"{model} for ONNX Runtime", expected="an .onnx file")
    found: Callable[[Mapping[str, Array]], dict[str, Any]] = other_engine(model, name)
    return found


def compare(
    model: Model,
    on: Annotated[
        list[str] | None, typer.Option("--on", "--machine", help="two targets, each with --on")
    ] = None,
    against: Annotated[str, typer.Option(help="compare with it: onnxruntime")] = "",
    input: Inputs = None,
    size: Sizes = None,
    tolerance: Annotated[
        float, typer.Option(help="of the largest value, before results count as different")
    ] = 1e-3,
    layers: Annotated[bool, typer.Option("--layers", help="after every layer of a model file")] = False,
    json_: Json = False,
) -> None:
    """Run a model twice, on two targets or beside ONNX Runtime, and show how far the results are apart. If
    they differ, the first layer after which they do is named; with --layers every one is listed.
    """
    targets = on or (["cpu"] if against else ["cpu", "reference"])
    if len(targets) != (1 if against else 2):
        raise ArgumentError(f"a comparison of {len(targets)} targets", expected="--on A --on B, or --against")
    first = open_model(model, targets[0])
    values = given(first, input, size, Pixels())
    left = first.run(values)
    right = _other(against, model)(values) if against else open_model(model, targets[1]).run(values)
    rows = [apart(name, np.asarray(left[name]), np.asarray(right[name]), tolerance) for name in left]
    agree = all(row["agrees"] for row in rows)
    deep: list[dict[str, Any]] = []
    if os.path.isfile(model) and (layers or not agree):
        deep = layers_apart(model, targets, against, values, tolerance)
    begins = first_apart(deep)
    if json_:
        facts = {"model": model, "between": [targets[0], against or targets[1]], "outputs": rows}
        listed = {"layers": deep} if layers else {}
        typer.echo(json.dumps({**facts, **listed, "departs": begins}))
    else:
        for row in [*(deep if layers else ()), *rows]:
            typer.echo(_gap(row))
        if begins is not None:
            where = f" ({begins['node']})" if begins["node"] else ""
            typer.echo(
                f"first apart after {begins['operator']}{where}: {_gap({**begins, 'operator': ''}).strip()}"
            )
    if not agree:
        raise typer.Exit(DIFFERENT)


def _gap(row: Mapping[str, Any]) -> str:
    word = "agrees" if row["agrees"] else "DIFFERS"
    operator = f"{row['operator']:<20} " if row.get("operator") else ""
    apart_by = f"at most {row['error']:.3g} apart (values up to {row['largest']:.3g})"
    return f"{operator}{row['name']}: {word}, {apart_by}"


def apart(name: str, left: Array, right: Array, tolerance: float) -> dict[str, Any]:
    """Equal shapes, dtypes of one kind, and values within the tolerance of the largest; NaN equals NaN."""
    row: dict[str, Any] = {"name": name, "error": float("inf"), "largest": float("nan"), "agrees": False}
    if left.shape != right.shape:
        return row
    if left.dtype.kind not in "fiubc":
        same = bool((left == right).all())
        return {**row, "error": 0.0 if same else float("inf"), "agrees": same}
    a, b = left.astype(np.complex128), right.astype(np.complex128)
    both = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        error = np.where(both, 0.0, np.abs(a - b))
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max(initial=0.0))
    worst = float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))
    return {
        "name": name,
        "error": worst,
        "largest": largest,
        "agrees": worst <= tolerance * max(largest, 1e-30),
    }
