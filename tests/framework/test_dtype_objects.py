"""Dtypes as users see them: one object of each, equal to NumPy's, with PyTorch's questions (decision 2)."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trilobite as tb
from trilobite.base import dtypes as dt

ALL = sorted(dt.BY_NAME)
NUMPYS = [name for name in ALL if hasattr(np, name) or name == "bool"]


@pytest.mark.parametrize("name", ALL)
def test_there_is_one_object_that_equals_numpys(name: str) -> None:
    d, plain = getattr(tb, name), dt.BY_NAME[name]
    x = tb.zeros((2,), dtype=d)
    assert x.dtype is d and isinstance(d, tb.dtype) and x.numpy().dtype is plain
    assert d == plain and plain == d and hash(d) == hash(plain)
    assert (d != plain) is (plain != d) is False
    assert {plain: 1}[d] == 1 and {d: 1}[plain] == 1 and d in {plain} and plain in {d}
    assert d == name and d == plain.type and np.dtype(d) is plain
    for other in ALL:
        assert (getattr(tb, other) == d) is (other == name) and (dt.BY_NAME[other] == d) is (other == name)
    assert d != object() and d != None and d != "no dtype"  # noqa: E711


@pytest.mark.parametrize("name", ALL)
def test_it_is_found_by_whatever_means_it(name: str) -> None:
    d = getattr(tb, name)
    for spec in (d, name, dt.BY_NAME[name], dt.BY_NAME[name].type):
        assert tb.dtype(spec) is d
    for found in (
        copy.copy(d),
        copy.deepcopy(d),
        pickle.loads(pickle.dumps(d)),
        copy.deepcopy({"a": d})["a"],
    ):
        assert found is d
    assert repr(d) == str(d) == f"trilobite.{name}" and f"{d}" == name and f"{d:>20}" == name.rjust(20)
    assert getattr(tb, str(d).split(".")[1]) is d


def test_pytorchs_questions() -> None:
    for name in ALL:
        d = getattr(tb, name)
        assert d.is_floating_point is name.lstrip("b").startswith("float")
        assert d.is_complex is name.startswith("complex")
        assert d.is_signed is not (name.startswith("uint") or name == "bool")
        assert d.itemsize == dt.BY_NAME[name].itemsize == tb.zeros((3,), dtype=d).element_size()
    assert tb.complex64.to_real() is tb.float32 and tb.complex128.to_real() is tb.float64
    assert tb.float64.to_complex() is tb.complex128 and tb.float16.to_complex() is tb.complex64
    assert tb.float32.to_real() is tb.float32 and tb.complex128.to_complex() is tb.complex128


@pytest.mark.parametrize("name", NUMPYS)
def test_numpy_takes_it(name: str) -> None:
    d, plain = getattr(tb, name), dt.BY_NAME[name]
    zeros = np.zeros(3, d)
    assert (
        zeros.dtype is plain and np.ones(3).astype(d).dtype is plain and np.asarray([0, 1], d).dtype is plain
    )
    assert zeros.view(d).dtype is plain and np.empty_like(zeros, dtype=d).dtype is plain
    assert np.can_cast(d, "complex128") and np.promote_types(d, plain) is plain
    assert np.result_type(d, d) is plain and np.issubdtype(d, plain.type)
    assert np.dtype([("a", d)])["a"] is plain and np.frombuffer(bytes(plain.itemsize), d).dtype is plain
    assert (d.kind, d.char, d.num, d.type, d.name) == (plain.kind, plain.char, plain.num, plain.type, name)
    if d.is_floating_point:
        assert np.finfo(d).eps == tb.finfo(d).eps and np.asarray(tb.ones(2), dtype=d).dtype is plain


def test_formats_of_ml_dtypes_too() -> None:
    assert np.zeros(2, tb.bfloat16).dtype == ml_dtypes.bfloat16 == tb.bfloat16
    assert ml_dtypes.finfo(tb.bfloat16).eps == tb.finfo(tb.bfloat16).eps


def test_every_answer_is_such_an_object() -> None:
    x = tb.ones((2,))
    info = tb.__array_namespace_info__()
    found: list[Any] = [
        tb.finfo(x).dtype,
        tb.iinfo(tb.int8).dtype,
        tb.result_type(x, 1.0),
        tb.promote_types("int8", "int16"),
        tb.get_default_dtype(),
        tb.get_autocast_dtype("cpu"),
        x.double().dtype,
        tb.nn.Linear(2, 2).weight.dtype,
        *info.dtypes().values(),
        *info.default_dtypes().values(),
        *info.dtypes(kind="integral").values(),
        tb.float,
        tb.double,
        tb.half,
        tb.long,
        tb.int,
        tb.short,
        tb.cfloat,
        tb.cdouble,
        x[0].dtype,
    ]
    assert all(type(d) is tb.dtype for d in found)
    assert tb.isdtype(x.dtype, "real floating") and tb.isdtype(x.dtype, tb.float32)


def test_it_says_what_it_has_not() -> None:
    with pytest.raises(AttributeError, match="shape_of"):
        _ = tb.float32.shape_of
    assert not hasattr(tb.float32, "__array__") and not callable(tb.float32)
    with pytest.raises(AttributeError):
        tb.float32.mark = 1
    with pytest.raises(tb.errors.DTypeError, match="not a dtype"):
        tb.dtype("float31")


def test_programs_see_numpys() -> None:
    """Keys of recordings, texts and programs hold NumPy's, whichever a user gave."""
    seen = []

    @tb.jit
    def f(x: tb.Tensor, dtype: Any) -> tb.Tensor:
        seen.append(dtype)
        return x.to(dtype) * (2 if x.dtype.is_floating_point else 3)

    x = tb.tensor([1.5, 2.5])
    for d in (tb.float64, np.dtype("float64"), tb.float64):
        assert f(x, d).dtype is tb.float64
    assert len(seen) == 1  # equal and of one hash
    assert f(tb.tensor([1, 2]), tb.float32).tolist() == [3.0, 6.0]


