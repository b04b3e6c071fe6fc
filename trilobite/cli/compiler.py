"""The compiler's commands: words of the command line to what targets tell of their programs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from trilobite.base.errors import ArgumentError, StateError
from trilobite.cli.networks import network, recorded
from trilobite.compiler.targets.contract import Usage

Name = Annotated[str, typer.Argument(help="a network of the zoo")]
NameOrPath = Annotated[str, typer.Argument(help="a network of the zoo, or a file with a graph's text")]
Batch = Annotated[int, typer.Option(help="examples at once")]
Training = Annotated[bool, typer.Option("--training", help="a whole training step instead of inference")]


def compile(
    name: NameOrPath = "",
    batch: Batch = 1,
    training: Training = False,
    emit: Annotated[str, typer.Option(help="graph, program, memory, loops, c, llvm or asm")] = "graph",
    stop_after: Annotated[str, typer.Option(help="show the graph after this pass")] = "",
    skip: Annotated[list[str] | None, typer.Option(help="leave this pass out; may be given again")] = None,
    listed: Annotated[bool, typer.Option("--list", help="the passes, and what fired in each")] = False,
    target: Annotated[str, typer.Option(help="what it is compiled for: cpu, dlp:dlp-m")] = "cpu",
) -> str:
    """Show what the compiler makes of a network, at any level: `trilobite compile resnet18 --emit loops`."""
    from trilobite.compiler.tools import level_text, passes_text

    if not name:
        if listed:
            return passes_text(target=target)
        raise ArgumentError(
            "trilobite compile without a network", expected="trilobite compile NAME, or --list"
        )
    graph, usage = recorded(name, batch, training)
    usage = Usage(usage.stable, usage.donated, (("skip", frozenset(skip)),) if skip else ())
    if listed:
        return passes_text(graph, usage, target)
    return level_text(graph, usage, emit, stop_after, target)


def kernels(
    name: Name,
    batch: Batch = 1,
    training: Training = False,
    repeats: Annotated[int, typer.Option(help="calls; each kernel's least time counts")] = 20,
    output: Annotated[str, typer.Option("--output", "-o", help="a directory for table, trace and JSON")] = "",
    again: Annotated[bool, typer.Option("--again", help="measure this machine's roofline again")] = False,
) -> str:
    """Show how long each kernel of a network takes, and how close it is to what the machine can do."""
    from trilobite.compiler.tools import profile

    subject = network(name, batch, training)
    with subject.mode():
        found = profile(subject.jitted, *subject.args, repeats=repeats, again=again)
    if not output:
        return str(found)
    return "\n".join([str(found), *(f"wrote {path}" for path in found.write(output))])


def tune(
    name: Name,
    batch: Batch = 1,
    training: Training = False,
    budget: Annotated[str, typer.Option(help="how long to search: 30s, 5m, 1h")] = "30s",
    seed: Annotated[int, typer.Option(help="of the search's random numbers")] = 0,
) -> str:
    """Search for better schedules of a network's kernels; compiled functions use them from then on."""
    from trilobite.compiler.targets.registry import HOST, executable

    seconds = duration(budget)
    graph, usage = network(name, batch, training).lowered()
    made = executable(graph, HOST, Usage(usage.stable, usage.donated))
    return made.tune(seconds, lambda line: typer.echo(line, err=True), seed)


def duration(text: str) -> float:
    """Seconds of "30s", "5m", "1h" or a plain number of seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ArgumentError(f"a budget of {text!r}", expected="a time such as 30s, 5m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="a few rows, printed and not written")] = False,
    only: Annotated[str, typer.Option(help="rows where 'module: name' matches this")] = "",
) -> None:
    """Measure against the other frameworks; needs the repository, which has the benchmarks."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "benchmarks" / "harness.py").is_file():
        raise StateError(
            "the benchmarks are not part of the installed package",
            where=root,
            expected="a checkout of the repository",
            remedy="get the repository and run make bench there",
        )
    peers = root / ".venv-bench" / "bin" / "python"
    words = [str(peers if peers.is_file() else sys.executable), "-m", "benchmarks.harness"]
    words += ["--quick"] * quick + (["--only", only] if only else [])
    if not peers.is_file():
        words += ["--systems", "trilobite"]
        typer.echo("the other frameworks are not installed (make bench does that): ours alone", err=True)
    raise typer.Exit(subprocess.run(words, cwd=root, check=False).returncode)
