"""One part of the demo: what it says, what it shows, what it measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import typer

from trilobite.apps.style import pictures
from trilobite.apps.style.pictures import Pixels


@dataclass
class Part:
    """A heading, lines of figures, pictures by caption, pages to open, and what went wrong."""

    title: str
    lines: list[str] = field(default_factory=list)
    shown: list[tuple[str, str]] = field(default_factory=list)
    pairs: list[tuple[tuple[str, str], tuple[str, str]]] = field(default_factory=list)  # side by side
    pages: list[tuple[str, str]] = field(default_factory=list)  # a file, and what it shows
    code: tuple[str, str] = ("", "")  # a file, and its text
    numbers: dict[str, float] = field(default_factory=dict)
    failed: str = ""  # why it was left out
    wrong: bool = False  # a check did not hold
    seconds: float = 0.0

    def say(self, text: str) -> None:
        self.lines.append(text)
        typer.echo(f"    {text}")

    def check(self, holds: bool, text: str, otherwise: str) -> None:
        """A line that says whether something holds, and a demo that fails if it does not."""
        self.wrong = self.wrong or not holds
        self.say(f"{'agrees' if holds else 'DIFFERS'}: {text if holds else otherwise}")

    def show(self, directory: Path, name: str, caption: str, pixels: Pixels) -> None:
        pictures.write(directory / name, pixels)
        self.shown.append((name, caption))

    def beside(self, directory: Path, left: tuple[str, str, Pixels], right: tuple[str, str, Pixels]) -> None:
        """Two pictures that belong together, each with its name and caption."""
        for name, _, pixels in (left, right):
            pictures.write(directory / name, pixels)
        self.pairs.append((left[:2], right[:2]))

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """On a terminal one quiet line while it lasts; its seconds are noted under its name."""
        quiet = not sys.stdout.isatty()
        if not quiet:
            sys.stdout.write(f"    … {what}")
            sys.stdout.flush()
        began = time.perf_counter()
        try:
            yield
        finally:
            self.numbers[what] = time.perf_counter() - began
            if not quiet:
                sys.stdout.write("\r\x1b[K")
                sys.stdout.flush()
