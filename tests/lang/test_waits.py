"""Scalar work before waits: what moves, what stays, and what is computed either way."""

from __future__ import annotations

import numpy as np
import pytest
from random_modules import GDRAM, function

from trilobite.processor import Device
from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.codegen.compile import compile_module
from trilobite.processor.lang.codegen.registers import live_out
from trilobite.processor.lang.ir import KernelModule, Op, Value
from trilobite.processor.lang.passes.waits import MOST, work_before_waits


def moved(b: Builder) -> list[list[str]]:
    """Opcodes of each block when the pass has run."""
    graph = Graph(b.function)
    work_before_waits(graph, live_out(graph))
    return [[op.opcode for op in block.ops] for block in graph.order]


def entry() -> Builder:
    return function(KernelModule("waits.py"), "main", [GDRAM, I64], entry=True)


def test_scalar_work_moves_before_the_waits_in_front_of_it() -> None:
    b = entry()
    x, n = b.function.params
    b.sync("io")
    b.barrier("chip", "ipu")
    double = b.arithmetic("add", I64, n, n)
    b.store(I64, b.arithmetic("mul", I64, double, n), x)
    b.ret()
    assert moved(b) == [["add", "mul", "sync", "barrier", "store", "return"]]


def test_it_stays_behind_what_it_needs() -> None:
    b = entry()
    x, n = b.function.params
    b.sync("io")
    read = b.load(I64, x)
    b.sync("move")
    b.store(I64, b.arithmetic("add", I64, read, n), x)
    b.ret()
    assert moved(b) == [["sync", "load", "add", "sync", "store", "return"]]
    b = entry()
    x, n = b.function.params
    b.sync("io")
    read = b.load(I64, x)
    b.store(I64, b.arithmetic("add", I64, read, n), x)
    b.ret()
    assert moved(b) == [["sync", "load", "add", "store", "return"]]


def test_it_comes_out_of_a_branch() -> None:
    b = entry()
    x, n = b.function.params
    yes, done = b.function.add_block("yes"), b.function.add_block("done")
    b.sync("io")
    b.branch(n, yes, done)
    b.block = yes
    b.store(I64, b.arithmetic("add", I64, n, n), x)
    b.jump(done)
    b.block = done
    b.ret()
    assert moved(b)[0] == ["add", "sync", "branch"]


def test_it_stays_in_its_loop() -> None:
    b = entry()
    x, n = b.function.params
    head, done = b.function.add_block("head"), b.function.add_block("done")
    count = head.add_argument(I64, "count")
    b.sync("io")
    b.jump(head, n)
    b.block = head
    left = b.arithmetic("sub", I64, count, b.integer(1))
    b.store(I64, left, x)
    b.branch(left, head, done, [left], [])
    b.block = done
    b.ret()
    blocks = moved(b)
    assert blocks[0] == ["sync", "jump"] and blocks[1][0] == "sub"


def test_it_does_not_cross_a_call() -> None:
    module = KernelModule("waits.py")
    inner = function(module, "inner", [I64], routine=True)
    inner.ret()
    b = function(module, "main", [GDRAM, I64], entry=True)
    x, n = b.function.params
    b.sync("io")
    b.call("inner", [n], [])
    b.store(I64, b.arithmetic("add", I64, n, n), x)
    b.ret()
    assert moved(b) == [["sync", "call", "add", "store", "return"]]


def test_no_more_than_registers_hold() -> None:
    b = entry()
    x, n = b.function.params
    b.sync("io")
    for place in range(2 * MOST):
        b.store(I64, b.arithmetic("add", I64, n, b.integer(place + 5)), x, 8 * place)
    b.ret()
    (ops,) = moved(b)
    assert ops.index("sync") == MOST


@pytest.mark.parametrize("seed", range(8))
def test_random_code_computes_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b = entry()
    module, (x, n) = b.module, b.function.params
    values: list[Value] = [n, b.integer(3)]
    for place in range(60):
        kind = rng.random()
        a, c = (values[int(rng.integers(len(values)))] for _ in range(2))
        if kind < 0.2:
            b.sync(*rng.choice(["io", "move", "vector", "matrix"], 1))
        elif kind < 0.3:
            b.store(I64, a, x, 8 * int(rng.integers(16)))
        elif kind < 0.4:
            values.append(b.load(I64, x, 8 * int(rng.integers(16))))
        elif kind < 0.5:
            yes, done = b.function.add_block(f"yes{place}"), b.function.add_block(f"done{place}")
            b.branch(a, yes, done)
            b.block = yes
            b.store(I64, b.arithmetic("xor", I64, a, c), x, 8 * int(rng.integers(16)))
            b.jump(done)
            b.block = done
        else:
            values.append(b.arithmetic(str(rng.choice(["add", "sub", "mul", "xor"])), I64, a, c))
    b.store(I64, values[-1], x)
    b.ret()
    found = []
    for level in (0, 2):
        dev = Device("dlp-m")
        out = dev.array(np.arange(16, dtype=np.int64))
        dev.launch(dev.load(compile_module(module, dev.machine, level)), [out, 9])
        found.append(out.numpy().tolist())
    assert found[0] == found[1]


def test_operations_stay_what_they_are() -> None:
    """Nothing is lost, nothing is made."""
    b = entry()
    x, n = b.function.params
    for place in range(5):
        b.sync("io")
        b.store(I64, b.arithmetic("mul", I64, n, b.integer(place + 2)), x, 8 * place)
    b.ret()
    before: list[Op] = list(b.function.ops())
    moved(b)
    after = list(b.function.ops())
    assert sorted(map(id, before)) == sorted(map(id, after)) and all(
        op.block in b.function.blocks for op in after
    )
