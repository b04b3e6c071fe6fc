"""Randomness: the published answers of Philox, distributions by their statistics, keys that are independent,
state.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError, TraceError
from trilobite.framework import random
from trilobite.ir.primitives import table
from trilobite.ir.primitives.random import philox


def words(*numbers: int) -> list[np.ndarray]:
    return [np.array([n], np.uint32) for n in numbers]


# Known answers of Random123 for philox4x32 with 10 rounds: counter, key, result.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_answers(counter: tuple, key: tuple, expected: tuple) -> None:
    found = philox(words(*counter), tuple(words(*key)))
    assert tuple(int(w[0]) for w in found) == expected


def test_bits_of_a_key_are_philox_blocks_in_order() -> None:
    k = random.key(0x299F31D0A4093822)
    found = random.bits((6,), key=k).numpy()
    blocks = [philox(words(i, 0, 0, 0), tuple(words(0xA4093822, 0x299F31D0))) for i in range(2)]
    assert found.tolist() == [int(w[0]) for block in blocks for w in block][:6]


def test_a_prefix_of_a_longer_draw_is_the_shorter_draw() -> None:
    k = random.key(3)
    long = random.uniform((101,), key=k).numpy()
    np.testing.assert_array_equal(random.uniform((37,), key=k).numpy(), long[:37])


# -- distributions -----------------------------------------------------------------------------------------


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """The statistic's distance from its mean, in standard deviations."""
    n = len(counts)
    return float((((counts - expected) ** 2 / expected).sum() - (n - 1)) / math.sqrt(2 * (n - 1)))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_uniforms_fill_the_unit_interval_evenly(dtype: str) -> None:
    x = random.uniform((100_000,), dtype=dtype, key=random.key(1)).numpy().astype(np.float64)
    assert x.min() >= 0 and x.max() < 1
    counts = np.histogram(x, 64, (0, 1))[0]
    assert abs(chi_square(counts, np.full(64, 100_000 / 64))) < 4
    pairs = np.histogram2d(x[::2], x[1::2], 8, ((0, 1), (0, 1)))[0].ravel()
    assert abs(chi_square(pairs, np.full(64, 50_000 / 64))) < 4


def test_uniforms_are_multiples_of_the_last_place() -> None:
    for dtype, digits in (("float64", 53), ("float32", 24), ("float16", 11), ("bfloat16", 8)):
        x = random.uniform((4096,), dtype=dtype, key=random.key(2)).numpy().astype(np.float64) * 2.0**digits
        assert (x == np.floor(x)).all() and (x % 2 == 1).mean() > 0.4


def test_a_range_excludes_its_upper_end() -> None:
    x = random.uniform((20_000,), 1.0, 1.0 + 2**-22, key=random.key(0)).numpy()
    assert set(np.unique(x)) == {np.float32(1 + i * 2**-23) for i in range(2)}
    assert random.uniform((3,), 2.0, 2.0).tolist() == [2.0, 2.0, 2.0]
    wide = random.uniform((20_000,), -3.0, 5.0, key=random.key(1)).numpy()
    assert wide.min() >= -3 and wide.max() < 5 and abs(wide.mean() - 1) < 0.1


