"""Which dtype operands meet in: the whole table, in functions, operators, in-place forms and with Python
numbers.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt
from trilobite.framework import promotion

STANDARD = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
EVERY = sorted(dt.ALL, key=lambda d: d.name)
RANK = ("bool", "int", "float", "complex")


def strict_meets(a: str, b: str) -> str | None:
    try:
        return str(strict.result_type(getattr(strict, a), getattr(strict, b))).rpartition(".")[2]
    except TypeError:
        return None


@pytest.mark.parametrize(("a", "b"), list(itertools.product(STANDARD, STANDARD)))
def test_the_standard_s_table(a: str, b: str) -> None:
    """Where the standard says what two dtypes meet in, so do we; elsewhere the answer is an error or a
    higher kind.
    """
    want = strict_meets(a, b)
    if want is not None:
        assert tb.result_type(getattr(tb, a), getattr(tb, b)) == getattr(tb, want)
    elif {"uint64"} & {a, b} and {a, b} & {"int8", "int16", "int32", "int64"}:
        with pytest.raises(tb.errors.DTypeError, match="no common dtype"):
            tb.result_type(getattr(tb, a), getattr(tb, b))
    else:
        ranks = [RANK.index(dt.kind(getattr(tb, n))) for n in (a, b)]
        assert RANK.index(dt.kind(tb.result_type(getattr(tb, a), getattr(tb, b)))) == max(ranks)


@pytest.mark.parametrize("a", EVERY, ids=str)
def test_meeting_is_symmetric_and_holds_both(a: Any) -> None:
    for b in EVERY:
        try:
            met = promotion.promote(a, b)
        except tb.errors.DTypeError:
            with pytest.raises(tb.errors.DTypeError):
                promotion.promote(b, a)
            continue
        assert met == promotion.promote(b, a)
        assert promotion.promote(met, a) == met
        if dt.kind(a) == dt.kind(b) == "int":
            for d in (a, b):
                assert tb.iinfo(met).min <= tb.iinfo(d).min and tb.iinfo(met).max >= tb.iinfo(d).max
        if dt.kind(a) == dt.kind(b) == "float":
            for d in (a, b):
                assert tb.finfo(met).max >= tb.finfo(d).max and tb.finfo(met).eps <= tb.finfo(d).eps


PAIRS = [
    ("int8", "uint8"),
    ("int16", "int64"),
    ("uint8", "uint32"),
    ("float32", "float64"),
    ("complex64", "complex128"),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_functions_operators_and_recordings_promote_alike(a: str, b: str) -> None:
    x, y = tb.asarray([1, 2], dtype=a), tb.asarray([3, 4], dtype=b)
    want = tb.result_type(x, y)
    for f in (
        tb.add,
        lambda p, q: p + q,
        tb.multiply,
        lambda p, q: tb.where(p == p, p, q),
        lambda p, q: tb.concat([p, q]),
    ):
        assert f(x, y).dtype == f(y, x).dtype == want
        assert tb.jit(f)(x, y).dtype == want
    assert tb.equal(x, y).dtype == tb.bool


def test_in_place_keeps_the_dtype_and_refuses_a_higher_kind() -> None:
    x = tb.asarray([1, 2], dtype=tb.int8)
    x += tb.asarray([3, 4], dtype=tb.int64)
    assert x.dtype == tb.int8 and x.tolist() == [4, 6]
    with pytest.raises(tb.errors.DTypeError, match="float32 in a tensor of int8"):
        x += 1.5
    with pytest.raises(tb.errors.DTypeError, match="float32 in a tensor of int8"):
        x /= 2


NUMBERS = {bool: True, int: 3, float: 2.5, complex: 1 + 2j}


@pytest.mark.parametrize("dtype", STANDARD)
@pytest.mark.parametrize("kind", NUMBERS, ids=lambda k: k.__name__)
def test_python_numbers_follow_the_tensor(dtype: str, kind: type) -> None:
    x, number = tb.asarray([1, 0], dtype=dtype), NUMBERS[kind]
    want = promotion.promote_scalar(x.dtype, kind)
    for f in (lambda t: tb.where(tb.asarray([True, False]), t, number), lambda t: tb.result_type(t, number)):
        out = f(x)
        assert (out.dtype if isinstance(out, tb.Tensor) else out) == want
    if want != tb.bool:
        assert (x + number).dtype == (number + x).dtype == want
        assert tb.jit(lambda t, n: t + n)(x, number if kind is not bool else 1).dtype == (
            want if kind is not bool else promotion.promote_scalar(x.dtype, int)
        )


def test_numbers_keep_their_bits() -> None:
    x = tb.asarray([0.0], dtype=tb.float32)
    assert np.signbit((x * -0.0).numpy())[0] and not np.signbit((x * 0.0).numpy())[0]
    assert (tb.asarray([1.0]) + 0.1).numpy()[0] == np.float32(1) + np.float32(0.1)
    assert (tb.asarray([2**62], dtype=tb.int64) + 1).item() == 2**62 + 1
    assert (tb.asarray([2**64 - 2], dtype=tb.uint64) + 1).item() == 2**64 - 1
    assert (tb.asarray([1.0], dtype=tb.bfloat16) * 3.0).dtype == tb.bfloat16
    assert (tb.asarray([1.0]) * np.float64(0.5)).dtype == tb.float32  # a number, whoever made it
    assert (tb.asarray([1.0]) * np.ones(1)).dtype == tb.float64  # an array


WITH_NUMBERS = {
    "where": lambda x, n: tb.where(x > 0, x, n),
    "clip": lambda x, n: tb.clip(x, n, None),
    "masked_fill": lambda x, n: tb.masked_fill(x, x > 0, n),
    "index_fill": lambda x, n: tb.index_fill(x, 0, tb.asarray([0]), n),
    "scatter": lambda x, n: tb.scatter(x, 0, tb.asarray([1]), n),
    "add": lambda x, n: n - x * n,
    "lerp": lambda x, n: tb.lerp(x, x + 1, n),
    "full": lambda x, n: tb.full((2,), n, dtype=x.dtype),
    "full_like": lambda x, n: tb.full_like(x, n),
    "setitem": lambda x, n: _written(x, n),
    "stack": lambda x, n: tb.stack([x[0], n]),
    "alone": lambda x, n: tb.full((1,), n),
    "maximum": lambda x, n: tb.maximum(n, x),
    "diff": lambda x, n: tb.diff(x, prepend=n),
}


def _written(x: tb.Tensor, n: Any) -> tb.Tensor:
    y = x.clone()
    y[1:] = n
    return y


@pytest.mark.parametrize("name", WITH_NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex128"])
def test_a_traced_python_number_is_the_number(name: str, dtype: str) -> None:
    """Under jit a Python number is an input; it must meet tensors with all its digits, as it does eagerly."""
    if dtype == "complex128" and name in ("where", "clip", "masked_fill", "maximum"):
        return
    x, fn = tb.asarray([1.5, -2.25], dtype=dtype), WITH_NUMBERS[name]
    eager, jitted = fn(x, 0.1), tb.jit(fn, target="reference")(x, 0.1)
    assert eager.dtype == jitted.dtype and eager.numpy().tobytes() == jitted.numpy().tobytes()


def test_an_integer_that_does_not_fit_is_refused() -> None:
    with pytest.raises(OverflowError, match="the number 300 does not fit into int8"):
        tb.asarray([1], dtype=tb.int8) + 300
    with pytest.raises(OverflowError, match="the number -1 does not fit into uint8"):
        tb.asarray([1], dtype=tb.uint8) * -1


def test_result_type_of_numbers_and_mixtures() -> None:
    assert tb.result_type(1, 2.0) == tb.float32 and tb.result_type(True) == tb.bool
    assert tb.result_type(tb.int8, 1, 2.0) == tb.float32
    assert tb.result_type(tb.ones(1, dtype=tb.float64), tb.int32, 1j) == tb.complex128
    assert tb.promote_types(tb.float16, tb.bfloat16) == tb.float32


@pytest.mark.parametrize(("source", "target"), list(itertools.product(STANDARD, STANDARD)))
def test_can_cast_as_the_standard_says(source: str, target: str) -> None:
    try:
        want = strict.can_cast(getattr(strict, source), getattr(strict, target))
    except TypeError:
        return
    if want and dt.kind(getattr(tb, source)) == dt.kind(getattr(tb, target)):
        assert tb.can_cast(getattr(tb, source), getattr(tb, target)) is True
    if dt.kind(getattr(tb, source)) == dt.kind(getattr(tb, target)) == "int":
        assert tb.can_cast(getattr(tb, source), getattr(tb, target)) is np.can_cast(source, target)


def test_can_cast_of_tensors_and_across_kinds() -> None:
    assert tb.can_cast(tb.ones(1, dtype=tb.int8), tb.int64) is True
    assert tb.can_cast(tb.int64, tb.float32) is False and tb.can_cast(tb.int8, tb.float32) is True
    assert tb.can_cast(tb.float32, tb.int64) is False and tb.can_cast(tb.uint64, tb.int64) is False


KINDS = {
    "bool": {"bool"}, "signed integer": {"int8", "int16", "int32", "int64"},
    "unsigned integer": {"uint8", "uint16", "uint32", "uint64"}, "real floating": {"float32", "float64"},
    "complex floating": {"complex64", "complex128"},
}  # fmt: skip
KINDS["integral"] = KINDS["signed integer"] | KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] | KINDS["real floating"] | KINDS["complex floating"]


@pytest.mark.parametrize("kind", KINDS)
def test_isdtype(kind: str) -> None:
    for name in STANDARD:
        assert tb.isdtype(getattr(tb, name), kind) is (name in KINDS[kind])
        assert tb.isdtype(getattr(tb, name), (kind, tb.bool)) is (name in KINDS[kind] or name == "bool")
    assert set(tb.__array_namespace_info__().dtypes(kind=kind)) == KINDS[kind]


@pytest.mark.parametrize("name", ["float32", "float64", "float16"])
def test_finfo(name: str) -> None:
    info, want = tb.finfo(getattr(tb, name)), np.finfo(name)
    for attribute in ("eps", "max", "min", "smallest_normal"):
        value = getattr(info, attribute)
        assert type(value) is float and value == float(getattr(want, attribute))
    assert (info.bits, info.dtype) == (want.bits, getattr(tb, name))
    assert tb.finfo(tb.ones(1, dtype=name)) == info


def test_finfo_of_the_others() -> None:
    assert tb.finfo(tb.complex64).dtype == tb.float32 and tb.finfo(tb.bfloat16).eps == 2.0**-7
    assert tb.finfo(tb.float8_e4m3fn).max == 448.0 and tb.finfo(tb.float8_e5m2).bits == 8


@pytest.mark.parametrize("name", [n for n in STANDARD if "int" in n])
def test_iinfo(name: str) -> None:
    info, want = tb.iinfo(getattr(tb, name)), np.iinfo(name)
    assert (info.bits, info.min, info.max, info.dtype) == (
        want.bits,
        int(want.min),
        int(want.max),
        getattr(tb, name),
    )
    assert type(info.max) is int


def test_iinfo_of_four_bits() -> None:
    assert (tb.iinfo(tb.int4).min, tb.iinfo(tb.int4).max, tb.iinfo(tb.uint4).max) == (-8, 7, 15)


def test_inspection() -> None:
    info = tb.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": 64,
    }
    assert info.default_device() in info.devices()
    defaults = info.default_dtypes()
    assert defaults["real floating"] == tb.asarray(1.0).dtype == tb.zeros(1).dtype
    assert defaults["integral"] == tb.asarray(1).dtype == tb.arange(3).dtype
    assert defaults["complex floating"] == tb.asarray(1j).dtype
    assert defaults["indexing"] == tb.argmax(tb.zeros(3)).dtype
    for name, dtype in info.dtypes().items():
        assert tb.empty(1, dtype=dtype, device=info.default_device()).dtype.name == name
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}


def test_every_format_has_a_name() -> None:
    for dtype in EVERY:
        assert getattr(tb, dtype.name) == dtype and hash(dtype) == hash(getattr(tb, dtype.name))


def test_the_page_is_the_table(root: Path) -> None:
    assert (root / "docs" / "promotion.md").read_text() == promotion.page(), "run `python -m tools.reference`"