def test_a_dtype_that_a_recording_read_is_guarded() -> None:
    class Holder:
        dtype = tb.float64

    h = Holder()
    f = tb.jit(lambda x: x.to(h.dtype))
    x = tb.ones((2,))
    assert f(x).dtype is tb.float64
    h.dtype = tb.int32  # type: ignore[assignment]
    assert f(x).dtype is tb.int32


def test_files_keep_it() -> None:
    memory = io.BytesIO()
    tb.save({"w": tb.ones((2,), dtype=tb.bfloat16), "n": tb.ones((2,), dtype=tb.int16)}, memory)
    memory.seek(0)
    back = tb.load(memory)
    assert tb.asarray(back["w"]).dtype is tb.bfloat16 and tb.asarray(back["n"]).dtype is tb.int16


def test_leftover_arguments_take_it() -> None:
    """Everywhere that a dtype goes in, the object, NumPy's and the name mean the same."""
    x = tb.arange(4)
    for d in (tb.float64, np.float64, np.dtype("float64"), "float64"):
        made = [
            tb.zeros(2, dtype=d),
            tb.full((2,), 1, dtype=d),
            tb.eye(2, dtype=d),
            tb.arange(3, dtype=d),
            tb.linspace(0, 1, 3, dtype=d),
            tb.rand(2, dtype=d),
            tb.randn(2, dtype=d),
            x.sum(dtype=d),
            x.float().softmax(0, dtype=d),
            tb.cumsum(x, 0, dtype=d),
            x.to(d),
            x.astype(d),
            x.type(d),
            x.view(d),
            tb.zeros_like(x, dtype=d),
            x.new_zeros(2, dtype=d),
            tb.asarray([1], dtype=d),
            tb.tensor([1], dtype=d),
            tb.Tensor([1.0]).to(dtype=d),
            tb.nn.Linear(2, 2, dtype=d).weight,
            x.mean(dtype=d),
            x.prod(dtype=d),
            tb.nn.Linear(2, 2).to(d).bias,
            tb.empty(2, dtype=d),
            tb.logspace(0, 1, 3, dtype=d),
            x.log_softmax(0, dtype=d),
        ]
        assert all(t.dtype is tb.float64 for t in made)
