"""Collectives in compiled functions: begun early, awaited late, kept on disk, and as lists of messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import cluster as c
from trilobite import nn, optim
from trilobite.base.dtypes import BY_NAME
from trilobite.compiler.program.program import Arrival, Exchange, Program, walk
from trilobite.compiler.program.program_file import decode, encode
from trilobite.compiler.targets.cpu.kernel import pack, unpack
from trilobite.compiler.targets.cpu.reductions import reduction
from trilobite.ir.primitives.cluster import reduce_in_order


def program(fn: Any, *args: Any) -> Program:
    """What a function becomes, recorded by the first of two ranks."""

    def rank() -> Program:
        found: Program = tb.jit(fn).lower(*args).compile().main.program({})
        return found

    found: Program = c.lockstep(rank, 2)[0]
    return found


def places(steps: Any, kind: type) -> list[int]:
    return [i for i, s in enumerate(steps) if isinstance(s, kind)]


def test_sums_of_gradients_begin_while_there_is_work_and_updates_wait_for_them_one_by_one() -> None:
    tb.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(48, 48) for _ in range(6)])
    opt = optim.SGD(model.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        c.reduce_gradients(model.parameters(), bucket=20_000)
        opt.step()
        return loss

    steps = program(step, tb.ones(4, 48)).steps
    begun, awaited = places(steps, Exchange), places(steps, Arrival)
    assert len(begun) == len(awaited) >= 3
    assert begun[-1] < awaited[0]  # all are under way before the first is needed
    products = [i for i, s in enumerate(steps) if "dot" in str(s)]
    assert begun[0] < products[-1]  # and the first before the backward pass is over
    numbers = [s.number for s in steps if isinstance(s, Exchange)]
    assert [s.number for s in steps if isinstance(s, Arrival)] == numbers == sorted(numbers)


def test_gathers_are_one_burst_ahead() -> None:
    shards = [tb.ones(3, 8) * (k + 1.0) for k in range(5)]

    def forward(x: Any, *parts: Any) -> Any:
        for p in parts:
            x = tb.tanh(x @ c.all_gather(p).T[:, :8][:6, :6])
        return x

    steps = program(forward, tb.ones(4, 6), *shards).steps
    under_way = most = 0
    for s in steps:
        under_way += isinstance(s, Exchange) - isinstance(s, Arrival)
        most = max(most, under_way)
    assert most == 2


def test_a_program_with_exchanges_comes_back_from_bytes_as_it_was() -> None:
    def fn(x: Any) -> Any:
        total, rows = tb.scan(lambda a, r: (c.all_reduce(a + r), c.part(c.all_gather(r))), x[0], x)
        return total, rows, c.permute(x, [(0, 1), (1, 0)])

    made = program(fn, tb.ones(3, 4))
    found = [s for s in walk(made.steps) if isinstance(s, Exchange)]
    assert len(found) == 4
    data = encode(made, pack)
    assert data is not None
    again = decode(data, unpack)
    assert [s for s in walk(again.steps) if isinstance(s, Exchange)] == found
    assert str(again) == str(made)


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "int64", "uint32"])
def test_kernels_of_sums_have_the_bits_of_the_meaning(op: str, dtype: str) -> None:
    rng, kind = np.random.default_rng(3), BY_NAME[dtype]
    for arrays, count in ((2, 37), (5, 1000)):
        xs = [(rng.normal(size=count) * 9).astype(kind) for _ in range(arrays)]
        found = reduction(op, kind, arrays, count)
        assert found is not None
        out = np.zeros(count, kind)
        for kernel in found:
            run_kernel(kernel, xs, out)
        np.testing.assert_array_equal(out.view(np.uint8), reduce_in_order(xs, op).view(np.uint8))


def run_kernel(kernel: Any, xs: list[Any], out: Any) -> None:
    import ctypes

    words = [
        a if isinstance(a, int) else (xs[a[1]] if a[0] == "in" else out).ctypes.data + a[2]
        for a in kernel.args
    ]
    args, scratch = np.array(words, np.int64), np.zeros(1 << 16, np.uint8)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    call(kernel.function)(args.ctypes.data, 0, kernel.units, scratch.ctypes.data)
