"""Large shapes come within 80% of their roofs, and the ladder keeps its published order."""

from __future__ import annotations

import sys

import pytest
from harness import EXAMPLES, example

sys.path.insert(0, str(EXAMPLES))
measure = example("measure")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", measure.LANGUAGES)
@pytest.mark.parametrize("name", measure.MACHINES)
def test_kernels_come_near_their_roofs(name: str, language: str) -> None:
    for found in measure.efficiencies((name,), (language,)):
        aim = 0.8 if found.what.name in measure.AIMED else 0.0
        assert aim <= found.share <= 1.0, (found.what.name, found.share)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", measure.LANGUAGES)
def test_the_ladder_is_a_ladder(language: str) -> None:
    ms = {step: measure.ladder_step(step, language=language).seconds * 1e3 for step in measure.PUBLISHED}
    assert ms[1] > ms[2] > ms[3] and ms[4] > ms[5]
    for step in (4, 5, 6):
        assert abs(ms[step] / measure.PUBLISHED[step] - 1) <= 0.35


@pytest.mark.parametrize("language", measure.LANGUAGES)
def test_a_short_ladder_keeps_its_order(language: str) -> None:
    ms = {step: measure.ladder_step(step, 128 * 32 * 4, language).seconds for step in (4, 5, 6)}
    assert ms[4] > ms[5] and ms[6] < 1.2 * ms[4]
