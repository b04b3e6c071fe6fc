"""Cores that share tiles: who begins with which part of a sum, and first tiles that come in pieces."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.compiler.dlp_contraction.harness import convolution_case, nest_of_case, product_case
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import DIMS, Nest
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.space import is_legal
from trilobite.processor.machine import load_machine


def _shared(rnd: random.Random, nest: Nest) -> Mapping:
    """Tiles along k, cores that share, and parts of any dims of the result, columns too."""
    tiles = [nest.extents[d] if d in "gb" else max(1, nest.extents[d] // rnd.choice((1, 2, 3))) for d in DIMS]
    deep = rnd.choice((128, 300, 512, 800, 4096, 4096)) // nest.image.item
    tiles[DIMS.index("b")], tiles[DIMS.index("k")] = 1, min(deep, nest.extents["k"])
    parts = []
    for dims in (rnd.choice(("n", "bpqn")), "bpqn"):
        split = dict.fromkeys(DIMS, 1)
        for _ in range(2):
            split[rnd.choice([d for d in dims if nest.extents[d] > 1])] *= 2
        parts.append(tuple(split.values()))
    order, levels = rnd.sample(DIMS, len(DIMS)), (rnd.randint(0, 6), rnd.randint(0, 6))
    names = ("", "left", "right", "left+right")
    shared, across = rnd.choice(names), rnd.choice(("", "", "", *names))
    return Mapping(tuple(tiles), tuple(order), *levels, 1, *parts, shared, across)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
def test_cores_begin_with_different_inputs_and_first_tiles_come_in_pieces(dtype: str) -> None:
    """Weights whose tiles lie in one channel of DRAM, on machines whose buses are so slow that pieces pay."""
    base, rnd = load_machine("dlp-m"), random.Random(dtype)
    slow = replace(
        base, sram=replace(base.sram, bus_bytes_per_cycle=3), dram=replace(base.dram, gb_per_s=3.0)
    )
    out, item, seen = {"int8": "int32"}.get(dtype, dtype), np.dtype(dtype).itemsize, Counter[str]()
    for seed in range(400):
        window, space = (1, rnd.randint(1, 3)), (rnd.randint(3, 6), rnd.randint(3, 6))
        inputs, outputs = rnd.choice((1024, 2048, 2048, 1300)) // item, rnd.randint(5, 40)
        if rnd.random() < 0.3:
            case = product_case(1, rnd.randint(9, 40), outputs, inputs, dtype, out, "y", seed)
        else:
            case = convolution_case(
                "forward", 2, space, inputs, outputs, window, (1, 1), (0, 1), (0, 1), dtype=dtype, out=out,
                seed=seed,
            )  # fmt: skip
        nest, machine = nest_of_case(case), rnd.choice((base, slow))
        mapping = _shared(rnd, nest)
        plan = Plan(nest, mapping, machine, None)
        if not is_legal(nest, mapping, machine) or plan.overflow() is not None:
            continue
        kinds = ["turned"] * (plan.turns is not None) + ["pieced"] * (bool(plan.filled) and plan.pieces > 1)
        if any(seen[kind] < 4 for kind in kinds):
            case.check(machine, 16, mapping)
            seen.update(kinds)
    assert min(seen["turned"], seen["pieced"]) >= 4
