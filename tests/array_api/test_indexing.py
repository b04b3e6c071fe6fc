"""`x[key]` and `x[key] = value` against NumPy: any key, eager and recorded, on tensors and on views of
views.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import trilobite as tb

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "int64", "bool", "complex64", "uint8", "float64")
shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def numbered(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    """Distinct elements, so that a wrong place shows."""
    flat = np.arange(int(np.prod(shape, dtype=np.int64)))
    return ((flat * 7 - 11) if dtype != "bool" else flat % 3 == 0).reshape(shape).astype(dtype)


@st.composite
def basic_keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    return draw(npst.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True, max_dims=6))


@st.composite
def array_keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A key with at least one index array, in any company: integers, slices, None, Ellipsis, masks."""
    n = len(shape)
    names = draw(st.lists(st.sampled_from(["array", "mask", "int", "slice"]), min_size=1, max_size=max(n, 1)))
    common = draw(npst.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    entries: list[Any] = []
    axis, arrays = 0, 0
    for name in names:
        width = draw(st.integers(1, 2)) if name == "mask" else 1
        if axis + width > n:
            break
        size = shape[axis]
        if name == "slice" or (size == 0 and name != "mask"):
            entries.append(draw(st.slices(size)))
        elif name == "int":
            entries.append(draw(st.integers(-size, size - 1)))
        elif name == "array":
            own = draw(st.sampled_from([common, (), (1,) * len(common)]))
            entries.append(draw(npst.arrays("int64", own, elements=st.integers(-size, size - 1))))
            arrays += 1
        elif arrays == 0:  # a mask's arrays rarely broadcast with others
            entries.append(draw(npst.arrays("bool", shape[axis : axis + width])))
            arrays += 1
            names.clear()
        else:
            continue
        axis += width
        if draw(st.booleans()) and draw(st.booleans()):
            entries.append(None)
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0 if axis == n else len(entries), len(entries))), Ellipsis)
    return tuple(entries)


def as_tensors(key: Any) -> Any:
    if isinstance(key, tuple):
        return tuple(as_tensors(k) for k in key)
    return tb.asarray(key.copy()) if isinstance(key, np.ndarray) else key


def _with(key: Any, lines: Any) -> Any:
    """The key with its index arrays replaced."""
    return tuple(next(lines) if isinstance(k, np.ndarray) else k for k in key)


def same(got: tb.Tensor, want: Any) -> None:
    want = np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    assert got.detach().numpy().tobytes() == np.ascontiguousarray(want).tobytes()


@given(st.data(), shapes, st.sampled_from(DTYPES))
def test_getting_by_integers_slices_none_and_ellipsis(
    data: st.DataObject, shape: tuple[int, ...], dtype: str
) -> None:
    a, key = numbered(shape, dtype), data.draw(basic_keys(shape))
    same(tb.tensor(a)[key], a[key])
    same(tb.jit(lambda x: x[key] + 0 if dtype != "bool" else x[key])(tb.tensor(a)), a[key])


@given(st.data(), shapes, st.sampled_from(DTYPES))
def test_getting_by_index_arrays(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    a, key = numbered(shape, dtype), data.draw(array_keys(shape))
    want = a[key]
    x = tb.tensor(a)
    same(x[as_tensors(key)], want)
    if not any(isinstance(k, np.ndarray) and k.dtype == bool for k in key):
        lines = [tb.asarray(k) for k in key if isinstance(k, np.ndarray)]
        same(
            tb.jit(lambda x, lines: x[_with(key, iter(lines))])(x, lines), want
        )  # indices that only a run knows
    same(tb.jit(lambda x: x[key])(x), want)  # indices that are part of the program


@given(st.data(), shapes, st.sampled_from(DTYPES))
def test_setting_a_part(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    a = numbered(shape, dtype)
    key = data.draw(st.one_of(basic_keys(shape), array_keys(shape)))
    part = a[key]
    value = (numbered(np.shape(part), "int64") * 3 + 1).astype(dtype)
    if data.draw(st.booleans()) and np.ndim(part):  # one that broadcasts
        value = value[..., :1] if value.shape[-1] else value
        value = value if value.shape[-1] else np.ones((), dtype)
    want = a.copy()
    want[key] = value
    x = tb.tensor(a)
    x[as_tensors(key)] = tb.tensor(value)
    same(x, want)

    def write(x: tb.Tensor, v: tb.Tensor) -> tb.Tensor:
        y = x.clone()
        y[key] = v
        return y

    same(tb.jit(write)(tb.tensor(a), tb.tensor(value)), want)


@st.composite
def view_steps(draw: st.DrawFn, shape: tuple[int, ...]) -> list[tuple[str, Any]]:
    """Some ways to look at a tensor, one after the other."""
    steps: list[tuple[str, Any]] = []
    a = np.empty(shape)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["index", "transpose", "reshape", "turn"]))
        arg: Any = None
        if kind == "index":
            arg = draw(npst.basic_indices(a.shape, allow_newaxis=True))
        elif kind == "transpose":
            arg = tuple(draw(st.permutations(range(a.ndim))))
        elif kind == "turn":
            arg = tuple(i for i in range(a.ndim) if draw(st.booleans()))
        elif a.size:
            arg = draw(st.sampled_from([(-1,), (1, -1), (a.size, 1), a.shape]))
        if arg is not None:
            steps.append((kind, arg))
            a = _look(a, kind, arg)
    return steps


