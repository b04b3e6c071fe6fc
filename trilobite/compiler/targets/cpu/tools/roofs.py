"""What this machine can do at most: operations per second, and bytes per second by how much is touched.

Enters: nothing but the machine. Leaves: a `Roofline`, measured by two kernels of the same making as all
others: chains of multiply-adds that never leave the registers, and the triad a = b + s c over arrays of
sizes from the first cache to main memory. It is kept on disk per CPU and number of threads. Each measurement
takes the best of many, and a later one only ever raises what is kept: others on the machine make it slower,
never faster.
"""

from __future__ import annotations

import json
import math
import os
import time
from bisect import bisect_left
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, float32, float64
from trilobite.base.records import dataclass
from trilobite.native import driver
from trilobite.native.cache import directory, kernels
from trilobite.native.host import Host, features
from trilobite.native.llvm.text import Text, vector
from trilobite.native.memory import zeros
from trilobite.native.pool import threads

VERSION = 2
CHAINS = 12  # independent ones: enough to hide the latency of two units of five cycles each
_ITERATIONS = 1 << 19  # of every chain: long beside the time in which another thread wakes
SIZES = tuple(1 << b for b in range(14, 28))  # bytes of all three arrays together
_TRAFFIC = 16 << 20  # bytes that one run moves, at least
_ROUNDS = 1000
_SECONDS = 0.3  # for one figure


@dataclass(frozen=True)
class Roofline:
    """`flops` by dtype's name; `bandwidth` in bytes per second for each of `sizes`, never rising."""

    cpu: str
    threads: int
    flops: dict[str, float]
    sizes: tuple[int, ...]
    bandwidth: tuple[float, ...]
    version: int = VERSION

    def bandwidth_of(self, touched: float) -> float:
        """The rate at which so many bytes can be touched: that of the cache they fit in."""
        at = min(bisect_left(self.sizes, touched), len(self.sizes) - 1)
        return self.bandwidth[at]

    def seconds(self, flops: float, touched: float, dtype: str = "float32") -> float:
        """No kernel can be quicker. Dtypes whose peak was not measured are bound by memory alone."""
        peak = self.flops.get(dtype, math.inf)
        return max(flops / peak, touched / self.bandwidth_of(touched) if touched else 0.0)


def roofline(again: bool = False) -> Roofline:
    """This machine's, with as many threads as programs run on; measured at first use, or `again`."""
    host, count = features(), threads()
    path = _path(host, count)
    kept = _read(path)
    if kept is not None and not again:
        return kept
    found = measure(host, count)
    best = found if kept is None else _best(kept, found)
    _write(path, best)
    return best


def measure(host: Host, count: int) -> Roofline:
    flops = {d.name: _peak(host, d, count) for d in (float32, float64)}
    rates = [_triad(host, size, count) for size in SIZES]
    return Roofline(host.name, count, flops, SIZES, _falling(rates))


def _falling(rates: list[float]) -> tuple[float, ...]:
    """A larger array that was quicker shows that a smaller one was disturbed."""
    return tuple(max(rates[i:]) for i in range(len(rates)))


def _best(a: Roofline, b: Roofline) -> Roofline:
    flops = {name: max(a.flops.get(name, 0.0), rate) for name, rate in b.flops.items()}
    rates = tuple(map(max, a.bandwidth, b.bandwidth))
    return replace(b, flops=flops, bandwidth=rates)


# -- kernels -------------------------------------------------------------------------------------------------


