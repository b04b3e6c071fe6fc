"""`make bench`: measures all rows and writes docs/benchmarks.md.

Enters: options. Leaves: the page, or with `--quick`, `--only` and the like the same text on the terminal, for
a page that holds a part of the rows would hide the rest. Peers' results are kept in the peers' environment.
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

from benchmarks import ours
from benchmarks.keeping import Keeper
from benchmarks.measure import Plan, Result, measure
from benchmarks.page import error, number, page
from benchmarks.row import US, Row, Section, row_modules, section

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("trilobite", "numpy", "torch", "jax", "onnxruntime", "openvino")
KEPT = Path(sys.prefix) / "kept"
ROUNDS, QUICK_ROUNDS = 25, 7
BUDGET = 3.0


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


def chosen(module: str, row: Row, options: argparse.Namespace) -> bool:
    if options.only is not None and not re.search(options.only, f"{module}: {row.name}", re.IGNORECASE):
        return False
    if options.threads is not None and row.threads != options.threads:
        return False
    return row.quick or not options.quick


def progress(result: Result) -> None:
    """One line a row, as soon as it is measured."""
    row = result.row
    parts = [f"  {row.name:<44} {row.threads}T"]
    if US in result.samples:
        parts.append(f"{number(result.median(US), row.unit):>6} {row.unit}")
    if result.best_peer is not None:
        parts.append(f"{result.best_peer} {number(result.median(result.best_peer), row.unit)} {row.unit}")
    parts += [f"ratio {result.ratio:.2f}"] if result.ratio is not None else []
    parts += [f"error {error(result)}"] if result.error is not None else []
    parts += [f"({name} failed: {result.reasons[name].splitlines()[0][:80]})" for name in result.reasons]
    print("  ".join(parts), file=sys.stderr, flush=True)


def run(
    modules: list[str], options: argparse.Namespace, facts: dict[str, str]
) -> list[tuple[Section, list[Result]]]:
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    keeper = Keeper(KEPT, facts) if options.modules is None else None
    plan = Plan(rounds, options.budget, keeper, options.reuse_peers)
    measured = []
    for name in modules:
        found = section(name)
        rows = [row for row in found.rows if chosen(name, row, options)]
        if options.systems:
            rows = [row.only(options.systems) for row in rows]
        if options.leave_out:
            rows = [without(name, row, options.leave_out) for row in rows]
        if not rows:
            continue
        print(found.title, file=sys.stderr, flush=True)
        results = []
        for result in measure(rows, [name], plan=plan):
            progress(result)
            results.append(result)
        measured.append((found, results))
    return measured


def without(module: str, row: Row, pattern: str) -> Row:
    """The row without the systems of which 'system: module: name' matches."""
    out = re.compile(pattern, re.IGNORECASE)
    return row.only([name for name in row.systems if not out.search(f"{name}: {module}: {row.name}")])


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench ARGS=...", description="Measure Trilobite beside its peers."
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a few rows, fewer rounds, printed and not written")
    add(
        "--only",
        metavar="REGEX",
        type=pattern,
        help="only rows where 'module: name' matches; printed and not written",
    )
    add("--threads", type=int, choices=(1, 2), help="only rows of this many threads; printed and not written")
    add("--systems", nargs="+", metavar="SYSTEM", help="only these systems; printed and not written")
    add("--leave-out", metavar="REGEX", help="not where 'system: module: name' matches; the page says so")
    add("--target", default="cpu", help="what we compile for (usually cpu)")
    add("--reuse-peers", action="store_true", help="show peers' earlier results, if they still hold")
    add("--rounds", type=int, metavar="N", help=f"most samples of each system a row (usually {ROUNDS})")
    add("--budget", type=float, default=BUDGET, metavar="S", help=f"seconds a row (usually {BUDGET:g})")
    add("--output", metavar="FILE", help="where to write the page; - prints it")
    add("--modules", nargs="+", metavar="MODULE", help="other row modules than those of this folder")
    return parser.parse_args(words)


def pattern(text: str) -> str:
    """A regular expression, or an error that argparse shows."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error
    return text


def nothing(options: argparse.Namespace) -> str:
    """What to say when no row was chosen."""
    names = [f"{name}: {section(name).rows[0].name}" for name in options.modules or row_modules()]
    asked = f"--only {options.only}" if options.only else "these options"
    return "\n".join([f"no row matches {asked}", "the first row of each module, as it is matched:", *names])


def main(words: list[str] | None = None) -> int:
    options = parse(words)
    os.environ[ours.VARIABLE] = options.target
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(KEPT / "inductor"))
    facts = machine_facts()
    measured = run(options.modules or row_modules(), options, facts)
    if not measured:
        print(nothing(options), file=sys.stderr)
        return 1
    if options.leave_out:
        facts = {**facts, "left out of this run": f"`{options.leave_out}`, as system: module: row"}
    text = page(measured, facts)
    partial = options.quick or any((options.only, options.threads, options.systems))
    output = options.output or ("-" if partial else str(ROOT / "docs" / "benchmarks.md"))
    if output == "-":
        print(text)
    else:
        Path(output).write_text(text, encoding="utf-8")
        print(f"wrote {output}", file=sys.stderr)
    # A peer may be missing; we may not.
    failed = [result for _, results in measured for result in results if US in result.reasons]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
