"""Plans without processes: `trilobite launch --dry-run -n 4096 train.py`, and `trilobite cluster measure`.

A script says what it trains in a function `task()`, or `task(layers)` with a number `LAYERS` beside it for
models whose layers are alike. It is run under another name than `__main__`, so that nothing trains.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from trilobite.base.errors import ArgumentError
from trilobite.cluster.launch import environment, launcher
from trilobite.cluster.planning.machines import Machine, described
from trilobite.cluster.planning.search import plans

SHOWN = 3
STAGES = (1, 2, 4, 8, 16, 32, 64)


def dry_run(script: str, arguments: list[str], ranks: int, machine: str) -> str:
    """The best plans for the task of a script, as text."""
    before, sys.argv = sys.argv, [script, *arguments]
    try:
        found = runpy.run_path(script, run_name="dry_run")
    finally:
        sys.argv = before
    task, layers = found.get("task"), found.get("LAYERS")
    if not callable(task):
        raise ArgumentError(
            f"{script} has no function task()",
            expected="one that returns a tb.cluster.Task of the step, the model, the optimiser and arguments",
            remedy="move what builds them into task(), and train under if __name__ == '__main__'",
        )
    at = described(machine) if machine else Machine()
    if layers is None:
        made = plans(task(), ranks, at)
    else:
        stages = [n for n in STAGES if n <= min(ranks, layers)]
        made = plans(task, ranks, at, layers=layers, stages=stages)
    fit = [p for p in made if p.fits]
    head = f"{len(fit)} of {len(made)} plans for {ranks} ranks fit into memory"
    return "\n".join([head, *map(str, (fit or made)[:SHOWN])])


def cluster(
    action: Annotated[str, typer.Argument(help="measure: what messages, products and memory take.")],
    ranks: Annotated[int, typer.Option("-n", "--ranks", help="How many processes exchange messages.")] = 1,
    out: Annotated[str, typer.Option(help="A YAML file for what was found.")] = "",
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 4.0,
) -> None:
    """Measure products, memory, kernels and messages of this machine, for plans."""
    if action != "measure" or ranks < 1 or seconds <= 0:
        raise ArgumentError(
            f"cluster {action} with {ranks} ranks for {seconds} s",
            expected="trilobite cluster measure, at least one rank, and some time",
        )
    with TemporaryDirectory() as folder:
        file = Path(out or Path(folder) / "machine.yaml")
        code = f"from trilobite.cluster.planning.paper import measured; measured({str(file)!r}, {seconds!r})"
        command = [sys.executable, "-c", code]
        command = command if ranks == 1 else [launcher(), "-n", str(ranks), *command]
        done = subprocess.run(command, env=environment(ranks, 0, 600.0))
        if done.returncode:
            raise SystemExit(done.returncode)
        typer.echo(file.read_text().rstrip())


def measured(path: str, seconds: float) -> None:
    """What each process of `cluster measure` runs; the first writes the file."""
    from trilobite.cluster.groups import rank
    from trilobite.cluster.planning import machines

    found = machines.measure(seconds)
    if rank() == 0:
        found.save(path)
