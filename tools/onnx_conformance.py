"""The ONNX backend suite as tables: passes by category and by operator set, beside other engines.

Enters: what `tools.onnx_suite` finds for each engine, each in a process of its own. Leaves: tables on
standard output, the cases that we do not pass with the reason for each, and exit status 1 if one has no
reason.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_DRAWN = "draws random numbers: ONNX names no generator, the case stores those of NumPy"
KNOWN = {
    "test_bernoulli*": _DRAWN,
    "test_training_dropout*": _DRAWN,
    "test_dft_inverse*": "the stored result is off by 2e-7 where 0 is right, and the case allows 1e-7",
    "test_attention_4d_causal_fp16*": "scores are kept in float32; the stored result rounds them to float16",
    "test_loop16_seq_none": "the suite compares the length of a scalar, which no engine can pass",
}
"""Patterns of cases that are not passed, and why."""
_ON_REFERENCE = {"test_squeezenet": "equal weights: NumPy's product adds equal numbers in several orders"}

ENGINES: dict[str, list[str]] = {
    "trilobite cpu": ["--engine", "trilobite", "--target", "cpu"],
    "trilobite reference": ["--engine", "trilobite", "--target", "reference"],
    "trilobite optimised": ["--engine", "optimised"],
    "trilobite dlp-s": ["--engine", "trilobite", "--target", "dlp:dlp-s", "--kinds", "node"],
    "onnx reference": ["--engine", "reference"],
    "onnxruntime": ["--engine", "onnxruntime"],
}


def outcomes(engine: str, only: str) -> list[dict[str, Any]]:
    """All cases by one engine. One that ends its process is not passed; another process goes on then."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.jsonl"
        arguments = [
            sys.executable,
            "-m",
            "tools.onnx_suite",
            "--quiet",
            "--only",
            only,
            "--write",
            str(path),
        ]
        while subprocess.run(
            [*arguments, *ENGINES[engine]], stdout=subprocess.DEVNULL, check=False
        ).returncode:
            if not path.exists() or '"started"' not in path.read_text().splitlines()[-1]:
                raise SystemExit(f"tools.onnx_suite does not run with {engine}")
        if not path.exists():
            raise SystemExit(f"no case has a name like {only!r}: --only takes a pattern such as '*roi*'")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        finished = [r for r in rows if "passed" in r]
        done = {r["name"] for r in finished}
        return finished + [
            {**r, "passed": False, "why": "ended the process"} for r in rows if r["name"] not in done
        ]


def table(title: str, key: str, found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Passes of every engine per value of a field."""
    first = next(iter(found.values()))
    totals = Counter(r[key] for r in first)
    passed = {e: Counter(r[key] for r in rows if r["passed"]) for e, rows in found.items()}
    lines = [f"{title:<20}{'cases':>8}" + "".join(f"{e:>22}" for e in found)]
    for value in sorted(totals):
        counts = "".join(f"{passed[e][value]:>22}" for e in found)
        lines.append(f"{value!s:<20}{totals[value]:>8}{counts}")
    sums = "".join(f"{sum(c.values()):>22}" for c in passed.values())
    return [*lines, f"{'all':<20}{sum(totals.values()):>8}{sums}", ""]


def reason(name: str, engine: str = "trilobite cpu") -> str | None:
    """Why an engine does not pass a case, if that is known."""
    known = {**KNOWN, **(_ON_REFERENCE if engine.endswith("reference") else {})}
    return next((why for pattern, why in known.items() if fnmatch.fnmatch(name, pattern)), None)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", default=",".join(ENGINES), help="some of: " + ", ".join(ENGINES))
    parser.add_argument("--only", default="*", help="a pattern of case names")
    given = parser.parse_args(arguments)
    found = {e: outcomes(e, given.only) for e in given.engines.split(",")}
    print("\n".join(table("category", "kind", found) + table("operator set", "opset", found)))
    unexplained = 0
    for engine, rows in found.items():
        if not engine.startswith("trilobite"):
            continue
        for r in rows:
            if not r["passed"]:
                why = reason(r["name"], engine)
                unexplained += why is None
                print(f"{engine}: {r['name']}: {why or 'NOT EXPLAINED: ' + r['why']}")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
