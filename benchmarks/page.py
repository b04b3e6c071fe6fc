"""Writes results as a Markdown page. Enters: sections with results, facts of the machine. Leaves: text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.measure import Result
from benchmarks.row import US, Section

SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6}

INTRODUCTION = """# Benchmarks

Written by `make bench`; edits are lost. A cell is the median of all samples, with the minimum in
parentheses; less is better. *Ratio* is our median over that of the best peer in the row: below 1 we are
quicker. A system in italics does only a part of the work; it is there as a floor, not as a peer. All systems
of a row take turns in one run, each in a process of its own, with its threads pinned. A result below a peer
is shown like any other.
"""


def number(seconds: float, unit: str) -> str:
    """Three significant digits."""
    value = seconds * SCALE[unit]
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(result: Result, system: str) -> str:
    if system not in result.samples:
        return "–"
    unit = result.row.unit
    return f"{number(result.median(system), unit)} ({number(result.minimum(system), unit)})"


def aim(result: Result) -> str:
    """What we promised for the row and whether it is kept."""
    promised = result.row.aim
    if promised is None or US not in result.samples:
        return ""
    kept = "kept" if result.median(US) <= promised else "**missed**"
    return f"≤ {number(promised, result.row.unit)} {kept}"


def table(results: Sequence[Result]) -> str:
    """One section's rows."""
    systems = list(dict.fromkeys(system for result in results for system in result.row.systems))
    systems.sort(key=lambda system: system != US)
    floors = {system for result in results for system in result.row.floor}
    heads = [f"*{system}*" if system in floors else system for system in systems]
    with_aim = any(result.row.aim is not None for result in results)
    lines = [["", "unit", "threads", *heads, "ratio", *(["aim"] if with_aim else [])]]
    lines.append(["---"] * len(lines[0]))
    for result in results:
        ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
        cells = [cell(result, system) if system in result.row.systems else "" for system in systems]
        line = [result.row.name, result.row.unit, str(result.row.threads), *cells, ratio]
        lines.append([*line, aim(result)] if with_aim else line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def reasons(results: Iterable[Result]) -> str:
    """Why cells are empty, each reason once."""
    found: dict[str, list[str]] = {}
    for result in results:
        for system, reason in result.reasons.items():
            found.setdefault(f"{system}: {reason}", []).append(result.row.name)
    return "\n".join(f"- {reason} ({'; '.join(names)})" for reason, names in found.items())


def page(measured: Sequence[tuple[Section, Sequence[Result]]], facts: Mapping[str, str]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in facts.items())])]
    for section, results in measured:
        parts.append(f"\n## {section.title}")
        parts += [section.text] if section.text else []
        parts.append(table(results))
    missing = reasons(result for _, results in measured for result in results)
    if missing:
        parts.append(f"\n## Not measured\n{missing}")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
