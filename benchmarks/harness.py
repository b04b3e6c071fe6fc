"""`make bench`: measures all rows and writes docs/benchmarks.md.

Enters: options. Leaves: the page, or with `--quick`, `--only` or `--output -` the same text on the
terminal, for a page that holds a part of the rows would hide the rest.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.measure import Result, measure
from benchmarks.page import page
from benchmarks.row import US, Row, Section, row_modules, section

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("trilobite", "numpy", "torch", "jax", "onnxruntime")
ROUNDS, QUICK_ROUNDS = 25, 7


def machine_facts() -> dict[str, str]:
    """What a reader must know of the machine and the versions."""
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            installed[package] = "not installed"
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "CPU": cpu_name(),
        "cores": str(len(os.sched_getaffinity(0))),
        "load at the start": f"{os.getloadavg()[0]:.2f}",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version}" for name, version in installed.items()),
    }


def cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def chosen(row: Row, options: argparse.Namespace) -> bool:
    wanted = options.only is None or re.search(options.only, row.name) is not None
    return wanted and (row.quick or not options.quick)


def progress(result: Result) -> None:
    ratio = "" if result.ratio is None else f"  {result.ratio:.2f} × {result.best_peer}"
    print(f"  {result.row.name:<40}{ratio}", file=sys.stderr, flush=True)


def run(modules: list[str], options: argparse.Namespace) -> list[tuple[Section, list[Result]]]:
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    measured = []
    for name in modules:
        found = section(name)
        rows = [row for row in found.rows if chosen(row, options)]
        if not rows:
            continue
        print(found.title, file=sys.stderr, flush=True)
        results = []
        for result in measure(rows, [name], rounds):
            progress(result)
            results.append(result)
        measured.append((found, results))
    return measured


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=...", description="Measure Trilobite beside its peers."
    )
    parser.add_argument(
        "--quick", action="store_true", help="a few rows, fewer rounds, printed and not written"
    )
    parser.add_argument(
        "--only", metavar="REGEX", help="only rows whose name matches; printed and not written"
    )
    parser.add_argument(
        "--rounds", type=int, metavar="N", help=f"samples of each system a row (usually {ROUNDS})"
    )
    parser.add_argument("--output", metavar="FILE", help="where to write the page; - prints it")
    parser.add_argument(
        "--modules", nargs="+", metavar="MODULE", help="other row modules than those of this folder"
    )
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    options = parse(words)
    facts = machine_facts()
    measured = run(options.modules or row_modules(), options)
    text = page(measured, facts)
    partial = options.quick or options.only is not None
    output = options.output or ("-" if partial else str(ROOT / "docs" / "benchmarks.md"))
    if output == "-":
        print(text)
    else:
        Path(output).write_text(text, encoding="utf-8")
        print(f"wrote {output}", file=sys.stderr)
    # A peer may be missing; we may not.
    failed = [result for _, results in measured for result in results if US in result.reasons]
    return 1 if failed or not measured else 0


if __name__ == "__main__":
    sys.exit(main())