def _look(a: Any, kind: str, arg: Any) -> Any:
    if kind == "index":
        return a[arg] if isinstance(a, tb.Tensor) else np.asarray(a[arg])
    if isinstance(a, tb.Tensor):
        return {"transpose": tb.permute_dims, "reshape": tb.reshape, "turn": _turned}[kind](a, arg)
    return {"transpose": np.transpose, "reshape": np.reshape, "turn": _turned}[kind](a, arg)


def _turned(a: Any, axes: tuple[int, ...]) -> Any:
    """Back to front along these axes, as a view."""
    return a[tuple(slice(None, None, -1 if i in axes else 1) for i in range(a.ndim))]


@given(st.data(), npst.array_shapes(min_dims=1, max_dims=3, max_side=4))
def test_a_write_through_a_view_of_views_is_a_write_to_the_base(
    data: st.DataObject, shape: tuple[int, ...]
) -> None:
    steps = data.draw(view_steps(shape))
    a = numbered(shape)
    places = np.arange(a.size).reshape(shape)  # where each element of the view comes from
    copied = False  # a reshape copies where NumPy's does, and then a write stays in the copy
    for kind, arg in steps:
        seen = np.asarray(_look(places, kind, arg))
        copied = copied or (kind == "reshape" and seen.size > 0 and not np.shares_memory(seen, places))
        places = seen
    want = a.copy()
    if not copied:
        want.reshape(-1)[places.reshape(-1)] = -5.0

    def write(x: tb.Tensor) -> tb.Tensor:
        v = x
        for kind, arg in steps:
            v = _look(v, kind, arg)
        v[...] = -5.0
        assert v.shape == places.shape
        return v

    x = tb.tensor(a)
    same(write(x), np.full(places.shape, -5.0, np.float32))
    same(x, want)

    @tb.jit
    def inside(x: tb.Tensor) -> tb.Tensor:
        y = x.clone()
        write(y)
        return y

    same(inside(tb.tensor(a)), want)
    state = tb.tensor(a)
    tb.jit(lambda: write(state).sum())()  # a tensor from outside changes when the program has run
    same(state, want)


def test_a_view_sees_what_its_base_becomes() -> None:
    x = tb.tensor(numbered((3, 4)))
    row, flat = x[1], x.reshape(2, 6).reshape(-1)
    before = flat.tolist()
    x[1, 2] = 100.0
    assert row[2].item() == 100.0
    assert flat.tolist() != before and 100.0 in flat.tolist()
    x += 1
    assert row[2].item() == 101.0 and max(flat.tolist()) == 101.0


def test_index_arrays_give_copies() -> None:
    x = tb.tensor(numbered((3, 4)))
    y = x[tb.asarray([0, 1])]
    y[...] = 0.0
    same(x, numbered((3, 4)))


def test_elements_are_views_as_well() -> None:
    x = tb.tensor([1.0, 2.0, 3.0])
    first = x[0]
    x[0] = 9.0
    assert first.item() == 9.0
    first += 1
    assert x.tolist() == [10.0, 2.0, 3.0]


@given(st.data(), npst.array_shapes(min_dims=1, max_dims=3, max_side=4))
def test_gradients_flow_through_parts(data: st.DataObject, shape: tuple[int, ...]) -> None:
    key = data.draw(st.one_of(basic_keys(shape), array_keys(shape)))
    a = numbered(shape)
    weights = numbered(np.shape(a[key])) + 1
    want = np.zeros_like(a)
    np.add.at(want, key, weights)
    x = tb.tensor(a, requires_grad=True)
    (x[as_tensors(key)] * tb.tensor(weights)).sum().backward()
    same(x.grad, want)
    same(tb.grad(lambda x: (x[as_tensors(key)] * tb.tensor(weights)).sum())(tb.tensor(a)), want)


