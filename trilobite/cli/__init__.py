"""The command `trilobite`: one row of a table a command, each imported only when it is called.

Enters: the words of a command line. Leaves: what the command prints, and an exit code. A command is a plain
function with types; its parameters become arguments and options. What a command does stands in the room
that it belongs to, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilobite.base.errors import TrilobiteError

__all__ = ["COMMANDS", "Command", "main"]


class Command(NamedTuple):
    """A name, the line that `--help` shows, and where the function is: "module:function"."""

    name: str
    summary: str
    target: str


COMMANDS = (
    Command("asm", "Assemble a program of the processor.", "trilobite.cli.processor:asm"),
    Command("bench", "Measure a model, or the package beside its peers.", "trilobite.cli.models.verbs:bench"),
    Command("build", "Make a bundle of a model: one file, ready to run.", "trilobite.cli.models.files:build"),
    Command("check", "Look for races and memory errors.", "trilobite.cli.processor:check"),
    Command("cluster", "Measure this machine for plans.", "trilobite.cluster.planning.paper:cluster"),
    Command("compile", "Show what the compiler makes of a network.", "trilobite.cli.compiler:compile"),
    Command("compare", "Run a model twice, and show the difference.", "trilobite.cli.models.verbs:compare"),
    Command("convert", "Turn a network of another format into ONNX.", "trilobite.cli.models.files:convert"),
    Command("debug", "Step through a program of the processor.", "trilobite.cli.processor:debug"),
    Command("disasm", "Show a binary as assembly text.", "trilobite.cli.processor:disasm"),
    Command("demo", "Show the whole system in a few minutes.", "trilobite.apps.demo:main"),
    Command("digits", "Train a network on handwritten digits.", "trilobite.apps.digits:main"),
    Command("info", "Show versions, the CPU and where the caches are.", "trilobite.cli.info:info"),
    Command("inspect", "Show what a model file holds.", "trilobite.cli.models.inspection:inspect"),
    Command("kernels", "Show how long each kernel of a network takes.", "trilobite.cli.compiler:kernels"),
    Command("kernel", "Run, check or profile a BANG C kernel.", "trilobite.cli.kernel:kernel"),
    Command("lab", "Show or grade a lab of the course.", "trilobite.apps.labs.command:lab"),
    Command("labs", "List the labs of the course.", "trilobite.apps.labs.command:labs"),
    Command("launch", "Run a script as several processes.", "trilobite.cluster.launch:launch"),
    Command("machines", "List the processors, or draw one.", "trilobite.cli.processor:machines"),
    Command("optimize", "Write a model with fewer nodes.", "trilobite.cli.models.files:optimize"),
    Command(
        "profile", "Show where the time of a model or program goes.", "trilobite.cli.models.profile:profile"
    ),
    Command("run", "Run a model file.", "trilobite.cli.models.verbs:run"),
    Command("studio", "Watch a command in a browser while it runs.", "trilobite.report.studio:studio"),
    Command("style", "Paint a picture in the style of another.", "trilobite.apps.style.command:style"),
    Command(
        "style-train", "Train a network for one style.", "trilobite.apps.style.train_command:style_train"
    ),
    Command("sweep", "Measure a model on many machines.", "trilobite.cli.sweep:sweep"),
    Command("tune", "Search for better schedules of a network's kernels.", "trilobite.cli.compiler:tune"),
)


def main() -> None:
    """Runs the command line of this process; errors of the house are shown without a traceback."""
    import sys

    from trilobite.base.errors import TrilobiteError
    from trilobite.cli.application import application

    try:
        application(COMMANDS)()
    except TrilobiteError as error:
        sys.exit(f"trilobite: {shown(error)}")


def shown(error: TrilobiteError) -> str:
    """The error's text. A place in our own code, or in what called it, tells somebody at a shell nothing."""
    from trilobite.base.locations import Location

    if not isinstance(error.where, Location) or not _is_ours(error.where.file):
        return str(error)
    return str(type(error)(error.what, expected=error.expected, remedy=error.remedy))


def _is_ours(file: str) -> bool:
    from pathlib import Path

    import trilobite

    path, package = Path(file), Path(trilobite.__file__).parent
    if path.is_relative_to(package):
        return not path.is_relative_to(package / "zoo")
    return not {"typer", "click"}.isdisjoint(path.parts)
