"""What a profile of the CPU tells of a call adds up, on a quiet machine and on a busy one."""

from __future__ import annotations

import numpy as np
import pytest

import trilobite as tb
from trilobite.report.cpu import cpu_subject


def test_kernels_the_rest_and_what_others_took_sum_to_the_call() -> None:
    x = tb.tensor(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    found = tb.jit(lambda x: tb.tanh(x @ x).sum()).profile(x, repeats=3)
    assert found.kernels + found.elsewhere + found.disturbed == pytest.approx(found.call, abs=1e-8)


def test_a_disturbed_call_is_told_as_one() -> None:
    x = tb.tensor(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    found = tb.jit(lambda x: x @ x).profile(x, repeats=1)
    slow = type(found)(**{**vars(found), "call": 10 * (found.kernels + found.elsewhere)})
    slow = type(found)(**{**vars(slow), "events": tuple(_longer(slow))})
    assert slow.disturbed > slow.call / 2
    subject = cpu_subject(slow)
    assert "something else ran on this machine" in subject.sentence
    assert "lost to other programs" in dict(subject.figures)


def _longer(profile: object) -> list[object]:
    """Its only kernel, as long as the whole call."""
    (event,) = profile.events  # type: ignore[attr-defined]
    end = event.begin + round(profile.call * 1e9)  # type: ignore[attr-defined]
    return [type(event)(event.row, event.kernel, event.begin, end)]