def peak_text(host: Host, dtype: DType) -> str:
    """Per unit `_ITERATIONS` rounds of independent multiply-adds; sums are stored so that none is dropped.
    In the widest registers that any kernel sums in: those of tiles.
    """
    t, lanes = Text(host), host.tile_lanes(dtype.itemsize)
    kind = vector("float" if dtype == float32 else "double", lanes)
    out = t.argument(0, "ptr")
    slope, step = t.constant(kind, 0.5), t.constant(kind, 0.25)
    with t.loop(t.begin, t.end, name="unit") as unit:
        start = [t.constant(kind, float(i)) for i in range(CHAINS)]
        with t.loop(0, _ITERATIONS, carried=start, name="iteration") as iteration:
            iteration.next(*(t.fma(x, slope, step) for x in iteration.values))
        total = iteration.results[0]
        for x in iteration.results[1:]:
            total = t.fadd(total, x)
        t.store_type(total, t.address(out, t.mul(unit.index, 64)), dtype.itemsize)
    return t.module()


def triad_text(host: Host) -> str:
    """Unit u: words 4 (passes) times a = b + s c over its own `block` elements of each array."""
    t, lanes = Text(host), host.lanes(4)
    a, b, c = (t.argument(i, "ptr") for i in range(3))
    block, passes = t.argument(3, "i64"), t.argument(4, "i64")
    kind = vector("float", lanes)
    scale = t.constant(kind, 3.0)
    with t.loop(t.begin, t.end, name="unit") as unit:
        at = t.mul(unit.index, t.mul(block, 4))
        mine = [t.address(p, at) for p in (a, b, c)]
        with (
            t.loop(0, passes, name="pass"),
            t.loop(0, t.mul(block, 4), 4 * 4 * lanes, name="i") as i,
        ):
            for k in range(4):
                x, y, z = (t.address(t.address(p, i.index), 4 * lanes * k) for p in mine)
                sum_ = t.fma(scale, t.load_type(kind, z, 4), t.load_type(kind, y, 4))
                t.store_type(sum_, x, 4)
    return t.module()


def _peak(host: Host, dtype: DType, count: int) -> float:
    out = zeros(64 * count, np.uint8)
    seconds = _quickest(peak_text(host, dtype), [int(out.ctypes.data)], count, out)
    return 2.0 * count * _ITERATIONS * CHAINS * host.tile_lanes(dtype.itemsize) / seconds


def _triad(host: Host, size: int, count: int) -> float:
    step = 4 * host.lanes(4)
    block = max(size // (3 * 4 * count) // step, 1) * step
    touched = 3 * 4 * block * count
    passes = max(1, _TRAFFIC // touched)
    arrays = [zeros(block * count) for _ in range(3)]
    words = [*(int(x.ctypes.data) for x in arrays), block, passes]
    return passes * touched / _quickest(triad_text(host), words, count, arrays)


def _quickest(text: str, words: list[int], units: int, alive: Any) -> float:
    """Seconds of the quickest of many runs."""
    code = kernels([(text, 0)])
    table = driver.Table([driver.Call(code.addresses[0], 0, units)], words, scratch=64, alive=(code, alive))
    best, until = math.inf, time.perf_counter() + _SECONDS
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        table.run()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > until:
            break
    return best


# -- keeping -------------------------------------------------------------------------------------------------


def _path(host: Host, count: int) -> Path | None:
    place = directory()
    return None if place is None else place / "roofline" / f"{host.name}-{count}.json"


def _read(path: Path | None) -> Roofline | None:
    """What is kept, if it is there, whole and of this version."""
    if path is None:
        return None
    try:
        found = json.loads(path.read_text(encoding="ascii"))
        if found["version"] != VERSION or tuple(found["sizes"]) != SIZES:
            return None
        flops = {str(k): float(v) for k, v in found["flops"].items()}
        rates = tuple(map(float, found["bandwidth"]))
        kept = Roofline(str(found["cpu"]), int(found["threads"]), flops, SIZES, rates)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # damaged: it is measured anew
        return None
    return kept if len(rates) == len(SIZES) and all(r > 0 for r in (*rates, *flops.values())) else None


def _write(path: Path | None, found: Roofline) -> None:
    if path is None:
        return
    new = path.with_name(f".new-{os.urandom(12).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_text(json.dumps(asdict(found)), encoding="ascii")
        os.replace(new, path)
    except OSError:  # a directory that cannot be written: it is measured by every process
        return
