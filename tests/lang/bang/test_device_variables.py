"""Variables of a program outlive its launches, on each device for itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import LEVELS, compiled, needs_clang, written

from trilobite.processor.device import Device, Module

pytestmark = needs_clang

SOURCE = """
#include <bang.h>
__mlu_device__ int count = 5;
__mlu_device__ int places[3] = {7, 8, 9};
__mlu_global__ void next(int *x, int by) {
  count += by;
  places[1] += 10;
  x[0] = count;
  x[1] = places[0] + places[1] + places[2];
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_launch_left_the_next_one_finds(level: int, tmp_path: Path) -> None:
    program = compiled(written(SOURCE, tmp_path), "next", level=level)
    for _ in range(2):  # another device begins anew
        device = Device("mlu370-x4")
        x, kernel = device.array(np.zeros(2, np.int32)), Module(program)["next"]
        for step, want in enumerate(([8, 34], [11, 44], [14, 54])):
            device.launch(kernel, [x, 3])
            assert x.numpy().tolist() == want, step
