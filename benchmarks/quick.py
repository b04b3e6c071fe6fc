"""Ours beside PyTorch, for one row or a few, in seconds: `python -m benchmarks.quick 'ResNet-18 b1'`.

Run it with the peers' environment. For work on a kernel: one thread is measured by the CPU's own clock, so
that others on the machine matter little; minima are compared. PyTorch's result is kept from the last time,
unless it is to be measured again. `make bench` is what counts.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks import harness, ours
from benchmarks.keeping import Keeper
from benchmarks.measure import Plan, Result, measure
from benchmarks.page import error, number
from benchmarks.row import CLOCK, REFERENCE, US, row_modules, section

ROUNDS, BUDGET = 15, 2.0


def line(result: Result) -> str:
    """Name, our minimum, the others' minima and our ratio to each."""
    row = result.row
    parts = [f"{row.name:<40} {row.threads}T"]
    if US in result.samples:
        parts.append(f"{number(result.minimum(US), row.unit):>6} {row.unit}")
        parts += [f"{row.flops / result.minimum(US) / 1e9:6.1f} GFLOP/s"] if row.flops else []
    for peer in row.peers:
        if peer in result.samples:
            shown = f"{peer} {number(result.minimum(peer), row.unit)}"
            ratio = f" ratio {result.minimum(US) / result.minimum(peer):.2f}" if US in result.samples else ""
            parts.append(shown + ratio)
    parts += [f"error {error(result)}"] if result.error is not None else []
    return "  ".join([*parts, *(f"{name}: {why}" for name, why in result.reasons.items())])


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick", description=__doc__)
    parser.add_argument("only", metavar="REGEX", help="rows where 'module: name' matches")
    parser.add_argument("-t", "--threads", type=int, choices=(1, 2), default=1)
    parser.add_argument("-s", "--systems", nargs="+", default=[US, REFERENCE], help="usually ours and torch")
    parser.add_argument("--target", default="cpu", help="what we compile for (usually cpu)")
    parser.add_argument("--again", action="store_true", help="measure the peers again, too")
    options = parser.parse_args(words)
    os.environ[ours.VARIABLE] = options.target
    if options.threads == 1:
        os.environ[CLOCK] = "cpu"
    options.quick = False
    plan = Plan(ROUNDS, BUDGET, Keeper(harness.KEPT, harness.machine_facts()), not options.again)
    failed = 0
    for module in row_modules():
        rows = [row.only(options.systems) for row in section(module).rows]
        chosen = [row for row in rows if harness.chosen(module, row, options)]
        for result in measure(chosen, [module], plan=plan):
            failed += US in result.reasons
            print(line(result), flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
