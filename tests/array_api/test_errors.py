"""Wrong uses, with the message as text: what, where, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb

HERE = __file__
x = tb.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
i = tb.asarray([0, 1])

WRONG: list[tuple[Callable[[], Any], type[Exception], str, str | None, str | None]] = [
    # -- shapes
    (
        lambda: x + tb.ones(2),
        ValueError,
        "shapes (2, 3) and (2,) do not broadcast",
        "sizes that are equal or 1; axis -1 has 3 and 2",
        "reshape or index one of them with None, so that its axes line up from the right",
    ),
    (
        lambda: x @ x,
        ValueError,
        "matmul of shapes (2, 3) and (2, 3)",
        "the last axis of the first (3) equal to the second to last of the second (2)",
        "transpose one of them: x @ y.mT",
    ),
    (
        lambda: x @ tb.asarray(2.0),
        ValueError,
        "matmul of a tensor without dimensions",
        "at least one dimension each",
        "multiply with *",
    ),
    (
        lambda: tb.reshape(x, (4, 2)),
        ValueError,
        "reshape of 6 elements to (4, 2), which has 8",
        "as many elements as before",
        "let one size be worked out: -1",
    ),
    (
        lambda: tb.reshape(x, (4, -1)),
        ValueError,
        "reshape of 6 elements to (4, -1)",
        "a multiple of 4 elements",
        None,
    ),
    (lambda: x.view(-1, -1), ValueError, "reshape to (-1, -1)", "sizes, at most one of them -1", None),
    (
        lambda: tb.concat([x, tb.ones((2, 2, 2))]),
        ValueError,
        "concat along axis 0 of shapes (2, 3) and, as number 1, (2, 2, 2)",
        "equal sizes in every axis but axis 0",
        None,
    ),
    (
        lambda: tb.stack([x, x.T]),
        ValueError,
        "stack: tensor 0 has shape (2, 3), tensor 1 has shape (3, 2)",
        "equal shapes",
        "tb.concat joins along an axis that is there",
    ),
    (lambda: tb.concat([]), ValueError, "concat of no tensors", "at least one", None),
    (lambda: tb.concat(x.numpy()), ValueError, "concat of ndarray", "a list or tuple of tensors", None),
    (lambda: tb.squeeze(x, axis=0), ValueError, "squeeze: axis 0 of shape (2, 3) has size 2", "size 1", None),
    (
        lambda: tb.broadcast_to(x, (3, 3)),
        ValueError,
        "shapes (2, 3) and (3, 3) do not broadcast",
        "sizes that are equal or 1; axis -2 has 2 and 3",
        "reshape or index one of them with None, so that its axes line up from the right",
    ),
    (
        lambda: tb.broadcast_to(x, (1, 3)),
        ValueError,
        "broadcast_to from (2, 3) to (1, 3)",
        "sizes that are equal, or 1 in x",
        None,
    ),
    (lambda: tb.zeros((2, -1)), ValueError, "a tensor of shape (2, -1)", "sizes that are not negative", None),
    (
        lambda: tb.ones((2, 3, 4)).T,
        ValueError,
        "x.T of a tensor with 3 dimensions",
        "two dimensions",
        "x.mT for the last two axes, x.permute(...) for others",
    ),
    (
        lambda: tb.max(tb.zeros((0, 3)), axis=0),
        ValueError,
        "max of no elements: shape (0, 3) over axes (0,)",
        "at least one element",
        "reduce over axes that are not empty",
    ),
    (
        lambda: tb.split(x, [1, 1], axis=1),
        ValueError,
        "split of axis 1, which has size 3, into [1, 1]",
        "sizes that add up to 3",
        None,
    ),
    (
        lambda: tb.einsum("ij,jk->ik", x, x),
        ValueError,
        "einsum 'ij,jk->ik': 'j' has sizes 3 and 2",
        "one size per letter",
        None,
    ),
    (
        lambda: tb.einsum("ijk->i", x),
        ValueError,
        "einsum 'ijk->i': the term 'ijk' for an operand with 2 dimensions",
        "one letter per dimension",
        None,
    ),
    (
        lambda: tb.einsum("ij->ik", x),
        ValueError,
        "einsum 'ij->ik': 'k' of the result stands in no term",
        "letters of the terms",
        None,
    ),
    (
        lambda: tb.vecdot(x, x.T),
        ValueError,
        "vecdot of shapes (2, 3) and (3, 2) along axis -1",
        "equal sizes there",
        None,
    ),
    (
        lambda: tb.nonzero(tb.asarray(1.0)),
        ValueError,
        "nonzero of a tensor without dimensions",
        "at least one dimension",
        "x.reshape(1)",
    ),
    # -- axes
    (
        lambda: tb.sum(x, axis=2),
        ValueError,
        "sum: axis 2 of a tensor with 2 dimensions",
        "-2 <= axis < 2",
        None,
    ),
    (
        lambda: tb.sum(x, axis=(0, -2)),
        ValueError,
        "sum: the axes (0, -2) name one axis twice",
        "distinct axes",
        None,
    ),
    (lambda: tb.sum(x, axis=1.5), TypeError, "sum: the axis 1.5", "an integer", None),
    (lambda: tb.permute_dims(x, (0,)), ValueError, "permute_dims by (0,)", "each of the 2 axes once", None),
    (lambda: tb.moveaxis(x, (0, 1), 0), ValueError, "moveaxis of 2 axes to 1 places", "one place each", None),
    (
        lambda: tb.cumulative_sum(x),
        ValueError,
        "cumulative_sum of a tensor with 2 dimensions without an axis",
        "an axis",
        "pass axis=..., or flatten the tensor first",
    ),
    # -- dtypes
    (
        lambda: tb.ones(1, dtype=tb.int64) + tb.ones(1, dtype=tb.uint64),
        TypeError,
        "int64 and uint64 have no common dtype",
        "a dtype that holds both",
        "x.astype(tb.int64) or x.astype(tb.float64)",
    ),
    (
        lambda: tb.ones(1, dtype=tb.float8_e4m3fn) * tb.ones(1, dtype=tb.float8_e5m2),
        TypeError,
        "float8_e4m3fn and float8_e5m2 have no common dtype",
        "a dtype that holds both",
        "x.astype(tb.float32) first",
    ),
    (
        lambda: x & x,
        TypeError,
        "bitwise_and of float32",
        "an integer or boolean dtype",
        "cast it first: x.astype(tb.int64)",
    ),
    (
        lambda: tb.asarray([1j]) < 1,
        TypeError,
        "less of complex64",
        "a dtype with an order: not a complex one",
        "cast it first: x.astype(tb.float32)",
    ),
    (
        lambda: tb.floor(tb.asarray([1j])),
        TypeError,
        "floor of complex64",
        "an integer or float dtype",
        "cast it first: x.astype(tb.float32)",
    ),
    (
        lambda: -tb.asarray([True]),
        TypeError,
        "negative of bool",
        "an integer, float or complex dtype",
        "cast it first: x.astype(tb.float32)",
    ),
    (
        lambda: tb.zeros(2, dtype="float31"),
        TypeError,
        "'float31' is not a dtype that tensors can have",
        None,
        None,
    ),
    (lambda: tb.finfo(tb.int8), TypeError, "finfo of int8", "a float or complex dtype", "tb.iinfo(int8)"),
    (
        lambda: tb.isdtype(tb.int8, "integer"),
        ValueError,
        "isdtype of the kind 'integer'",
        "a dtype or one of bool, signed integer, unsigned integer, integral, real floating, "
        "complex floating, numeric",
        None,
    ),
    (
        lambda: x.view(tb.float64),
        TypeError,
        "view of float32 as float64",
        "a dtype of 32 bits",
        "convert the values with x.astype(dtype)",
    ),
    # -- indices
    (lambda: x[2], IndexError, "index 2 on axis 0, which has size 2", "-2 <= index < 2", None),
    (lambda: x[0, -4], IndexError, "index -4 on axis 1, which has size 3", "-3 <= index < 3", None),
    (
        lambda: x[:, tb.asarray([0, 5])],
        IndexError,
        "index 5 on axis 1, which has size 3",
        "-3 <= index < 3",
        None,
    ),
    (lambda: x[0, 0, 0], IndexError, "3 indices for a tensor with 2 dimensions", "at most 2", None),
    (lambda: x[..., 0, ...], IndexError, "2 ellipses in one index", "at most one '...'", None),
    (
        lambda: x[1.5],
        IndexError,
        "an index of type float",
        "integers, slices, None, Ellipsis, or integer and boolean tensors",
        None,
    ),
    (
        lambda: x[tb.asarray([0.5])],
        IndexError,
        "an index of float32",
        "an integer or boolean dtype",
        "cast it: index.long()",
    ),
    (
        lambda: x[tb.asarray([True, False, True])],
        IndexError,
        "a boolean mask of size 3 on axis 0, which has size 2",
        "a mask of shape (2,) there",
        None,
    ),
    (
        lambda: x[i, tb.asarray([0, 1, 2])],
        IndexError,
        "index arrays of shapes [(2,), (3,)] do not broadcast",
        "sizes that are equal or 1; axis -1 has 2 and 3",
        None,
    ),
    (lambda: x[::0], IndexError, "a slice with step 0 on axis 0", "a step that is not 0", None),
    (
        lambda: tb.take(x, tb.asarray([3]), axis=1),
        IndexError,
        "index 3 on axis 1, which has size 3",
        "-3 <= index < 3",
        None,
    ),
    (
        lambda: x.__setitem__(0, tb.ones(2)),
        ValueError,
        "a value of shape (2,) written to a part of shape (3,)",
        "a value that broadcasts to that shape",
        None,
    ),
    (
        lambda: i.__setitem__(0, 1.5),
        TypeError,
        "a value of float written to a tensor of int64",
        "a value that int64 can hold",
        "cast the value first, or the tensor",
    ),
    (lambda: tb.one_hot(x, 3), ValueError, "one_hot of float32", "integers", "x.long()"),
    # -- mixing, devices, arguments
    (
        lambda: tb.sin("a"),
        TypeError,
        "an operand of type str",
        "a tensor, a NumPy array or a number",
        "make it a tensor: tb.asarray(x)",
    ),
    (
        lambda: tb.asarray(["a"]),
        TypeError,
        "the data does not form a tensor: list of <U1",
        "numbers, or nested lists of equal lengths",
        None,
    ),
    (lambda: tb.asarray([[1, 2], [3]]), ValueError, None, "numbers, or nested lists of equal lengths", None),
    (
        lambda: tb.zeros(2, device="gpu"),
        ValueError,
        "there is no device 'gpu'",
        "'cpu'",
        "choose where compiled code runs with tb.jit(f, target=...)",
    ),
    (
        lambda: x.to_device("cuda:0"),
        ValueError,
        "there is no device 'cuda:0'",
        "'cpu'",
        "choose where compiled code runs with tb.jit(f, target=...)",
    ),
    (lambda: tb.arange(0, 5, 0), ValueError, "arange with a step of 0", "a step that is not 0", None),
    (lambda: tb.linspace(0, 1, -1), ValueError, "linspace with num=-1", "num >= 0", None),
    (lambda: tb.meshgrid(i, indexing="yx"), ValueError, "meshgrid(indexing='yx')", "'xy' or 'ij'", None),
    (
        lambda: tb.searchsorted(i, i, side="middle"),
        ValueError,
        "searchsorted(side='middle')",
        "'left' or 'right'",
        None,
    ),
    (lambda: tb.topk(x, 4), ValueError, "topk with k=4 along an axis of size 3", "0 <= k <= 3", None),
    (
        lambda: x.__array_namespace__(api_version="2019.1"),
        ValueError,
        "version '2019.1' of the array API",
        "one of 2021.12, 2022.12, 2023.12, 2024.12, 2025.12",
        None,
    ),
    (
        lambda: x.item(),
        ValueError,
        "item() of a tensor of shape (2, 3)",
        "exactly one element",
        "index it, or use tolist()",
    ),
    # -- in place
    (
        lambda: x.__iadd__(tb.ones((4, 2, 3))),
        ValueError,
        "add in place: a result of shape (4, 2, 3) in a tensor of shape (2, 3)",
        "the tensor's own shape",
        "x = x + y, which makes a new tensor",
    ),
    (
        lambda: i.__itruediv__(2),
        TypeError,
        "divide in place: a result of float32 in a tensor of int64",
        "a dtype that it casts to without loss of kind",
        "x = x + y, which makes a new tensor",
    ),
    # -- recorded
    (
        lambda: tb.jit(tb.nonzero)(x),
        RuntimeError,
        "nonzero inside jit, cond or scan: the shape of its result depends on values that only a run knows",
        "a result of a fixed size",
        "say how many at most: nonzero(..., size=n)",
    ),
    (
        lambda: tb.jit(lambda t: t[t > 2])(x),
        RuntimeError,
        "indexing with a boolean mask inside jit, cond or scan: "
        "the shape of its result depends on values that only a run knows",
        "a result of a fixed size",
        "tb.where(mask, x, 0), or tb.masked_select(x, mask, size=n)",
    ),
    (
        lambda: tb.vmap(tb.unique_values)(x),
        RuntimeError,
        "unique_values inside vmap: the shape of its result depends on values that only a run knows",
        "a result of a fixed size",
        "say how many at most: unique_values(x, size=n)",
    ),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: (case[2] or "ragged lists")[:60])
def test_wrong_use(
    case: tuple[Callable[[], Any], type[Exception], str | None, str | None, str | None],
) -> None:
    fn, kind, what, expected, remedy = case
    with pytest.raises(kind) as caught:
        fn()
    error = caught.value
    assert isinstance(error, tb.errors.TrilobiteError)
    lines = str(error).split("\n")
    if what is not None:
        assert lines[0] == what
    if expected is not None:
        assert f"  expected: {expected}" in lines
    if remedy is not None:
        assert f"  remedy: {remedy}" in lines
    where = [line for line in lines if line.startswith("  where: ")]
    assert all(HERE in line for line in where)
    assert where or what in (
        "'float31' is not a dtype that tensors can have", "item() of a tensor of shape (2, 3)",
    )  # fmt: skip


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 60


def test_nothing_was_changed_by_a_refused_write() -> None:
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]] and i.tolist() == [0, 1]


def test_positional_and_keyword_only_arguments_are_python_errors() -> None:
    for call in (
        lambda: tb.sin(x=x),
        lambda: tb.add(x),
        lambda: tb.zeros(),
        lambda: tb.asarray(x, tb.float32),
    ):
        with pytest.raises(TypeError):
            call()


def test_an_unwritable_view_says_so() -> None:
    with pytest.raises(RuntimeError, match="several elements of the view are one element of the tensor"):
        tb.broadcast_to(tb.ones(3), (2, 3))[0] = 1.0


def test_a_leaf_that_requires_a_gradient_is_not_written_to() -> None:
    w = tb.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf tensor that requires a gradient was changed in place"):
        w[0] = 5.0
    with tb.no_grad():
        w[0] = 5.0
    assert w.detach().tolist() == [5.0, 1.0]


def test_numpy_s_own_limit_on_dimensions_is_the_one_we_state() -> None:
    limit = tb.__array_namespace_info__().capabilities()["max dimensions"]
    assert tb.ones((1,) * limit).ndim == limit
    with pytest.raises(ValueError):
        np.ones((1,) * (limit + 1))
