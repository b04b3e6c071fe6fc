"""Kernel IR: text form, verifier, interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.base.errors import KernelError, ProcessorFault
from trilobite.processor import Device
from trilobite.processor.isa.formats import F32, I32, I64
from trilobite.processor.lang import text
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.interpreter import interpret
from trilobite.processor.lang.intrinsics import TENSOR_ROWS, contract
from trilobite.processor.lang.ir import Buffer, Function, KernelModule, Location
from trilobite.processor.lang.parse import read
from trilobite.processor.lang.types import Pointer
from trilobite.processor.lang.verify import verify


def scale_module() -> KernelModule:
    """out[0:n] = x[0:n] * s, then the sum of i for i < n stored as i32 at out[n]."""
    module = KernelModule("scale.py")
    function = module.add_function(Function("scale", entry=True))
    b = Builder(module, function)
    b.location = Location("scale.py", 3, 5)
    x, n, s = (b.block.add_argument(k, m) for k, m in ((Pointer("gdram"), "x"), (I64, "n"), (F32, "s")))
    buffer = module.add_buffer(
        Buffer("tile", "nram", 4096, location=b.location, element="f32", shape=(1024,))
    )
    tile = b.address(buffer)
    size = b.arithmetic("mul", I64, n, b.integer(4))
    b.begin(buffer)
    b.tensor("COPY", [tile, x, size])
    b.tensor("VMS", [tile, n, tile, s], [F32])
    b.tensor("COPY", [x, tile, size])
    total = function.add_variable("total", I32)
    b.set(total, b.constant(I32, 0))
    head, body, done = (function.add_block(name) for name in ("head", "body", "done"))
    b.jump(head, b.integer(0))
    i = head.add_argument(I64, "i")
    b.block = head
    b.branch(b.arithmetic("lt", I64, i, n), body, done)
    b.block = body
    b.set(total, b.arithmetic("add", I32, b.get(total), b.cast(i, I32)))
    b.jump(head, b.arithmetic("add", I64, i, b.integer(1)))
    b.block = done
    b.store(I32, b.get(total), b.offset(x, size))
    b.print("n = %d\n", n)
    b.ret()
    return module


def test_text_round_trips() -> None:
    module = scale_module()
    verify(module)
    written = text.write(module)
    again = read(written)
    verify(again)
    assert text.write(again) == written
    assert '; "scale.py":3:5' in written


def test_interpreter_gives_the_meaning() -> None:
    dev = Device("dlp-m")
    given = np.array([1.5, -2.25, 3e20, -0.0, 7.0, 0.0], np.float32)
    x = dev.array(given)
    words = [x.address, 5, int(np.float32(-0.5).view(np.uint32))]
    assert interpret(scale_module(), "scale", dev.machine, dev.memory, words) == "n = 5\n"
    out = x.numpy()
    assert (out[:5] == given[:5] * np.float32(-0.5)).all()
    assert out[5:].view(np.int32)[0] == 10


def test_a_fault_names_the_place() -> None:
    dev = Device("dlp-m")
    x = dev.array(np.zeros(4, np.float32))
    with pytest.raises(ProcessorFault, match=r"core 0, task 0: scale\.py:3:5"):
        interpret(scale_module(), "scale", dev.machine, dev.memory, [x.address, 100, 0])


def test_every_tensor_row_has_a_contract() -> None:
    for name, row in TENSOR_ROWS.items():
        promise = contract(name)
        assert any(access.writes for access in promise.accesses), name
        count = len([op for op in row.operands if op.kind == "in"])
        assert len(promise.fields) == count + sum(len(op.fields) for op in row.operands), name


def broken(change: str) -> KernelModule:
    module = scale_module()
    ops = list(module.functions["scale"].ops())
    if change == "space":
        next(op for op in ops if op.attrs.get("row") == "VMS").operands[0] = module.functions["scale"].params[
            0
        ]
    elif change == "order":
        block = module.functions["scale"].blocks[0]
        block.ops.insert(0, block.ops.pop(3))
    elif change == "terminator":
        module.functions["scale"].blocks[1].ops.pop()
    elif change == "passes":
        module.functions["scale"].blocks[0].ops[-1].targets[0].args.clear()
    elif change == "format":
        next(op for op in ops if op.attrs.get("row") == "VMS").attrs["formats"] = (I32, I32)
    elif change == "type":
        next(op for op in ops if op.opcode == "lt").operands[0] = module.functions["scale"].params[2]
    return module


@pytest.mark.parametrize(
    "change, words",
    [
        ("space", "dst lies in gdram, the instruction takes nram"),
        ("order", "uses a value before it is defined"),
        ("terminator", "does not end in a terminator"),
        ("passes", "passes 0 values where 1 are expected"),
        ("format", "does not exist in the formats i32.i32"),
        ("type", "f32 where i64 is needed"),
    ],
)
def test_the_verifier_says_what_is_wrong(change: str, words: str) -> None:
    with pytest.raises(KernelError, match=words):
        verify(broken(change))


@pytest.mark.parametrize(
    "line",
    ["nonsense", "kernel @k -> () {\n^0():\n  flop ()\n}", "buffer @x nram", "kernel @k -> () {\n^0():"],
)
def test_text_that_cannot_be_read_is_refused(line: str) -> None:
    with pytest.raises(KernelError, match="the kernel IR cannot be read"):
        read(line)
