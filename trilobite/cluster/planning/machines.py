"""What a cluster can do: operations, bytes and messages a second, and memory, of each of its devices.

`measure()` finds the figures of this machine; a description in YAML serves for any other. Devices of one node
reach each other by a fast link, those of different nodes by a slow one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster.collectives import all_reduce, barrier, broadcast
from trilobite.cluster.groups import size, world
from trilobite.cluster.meshes import mesh
from trilobite.cluster.notices import CROWDED
from trilobite.cluster.sharding.conversion import Costs, Link, exchanges, moved


@dataclass(frozen=True)
class Machine:
    """Of one device: float operations a second in products, bytes a second through its memory, and through
    its caches for what these hold; seconds that a kernel takes at least, bytes of memory. Of links: seconds
    to begin a message, bytes a second.
    """

    flops: float = 5e10
    stream: float = 1e10
    cache: float = 1e6  # bytes
    cached: float = 4e10
    kernel: float = 2e-6
    memory: float = 8e9
    devices_per_node: int = 1 << 30
    latency: float = 2e-5
    bandwidth: float = 4e9
    node_latency: float = 5e-5
    node_bandwidth: float = 1e9
    turn: float = 1e-4  # seconds in which Python begins a segment of a pipeline: about five compiled calls
    value: float = 1e-6  # seconds in which Python hands a tensor to a step and takes its new value back
    exposed: float = 0.3  # of the time in which bytes move, what a rank cannot compute in
    handling: float = 0.05  # the same of the time in which messages begin

    def __post_init__(self) -> None:
        bad = [f.name for f in fields(self) if not getattr(self, f.name) > 0]
        if bad:
            raise ArgumentError(
                f"a machine with {bad[0]} = {getattr(self, bad[0])}",
                where=user_location(),
                expected="more than 0",
            )

    def through(self, nbytes: float, since: float) -> float:
        """Seconds for bytes that were touched so many bytes ago: as much of them as caches hold is there."""
        missed = max(0.0, 1.0 - self.cache / since) if since else 0.0
        return nbytes * (missed / self.stream + (1.0 - missed) / max(self.cached, self.stream))

    def costs(self, mesh: Sequence[int]) -> Costs:
        """What splitting weighs on a mesh of these: the last side's neighbours are nearest."""
        links, inner = [], 1
        for n in reversed(mesh):
            near = inner * n <= self.devices_per_node
            links.append(
                Link(self.latency, self.bandwidth) if near else Link(self.node_latency, self.node_bandwidth)
            )
            inner *= n
        return Costs(self.latency, self.bandwidth, self.flops, self.stream, tuple(reversed(links)))

    def save(self, path: str | Path) -> None:
        Path(path).write_text(yaml.safe_dump(asdict(self), sort_keys=False))


def described(path: str | Path) -> Machine:
    """A machine from a YAML file: some of the fields of `Machine`; others keep their defaults."""
    found = yaml.safe_load(Path(path).read_text())
    known = {f.name: f.type for f in fields(Machine)}
    if not isinstance(found, dict) or not set(found) <= set(known):
        wrong = sorted(set(found) - set(known)) if isinstance(found, dict) else type(found).__name__
        raise ArgumentError(
            f"{path}: a machine with {wrong}", where=user_location(), expected=f"some of {', '.join(known)}"
        )
    values: dict[str, Any] = {k: (int if k == "devices_per_node" else float)(v) for k, v in found.items()}
    return Machine(**values)


# -- measuring -----------------------------------------------------------------------------------------------


def measure(seconds: float = 2.0, memory: float | None = None) -> Machine:
    """The figures of this machine with the ranks that there are: products, memory, kernels, messages. All
    ranks call it, and get the same.
    """
    found = _computing(seconds / 2) | {"memory": memory or _memory() / max(1, size())}
    if size() > 1:
        found["latency"], found["bandwidth"], found["handling"] = _messages(seconds / 2)
        found |= {"node_latency": found["latency"], "node_bandwidth": found["bandwidth"]}
        if CROWDED:
            found["exposed"] = 1.0  # who computes takes the core from who sends
        line = broadcast(np.array(list(found.values()))).tolist()  # plans must be alike on all ranks
        found = dict(zip(found, line, strict=True))
    return Machine(**found)  # type: ignore[arg-type]


def _memory() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


_BATCH = 0.01  # seconds of runs behind each other: ranks that share a core take turns of some milliseconds


def _each(run: Callable[[], Any], seconds: float, alone: bool = False) -> float:
    """Seconds of a run while all ranks make equally many: of some behind each other, until the last rank has
    made its own; in the median. Of what a rank does `alone` on its core the least: whatever else there was
    is no part of it.
    """
    run()
    count, took = 1, _most(_timed(run, 1))
    while took < _BATCH and count < 1000:  # what ranks take to meet must not count
        count *= 4
        took = _most(_timed(run, count))
    batches = int(min(50.0, max(3.0, seconds / took)))
    found = [_timed(run, count) / count for _ in range(batches)]
    return _most(min(found) if alone and not CROWDED else float(np.median(found)))


