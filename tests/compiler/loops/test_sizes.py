"""One kernel for many sizes: equal texts, and the bits that a kernel with numbers in its text would give."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.compiler.arrays import assert_same_bits
from tests.compiler.loops.regions import Array, Region, fusion_of, native, reference
from tests.compiler.loops.test_random import Maker
from trilobite.base import dtypes as dt
from trilobite.compiler.program.kernels import Step
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.loops.ir import Nest
from trilobite.compiler.targets.cpu.nests import defaults
from trilobite.compiler.targets.cpu.nests.lower import accepts, lower, lowered, nests_of
from trilobite.compiler.targets.cpu.nests.sizes import _room, sized
from trilobite.ir.graph import Graph
from trilobite.ir.types import dim


def normalised(rows: int, columns: int, dtype: dt.DType = dt.float32) -> Graph:
    """(x - mean) * scale by columns, the mean by pairs of rows: what batch normalisation does."""
    r = Region()
    x, scale = r.input((rows, columns), dtype), r.input((columns,), dtype)
    mean = r.broadcast(r.reduce_sum(x, axes=(0,)), shape=(rows, columns), axes=(1,))
    return r.graph(r.mul(r.sub(x, mean), r.broadcast(scale, shape=(rows, columns), axes=(1,))))


def texts(region: Graph) -> list[str]:
    return [_text(step) for step in lower(fusion_of(region)).steps]


def _text(step: Step) -> str:
    assert isinstance(step.kernel, NativeKernel)
    return step.kernel.text


def test_sizes_of_one_class_are_one_kernel() -> None:
    found = {tuple(texts(normalised(m, n))) for m in (40, 64) for n in (96, 128, 320, 512)}
    assert len(found) == 1


def test_what_is_left_after_whole_vectors_stays_a_number() -> None:
    """Divisibility is what kernels are made for: no loop over single elements where none is left."""
    even, odd = texts(normalised(40, 128))[0], texts(normalised(40, 131))[0]
    assert even != odd
    assert len(even.splitlines()) < len(odd.splitlines())
    assert texts(normalised(40, 131)) == texts(normalised(40, 163))


@pytest.mark.parametrize("columns", [1, 5, 8, 31, 64, 96, 131, 163])
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=str)
def test_every_size_gives_the_bits_of_its_own_kernel(
    columns: int, dtype: dt.DType, numbers: pytest.MonkeyPatch
) -> None:
    region = normalised(37, columns, dtype)
    assert_alike(region, drawn(region, columns), numbers)


def test_symbols_and_guards_keep_their_numbers() -> None:
    r = Region()
    padded = r.graph(r.pad(r.input((64, 64), dt.float32), low=(1, 1), high=(1, 1), between=(0, 0), value=0.0))
    (nest,) = nests_of(padded)
    assert sized(nest) == (nest, ())
    r = Region()
    symbolic = r.graph(r.neg(r.input((dim("n", max=99), 64), dt.float32)))
    (nest,) = nests_of(symbolic)
    assert sized(nest) == (nest, ())


def test_a_size_is_the_word_that_it_stands_for() -> None:
    """The form with its sizes put back has the loops and the places of the nest."""
    (first, *_) = nests_of(normalised(40, 96))
    form, sizes = sized(first)
    assert set(sizes) == {96, 96 // 32, 40 // 4}  # a row, its vectors, four rows at a time
    assert len(form.symbols) == len(sizes)


@pytest.mark.parametrize("n", [1, 7, 8, 100, 8191, 8193, 9000, 100_000, 1_000_001])
def test_locals_are_hardly_larger_than_they_must_be(n: int) -> None:
    room = _room(n, 4)
    assert n <= room <= (2 * n + 16 if n <= 8192 else 1.25 * n + 16)


# -- random regions ------------------------------------------------------------------------------------------


class LargeMaker(Maker):
    """Rows that are long enough for words, of fractions: another order of a sum would show."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.r, self.values = Region(), []
        for _ in range(rng.integers(1, 4)):
            shape = tuple(int(n) for n in rng.choice([2, 9, 17, 40, 64, 96, 131], rng.integers(1, 4)))
            self.values.append(self.r.input(shape, self.pick([dt.float32, dt.float64, dt.float16, dt.int32])))


@pytest.fixture
def numbers() -> Iterator[pytest.MonkeyPatch]:
    """Inside `numbers.context()` kernels have their sizes in their text."""
    lowered.cache_clear()
    yield pytest.MonkeyPatch()
    lowered.cache_clear()


def drawn(region: Graph, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(t.shape) * 3).astype(t.dtype) for t in region.input_types]


def unsized(nest: Nest) -> tuple[Nest, tuple[int, ...]]:
    return nest, ()


def assert_alike(region: Graph, values: list[Array], numbers: pytest.MonkeyPatch) -> None:
    lowered.cache_clear()
    found = native(region, values, cuts=2)
    with numbers.context() as patch:
        patch.setattr(defaults, "sized", unsized)
        lowered.cache_clear()
        expected = native(region, values, cuts=2)
    for a, b in zip(found, expected, strict=True):
        assert_same_bits(a, b, str(region))


@pytest.mark.parametrize("seed", range(40))
def test_random_regions_give_the_bits_of_their_own_kernels(seed: int, numbers: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    maker = LargeMaker(rng)
    for _ in range(rng.integers(2, 8)):
        maker.grow()
    region = maker.graph()
    if accepts(region) is None:
        assert_alike(region, drawn(region, seed), numbers)


def test_large_sums_are_right() -> None:
    region = normalised(500, 1003, dt.float64)
    values = drawn(region, 7)
    for a, b in zip(native(region, values, cuts=3), reference(region, values), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-11)
