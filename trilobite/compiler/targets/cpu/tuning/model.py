"""Cost models: one written down, and one that learns from what was measured.

Enters: parameters of a problem. Leaves: a guess of how long it takes, in units of its own; only the order of
guesses matters. `analytic` knows the caches and counts what a cut costs: blocks that do not fit, units that
threads cannot share evenly, iterations of outer loops. `Boosted` is a sum of decision stumps, fitted to the
logarithm of measured times by gradient boosting; its features are the parameters and what `analytic` is made
of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.native.host import Host

Features = np.ndarray[Any, np.dtype[np.float64]]


def terms(kind: str, problem: str, parameters: Mapping[str, int], host: Host) -> list[float]:
    """Penalties, each about 0 where nothing is lost: what blocks overflow, imbalance, overhead of cuts."""
    return _TERMS[kind](_numbers(problem), parameters, host)


def _numbers(problem: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", problem)]


def _over(bytes_: float, room: int) -> float:
    """How much of a block does not fit, in doublings."""
    return max(0.0, math.log2(max(bytes_, 1.0) / room))


def _uneven(units: float, cores: int) -> float:
    """Of the time, how much longer the busiest thread works."""
    units = max(1.0, math.ceil(units))
    return math.ceil(units / cores) * cores / units - 1.0


def _dot(n: list[int], p: Mapping[str, int], host: Host) -> list[float]:
    batch, rows, columns, depth = n[:4]
    deep = min(depth, max(host.l1 * 3 // 4 // (8 * host.vector_bytes // 4), 64))
    width, height = min(p["n_block"], columns), min(p["m_block"], rows)
    packs_a = width > p["direct"]
    return [
        _over(4.0 * height * deep, host.l2 // 2),
        _over(4.0 * width * deep, host.l3 // 4),
        packs_a * math.ceil(columns / width) / max(columns, 1) * 16,  # A is packed again for every block of B
        (not packs_a) * _over(4.0 * width, 512),  # rows far apart are read again for every panel
        _uneven(min(p["units"], batch * max(columns // 16, rows // 6, 1)), host.cores),
        math.log2(1 + math.ceil(rows / height) * math.ceil(columns / width)) / 16,
    ]


def _conv(n: list[int], p: Mapping[str, int], host: Host) -> list[float]:
    pixels, depth, columns, groups = n[:4]
    block = min(p["pixels"], pixels)
    blocks = math.ceil(pixels / block)
    panels = math.ceil(columns / 16)
    runs = min(panels, max(1, math.ceil(p["units"] / (blocks * groups))))
    parts = math.ceil(depth / p["depth"])
    return [
        0.2 * _over(4.0 * block * depth, host.l2 // 2),
        0.2 * _over(64.0 * min(p["depth"], depth), host.l1),
        0.2 * (parts > 1) + 0.02 * parts,  # sums are stored and read again between parts of the depth
        0.5 * _over(64.0 * depth * panels, host.l2) * blocks * 6 / max(pixels, 1),  # weights, for every block
        _uneven(blocks * groups * runs, host.cores),
        0.1 * runs / panels,  # places of rows are written down for every run
        6.0 / max(block, 1),
    ]


def _rows(n: list[int], p: Mapping[str, int], host: Host) -> list[float]:
    pixels, channels = n[:2]
    block = max(6, min(p["pixels"], p["work"] // max(9 * channels, 1), pixels))
    return [
        _over(8.0 * block * channels, host.l2 // 2),
        _uneven(math.ceil(pixels / block), host.cores),
        24.0 / block,
    ]


def _loops(n: list[int], p: Mapping[str, int], host: Host) -> list[float]:
    return [_over(4.0 * p["block"], host.l2), 2048.0 / p["block"]]


_TERMS = {"dot": _dot, "conv": _conv, "rows": _rows, "loops": _loops}


def analytic(kind: str, problem: str, parameters: Mapping[str, int], host: Host) -> float:
    """The sum of all penalties."""
    return sum(terms(kind, problem, parameters, host))


def features(kind: str, problem: str, parameters: Mapping[str, int], host: Host) -> list[float]:
    """What the learned model sees."""
    penalties = terms(kind, problem, parameters, host)
    return [*(math.log2(1 + v) for v in parameters.values()), *penalties, sum(penalties)]


class Boosted:
    """Gradient-boosted stumps: a round adds the one cut of one feature that lowers the squared error most."""

    def __init__(self, rounds: int = 80, rate: float = 0.3) -> None:
        self.rounds, self.rate = rounds, rate
        self.start = 0.0
        self.stumps: list[tuple[int, float, float, float]] = []  # feature, threshold, below, above

    def fit(self, x: Features, y: Features) -> Boosted:
        self.start, self.stumps = float(y.mean()), []
        rest = y - self.start
        cuts = [_cuts(column) for column in x.T]
        for _ in range(self.rounds):
            best = self._stump(x, rest, cuts)
            if best is None:
                break
            f, threshold, below, above = best
            rest = rest - np.where(x[:, f] <= threshold, below, above)
            self.stumps.append(best)
        return self

    def _stump(
        self, x: Features, rest: Features, cuts: Sequence[Features]
    ) -> tuple[int, float, float, float] | None:
        best, gained = None, 1e-12
        total = rest.sum()
        for f, thresholds in enumerate(cuts):
            if not len(thresholds):
                continue
            low = x[:, f][:, None] <= thresholds[None, :]
            count = low.sum(0)
            sums = rest @ low
            gain = sums**2 / count + (total - sums) ** 2 / (len(rest) - count)
            at = int(gain.argmax())
            if gain[at] - total**2 / len(rest) > gained:
                gained = float(gain[at] - total**2 / len(rest))
                below = self.rate * sums[at] / count[at]
                above = self.rate * (total - sums[at]) / (len(rest) - count[at])
                best = f, float(thresholds[at]), float(below), float(above)
        return best

    def __call__(self, x: Features) -> Features:
        out = np.full(len(x), self.start)
        for f, threshold, below, above in self.stumps:
            out += np.where(x[:, f] <= threshold, below, above)
        return out


def _cuts(column: Features) -> Features:
    """Between neighbouring values: both sides have some."""
    values = np.unique(column)
    middle: Features = (values[1:] + values[:-1]) / 2
    return middle