def normal_cells(n: int) -> np.ndarray:
    edges = [-math.inf, *np.linspace(-2.5, 2.5, 31), math.inf]
    cdf = np.array([0.5 * (1 + math.erf(e / math.sqrt(2))) for e in edges])
    return np.diff(cdf) * n


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("n", [100_001])
def test_normals_are_normal(dtype: str, n: int) -> None:
    x = random.normal((n,), dtype=dtype, key=random.key(4)).numpy().astype(np.float64)
    assert np.isfinite(x).all() and abs(x.mean()) < 0.015 and abs(x.std() - 1) < 0.015
    if dtype != "bfloat16":
        edges = [-np.inf, *np.linspace(-2.5, 2.5, 31), np.inf]
        assert abs(chi_square(np.histogram(x, edges)[0], normal_cells(n))) < 4
        assert abs(np.corrcoef(x[: n // 2], x[n // 2 : 2 * (n // 2)])[0, 1]) < 0.02
        assert abs((x**4).mean() - 3) < 0.15 and np.abs(x).max() > 3.9


def test_normals_scale_and_shift_and_may_be_complex() -> None:
    x = random.normal((50_000,), 3.0, 0.5, key=random.key(4)).numpy()
    assert abs(x.mean() - 3) < 0.01 and abs(x.std() - 0.5) < 0.01
    z = random.normal((50_000,), dtype="complex64", key=random.key(5)).numpy()
    assert z.dtype == np.complex64 and abs(z.real.var() - 0.5) < 0.02 and abs(z.imag.var() - 0.5) < 0.02
    assert abs(np.corrcoef(z.real, z.imag)[0, 1]) < 0.02


def test_odd_and_empty_shapes() -> None:
    for shape in ((), (0,), (1,), (3, 0, 2), (3, 1, 5)):
        assert (
            random.normal(shape).shape
            == random.uniform(shape).shape
            == random.randint(5, shape=shape).shape
            == shape
        )
    assert random.permutation(0).tolist() == [] and random.permutation(1).tolist() == [0]


def test_exponentials_and_gammas() -> None:
    e = random.exponential((100_000,), 2.0, key=random.key(6)).numpy()
    assert e.min() >= 0 and abs(e.mean() - 0.5) < 0.01 and abs((e > 1).mean() - math.exp(-2)) < 0.005
    for alpha in (0.3, 1.0, 4.5):
        g = random.gamma(alpha, (60_000,), 0.5, key=random.key(7)).numpy()
        assert (
            g.min() >= 0
            and abs(g.mean() - 2 * alpha) < 0.05 * (1 + alpha)
            and abs(g.var() - 4 * alpha) < 0.25 * (1 + alpha)
        )
    mixed = random.gamma(tb.tensor([0.5, 8.0]), (30_000, 2), key=random.key(8)).numpy().mean(0)
    np.testing.assert_allclose(mixed, [0.5, 8.0], rtol=0.05)


def test_truncated_normals() -> None:
    x = random.truncated_normal((50_000,), 0.0, 1.0, -0.5, 2.0, key=random.key(9)).numpy()
    assert x.min() >= -0.5 and x.max() <= 2.0
    counts = np.histogram(x, 25, (-0.5, 2.0))[0]
    cdf = np.array([0.5 * (1 + math.erf(e / math.sqrt(2))) for e in np.linspace(-0.5, 2.0, 26)])
    expected = np.diff(cdf) / (cdf[-1] - cdf[0]) * 50_000
    assert abs(chi_square(counts, expected)) < 4


@pytest.mark.parametrize(
    ("low", "high"), [(0, 10), (-7, 4), (0, 2**32), (5, 6), (-(2**40), 2**41), (0, 3 * 2**30)]
)
def test_integers_are_uniform(low: int, high: int) -> None:
    x = random.randint(low, high, (40_000,), key=random.key(10)).numpy()
    assert x.dtype == np.int64 and x.min() >= low and x.max() < high
    cells = min(high - low, 32)
    counts = np.bincount(((x - low).astype(object) * cells // (high - low)).astype(int), minlength=cells)
    expected = np.array(
        [(-(-(i + 1) * (high - low) // cells)) - (-(-i * (high - low) // cells)) for i in range(cells)], float
    )
    if cells > 1:
        assert abs(chi_square(counts, expected / (high - low) * 40_000)) < 4


def test_integers_near_the_word_are_unbiased() -> None:
    """Of 3·2^30 values, a plain remainder of a word would give the first third twice as often."""
    x = random.randint(0, 3 * 2**30, (60_000,), key=random.key(11)).numpy()
    assert abs((x < 2**30).mean() - 1 / 3) < 0.01


def test_integers_of_every_dtype() -> None:
    for name, low, high in (
        ("int8", -128, 128),
        ("uint8", 0, 256),
        ("uint64", 0, 2**64),
        ("int64", -(2**63), 2**63),
    ):
        x = random.randint(low, high, (2000,), dtype=name, key=random.key(1)).numpy()
        assert x.dtype.name == name
        middle = (low + high) // 2
        assert 0.4 < (x.astype(object) >= middle).mean() < 0.6


def test_permutations_are_permutations_and_uniform() -> None:
    p = random.permutation(1000, key=random.key(12)).numpy()
    assert sorted(p) == list(range(1000))
    counts: dict[tuple[int, ...], int] = {}
    for k in random.split(random.key(13), 2400):
        row = tuple(random.permutation(4, key=k).tolist())
        counts[row] = counts.get(row, 0) + 1
    assert len(counts) == 24 and abs(chi_square(np.array(list(counts.values())), np.full(24, 100.0))) < 4
    x = tb.tensor(np.arange(12).reshape(3, 4))
    rows = random.permutation(x, axis=1, key=random.key(2)).numpy()
    assert sorted(map(tuple, rows.T)) == sorted(map(tuple, x.numpy().T)) and not np.array_equal(
        rows, x.numpy()
    )


def test_choices() -> None:
    x = random.choice(10, (4000,), key=random.key(1)).numpy()
    assert abs(chi_square(np.bincount(x, minlength=10), np.full(10, 400.0))) < 4
    assert sorted(random.choice(10, (2, 5), replace=False, key=random.key(2)).numpy().ravel()) == list(
        range(10)
    )
    p = np.array([0.1, 0.0, 0.6, 0.3])
    w = random.choice(4, (20_000,), p=p, key=random.key(3)).numpy()
    np.testing.assert_allclose(np.bincount(w, minlength=4) / 20_000, p, atol=0.015)
    firsts = [
        random.choice(4, (2,), replace=False, p=p, key=k).tolist() for k in random.split(random.key(4), 500)
    ]
    assert all(1 not in f and f[0] != f[1] for f in firsts)
    assert abs(np.mean([f[0] == 2 for f in firsts]) - 0.6) < 0.08
    rows = random.choice(tb.tensor([[1.0, 2.0], [3.0, 4.0]]), (5,), key=random.key(5)).numpy()
    assert rows.shape == (5, 2) and set(map(tuple, rows)) <= {(1.0, 2.0), (3.0, 4.0)}


def test_categories_and_coins() -> None:
    logits = tb.tensor(np.log(np.array([[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]], np.float32)))
    draws = random.categorical(logits, (20_000,), key=random.key(6)).numpy()
    assert draws.shape == (20_000, 2)
    for i, p in enumerate(([0.2, 0.5, 0.3], [0.7, 0.1, 0.2])):
        np.testing.assert_allclose(np.bincount(draws[:, i], minlength=3) / 20_000, p, atol=0.015)
    coins = random.bernoulli(0.3, (50_000,), key=random.key(7))
    assert coins.dtype == np.dtype(bool) and abs(coins.numpy().mean() - 0.3) < 0.01
    each = random.bernoulli(tb.tensor([0.0, 0.5, 1.0]), (2000, 3), key=random.key(8)).numpy().mean(0)
    assert each[0] == 0 and each[2] == 1 and abs(each[1] - 0.5) < 0.05


# -- keys and state ----------------------------------------------------------------------------------------


def test_split_keys_are_distinct_and_their_streams_uncorrelated() -> None:
    keys = random.split(random.key(0), 64)
    assert len({tuple(k.tolist()) for k in keys}) == 64
    streams = np.stack([random.uniform((2000,), key=k).numpy() for k in keys])
    off = np.corrcoef(streams) - np.eye(64)
    assert np.abs(off).max() < 0.12
    nested = [k for parent in keys[:8] for k in random.split(parent, 8)]
    assert len({tuple(k.tolist()) for k in [*keys, *nested]}) == 128
    flips = [bin(int(a) ^ int(b)).count("1") for a, b in zip(keys[0].tolist(), keys[1].tolist(), strict=True)]
    assert 8 < sum(flips) < 56


def test_fold_in_depends_on_key_and_number() -> None:
    k = random.key(1)
    seen = {tuple(random.fold_in(k, i).tolist()) for i in range(100)}
    assert len(seen) == 100 and tuple(random.fold_in(random.key(2), 0).tolist()) not in seen
    assert random.fold_in(k, tb.tensor(7)).tolist() == random.fold_in(k, 7).tolist()
    assert tuple(k2.tolist() for k2 in random.split(k)) != tuple(
        random.fold_in(k, i).tolist() for i in range(2)
    )


def test_the_global_seed_repeats_and_its_state_can_be_kept() -> None:
    random.manual_seed(5)
    a = [random.rand(3).tolist(), random.randn(2).tolist()]
    random.manual_seed(5)
    assert a == [random.rand(3).tolist(), random.randn(2).tolist()]
    kept = random.get_state()
    b = random.rand(4).tolist()
    random.set_state(kept)
    assert b == random.rand(4).tolist() and b != random.rand(4).tolist()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: random.uniform((7, 3)),
        lambda: random.normal((7, 3)),
        lambda: random.uniform((5,), dtype="float64"),
        lambda: random.normal((5,), dtype="float64"),
        lambda: random.randint(0, 3 * 2**30, (2000,)),
        lambda: random.gamma(0.7, (50,)),
        lambda: random.permutation(33),
        lambda: random.choice(9, (4,), replace=False),
        lambda: random.categorical(tb.tensor([0.0, 1.0, -1.0]), (11,)),
        lambda: random.truncated_normal((9,)),
        lambda: random.bernoulli(0.4, (40,)),
    ],
)
def test_recorded_draws_have_the_bits_of_eager_ones(draw: object) -> None:
    compiled = tb.jit(draw, target="reference")
    random.manual_seed(1)
    eager = [draw().numpy().tobytes() for _ in range(3)]
    random.manual_seed(1)
    assert [compiled().numpy().tobytes() for _ in range(3)] == eager
    assert len(set(eager)) == 3


def test_vmap_shares_random_numbers_or_not() -> None:
    x = tb.zeros((5,))
    with pytest.raises(TraceError, match="random numbers inside vmap") as e:
        tb.vmap(lambda v: v + random.rand(()))(x)
    assert "remedy: vmap(..., randomness='different') or 'same'" in str(e.value)
    same = tb.vmap(lambda v: v + random.uniform(()), randomness="same")(x).numpy()
    assert len(set(same.tolist())) == 1
    random.manual_seed(0)
    different = tb.vmap(lambda v: v + random.uniform(()), randomness="different")(x).numpy()
    assert len(set(different.tolist())) == 5
    random.manual_seed(0)
    compiled = tb.jit(lambda v: tb.vmap(lambda u: u + random.uniform(()), randomness="different")(v))(x)
    np.testing.assert_array_equal(compiled.numpy(), different)


def test_vmap_over_keys_is_one_draw_per_key() -> None:
    keys = random.split(random.key(3), 4)
    stacked = tb.tensor(np.stack([k.numpy() for k in keys]))
    for draw in (
        lambda k: random.normal((3,), key=k),
        lambda k: random.randint(0, 3 * 2**30, (200,), key=k),
        lambda k: random.permutation(6, key=k),
        lambda k: random.gamma(0.4, (20,), key=k),
    ):
        rows = tb.vmap(draw)(stacked).numpy()
        for row, k in zip(rows, keys, strict=True):
            np.testing.assert_array_equal(row, draw(k).numpy())


def test_names_that_pytorch_users_know() -> None:
    assert (
        random.rand(2, 3).shape == (2, 3) and random.randn((4,)).shape == (4,) and random.rand().shape == ()
    )
    assert random.randn(2, requires_grad=True).requires_grad
    assert sorted(random.randperm(5, dtype="int32").tolist()) == [0, 1, 2, 3, 4]
    like = tb.zeros((2, 2), dtype="float64")
    assert random.rand_like(like).dtype == random.randn_like(like).dtype == tb.float64
    assert random.randint(9, (2, 3)).shape == (2, 3)
    assert random.randint_like(tb.zeros((3,), dtype="int32"), 5).dtype == tb.int32


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"a seed 1\.5"):
        random.manual_seed(1.5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="an integer of 64 bits"):
        random.key(2**64)
    with pytest.raises(ArgumentError, match=r"a random key float32\[2\]") as e:
        random.rand(3, key=tb.zeros((2,)))
    assert "expected: two uint32 words" in str(e.value) and "remedy: tb.random.key(seed)" in str(e.value)
    with pytest.raises(DTypeError, match="uniform of int32"):
        random.uniform((2,), dtype="int32")
    with pytest.raises(ShapeError, match=r"a shape \(2, -1\)"):
        random.rand(2, -1)
    with pytest.raises(ArgumentError, match="randint from 3 below 3"):
        random.randint(3, 3)
    with pytest.raises(DTypeError, match="randint from 0 below 300 as int8"):
        random.randint(300, dtype="int8")
    with pytest.raises(ArgumentError, match="5 choices from 4 without putting back"):
        random.choice(4, (5,), replace=False)
    with pytest.raises(ArgumentError, match=r"bernoulli with p outside of \[0, 1\]"):
        random.bernoulli(1.5)
    with pytest.raises(ArgumentError, match="normal with a standard deviation of -1"):
        random.normal((2,), 0.0, -1.0)
    with pytest.raises(ArgumentError, match="gamma with a concentration of 0 or less"):
        random.gamma(0.0)
    with pytest.raises(ArgumentError, match="uniform between 2 and 1"):
        random.uniform((1,), 2, 1)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 16, 17, 19, 20000])
def test_few_and_many_words_come_from_the_same_blocks(count: int) -> None:
    """Short draws are computed one block at a time, long ones in strips: the stream is one."""
    k = np.array([0xDEADBEEF, 0xFFFFFFFF], np.uint32)
    counter = np.array([0xFFFFFFFE, 0x12345678], np.uint32)  # the low word overflows into the high one
    found = table["random_bits"](k, counter, shape=(count,), stream=5)
    blocks = -(-count // 4)
    at = [(0x12345678FFFFFFFE + i) % 2**64 for i in range(blocks)]
    counters = [
        np.array(c, np.uint32)
        for c in ([a % 2**32 for a in at], [a >> 32 for a in at], [0] * blocks, [5] * blocks)
    ]
    expected = np.stack(philox(counters, (k[:1], k[1:])), axis=-1).ravel()[:count]
    np.testing.assert_array_equal(found, expected)


def test_the_generator_belongs_to_nobody_who_imports_it_first() -> None:
    spec = importlib.util.find_spec("trilobite.framework.random.keys")
    assert spec is not None and spec.loader is not None
    load, made = spec.loader.exec_module, []

    def first(x: tb.Tensor) -> tb.Tensor:
        module = importlib.util.module_from_spec(spec)
        load(module)
        made.append(module.state)
        return x * 2.0

    tb.jit(tb.grad(lambda x: tb.sum(first(x))), target="reference")(tb.ones(2))
    outside = tb.ones(2)._cell
    assert made[0].owner is outside.owner is None and made[0].depth == outside.depth


def test_numbers_that_differ_in_a_batch_are_not_recorded_inside_of_it() -> None:
    """One recording would serve every batch with one draw; the batch in the recording, or keys, do."""
    keys = tb.tensor(np.stack([k.numpy() for k in random.split(random.key(1), 4)]))
    x, inner = tb.zeros((4,)), tb.jit(lambda v: v + random.uniform(()))
    with pytest.raises(TraceError, match="different random numbers inside jit inside vmap"):
        tb.vmap(inner, randomness="different")(x)
    assert len(set(tb.vmap(inner, randomness="same")(x).tolist())) == 1
    drawn = tb.vmap(tb.jit(lambda k: random.uniform((), key=k)))(keys)
    assert drawn.tolist() == [random.uniform((), key=k).item() for k in keys]
    each = {"randomness": "different"}
    twice = tb.vmap(lambda u: tb.vmap(lambda v: v + random.uniform(()), **each)(u), **each)
    assert len(set(tb.jit(twice)(tb.zeros((3, 4))).numpy().ravel().tolist())) == 12
