"""`trilobite labs` and `trilobite lab NAME`: the list, the task, a file to begin with, and the grader."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trilobite.apps.labs.catalogue import LABS, load, material
from trilobite.base.errors import ArgumentError


def labs() -> str:
    """List the labs of the course."""
    width = max(map(len, LABS))
    lines = [
        f"{number:2}  {name:{width}}  {line}" for number, (name, line) in enumerate(LABS.items(), start=1)
    ]
    lines += ["", "trilobite lab NAME --start my_solution.py     a file to begin with"]
    lines += ["trilobite lab NAME --check my_solution.py     is it right?"]
    return "\n".join(lines)


def lab(
    name: Annotated[str, typer.Argument(help="a lab, as `trilobite labs` lists them")],
    start: Annotated[str, typer.Option(help="write a file to begin with here")] = "",
    check: Annotated[str, typer.Option(help="grade this file on fresh random cases")] = "",
    solution: Annotated[bool, typer.Option(help="print a solution")] = False,
    seed: Annotated[int | None, typer.Option(help="the cases of an earlier check again")] = None,
    cases: Annotated[int, typer.Option(help="at most so many cases a part; 0: as many as the lab has")] = 0,
    seconds: Annotated[float, typer.Option(help="that the file may take; 0: the lab's own limit")] = 0.0,
) -> str:
    """Show a lab's task, write a file to begin with, or grade a solution."""
    found = load(name)
    if sum(map(bool, (start, check, solution))) > 1:
        raise ArgumentError("more than one thing was asked for", expected="--start, --check or --solution")
    if solution:
        return material(name, "solution")
    if start:
        return _started(name, Path(start))
    if check:
        from trilobite.apps.labs.checking import check as grade

        result = grade(found, check, seed, cases, seconds)
        typer.echo(result.text())
        raise typer.Exit(0 if result.right else 1)
    lines = [f"{name}: {found.title}", ""]
    lines += [f"  {part.name:22} {part.task}" for part in found.parts]
    lines += ["", f"trilobite lab {name} --start my_solution.py     a file to begin with"]
    lines += [f"trilobite lab {name} --check my_solution.py     is it right?"]
    return "\n".join(lines)


def _started(name: str, path: Path) -> str:
    try:
        with open(path, "x", encoding="utf-8") as file:  # never over what somebody has written
            file.write(material(name, "starter"))
    except FileExistsError:
        raise ArgumentError(
            f"{path} is there already",
            expected="a name that is free",
            remedy="choose another, or move it away",
        ) from None
    return f"{path}: begin here, then trilobite lab {name} --check {path}"
