"""Guards of loading, joining and writing: the nearest right use, and the wrong one by its error's text."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, DeviceError, ShapeError, TraceError
from trilobite.framework.data import transforms as T
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import type_of

nn = tb.nn


# -- states --------------------------------------------------------------------------------------------------


def test_states_with_more_and_with_less() -> None:
    net = nn.Linear(3, 2)
    whole = net.state_dict()
    more = {**whole, "extra": tb.ones(1)}
    less = {"weight": whole["weight"]}
    with pytest.raises(Exception, match="extra"):
        net.load_state_dict(more)
    with pytest.raises(Exception, match="bias"):
        net.load_state_dict(less)
    found = net.load_state_dict({**less, "extra": tb.ones(1)}, strict=False)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == ["extra"]
    with pytest.raises(Exception, match="weight") as error:
        net.load_state_dict({"weight": tb.ones(9), "extra": tb.ones(1)}, strict=False)
    assert "extra" not in str(error.value) and "bias" not in str(error.value)
    with pytest.raises(ArgumentError, match="load_state_dict of list"):
        net.load_state_dict([1, 2])


@pytest.mark.parametrize("place", ["cpu", "cpu:0", "cuda", "cuda:0", None])
def test_places_that_files_are_loaded_to(place: Any, tmp_path: Any) -> None:
    path = tmp_path / "state.pt"
    tb.save({"a": tb.arange(3.0)}, path)
    if place in (None, "cpu", "cpu:0"):
        assert tb.load(path, map_location=place)["a"].tolist() == [0.0, 1.0, 2.0]
        return
    with pytest.raises(DeviceError, match=f"there is no device '{place}'"):
        tb.load(path, map_location=place)
    stream = io.BytesIO(path.read_bytes()) if path.is_file() else None
    if stream is not None:
        with pytest.raises(DeviceError, match=f"there is no device '{place}'"):
            tb.load(stream, map_location=place)


# -- shapes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("equation", ["ij,jk->ii", "ij,jk->ikk", "...i,...i->...ii"])
def test_a_result_names_each_letter_once(equation: str) -> None:
    x = tb.ones((2, 2))
    with pytest.raises(ArgumentError, match="names a letter twice"):
        tb.einsum(equation, x, x)


def test_dots_of_several_axes_keep_their_order() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 3, 4, 5)), rng.standard_normal((3, 5, 6))
    for equation in ("...ij,...jk->...ik", "...ij,...jk->i...k", "...ij,...jk->ik..."):
        found = tb.einsum(equation, tb.tensor(x), tb.tensor(y)).numpy()
        np.testing.assert_allclose(found, np.einsum(equation, x, y), rtol=1e-9)


@pytest.mark.parametrize("name", ["scatter", "scatter_reduce"])
def test_updates_have_the_shape_of_their_points(name: str) -> None:
    x, at = np.zeros((4, 3)), np.asarray([[0], [2]])
    kind = "add" if name == "scatter" else "mul"
    for shape, right in (
        ((2, 3), True),
        ((2, 1), False),
        ((1, 3), False),
        ((2, 3, 1), False),
        ((3, 2), False),
    ):
        types = [type_of(v) for v in (x, at, np.ones(shape))]

        def body(*values: Any) -> Any:
            return [table[name](*values, axes=(0,), kind=kind)]

        if right:
            assert record_graph(body, types, name).outputs[0].type.shape == (4, 3)
            continue
        with pytest.raises(ShapeError, match=name):
            record_graph(body, types, name)


@pytest.mark.parametrize("make", [T.CenterCrop, T.RandomCrop])
@pytest.mark.parametrize(("size", "fits"), [((4, 6), True), ((5, 6), False), ((4, 7), False), ((1, 1), True)])
def test_crops_that_fit_in_both_directions(make: Any, size: tuple[int, int], fits: bool) -> None:
    picture = np.zeros((4, 6, 3), np.uint8)
    crop = make(size)
    given = (picture,) if make is T.CenterCrop else (picture, np.random.default_rng(1))
    if fits:
        assert crop(*given).shape == (*size, 3)
        return
    with pytest.raises(ShapeError, match=f"cannot cut {size[0]}×{size[1]} from 4×6"):
        crop(*given)


# -- values of transforms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["grad", "jvp", "vmap", "jit"])
def test_a_value_of_a_transform_ends_with_it(way: str) -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x)
        return (x * x).sum()

    x = tb.ones(3)
    if way == "grad":
        tb.grad(f)(x)
    elif way == "jvp":
        tb.jvp(f, (x,), (x,))
    elif way == "vmap":
        tb.vmap(f)(tb.ones((2, 3)))
    else:
        tb.jit(f)(x)
    with pytest.raises(TraceError, match=r"is used (after|outside)"):
        kept[0] + 1.0
