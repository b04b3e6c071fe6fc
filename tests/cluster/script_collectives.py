"""Every rank runs all collectives over MPI, then the same in lock-step, and compares its own part."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import trilobite as tb
from trilobite import cluster as c
from trilobite.base.errors import ClusterError
from trilobite.cluster.exchanges import ROUND

SHAPES = ((4, 3), (0, 4), (), (8, 5, 64), (400, 24))
DTYPES = (tb.float64, tb.float32, tb.bfloat16, tb.int32, tb.complex64)


def everything(x: Any, halves: c.Group) -> list[Any]:
    out = [c.all_reduce(x), c.broadcast(x, 1), c.rotate(x), c.permute(x, [(0, 3), (2, 0)])]
    out.append(c.all_reduce(x, group=halves))
    if x.ndim:
        out += [c.all_gather(x, x.ndim - 1), c.reduce_scatter(x), c.all_gather(x, group=halves)]
        if x.shape[0] % 4 == 0:
            out.append(c.all_to_all(x, 0, x.ndim - 1))
    return out


def mixed(x: Any) -> list[Any]:
    """Ranks that have compiled a call meet others that make it at once; loops; many under way at a time."""

    def some(v: Any) -> list[Any]:
        parts = [c.all_reduce(v), c.part(c.all_gather(v, 1), 1), c.broadcast(v, 2), c.all_to_all(v, 0, 1)]
        return [*parts, c.reduce_scatter(v, 1), c.all_reduce(v[:2] * 2.0, "max"), c.index() + v.sum()]

    def rounds(v: Any) -> Any:
        return tb.scan(lambda total, row: (c.all_reduce(total * 0.5 + row), c.rotate(row)), v[0], v)

    @tb.jit
    def many(v: Any) -> list[Any]:
        sums = [c.all_reduce(v * float(k)) for k in range(6)]
        gathered = [c.all_gather(v[k : k + 9]) for k in range(3)]
        return [tb.sin(v), *(s + 1.0 for s in reversed(sums)), *gathered]

    out = (tb.jit(some) if c.rank() % 2 else some)(x)
    total, rows = (rounds if c.rank() % 2 else tb.jit(rounds))(x)
    out += [total, rows]
    for _ in range(3):
        out += many(x)
    return out


def work() -> list[Any]:
    rng = np.random.default_rng(c.rank())
    halves = c.Group(((0, 2), (1, 3)))
    out: list[Any] = []
    for shape in SHAPES:
        for dtype in DTYPES:
            x = tb.tensor(rng.normal(size=shape) * 100).to(dtype)
            out += everything(x, halves)
            if dtype is tb.float32 or shape == SHAPES[3]:
                out += tb.jit(lambda v: everything(v, halves))(x)
            if dtype is tb.float32:
                out.append(c.all_reduce(x, "max"))
    out += mixed(tb.tensor(rng.normal(size=(40, 300))))
    mine = tb.tensor(rng.normal(size=(c.parts(4099, 4)[c.rank()], 3)))
    whole = c.all_gather(mine, size=4099)
    out += [whole, c.reduce_scatter(whole), c.all_gather(mine.transpose(0, 1), 1, size=4099)]
    for size, width in ((2, 3), (2, 4000), (5, 1500)):  # parts that are empty, parts on both sides of small
        few = tb.tensor(rng.normal(size=(c.parts(size, 4)[c.rank()], width)))
        out += [c.all_gather(few, size=size), c.reduce_scatter(c.all_gather(few, size=size))]
    long = tb.tensor(rng.normal(size=4 * 2 * (ROUND // 8) + 1))  # three rounds, the last of a single element
    out += [c.all_reduce(long), tb.jit(c.all_reduce)(long), c.all_reduce(long, "max", group=halves)]
    if c.rank() == 0:
        c.send(tb.tensor(rng.normal(size=(300, 300))), 1)
        c.send(tb.tensor(rng.normal(size=(3,))), 1, tag=5)
    if c.rank() == 1:
        out += [c.receive((3,), tb.float64, 0, tag=5), c.receive((300, 300), tb.float64, 0)]
    c.barrier()
    return [bits(o) for o in out]


def bits(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape), x.dtype, np.ascontiguousarray(x.numpy()).tobytes()


def sums_in_any_order() -> None:
    """MPI's own reductions: within the rounding of three additions, more at once than there are slots, ranks
    that have compiled beside ranks that have not, several groups; and rank order again afterwards.
    """
    rng, halves = np.random.default_rng(7), c.Group(((0, 2), (1, 3)))
    sizes = [2000, 3001, 90_000, *range(2100, 2118)]
    all_ranks = [[rng.normal(size=n) * 10.0 ** rng.integers(-3, 4, n) for n in sizes] for _ in range(4)]

    def sums(values: list[Any]) -> list[Any]:
        return [c.all_reduce(v, group=halves if k % 3 == 0 else None) for k, v in enumerate(values)]

    c.any_order()
    for dtype, eps in ((tb.float64, 2.0**-53), (tb.float32, 2.0**-24)):
        own = [tb.tensor(v).to(dtype) for v in all_ranks[c.rank()]]
        run = tb.jit(sums) if c.rank() % 2 else sums
        for _ in range(3):
            for k, found in enumerate(run(own)):
                members = halves.members if k % 3 == 0 else range(4)
                parts = [tb.tensor(all_ranks[r][k]).to(dtype).numpy().astype("f8") for r in members]
                bound = 4 * eps * sum(np.abs(p) for p in parts) + 1e-300
                assert np.all(np.abs(found.numpy() - sum(parts)) <= bound)
    assert c.all_reduce(tb.arange(5000)).numpy()[-1] == 4 * 4999  # integers are exact
    half = tb.tensor(all_ranks[c.rank()][1]).to(tb.bfloat16)
    now = bits(c.all_reduce(half))
    c.any_order(False)
    assert now == bits(c.all_reduce(half))  # MPI has no such numbers: rank order
    again = bits(c.all_reduce(tb.tensor(all_ranks[c.rank()][2])))
    in_order = ((all_ranks[0][2] + all_ranks[1][2]) + all_ranks[2][2]) + all_ranks[3][2]
    assert again[2] == in_order.tobytes()


got = work()
wanted = c.lockstep(work, 4)[c.rank()]
assert len(got) == len(wanted)
for k, (a, b) in enumerate(zip(got, wanted, strict=True)):
    assert a == b, f"result {k}: {a[:2]} against {b[:2]}"
sums_in_any_order()
child = os.fork()  # a copy of a rank is none: it knows whose it is, and MPI is left alone
if child == 0:
    try:
        c.barrier()
    except ClusterError as error:
        os._exit(0 if f"that rank {c.rank()} has started" in str(error) else 2)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("same", flush=True)
