"""What the tests of the target share: machines, and comparisons with the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest

ODD = """
name: odd
clock_ghz: 0.7
interlock: none
clusters: 1
cores_per_cluster: 3
memory_core: false
core:
  nram: {kib: 67, banks: 1, bytes_per_cycle: 61, reserved_kib: 13}
  wram: {kib: 29, banks: 1, bytes_per_cycle: 53}
  acc: {kib: 0}
  mfu: {geometry: systolic-ws, rows: 7, cols: 11, weight_buffers: 1,
        macs_per_cycle: {int8: 77, fp16: 38, bf16: 38, fp32: 19}}
  vfu: {bytes_per_cycle: 24, granule_bytes: 8}
  queues: {depth: 3}
  io_dma: {bytes_per_cycle: 5, outstanding: 2}
  move_dma: {bytes_per_cycle: 7}
sram: {kib: 0}
noc: {kind: none}
dram: {gb_per_s: 3.1, channels: 1, latency_ns: 130, efficiency: 0.85, granule_bytes: 64, burst_bytes: 512}
"""


@pytest.fixture(scope="session")
def odd_machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chip of small scratchpads and prime sizes, as a file."""
    path = tmp_path_factory.mktemp("machines") / "odd.yaml"
    path.write_text(ODD, encoding="utf-8")
    return path
