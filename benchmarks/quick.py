"""Ours beside PyTorch, for one row or a few, in seconds: `python -m benchmarks.quick 'resnet18.*b1' -t 1`.

Run it with the peers' environment. For work on a kernel; `make bench` is what counts.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import harness
from benchmarks.row import REFERENCE, US


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick", description=__doc__)
    parser.add_argument("only", metavar="REGEX", help="rows where 'module: name' matches")
    parser.add_argument("-t", "--threads", type=int, choices=(1, 2), default=2)
    parser.add_argument("-s", "--systems", nargs="+", default=[US, REFERENCE], help="usually ours and torch")
    parser.add_argument("--target", default="cpu", help="what we compile for (usually cpu)")
    parser.add_argument("--again", action="store_true", help="measure the peer again, too")
    options = parser.parse_args(words)
    asked = ["--only", options.only, "--threads", str(options.threads), "--target", options.target]
    asked += ["--systems", *options.systems, "--budget", "2", "--output", "/dev/null"]
    return harness.main(asked if options.again else [*asked, "--reuse-peers"])


if __name__ == "__main__":
    sys.exit(main())
