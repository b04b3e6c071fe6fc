"""Atomics against everything else: a tensor instruction that reads the word is a race, polling it is none."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.processor.device import Device
from trilobite.processor.tools.checks import findings_of

HEAD = """
    .nram
    x: .space 256
    .text
    SREAD  $1, #taskId
    SMOVE  $2, #1
    SMOVE  $3, #16
    LA     $10, x
    CBNZ   #second, $1
"""
TENSOR_READ = (
    HEAD
    + """
    VLOAD.i32 $10, $3, $0, #0
    SYNC
    HALT
second:
    ATOMIC.i32.add $4, $0, $2
    HALT
"""
)
POLL = (
    HEAD
    + """
    SLOAD.i32 $4, $0, #0
    HALT
second:
    ATOMIC.i32.add $4, $0, $2
    HALT
"""
)


def found(text: str, turned: bool, task: str = "block") -> list[str]:
    if turned:  # the other core does the atomic, so that it comes first in program order
        text = text.replace("CBNZ", "CBZ")
    device = Device("dlp-m")
    array = device.array(np.zeros(64, np.int32))
    dim = (4 if task == "union1" else 2, 1, 1)
    return [f.kind for f in findings_of(device, device.load(text), [array], dim, task)]


@pytest.mark.parametrize("turned", [False, True])
def test_a_tensor_read_beside_an_atomic_is_a_race(turned: bool) -> None:
    assert found(TENSOR_READ, turned)


@pytest.mark.parametrize("turned", [False, True])
def test_polling_a_word_that_atomics_write_is_none(turned: bool) -> None:
    assert found(POLL, turned) == []


DATA = (
    HEAD
    + """
    SLOAD.i32 $4, $0, #0
    SADD   $4, $4, #1
    SSTORE.i32 $4, $0, #64
    HALT
second:
    ATOMIC.i32.add $4, $0, $2
    HALT
"""
)
SPIN = DATA.replace("SLOAD.i32 $4, $0, #0", "again: SLOAD.i32 $4, $0, #0\n    CBZ #again, $4")
CONTROL = DATA.replace(
    "SSTORE.i32 $4, $0, #64", "CBZ #done, $4\n    SMOVE $4, #7\ndone: SSTORE.i32 $2, $0, #64"
)
TO_TENSOR = DATA.replace("SSTORE.i32 $4, $0, #64", "VSET.i32 $10, $3, $4")
THROUGH_STACK = DATA.replace(
    "SADD   $4, $4, #1",
    "SADD $62, $62, #-64\n    SSTORE.i32 $4, $62, #8\n    SLOAD.i32 $4, $62, #8\n    SADD $62, $62, #64",
)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("text", [DATA, TO_TENSOR, THROUGH_STACK], ids=["stored", "tensor", "stack"])
def test_data_that_atomics_write_wants_a_barrier(text: str, turned: bool) -> None:
    assert found(text, turned) == ["race"]
    if text is TO_TENSOR:  # the memory core of a union task has no NRAM
        return
    behind = text.replace("    SLOAD.i32 $4, $0, #0", "    BARRIER.cluster\n    SLOAD.i32 $4, $0, #0", 1)
    behind = behind.replace("ATOMIC.i32.add $4, $0, $2", "ATOMIC.i32.add $4, $0, $2\n    BARRIER.cluster")
    assert found(behind, turned, "union1") == []


@pytest.mark.parametrize("text", [SPIN, CONTROL], ids=["spin", "control"])
def test_looking_again_and_branching_are_polling(text: str) -> None:
    assert found(text, True) == []
