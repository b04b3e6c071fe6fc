"""Queues add up the time of their launches, and events measure between them."""

from __future__ import annotations

import numpy as np
import pytest

from trilobite.base.errors import ArgumentError
from trilobite.processor import Device, Queue

SOURCE = "LI $1, #nram(0)\nVLOAD $1, $2, $0, #0\nVAV $1, $2, $1, $1\nVSTORE $1, $2, $0, #0"


def test_events_measure_launches() -> None:
    device = Device("dlp-s")
    module, x = device.load(SOURCE), device.array(np.ones(2000, np.float32))
    queue = Queue(device)
    before = queue.record()
    first = queue.launch(module, [x, 0, 2000])
    between = queue.record()
    second = queue.launch(module, [x, 0, 500])
    after = queue.record()
    assert before.until(between) == first.seconds > second.seconds
    assert between.until(after) == pytest.approx(second.seconds)
    assert queue.seconds == first.seconds + second.seconds and queue.runs == [first, second]
    assert (x.numpy()[:500] == 4).all() and (x.numpy()[500:] == 2).all()
    with pytest.raises(ArgumentError, match="the events belong to two queues"):
        before.until(Queue(device).record())
