"""Writes results as a Markdown page. Enters: sections with results, facts of the machine. Leaves: text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean

from benchmarks.measure import Result
from benchmarks.row import US, Section

SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6, "MB": 1e-6}

INTRODUCTION = """# Benchmarks

Written by `make bench`; edits are lost. A cell is the median of all samples, with the minimum in
parentheses; less is better. *Ratio* is our median over that of the best peer in the row: below 1 we are
quicker. *Error* is the largest difference between our results and PyTorch's from the same weights and inputs,
relative to the largest of them (of training steps: of the first three losses); where a row knows the exact
results, ours from those, with the peers that are off named after it. A system in italics does only
a part of the work; it is there as a floor, not as a peer. All systems of a row take turns in one run, each in
a process of its own, with its threads pinned. A result below a peer is shown like any other.
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
    row = result.row
    if US not in result.samples:
        return ""
    if row.aim is not None:
        kept = "kept" if result.median(US) <= row.aim else "**missed**"
        return f"≤ {number(row.aim, row.unit)} {kept}"
    if row.aim_ratio is not None and result.ratio is not None:
        kept = "kept" if round(result.ratio, 2) <= row.aim_ratio else "**missed**"
        return f"ratio ≤ {row.aim_ratio:.2f} {kept}"
    return ""


def speed(result: Result) -> str:
    """Our GFLOP/s."""
    if result.row.flops is None or US not in result.samples:
        return ""
    return f"{result.row.flops / result.median(US) / 1e9:.1f}"


def error(result: Result) -> str:
    """Ours, and those of peers that are wrong where the row knows what is right."""
    if result.error is None:
        return ""
    wrong = [f"{system}: {off:.0e}" for system, off in result.errors.items() if off]
    return "; ".join([f"{result.error:.0e}" if result.error else "0", *wrong])


def table(results: Sequence[Result]) -> str:
    """One section's rows."""
    systems = list(dict.fromkeys(system for result in results for system in result.row.systems))
    systems.sort(key=lambda system: system != US)
    floors = {system for result in results for system in result.row.floor}
    heads = [f"*{system}*" if system in floors else system for system in systems]
    extra = {
        "GFLOP/s": [speed(result) for result in results],
        "error": [error(result) for result in results],
        "aim": [aim(result) for result in results],
    }
    if any(result.row.aim is not None or result.row.aim_ratio is not None for result in results):
        shown = [name for name in extra if name == "aim" or any(extra[name])]
    else:
        shown = [name for name in extra if any(extra[name])]
    lines = [["", "unit", "threads", *heads, "ratio", *shown]]
    lines.append(["---"] * len(lines[0]))
    for i, result in enumerate(results):
        ratio = "" if result.ratio is None else f"{result.ratio:.2f}"
        cells = [cell(result, system) if system in result.row.systems else "" for system in systems]
        line = [result.row.name, result.row.unit, str(result.row.threads), *cells, ratio]
        lines.append([*line, *(extra[name][i] for name in shown)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summary(results: Sequence[Result]) -> str:
    """The geometric mean of the ratios, and the rows where a peer is quicker."""
    ratios = [(result.row, result.ratio) for result in results if result.ratio is not None]
    if len(ratios) < 2:
        return ""
    behind = [f"{row.name} ({row.threads})" for row, ratio in ratios if ratio > 1]
    text = f"Geometric mean of the ratios: {geometric_mean(ratio for _, ratio in ratios):.2f}."
    return f"{text} Behind the best peer (threads): {'; '.join(behind) or 'nowhere'}."


def reasons(results: Iterable[Result]) -> str:
    """Why cells are empty, each reason once."""
    found: dict[str, list[str]] = {}
    for result in results:
        for system, reason in result.reasons.items():
            found.setdefault(f"{system}: {' '.join(reason.split())}", []).append(result.row.name)
    return "\n".join(f"- {reason} ({'; '.join(dict.fromkeys(names))})" for reason, names in found.items())


def page(measured: Sequence[tuple[Section, Sequence[Result]]], facts: Mapping[str, str]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, "\n".join(["| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in facts.items())])]
    for section, results in measured:
        parts.append(f"\n## {section.title}")
        parts += [section.text] if section.text else []
        parts.append(table(results))
        parts += [summary(results)] if summary(results) else []
    missing = reasons(result for _, results in measured for result in results)
    if missing:
        parts.append(f"\n## Not measured\n{missing}")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
