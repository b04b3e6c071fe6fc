"""`trilobite sweep`: one model on many machines, as a table, a CSV file and a picture.

Enters: a model file or a network of the zoo, a machine, fields with values. Leaves: a point for every
combination. Machines that differ only in time (clock, bandwidths, latencies, power) share one mapping: the
network is compiled and run for the first of them and replayed for the others; for every other structure it is
mapped anew. Each point says which. Structures are spread over processes; results do not depend on how many.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import typer

from trilobite.base.errors import ArgumentError, FileError
from trilobite.cli.models.feeds import Pixels
from trilobite.cli.models.verbs import Inputs, Sizes

_TIMING = re.compile(
    r"clock_ghz|process_nm|dram\.(gb_per_s|latency_ns|efficiency|row_ns|refresh\w*)|launch\.\w+|power\.\w+|"
    r"host\.\w+|.*\.(latency_ns|hop_cycles|depth|outstanding)|(sram|noc|core\.\w+|llc)\.\w*bytes_per_cycle"
)
"""Fields that change when things happen, not what: a run is replayed with them."""


@dataclass(frozen=True)
class Job:
    """What a process does: one model, and machines of one structure. The first is compiled for."""

    model: str
    inputs: tuple[str, ...]
    sizes: tuple[str, ...]
    dtype: str
    machines: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Point:
    """One machine: `how` is "mapped anew" or "replayed"."""

    name: str
    how: str
    cycles: int
    seconds: float
    joules: float
    mm2: float


def sweep(
    model: Annotated[str, typer.Argument(help="a model file, or a network of the zoo")],
    machine: Annotated[str, typer.Option(help="a preset or a YAML file to begin with")] = "dlp-s",
    vary: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE,VALUE,... of the machine; may be given again")
    ] = None,
    input: Inputs = None,
    size: Sizes = None,
    dtype: Annotated[
        str, typer.Option(help="of a network of the zoo: float32, float16, bfloat16, int8, int16")
    ] = "float32",
    workers: Annotated[int, typer.Option(help="processes; 0: as many as there are cores")] = 0,
    output: Annotated[str, typer.Option("--output", "-o", help="a file for the points: .csv")] = "",
    plot: Annotated[str, typer.Option(help="a picture of time against energy: .svg")] = "",
) -> None:
    """Measure a model on many machines: `trilobite sweep lenet --vary core.mfu.rows=16,32`."""
    from trilobite.processor.machine import load_machine
    from trilobite.processor.tools.sweep import grid

    check_options(workers, (output, plot))
    axes = axes_of(vary or ())
    machines = grid(load_machine(machine), axes)
    jobs = jobs_of(Job(model, tuple(input or ()), tuple(size or ()), dtype, ()), axes, machines)
    points = measured(jobs, len(machines), workers)
    ordered = [points[name] for name in machines]
    best = front(ordered)
    typer.echo(table(ordered, best))
    for path, text in (
        (output, as_csv(axes, ordered, best)),
        (plot, picture(ordered, best, f"{model} on {machine}")),
    ):
        if path:
            Path(path).write_text(text, encoding="utf-8")
            typer.echo(f"wrote {path}")


def check_options(workers: int, paths: Sequence[str]) -> None:
    """What would fail behind the last point otherwise."""
    if workers < 0:
        raise ArgumentError(f"--workers {workers}", expected="0, for as many as there are cores, or more")
    for path in filter(None, paths):
        if Path(path).is_dir() or not Path(path).absolute().parent.is_dir():
            raise FileError(f"{path} cannot be written", expected="a file in a folder that is there")


# -- what to measure -----------------------------------------------------------------------------------------


def axes_of(words: Sequence[str]) -> dict[str, list[Any]]:
    """Fields and their values: `dram.gb_per_s=25,50`."""
    found: dict[str, list[Any]] = {}
    for word in words:
        field, sign, values = word.partition("=")
        parts = [v.strip() for v in values.split(",")]
        if not sign or not field or not all(parts) or field in found:
            raise ArgumentError(
                f"--vary {word}",
                expected="FIELD=VALUE,VALUE,... with each field once",
                remedy="for example --vary core.mfu.rows=16,32 --vary dram.gb_per_s=25,50",
            )
        if len(set(parts)) < len(parts):
            raise ArgumentError(f"--vary {word}", expected="each value of a field once")
        found[field] = [_value(word, v) for v in parts]
    if not found:
        raise ArgumentError(
            "a sweep over nothing",
            expected="at least one --vary FIELD=VALUE,VALUE,...",
            remedy="docs/machines.md lists the fields of a machine",
        )
    return found


def _value(word: str, text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ArgumentError(
            f"--vary {word}: {text!r} is no value of YAML",
            expected="numbers, words, true or false, without commas inside",
        ) from error


def jobs_of(job: Job, axes: Mapping[str, Sequence[Any]], machines: Mapping[str, Any]) -> list[Job]:
    """Machines that differ only in fields of time go together."""
    structural = [not _TIMING.fullmatch(field) for field in axes]
    groups: dict[tuple[str, ...], list[tuple[str, Any]]] = {}
    for values, (name, machine) in zip(product(*axes.values()), machines.items(), strict=True):
        key = tuple(repr(v) for v, kept in zip(values, structural, strict=True) if kept)
        groups.setdefault(key, []).append((name, machine))
    return [replace(job, machines=tuple(group)) for group in groups.values()]


# -- measuring -----------------------------------------------------------------------------------------------


def measured(jobs: Sequence[Job], total: int, workers: int) -> dict[str, Point]:
    """All points by name, with a bar on terminals."""
    import os

    from rich.progress import Progress

    many = min(workers or os.cpu_count() or 1, len(jobs))
    found: dict[str, Point] = {}
    with Progress(disable=not typer.get_text_stream("stdout").isatty()) as bar:
        task = bar.add_task("machines", total=total)
        for points in _done(jobs, many):
            found.update((p.name, p) for p in points)
            bar.advance(task, len(points))
    return found


def _done(jobs: Sequence[Job], workers: int) -> Iterator[list[Point]]:
    if workers <= 1:
        yield from map(points_of, jobs)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from (future.result() for future in as_completed([pool.submit(points_of, j) for j in jobs]))


def points_of(job: Job) -> list[Point]:
    """One run, and its replays."""
    from trilobite.processor.sim.area import area_of

    points = []
    runs: list[Any] = []
    for name, machine in job.machines:
        how = "replayed" if runs else "mapped anew"
        now = [run.replay(machine) for run in runs] if runs else _runs(job, machine)
        runs = runs or now
        figures = [
            sum(column) for column in zip(*((r.cycles, r.seconds, r.energy.total) for r in now), strict=True)
        ]
        points.append(Point(name, how, int(figures[0]), figures[1], figures[2], area_of(machine).total))
    return points


def _runs(job: Job, machine: Any) -> list[Any]:
    """The launches of one call of the model on a machine."""
    from trilobite.cli.models.subject import ZooSubject, open_model
    from trilobite.cli.models.verbs import given

    subject = open_model(job.model, machine)
    values = given(subject, job.inputs, job.sizes, Pixels())
    if job.dtype != "float32":
        if not isinstance(subject, ZooSubject):
            raise ArgumentError(
                f"--dtype {job.dtype} for the file {job.model}",
                expected="a network of the zoo: a file has the formats that it was written with",
            )
        subject.convert(job.dtype, values)
    subject.run(values)
    return subject.last_runs


# -- showing -------------------------------------------------------------------------------------------------


def front(points: Sequence[Point]) -> set[str]:
    """Points that no other beats in time and in energy."""
    return {
        p.name
        for p in points
        if not any(
            q.seconds <= p.seconds and q.joules <= p.joules and (q.seconds, q.joules) != (p.seconds, p.joules)
            for q in points
        )
    }


def table(points: Sequence[Point], best: set[str]) -> str:
    width = max(len(p.name) for p in points)
    lines = [f"  {'machine':<{width}} {'cycles':>14} {'ms':>12} {'mJ':>12} {'mm2':>10}  "]
    for p in points:
        mark = "*" if p.name in best else " "
        cells = f"{p.cycles:>14,} {p.seconds * 1e3:>12.4f} {p.joules * 1e3:>12.4f} {p.mm2:>10.2f}"
        lines.append(f"{mark} {p.name:<{width}} {cells}  {p.how}")
    return "\n".join([*lines, "* no other point is faster and takes less energy"])


def as_csv(axes: Mapping[str, Sequence[Any]], points: Sequence[Point], best: set[str]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*axes, "how", "cycles", "seconds", "joules", "mm2", "on_front"])
    for values, p in zip(product(*axes.values()), points, strict=True):
        rows.writerow(
            [*values, p.how, p.cycles, repr(p.seconds), repr(p.joules), repr(p.mm2), p.name in best]
        )
    return text.getvalue()


def picture(points: Sequence[Point], best: set[str], title: str) -> str:
    from trilobite.report.scatter import Mark, scatter

    marks = [
        Mark(p.seconds * 1e3, p.joules * 1e3, f"{p.name}: {p.how}", p.how == "mapped anew", p.name in best)
        for p in points
    ]
    return scatter(marks, title, "milliseconds", "millijoules", ("mapped anew", "replayed"))
