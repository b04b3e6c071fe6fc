"""Products and the three views of convolutions: any size, any mapping, any machine, against NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.compiler.dlp_contraction.harness import (
    convolution_case,
    launch,
    nest_of_case,
    odd_machine,
    product_case,
    random_mapping,
)
from trilobite.base.errors import KernelError, ShapeError
from trilobite.compiler.targets.dlp.contraction import accepts
from trilobite.compiler.targets.dlp.contraction.lower import lower_contraction
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.processor.isa.rows.matrix import float_chain
from trilobite.processor.lang.ir import KernelModule
from trilobite.processor.machine import load_machine

MACHINES = {
    "dlp-s": (lambda: load_machine("dlp-s"), 1),
    "dlp-m": (lambda: load_machine("dlp-m"), 16),
    **{
        name: (lambda name=name: odd_machine(name), 1)
        for name in ("plain", "accumulators", "tree", "stationary")
    },
}


@pytest.mark.parametrize("turned", ["", "x", "y", "o", "xyo"])
def test_a_product_reads_and_writes_its_operands_as_they_lie(turned: str) -> None:
    product_case(3, 33, 65, 129, turned=turned).check(load_machine("dlp-s"))


@pytest.mark.parametrize(
    ("dtype", "out"),
    [("float16", "float16"), ("float16", "float32"), ("int8", "int32"), ("int8", "int8"), ("int16", "int64")],
)
def test_sums_in_parts_are_rounded_once_and_integers_wrap(dtype: str, out: str) -> None:
    """k is cut in three: partial sums stay in the accumulator's format."""
    mapping = Mapping((1, 1, 20, 1, 33, 41), ("g", "n", "b", "p", "q", "k"))
    product_case(1, 37, 65, 101, dtype, out).check(load_machine("dlp-s"), mapping=mapping)


def test_a_product_is_one_chain_of_fp32_whatever_the_tiles() -> None:
    case = product_case(1, 21, 19, 53)
    x, y = (a[0] for a in case.arrays)
    chain = float_chain(x, y, np.zeros((21, 19), np.float32))
    for tiles in ((1, 1, 21, 1, 19, 53), (1, 1, 5, 1, 7, 11), (1, 1, 1, 1, 19, 2)):
        for order in (("g", "b", "p", "q", "n", "k"), ("k", "n", "g", "b", "p", "q")):
            got, _ = launch(
                case.problem, load_machine("dlp-s"), case.arrays, case.out, 1, Mapping(tiles, order)
            )
            assert np.array_equal(got.reshape(21, 19).view(np.uint32), chain.view(np.uint32))


def _random_case(rnd: random.Random) -> tuple[object, ...]:
    kind = rnd.choice(("forward", "forward", "input_grad", "weight_grad"))
    rank, groups = rnd.choice((1, 2, 2)), rnd.choice((1, 1, 2, 3))
    inputs, outputs = groups * rnd.randint(1, 9), groups * rnd.randint(1, 9)
    if rnd.random() < 0.2:
        groups, outputs = inputs, inputs * rnd.randint(1, 2)
    formats = [("float32", "float32"), ("float16", "float16"), ("float16", "float32")]
    formats += [("int8", "int32"), ("int8", "int8"), ("int16", "int32")] if kind == "forward" else []
    several = lambda low, high: tuple(rnd.randint(low, high) for _ in range(rank))  # noqa: E731
    return (
        kind, rnd.randint(1, 3), several(3, 13), inputs, outputs, several(1, 3), several(1, 3),
        several(-1, 4), several(-1, 3), rnd.choice((1, 1, 1, 2)), rnd.choice((1, 1, 2)), groups,
        *rnd.choice(formats),
    )  # fmt: skip


def _fuzz(name: str, seeds: range) -> int:
    make, cores = MACHINES[name]
    machine, tried = make(), 0
    for seed in seeds:
        rnd = random.Random(f"{name} {seed}")
        try:
            case = convolution_case(*_random_case(rnd), seed=seed)  # type: ignore[arg-type]
        except ShapeError:
            continue  # the window does not fit
        if accepts(case.problem, machine) is not None:
            continue
        mapping = random_mapping(nest_of_case(case), machine, cores, rnd)
        if mapping is not None:
            case.check(machine, cores, mapping)
            tried += 1
    return tried


@pytest.mark.parametrize("name", MACHINES)
def test_random_convolutions_with_random_mappings(name: str) -> None:
    assert _fuzz(name, range(12)) >= 4


@pytest.mark.long
@pytest.mark.parametrize("name", MACHINES)
def test_many_random_convolutions_with_random_mappings(name: str) -> None:
    assert _fuzz(name, range(100, 400)) >= 100


@pytest.mark.parametrize(("name", "cores"), [("dlp-m", 16), ("tpu-v1", 1), ("diannao", 1)])
def test_products_without_a_given_mapping(name: str, cores: int) -> None:
    product_case(
        2, 37, 41, 67, "int8" if name == "tpu-v1" else "float16", None if name != "tpu-v1" else "int32"
    ).check(load_machine(name), cores)


def test_what_the_unit_cannot_do_is_refused_by_name() -> None:
    assert accepts(product_case(1, 2, 3, 4, "float64").problem, load_machine("dlp-s")) == (
        "the matrix unit multiplies no float64"
    )
    volume = convolution_case("forward", 1, (4, 4, 4), 2, 2, (1, 1, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0))
    assert (
        accepts(volume.problem, load_machine("dlp-s")) == "the matrix unit's windows have 1 or 2 axes, not 3"
    )


def test_a_mapping_that_does_not_fit_says_which_memory() -> None:
    case, machine = product_case(1, 400, 400, 400), load_machine("dlp-s")
    with pytest.raises(KernelError) as error:
        mapping = Mapping((1, 1, 400, 1, 400, 400))
        lower_contraction(KernelModule(), "group", case.problem, None, machine, 1, mapping)
    assert str(error.value) == (
        "the mapping does not fit dlp-s: nram would need 1280000 bytes of 393216\n"
        "  expected: tiles that fit the scratchpads\n  remedy: take smaller tiles or fewer buffers"
    )
