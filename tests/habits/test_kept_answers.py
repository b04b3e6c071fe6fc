"""PyTorch's answers to its own samples, as `answers.npz` keeps them: results, dtypes, shapes and slopes."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

import trilobite as tb
from tests.habits.answers import differences, kept, problems, programs_kept, shown
from tests.habits.programs import PROGRAMS

SAMPLES: dict[str, list[dict[str, Any]]] = defaultdict(list)
for _name, _sample in kept():
    SAMPLES[_name].append(_sample)


def test_many_are_kept() -> None:
    assert len(SAMPLES) > 300 and sum(map(len, SAMPLES.values())) > 2500
    assert sum(sample["slopes"] is not None for samples in SAMPLES.values() for sample in samples) > 1000


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAMPLES)
def test_as_pytorch_answers(name: str) -> None:
    for sample in SAMPLES[name]:
        assert problems(name, sample) == [], (sample["args"], sample["kwargs"])


ANSWERS = programs_kept()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ANSWERS)
def test_programs_as_pytorch_answers(name: str) -> None:
    assert differences(ANSWERS[name], shown(PROGRAMS[name](tb))) == ""


def test_all_programs_are_kept() -> None:
    assert sorted(ANSWERS) == sorted(PROGRAMS)
