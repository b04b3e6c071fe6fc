"""An ordinary Python debugger in an interpreted kernel: it stops, steps, prints views, on every core."""

from __future__ import annotations

import io
import pdb
from typing import Any

import numpy as np
import pytest

from trilobite import dlp
from trilobite.base.errors import KernelError
from trilobite.processor import Device


@dlp.kernel
def summed(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, total = dlp.nram((2, 4), dlp.f32), dlp.f32(0)
    for i in range(0, n, 8):
        dlp.copy(a, x[i : i + 8].view(2, 4))
        total += a[1, 3]
    out[0] = total


@dlp.kernel
def shared(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32]):
    box = dlp.sram(8, dlp.f32)
    if not dlp.is_memory_core():
        box[dlp.core_id()] = dlp.f32(dlp.core_id())
    dlp.sync_cluster()
    if dlp.is_memory_core():
        out[0] = box[0] + box[3]


def session(kernel: dlp.Kernel, line: int, commands: str, args: list[Any], **launch: Any) -> str:
    """What pdb says with a breakpoint `line` lines behind the decorator."""
    told = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=told, nosigint=True, readrc=False)
    code = kernel.function.__code__
    assert debugger.set_break(code.co_filename, code.co_firstlineno + line) is None
    debugger.runcall(kernel.interpret, *args, **launch)
    return told.getvalue()


def test_it_stops_steps_and_shows_views() -> None:
    dev = Device("dlp-m")
    x, out = dev.array(np.arange(16, dtype=np.float32)), dev.array(np.zeros(1, np.float32))
    commands = "c\np a.numpy().tolist()\np a[:, 1:3].numpy().tolist()\nn\np total\nclear 1\nc\n"
    told = session(summed, 5, commands, [dev, [x, out, 16]])
    assert "-> total += a[1, 3]" in told
    assert "[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]" in told
    assert "[[1.0, 2.0], [5.0, 6.0]]" in told
    assert "-> for i in range(0, n, 8):" in told and "7.0" in told.split("range(0, n, 8):")[1]
    assert out.numpy()[0] == 7 + 15


def test_it_stops_on_the_memory_core_of_a_union() -> None:
    dev = Device("dlp-m")
    x, out = dev.array(np.zeros(1, np.float32)), dev.array(np.zeros(1, np.float32))
    commands = "c\np dlp.core_id()\np box[:4].numpy().tolist()\nclear 1\nc\n"
    told = session(shared, 7, commands, [dev, [x, out]], dim=(4, 1, 1), task="union1")
    assert "128" in told and "[0.0, 1.0, 2.0, 3.0]" in told
    assert out.numpy()[0] == 3


def test_elements_are_not_there_while_a_kernel_is_compiled() -> None:
    @dlp.kernel
    def looks(x: dlp.gm[dlp.f32]):
        print(x[:4].numpy())

    with pytest.raises(KernelError, match=r"asked for while the kernel is compiled[\s\S]*kernel\.interpret"):
        looks.program("dlp-m")
    dev = Device("dlp-m")
    looks.interpret(dev, [dev.array(np.zeros(4, np.float32))])
