"""ResNet-18 on pictures of 32 × 32, twenty steps in double precision, in every strategy that applies: as one
process. A pipeline sees micro-batches and a server's workers their own statistics: batch norm excludes both.
"""

from __future__ import annotations

from typing import Any

import pytest
import sharding_models
import test_data_parallel as data
import test_zero as zero
from cluster_models import check_equal, one_process

from trilobite import cluster as c

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
NAME = "resnet18"
SHARDED: dict[str, tuple[int, dict[str, Any]]] = {
    "channels on 2": (2, {"shape": (1, 2)}),
    "data x channels on 4": (4, {"shape": (2, 2)}),
    "data x space on 4": (4, {"shape": (2, 2), "splits": False, "space": True}),
    "ZeRO 1 x channels on 4": (4, {"shape": (2, 2), "zero": 1}),
    "ZeRO 3 by placements on 4": (4, {"shape": (4, 1), "zero": 3}),
}


@pytest.mark.parametrize("n", [2, 4])
def test_data_parallel(n: int) -> None:
    check_equal(c.lockstep(data.train, n, NAME, n, "jit")[1], one_process(NAME))


@pytest.mark.parametrize(("stage", "n"), [(1, 2), (2, 4), (3, 2), (3, 4)])
def test_zero(stage: int, n: int) -> None:
    check_equal(c.lockstep(zero.train, n, NAME, n, stage)[1], one_process(NAME))


@pytest.mark.parametrize("name", SHARDED)
def test_placements(name: str) -> None:
    n, settings = SHARDED[name]

    def rank() -> Any:
        return sharding_models.train(NAME, **settings)

    check_equal(c.lockstep(rank, n)[1], one_process(NAME))
