"""A launch whose pages tests look at."""

from __future__ import annotations

import numpy as np

from trilobite.processor import Device, Run

KERNEL = """
    .entry scale
    .nram
    x: .space 4096 * 4
    .text
    scale:
        LA     $10, x
        VLOAD  $10, $1, $0, #0
        VMS    $10, $1, $10, $2
        VSTORE $10, $1, $0, #0
"""


def launched() -> Run:
    device = Device("dlp-s")
    values = np.arange(1000, dtype=np.float32)
    return device.launch(device.load(KERNEL)["scale"], args=[device.array(values), 1000, 0.5])
