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


def found(text: str, turned: bool) -> list[str]:
    if turned:  # the other core does the atomic, so that it comes first in program order
        text = text.replace("CBNZ", "CBZ")
    device = Device("dlp-m")
    array = device.array(np.zeros(64, np.int32))
    return [f.kind for f in findings_of(device, device.load(text), [array], (2, 1, 1), "block")]


@pytest.mark.parametrize("turned", [False, True])
def test_a_tensor_read_beside_an_atomic_is_a_race(turned: bool) -> None:
    assert found(TENSOR_READ, turned)


@pytest.mark.parametrize("turned", [False, True])
def test_polling_a_word_that_atomics_write_is_none(turned: bool) -> None:
    assert found(POLL, turned) == []
