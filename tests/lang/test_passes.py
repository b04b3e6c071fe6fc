"""What the passes promise, seen in the instructions they leave; and that they keep the meaning."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from harness import example, run

from tests.lang.test_fuzz import load
from trilobite import dlp
from trilobite.base.errors import ProcessorFault
from trilobite.processor.isa.formats import I64
from trilobite.processor.lang import text
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.cfg import remove_unreachable
from trilobite.processor.lang.codegen import legalise
from trilobite.processor.lang.codegen.compile import compile_module
from trilobite.processor.lang.codegen.moves import Number, Register, Slot, in_order
from trilobite.processor.lang.ir import Function, KernelModule
from trilobite.processor.lang.parse import read
from trilobite.processor.lang.passes.clone import clone_module
from trilobite.processor.lang.passes.dead_code import remove_dead_code
from trilobite.processor.lang.passes.frames import give_frames
from trilobite.processor.lang.passes.hoist import hoist
from trilobite.processor.lang.passes.promote import promote
from trilobite.processor.lang.passes.rotate import rotate
from trilobite.processor.lang.passes.simplify import simplify
from trilobite.processor.lang.passes.strength import reduce_strength
from trilobite.processor.lang.passes.unroll import unroll
from trilobite.processor.lang.types import Pointer
from trilobite.processor.lang.verify import verify

ladder = example("matmul")


def isa(kernel: dlp.Kernel, machine: str = "dlp-m") -> list[str]:
    return [line[7:].split(" //")[0].strip() for line in kernel.stages(machine)["isa"].splitlines()]


def loop_of(lines: list[str]) -> list[str]:
    """The innermost backward branch and what it repeats."""
    spans = []
    for place, line in enumerate(lines):
        found = re.search(r"#\.(-\d+)", line)
        if found:
            spans.append(lines[place + int(found[1]) : place + 1])
    return min(spans, key=len)


def test_addresses_grow_by_addition() -> None:
    inner = loop_of(isa(ladder.step1))
    assert [line.split()[0] for line in inner] == [
        "SLOAD.f32", "SLOAD.f32", "SMUL.f32", "SADD.f32", "SADD.i64", "SADD.i64", "BNE",
    ]  # fmt: skip


@dlp.kernel
def summed(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], begin: int, end: int):
    tile = dlp.nram(64, dlp.f32)
    dlp.copy(tile, x[:64])
    total = dlp.f32(0.0)
    for i in range(begin, end):
        total = total + tile[i]
    out[0] = total


def test_a_counter_that_only_counts_disappears() -> None:
    assert [line.split()[0] for line in loop_of(isa(summed))] == ["SLOAD.f32", "SADD.f32", "SADD.i64", "BNE"]


@pytest.mark.parametrize(("begin", "end"), [(0, 7), (3, 3), (5, 2), (0, -(1 << 40)), (63, 64), (2, 64)])
def test_a_loop_that_ends_at_an_address_runs_as_often(begin: int, end: int) -> None:
    x = np.random.default_rng(1).normal(size=64).astype(np.float32)
    (_, out) = run(summed, [x, np.zeros(1, np.float32), begin, end], dim=(1, 1, 1))
    want = np.float32(0)
    for value in x[begin : max(begin, end)]:
        want = want + value
    assert out[0] == want


def test_a_pipeline_waits_once_a_step() -> None:
    lines = isa(ladder.step5)
    start = next(n for n, line in enumerate(lines) if line.startswith("MM"))
    body = loop_of(lines)
    assert any(line.startswith("MM") for line in body) and start
    assert [line for line in body if line.startswith("SYNC")] == ["SYNC"]


def test_hardware_that_orders_ranges_needs_no_waits() -> None:
    assert not any(
        line.startswith("SYNC") for line in isa(example("rows").softmax, "dlp-s") if line != "SYNC"
    )


def test_short_loops_are_unrolled() -> None:
    @dlp.kernel
    def four(x: dlp.gm[dlp.f32]):
        total = dlp.f32(0.0)
        for i in range(4):
            total += x[i * 3]
        x[0] = total

    lines = isa(four)
    assert not any(line.split()[0] in ("BLT", "BGE", "JUMP", "CB") for line in lines)
    assert [line for line in lines if "SLOAD" in line][3].endswith("#36")
    run(four, [np.arange(10, dtype=np.float32)], dim=(1, 1, 1))


def test_waits_for_nothing_disappear() -> None:
    @dlp.kernel
    def idle(x: dlp.gm[dlp.f32], n: int):
        a = dlp.nram(64, dlp.f32)
        dlp.sync()
        dlp.sync("vector")
        dlp.copy(a[:n], x[:n])
        dlp.sync()
        dlp.sync("io", "move")
        dlp.exp(a[:n], a[:n])
        dlp.copy(x[:n], a[:n])

    assert [line for line in isa(idle) if line.startswith("SYNC")] == ["SYNC", "SYNC.vector"]
    run(idle, [np.ones(9, np.float32), 9], dim=(1, 1, 1))


def test_operations_of_independent_buffers_do_not_wait() -> None:
    @dlp.kernel
    def apart(x: dlp.gm[dlp.f32]):
        a, b = dlp.nram(64, dlp.f32), dlp.nram(64, dlp.f32)
        dlp.copy(a, x[:64])
        dlp.fill(b, 2.0)
        dlp.mul(a, a, b)
        dlp.copy(x[:64], a)

    lines = [line.split()[0] for line in isa(apart) if line.split()[0].startswith(("SYNC", "COPY", "V"))]
    assert lines == ["COPY", "VSET.f32", "SYNC.io", "VMV.f32", "SYNC.vector", "COPY"]
    run(apart, [np.ones(64, np.float32)], dim=(1, 1, 1))


def test_buffers_that_are_never_needed_together_share_their_bytes() -> None:
    @dlp.kernel
    def phases(x: dlp.gm[dlp.f32]):
        for i in range(3):
            a = dlp.nram(60000, dlp.f32)
            dlp.copy(a, x[:60000])
            dlp.add(a, a, dlp.f32(i))
            dlp.copy(x[:60000], a)
            b = dlp.nram(60000, dlp.f32)
            dlp.copy(b, x[:60000])
            dlp.mul(b, b, 2.0)
            dlp.copy(x[:60000], b)

    program = phases.program("dlp-m")
    assert program.sizes["nram"] == 240000
    assert program.scratchpad_text() == "nram: 240000 of 393216 bytes"
    x = np.arange(60000, dtype=np.float32)
    out = run(phases, [x], dim=(1, 1, 1), ways=("ir", "O0", "O2"))[0]
    assert (out == (((x + 0) * 2 + 1) * 2 + 2) * 2).all()


def test_a_value_carried_around_a_loop_keeps_its_buffer() -> None:
    @dlp.kernel
    def carried(x: dlp.gm[dlp.f32], n: int):
        total = dlp.nram(16, dlp.f32)
        dlp.fill(total, 0.0)
        for i in range(n):
            a = dlp.nram(16, dlp.f32)
            dlp.copy(a, x[i * 16 : i * 16 + 16])
            b = dlp.nram(16, dlp.f32)
            dlp.exp(b, a)
            dlp.add(total, total, b)
        dlp.copy(x[:16], total)

    run(carried, [np.linspace(-1, 1, 64, dtype=np.float32), 4], dim=(1, 1, 1))


PASSES = (promote, simplify, remove_dead_code, hoist, simplify, unroll, simplify, reduce_strength, hoist,
          simplify, remove_dead_code, rotate, simplify, remove_dead_code)  # fmt: skip
LIBRARY = [
    (name, kernel)
    for name in ("elementwise", "rows", "arrangement", "images", "detection", "networks", "matmul")
    for kernel in vars(example(name)).values()
    if isinstance(kernel, dlp.Kernel)
]


@pytest.mark.parametrize("name, kernel", LIBRARY, ids=lambda value: getattr(value, "name", value))
def test_every_pass_leaves_lawful_ir(name: str, kernel: dlp.Kernel) -> None:
    module = clone_module(kernel.module("mlu370-x4"))
    (function,) = module.entries
    remove_unreachable(function)
    for step in PASSES:
        step(function)
        verify(module)
    assert text.write(read(text.write(module))) == text.write(module)


def module_with_calls() -> KernelModule:
    """k(out, n): out[0] = twice(thrice(n)); thrice calls nobody."""
    module = KernelModule("calls")
    for name, factor in (("twice", 2), ("thrice", 3)):
        function = module.add_function(Function(name, [I64]))
        b = Builder(module, function)
        n = b.block.add_argument(I64)
        b.ret(b.arithmetic("mul", I64, n, b.integer(factor)))
    entry = module.add_function(Function("k", entry=True))
    b = Builder(module, entry)
    out, n = b.block.add_argument(Pointer("gdram")), b.block.add_argument(I64)
    (value,) = b.call("thrice", [n], [I64])
    (value,) = b.call("twice", [value], [I64])
    b.store(I64, value, out)
    b.ret()
    return module


@pytest.mark.parametrize("level", [0, 2])
def test_calls_are_inlined(level: int) -> None:
    from trilobite.processor import Device

    dev = Device("dlp-s")
    out = dev.array(np.zeros(1, np.int64))
    program = compile_module(module_with_calls(), dev.machine, level)
    dev.launch(dev.load(program)["k"], [out, 7])
    assert out.numpy()[0] == 42


def test_a_circle_of_functions_becomes_one_without_calls() -> None:
    """Two functions that call each other without end: they compile, and stop where their frames are full."""
    from trilobite.processor import Device

    module = module_with_calls()
    b = Builder(module, module.functions["thrice"])
    b.block.ops.insert(0, b.emit("call", [b.block.args[0]], {"function": "twice"}, [I64]))
    b.block.ops.pop()
    other = Builder(module, module.functions["twice"])
    other.block.ops.insert(0, other.emit("call", [other.block.args[0]], {"function": "thrice"}, [I64]))
    other.block.ops.pop()
    work = clone_module(module)
    give_frames(work, work.functions["k"])
    verify(work)
    called = {op.attrs["function"] for op in work.functions["k"].ops() if op.opcode == "call"}
    assert called == {"thrice.frames", "twice.frames"}
    assert not any(op.opcode == "call" for name in called for op in work.functions[name].ops())
    dev = Device("dlp-s")
    program = compile_module(module, dev.machine)
    with pytest.raises(ProcessorFault, match="trapped with code 4"):
        dev.launch(dev.load(program)["k"], [dev.array(np.zeros(1, np.int64)), 7], traced=False)


def rounds() -> KernelModule:
    """A loop that hands its two sums to the block behind it, which nobody else goes to."""
    module = KernelModule("rounds")
    function = module.add_function(Function("k", [], True))
    b = Builder(module, function)
    out = b.block.add_argument(Pointer("gdram"), "out")
    turns = b.block.add_argument(I64, "turns")
    loop, done = function.add_block("loop"), function.add_block("done")
    left, first, second = (loop.add_argument(I64) for _ in range(3))
    results = [done.add_argument(I64) for _ in range(2)]
    b.jump(loop, turns, b.integer(3), b.integer(5))
    b.block = loop
    total, less = b.arithmetic("add", I64, first, second), b.arithmetic("sub", I64, left, b.integer(1))
    b.branch(less, loop, done, (less, second, total), (total, first))
    b.block = done
    for place, value in enumerate(results):
        b.store(I64, value, out, 8 * place)
    b.ret()
    return module


@pytest.mark.parametrize("level", [0, 2])
def test_a_branch_hands_values_to_a_block_that_only_it_goes_to(level: int) -> None:
    from trilobite.processor import Device

    dev = Device("dlp-s")
    out = dev.array(np.zeros(2, np.int64))
    verify(rounds())
    dev.launch(dev.load(compile_module(rounds(), dev.machine, level))["k"], [out, 4], traced=False)
    first, second = 3, 5
    for _ in range(3):
        first, second = second, first + second
    assert out.numpy().tolist() == [first + second, first]


def test_copies_at_once_become_copies_in_order() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        places = [Register(n) for n in range(4)] + [Slot(n) for n in range(3)]
        targets = [places[n] for n in rng.permutation(7)[: rng.integers(1, 8)]]
        choices = [*places, Number(99)]
        moves = [(to, choices[rng.integers(0, 8)]) for to in targets]
        state = {place: n for n, place in enumerate(places)}
        want = dict(state)
        for to, source in moves:
            want[to] = source.word if isinstance(source, Number) else state[source]
        spare = Register(57)
        for to, source in in_order(moves, spare):
            state[to] = source.word if isinstance(source, Number) else state[source]
        state.pop(spare, None)
        assert state == want


def crowded(count: int) -> str:
    """A kernel of many operations that each take several registers in a row, in no particular order."""
    draw = random.Random(5)
    lines = ["from trilobite import dlp", "@dlp.kernel",
             "def kernel(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):",
             "    a, b = dlp.nram((16, 16), dlp.f32), dlp.nram((16, 16), dlp.f32)",
             "    w = dlp.wram((16, 16), dlp.f32)",
             "    for source in (a, b, w):", "        dlp.copy(source.view(256), x[:256])"]  # fmt: skip
    for _ in range(count):
        p, q = draw.randint(1, 7), draw.randint(1, 7)
        lines.append("    " + draw.choice([
            f"dlp.copy(a[{p} : {p + q}, {q} : {p + q}], b[{p + 1} : {p + q + 1}, {q} : {p + q}])",
            f"dlp.matmul(b[:{p}], a[:{p}], w)",
            f"dlp.transpose(b.view(256)[: {p * q}].view({q}, {p}), a.view(256)[: {p * q}].view({p}, {q}))",
        ]))  # fmt: skip
    return "\n".join([*lines, "    dlp.copy(out[:256], b.view(256))", ""])


@pytest.mark.parametrize("shared", [32, 1000])
def test_any_number_of_runs_finds_registers(
    shared: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few runs wait for their next use; where too many do (1000: all of them), they are made again."""
    monkeypatch.setattr(legalise, "SHARED", shared)
    kernel = load(tmp_path / f"crowded_{shared}.py", crowded(250))
    x = np.random.default_rng(3).normal(size=256).astype(np.float32) / 4
    run(kernel, [x, np.zeros(256, np.float32), 1], "mlu370-x4", (1, 1, 1), ways=("O0", "O2"))
