"""T0 beside T1 on mappings of the space, and what the search finds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.dlp_contraction.harness import (
    Case,
    convolution_case,
    nest_of_case,
    odd_machine,
    product_case,
)
from trilobite.compiler.targets.dlp.contraction.choose import choose
from trilobite.compiler.targets.dlp.contraction.function import cycles_of
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.predict import Prediction
from trilobite.compiler.targets.dlp.contraction.search import search, shape_of
from trilobite.compiler.targets.dlp.contraction.space import Space, divisions, tile_sizes
from trilobite.processor.machine import Machine, load_machine

SAME = ((1, 1), (1, 1), (1, 1))


def _cases() -> list[Case]:
    return [
        convolution_case("forward", 1, (28, 28), 64, 96, (3, 3), *SAME, dtype="int8", out="int32"),
        convolution_case("input_grad", 2, (14, 14), 32, 64, (3, 3), *SAME),
        convolution_case("weight_grad", 2, (14, 14), 32, 64, (3, 3), *SAME),
        product_case(1, 200, 300, 400, "float16"),
    ]


def _sampled(case: Case, machine: Machine, count: int, seed: int) -> list[tuple[float, int]]:
    """T0's and T1's cycles of mappings drawn from all that fit."""
    nest, rng = nest_of_case(case), np.random.default_rng(seed)
    space, shape = Space(nest, machine, machine.cores), shape_of(nest, None)
    figures = space.figures(shape)
    found: list[tuple[float, Mapping]] = []
    for walking in space.walks(1):
        made = Prediction(nest, machine, shape, figures, walking)
        rows = np.flatnonzero(made.fits & (figures.steps <= 200))
        found += [
            (float(made.cycles[r]), space.mapping(walking, int(r)))
            for r in rng.choice(rows, min(2, len(rows)))
        ]
    chosen = [found[i] for i in rng.permutation(len(found))[:count]]
    plans = [(cycles, Plan(nest, mapping, machine, None)) for cycles, mapping in chosen]
    return [(cycles, cycles_of(p, machine.cores)) for cycles, p in plans if p.overflow() is None]


def _ranks(values: list[float]) -> list[int]:
    return np.argsort(np.argsort(values)).tolist()


def _gap(machine: Machine, count: int, seed: int) -> tuple[float, float, float]:
    """The median and the 95th percentile of the error, and the correlation of ranks."""
    pairs = [pair for case in _cases() for pair in _sampled(case, machine, count, seed)]
    errors = [abs(t0 / t1 - 1) for t0, t1 in pairs]
    ranks = np.corrcoef(_ranks([t0 for t0, _ in pairs]), _ranks([t1 for _, t1 in pairs]))[0, 1]
    return float(np.median(errors)), float(np.quantile(errors, 0.95)), float(ranks)


def test_t0_is_close_to_t1_on_any_mapping() -> None:
    median, most, ranks = _gap(load_machine("dlp-s"), 8, 0)
    assert median <= 0.10 and most <= 0.25 and ranks >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_t0_is_close_to_t1_on_many_mappings(seed: int) -> None:
    median, most, ranks = _gap(load_machine("dlp-s"), 40, seed)
    assert median <= 0.10 and most <= 0.25 and ranks >= 0.9


def test_the_search_is_deterministic_and_finds_what_random_mappings_do_not_beat() -> None:
    case, machine = _cases()[0], load_machine("dlp-s")
    nest = nest_of_case(case)
    found = choose(nest, machine, 1, None)
    again = search(nest, machine, 1, None, lambda m: cycles_of(Plan(nest, m, machine, None), 1))
    assert found == again.best[0]
    others = [t1 for _, t1 in _sampled(case, machine, 24, 7)]
    assert found.timed is not None and found.timed <= 1.03 * min(others)


def test_the_space_is_counted() -> None:
    nest = nest_of_case(_cases()[0])
    machine = load_machine("dlp-m")
    found = search(nest, machine, 16, None)
    assert found.candidates == Space(nest, machine, 16).size >= found.fitting > 0
    assert tile_sizes(96, 64) == [96, 64] and tile_sizes(7, 1) == [7, 4, 3, 2, 1]
    made = divisions(nest, machine, 16)
    assert all(np.prod(d.clusters) == 4 and np.prod(d.cores) == 4 for d in made)
    assert any(d.shared for d in made) and any(d.across for d in made)


def test_scratchpads_of_a_few_kilobytes_still_have_a_mapping() -> None:
    case = convolution_case("forward", 1, (13, 11), 23, 29, (3, 3), *SAME)
    case.check(odd_machine("plain"))
    case.check(odd_machine("pool"))
