"""A fuzzer that is guided by coverage: `fuzz.py FORMAT SECONDS SEED`.

A damaged file that makes the readers go a way that none went before, from one line to another, is kept and
damaged further. Prints how many files were tried, kept, and ways found; each file that ends in anything but a
designed error is printed as a FAULT, with its bytes.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tests.inference.hostile.child import MEMORY, outcome
from tests.inference.hostile.mutations import mutated
from tests.inference.hostile.seeds import FORMATS

_WATCHED = ("/trilobite/inference/", "/trilobite/framework/checkpoint/")


class Ways:
    """Steps from line to line within the readers, while it is told to watch."""

    def __init__(self) -> None:
        self.found: set[tuple[int, int, int]] = set()
        self.new = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if not any(part in code.co_filename for part in _WATCHED):
            return None
        last = frame.f_lineno

        def line(inner: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                way = (id(code), last, inner.f_lineno)
                if way not in self.found:
                    self.found.add(way)
                    self.new += 1
                last = inner.f_lineno
            return line

        return line


def fuzz(format_: str, seconds: float, seed: int) -> None:
    sound, open_ = FORMATS[format_]
    corpus, rng, ways = sound(), np.random.default_rng(seed), Ways()
    tried = faults = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{format_}"
        for raw in corpus:
            path.write_bytes(raw)
            open_(path)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            parent = corpus[int(rng.integers(len(corpus)))]
            for _, data in mutated(parent, 14, int(rng.integers(2**31))):
                path.write_bytes(data)
                ways.new = 0
                sys.settrace(ways)
                word = outcome(open_, path)
                sys.settrace(None)
                tried += 1
                if "FAULT" in word:
                    faults += 1
                    print(f"{word}: {data.hex()}", flush=True)
                if ways.new and len(data) < 1 << 17:
                    corpus.append(data)
    print(f"{format_}: {tried} files tried, {len(corpus)} kept, {len(ways.found)} ways, {faults} faults")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    fuzz(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
