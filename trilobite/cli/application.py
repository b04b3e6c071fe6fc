"""Builds the typer application out of the table of commands.

Enters: the table. Leaves: a callable that reads the process's arguments. `--help` needs only the table; the
module of a command is imported when that command is named, so that one slow room does not make all the
others slow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from trilobite.cli import Command


def load(command: Command) -> Callable[..., object]:
    """The function that a row of the table names."""
    module, _, name = command.target.partition(":")
    function: Callable[..., object] = getattr(import_module(module), name)
    return function


def application(commands: Sequence[Command]) -> typer.Typer:
    """An application with these commands; only the one that is called gets imported."""
    rows = {command.name: command for command in commands}

    class LazyGroup(TyperGroup):
        def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
            name, listed, rest = super().resolve_command(ctx, args)
            return (name, listed, rest) if name is None else (name, _built(rows[name]), rest)

    app = typer.Typer(
        name="trilobite",
        cls=LazyGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_describe)
    for command in commands:
        app.command(command.name, help=command.summary)(_listed)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        import trilobite

        typer.echo(f"trilobite {trilobite.__version__}")
        raise typer.Exit


def _describe(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """A whole AI computing system: framework, compiler, processor."""


def _listed() -> None:
    """Stands for a command in the list; the group puts the real one in its place before it runs."""


def _shown(function: Callable[..., object]) -> Callable[..., None]:
    """The function with the text it returns, if any, on the terminal."""

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> None:
        text = function(*args, **kwargs)
        if isinstance(text, str):
            typer.echo(text.rstrip("\n"))

    return command


def _built(command: Command) -> Any:
    function = load(command)
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    settings = getattr(function, "context_settings", None)  # how it wants its words read
    single.command(command.name, help=function.__doc__ or command.summary, context_settings=settings)(
        _shown(function)
    )
    return typer.main.get_command(single)