@given(st.data(), npst.array_shapes(min_dims=1, max_dims=3, max_side=4))
def test_gradients_of_a_write(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """What was overwritten gets no gradient, what was written gets the gradient of its place."""
    key = data.draw(st.one_of(basic_keys(shape), array_keys(shape)))
    a = numbered(shape)
    weights = numbered(shape) + 1
    places = np.arange(a.size).reshape(shape)[key]
    unique = len(set(np.ravel(places).tolist())) == np.size(places)
    kept = weights.copy()
    kept[key] = 0

    def f(x: tb.Tensor, v: tb.Tensor) -> tb.Tensor:
        y = x * 1
        y[as_tensors(key)] = v
        return (y * tb.tensor(weights)).sum()

    gx, gv = tb.grad(f, argnums=(0, 1))(tb.tensor(a), tb.tensor(np.asarray(a[key])))
    same(gx, kept)
    if unique:
        same(gv, weights[key])


def test_a_mask_written_under_jit_chooses() -> None:
    a = numbered((3, 4))

    @tb.jit
    def f(x: tb.Tensor, mask: tb.Tensor, row: tb.Tensor) -> tuple[tb.Tensor, tb.Tensor]:
        y, z = x.clone(), x.clone()
        y[mask] = 0.5
        z[mask[:, 0]] = row
        return y, z

    mask, row = a > 3, np.array([1, 2, 3, 4], np.float32)
    y, z = a.copy(), a.copy()
    y[mask], z[mask[:, 0]] = 0.5, row
    got = f(tb.tensor(a), tb.tensor(mask), tb.tensor(row))
    same(got[0], y)
    same(got[1], z)


def test_indices_out_of_range_are_clamped_under_jit() -> None:
    x, i = tb.tensor([1.0, 2.0, 3.0]), tb.asarray([-9, 1, 9])
    assert tb.jit(lambda x, i: x[i])(x, i).tolist() == [1.0, 2.0, 3.0]


def test_vmap_over_indices_and_tensors() -> None:
    a, i = numbered((4, 5)), np.array([3, -1, 0, 2])
    got = tb.vmap(lambda row, k: row[k])(tb.tensor(a), tb.asarray(i))
    same(got, a[np.arange(4), i])
    same(tb.vmap(lambda k: tb.tensor(a)[k])(tb.asarray(i % 4)), a[i % 4])
    same(tb.vmap(lambda row: row[1:4:2])(tb.tensor(a)), a[:, 1:4:2])


@pytest.mark.parametrize("mask", [True, False])
def test_masks_without_dimensions(mask: bool) -> None:
    a = numbered((2, 3))
    for x, want in ((tb.tensor(a), a), (tb.tensor(5.0), np.float32(5.0))):
        same(x[mask], np.asarray(want)[mask])
        same(x[tb.asarray(mask)], np.asarray(want)[mask])


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "int4", "uint4"]
)
def test_every_integer_dtype_is_an_index(dtype: str) -> None:
    x = tb.tensor(numbered((5,)))
    same(x[tb.asarray([2, 0, 4], dtype=dtype)], numbered((5,))[[2, 0, 4]])
    same(x[tb.asarray(3, dtype=dtype)], numbered((5,))[3])


def test_a_python_number_traced_by_jit_is_an_index() -> None:
    x = tb.tensor(numbered((5, 2)))
    f = tb.jit(lambda x, i: x[i])
    same(f(x, 3), numbered((5, 2))[3])
    same(f(x, -1), numbered((5, 2))[-1])


def test_lists_and_numpy_integers() -> None:
    a = numbered((3, 4))
    x = tb.tensor(a)
    same(x[[0, 2]], a[[0, 2]])
    same(x[[True, False, True]], a[[True, False, True]])
    same(x[np.int32(1), np.uint8(2)], a[1, 2])
    same(x[[]], a[[]])
    same(x[tb.asarray(1) :], a[1:])


def test_iteration_and_membership() -> None:
    x = tb.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert 3.0 in x and 5.0 not in x and len(x) == 2


def test_a_value_of_a_lower_kind_is_cast() -> None:
    x = tb.zeros((2,), dtype=tb.float32)
    x[0] = True
    x[1] = tb.asarray(7, dtype=tb.int8)
    assert x.tolist() == [1.0, 7.0]


def test_overlapping_parts_are_read_before_they_are_written() -> None:
    x = tb.arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x[::-1] = x
    assert x.tolist() == [4, 3, 2, 1, 0, 0]


@pytest.mark.parametrize("key", [0, slice(1, None), [0, 2], (Ellipsis,)], ids=str)
def test_a_write_to_what_a_gradient_needs_is_noticed(key: Any) -> None:
    x, w = tb.tensor([1.0, 2.0, 3.0]), tb.ones(3, requires_grad=True)
    for part in (x, x[::-1], x.reshape(3, 1)[:, 0]):
        loss = (w * x).sum()
        part[key] = 7.0
        with pytest.raises(tb.errors.GradientError, match="changed in place"):
            loss.backward()


def test_a_mask_written_before_the_gradient_needs_it_is_fine() -> None:
    x, w = tb.tensor([1.0, 2.0, 3.0]), tb.ones(3, requires_grad=True)
    x[x > 1.5] = 0.0
    (w * x).sum().backward()
    assert w.grad.tolist() == [1.0, 0.0, 0.0]


def test_writes_to_views_under_vmap_and_grad() -> None:
    def f(row: tb.Tensor) -> tb.Tensor:
        y = row * 2
        y[1:].reshape(-1)[::-1][0] = row[0] * 10
        return y

    a = numbered((2, 3))
    want = a * 2
    want[:, 2] = a[:, 0] * 10
    same(tb.vmap(f)(tb.tensor(a)), want)
    jac = tb.jacrev(f)(tb.tensor(a[0]))
    assert jac.tolist() == [[2, 0, 0], [0, 2, 0], [10, 0, 0]]