def _timed(run: Callable[[], Any], count: int) -> float:
    barrier()
    begun = time.perf_counter()
    for _ in range(count):
        run()
    barrier()
    return max(time.perf_counter() - begun, 1e-7)


def _most(seconds: float) -> float:
    """Of all ranks: figures, and how often something runs, must be alike."""
    return float(all_reduce(np.float64(seconds), "max").item())


SIZES = tuple(1 << k for k in range(19, 28))  # bytes that a loop over memory touches


def _computing(seconds: float) -> dict[str, float]:
    import trilobite as tb

    n = 512
    a, b = tb.rand(n, n), tb.rand(n, n)
    product = tb.jit(lambda x, y: x @ y)
    flops = 2.0 * n**3 / _each(lambda: product(a, b), seconds / 3, alone=True)
    small = tb.rand(8, 8)
    chain = tb.jit(lambda x: _chain(x, 16))
    call = _each(lambda: chain(small), seconds / 6)
    kernel = call / 16
    begun = _pass(1 << 10, seconds / 12)
    passes = {size: _pass(size, seconds / 2 / len(SIZES)) for size in SIZES}
    speeds = {size: size / max(took - begun, took / 10) for size, took in passes.items()}
    value = max(_handing(64, seconds / 12) - call, 0.0) / 64
    return {"flops": flops, "kernel": kernel, "turn": 5 * call, "value": value, **_of_memory(speeds)}


def _handing(n: int, seconds: float) -> float:
    """Seconds of a step that does next to nothing to so many tensors that it finds outside."""
    import trilobite as tb
    from trilobite.cluster.sharding.function import sharded

    state, x = [tb.zeros(4) for _ in range(n)], tb.ones(4)

    def change(x: Any) -> None:
        for s in state:
            s.add_(x)

    step = sharded(change, mesh=mesh((size(),), ("all",)))
    return _each(lambda: step(x), seconds, alone=True)


def _pass(size: int, seconds: float) -> float:
    """Seconds in which a compiled loop reads and writes one array of half that size, as it does again and
    again.
    """
    import trilobite as tb

    x = tb.rand(size // 8)

    def change(x: Any) -> None:
        x.mul_(0.999)

    loop = tb.jit(change)
    return _each(lambda: loop(x), seconds, alone=True)


def _of_memory(speeds: Mapping[int, float]) -> dict[str, float]:
    """Speeds in caches and in memory, and where the one ends: by bytes touched, the speeds of loops. Of all
    sizes of caches the one by which `Machine.through` comes closest to them.
    """
    cached, largest = max(speeds.values()), max(speeds)
    found: list[tuple[float, dict[str, float]]] = []
    for cache in np.geomspace(min(speeds), largest / 4, 64).tolist():
        there = cache / largest  # of what the longest loop touches; the rest comes from memory
        stream = (1 - there) / (1 / speeds[largest] - there / cached)
        made = {"stream": stream, "cache": cache, "cached": cached}
        at = Machine(**made)
        off = [math.log(at.through(size, size) * speed / size) for size, speed in speeds.items()]
        found.append((sum(o * o for o in off), made))
    return min(found, key=lambda row: row[0])[1]


def _chain(x: Any, n: int) -> Any:
    for _ in range(n):
        x = x @ x
    return x


def _sums(x: Any, n: int) -> Any:
    for _ in range(n):
        x = all_reduce(x) * 0.5
    return x


def _messages(seconds: float) -> tuple[float, float, float]:
    """From compiled sums over all ranks: t = exchanges · latency + bytes moved / bandwidth. Small ones stand
    behind some computing, as in a training: ranks that share a core have to get it back before they answer.
    Of many that are under way together, each takes what a rank itself has to do for it.
    """
    import trilobite as tb

    n, rows = world().size, 32
    width, depth = (256, 6) if CROWDED else (128, 2)  # no longer than it must: their noise is in the result
    summed = tb.jit(lambda x: all_reduce(x))
    computed = tb.jit(lambda x: _chain(x, depth)[:rows])
    behind = tb.jit(lambda x: all_reduce(_chain(x, depth)[:rows]))
    in_turn = tb.jit(lambda x: _sums(x, 16))
    a, large = tb.rand(width, width) / width, tb.rand(2 << 20)
    together = tb.jit(lambda *xs: [all_reduce(x) for x in xs])
    many = [tb.rand(rows, width) for _ in range(16)]
    alone = _each(lambda: computed(a), seconds / 5)
    least = _each(lambda: in_turn(many[0]), seconds / 5) / 16
    short = max(_each(lambda: behind(a), seconds / 5) - alone, least)
    long = _each(lambda: summed(large), seconds / 5)
    own = _each(lambda: together(*many), seconds / 5) / 16
    sizes = 4.0 * width * rows, 4.0 * (2 << 20)
    less, more = (moved("cluster_all_reduce", size, n) for size in sizes)
    bandwidth = (more - less) / max(long - short, long / 4)
    times = exchanges("cluster_all_reduce", sizes[0], n) * int(np.ceil(np.log2(n)))
    latency = max((short - less / bandwidth) / times, short / times / 4)
    return latency, bandwidth, min(1.0, max(0.01, (own - less / bandwidth) / times / latency))
