"""`trilobite profile`: where the time of a model or of a processor's program goes, as text or as a page.

Enters: a model file, a network of the zoo, or a program (.s, .dlp, .mlu, .py). Leaves: the targets' own
profiles on the terminal, and with `-o report.html` one page with a view of each.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from trilobite.base.errors import ArgumentError
from trilobite.cli.models.feeds import Pixels
from trilobite.cli.models.subject import FileSubject, Subject, ZooSubject, open_model
from trilobite.cli.models.verbs import PROGRAMS, Inputs, Json, Sizes, given
from trilobite.processor.machine.description import DEFAULT


def profile(
    source: Annotated[str, typer.Argument(help="a model file, a network of the zoo, or a program")],
    on: Annotated[
        list[str] | None, typer.Option("--on", "--machine", help="a target; several: --on cpu --on dlp:dlp-m")
    ] = None,
    input: Inputs = None,
    size: Sizes = None,
    repeats: Annotated[int, typer.Option(help="calls; each kernel's least time counts")] = 10,
    output: Annotated[
        str, typer.Option("--output", "-o", help="a page (.html); for programs a directory for traces")
    ] = "",
    against: Annotated[
        list[str] | None,
        typer.Option(help="a page of an earlier profile, to compare with; may be given again"),
    ] = None,
    entry: Annotated[str, typer.Option(help="of a program: where it begins")] = "",
    arg: Annotated[list[str] | None, typer.Option(help="of a program: 3, random:f32:8x4, x.npy ...")] = None,
    dim: Annotated[str, typer.Option(help="of a program: its tasks, 16 or 4x4x1")] = "1",
    task: Annotated[str, typer.Option(help="of a program: block, or union1 to union16")] = "block",
    json_: Json = False,
) -> None:
    """Show where the time of a model or program goes: `trilobite profile resnet18 -o report.html`."""
    if json_ and (output or Path(source).suffix in PROGRAMS):
        raise ArgumentError("--json with a page or a program", expected="a model, without -o")
    if Path(source).suffix in PROGRAMS:
        _program(source, on, entry, arg, dim, task, output)
        return
    _check(repeats, against, output)
    subjects: list[Any] = []
    traces: list[Path] = []
    said: dict[str, Any] = {}
    for target in on or ["cpu"]:
        subject = open_model(source, target)
        found = measured(subject, given(subject, input, size, Pixels()), repeats)
        said[target] = _facts(found)
        if not json_:
            typer.echo(f"{subject.name} on {target}\n{found}")
        if output:
            from trilobite.report.network import subjects_of
            from trilobite.report.page import write_traces

            subjects += subjects_of(subject.name, found)
            traces += write_traces(Path(output), target, found)
    if json_:
        typer.echo(json.dumps({"model": source, "on": said}))
    if output:
        from trilobite.report.page import kept_subjects, write_page

        subjects += [kept for page in against or () for kept in kept_subjects(page)]
        for path in (write_page(output, f"{source}: where the time goes", subjects), *traces):
            typer.echo(f"wrote {path}")


def _check(repeats: int, against: list[str] | None, output: str) -> None:
    if repeats < 1:
        raise ArgumentError(f"{repeats} repeats", expected="at least 1")
    if against and not output:
        raise ArgumentError("--against without a page to write", expected="-o PAGE.html beside it")


def _facts(found: Any) -> dict[str, Any]:
    """For programs: what a person would read, and the times of steps where there are any."""
    from trilobite.inference.session import Profile

    rows = found.rows if isinstance(found, Profile) else ()
    steps = [{"name": name, "milliseconds": ms} for name, ms in rows]
    return {"steps": steps, "text": str(found).splitlines()}


def _program(
    source: str, on: list[str] | None, entry: str, arg: list[str] | None, dim: str, task: str, output: str
) -> None:
    from trilobite.processor.tools.launching import profile as launched

    machines = [name.removeprefix("dlp:") for name in on or [DEFAULT]]
    if output.endswith(".html"):
        from trilobite.processor.tools.launching import named_launch
        from trilobite.report import launch_subject, write_page

        made = [named_launch(source, machine, entry, arg, dim, task) for machine in machines]
        runs = [m.device.launch(m.kernel, m.args, m.dim, m.task) for m in made]
        subjects = [launch_subject(run, Path(source).parent) for run in runs]
        title = f"{Path(source).name}: where the cycles go"
        typer.echo(f"wrote {write_page(output, title, subjects)}")
        return
    for machine in machines:
        launched(source, machine, entry, arg, dim, task, output)


def measured(subject: Subject, values: Any, repeats: int) -> Any:
    """What the session, or the compiled network, says of itself."""
    if isinstance(subject, FileSubject):
        return subject.session.profile(values, repeats)
    assert isinstance(subject, ZooSubject)
    import trilobite as tb

    with tb.no_grad():
        x = tb.tensor(values["x"])
        subject.jitted(x)
        return subject.jitted.profile(x, repeats=repeats)
