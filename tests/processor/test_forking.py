"""Simulated memory larger than this computer's does not keep a process from forking."""

from __future__ import annotations

import os

import pytest

from trilobite.processor.sim.memory import lazy_bytes


@pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="asks Linux how much memory there is")
def test_a_process_with_more_memory_than_there_is_can_fork() -> None:
    with open("/proc/meminfo") as lines:
        total = int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) << 10
    memory = lazy_bytes(2 * total)
    memory[-1] = 3
    child = os.fork()
    if child == 0:
        os._exit(int(memory[-1]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
