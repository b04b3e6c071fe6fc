"""Trees to save, and what it means that one came back: the same structure, types and bits."""

from __future__ import annotations

import math
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trilobite.framework.checkpoint.arrays import DTYPES

CODES = {
    "bool": 2,
    "int1": 2,
    "uint1": 2,
    "int2": 4,
    "uint2": 4,
    "int4": 16,
    "uint4": 16,
    "float4_e2m1fn": 16,
    "float6_e2m3fn": 64,
    "float6_e3m2fn": 64,
}


def any_bits(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> np.ndarray:
    """An array of random bits: every code of the format, NaN payloads, infinities, both zeros."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(0, CODES.get(dtype.name, 256), size, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
dtypes = st.sampled_from(list(DTYPES.values()))


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    array = any_bits(draw(dtypes), draw(shapes), draw(st.integers(0, 2**32)))
    layout = draw(st.sampled_from(["plain", "transposed", "reversed", "strided", "fortran", "expanded"]))
    if layout == "transposed":
        return array.T
    if layout == "reversed":
        return array[(..., *(slice(None, None, -1) for _ in array.shape))]
    if layout == "strided":
        return array[..., ::2] if array.ndim else array
    if layout == "expanded":
        return np.broadcast_to(array, (2, *array.shape))
    return np.asfortranarray(array) if layout == "fortran" and array.ndim else array


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**200), 2**200),
    st.floats(allow_nan=True, allow_infinity=True),
    st.complex_numbers(allow_nan=True),
    st.text(st.characters(), max_size=8),
    st.binary(max_size=8),
)
keys = st.one_of(
    st.text(max_size=6),
    st.integers(-5, 5),
    st.tuples(st.integers(0, 3), st.text(max_size=2)),
    st.binary(max_size=2),
)


def _nests(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=6), children, max_size=4),
        st.dictionaries(keys, children, max_size=3),
        st.dictionaries(st.text(max_size=3), children, max_size=3).map(OrderedDict),
    )


trees = st.recursive(st.one_of(arrays(), scalars), _nests, max_leaves=12)


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


def assert_same(found: Any, saved: Any, path: str = "tree") -> None:
    """Structure, types, order and bits."""
    if isinstance(saved, np.ndarray):
        assert type(found) is np.ndarray, path
        assert (found.dtype, found.shape) == (saved.dtype, saved.shape), path
        assert found.tobytes() == np.ascontiguousarray(saved).tobytes(), path
        return
    assert type(found) is type(saved), f"{path}: {type(found)} for {type(saved)}"
    if isinstance(saved, dict):
        assert list(found) == list(saved), path
        for key in saved:
            assert_same(found[key], saved[key], f"{path}.{key}")
    elif isinstance(saved, list | tuple):
        assert len(found) == len(saved), path
        for index, (a, b) in enumerate(zip(found, saved, strict=True)):
            assert_same(a, b, f"{path}.{index}")
    elif isinstance(saved, float):
        assert bits(found) == bits(saved), path
    elif isinstance(saved, complex):
        assert bits(found.real) + bits(found.imag) == bits(saved.real) + bits(saved.imag), path
    else:
        assert found == saved, path


def training_state(step: int, size: int = 37) -> dict[str, Any]:
    """A small state of the kind a run has; every step has another one."""
    rng = np.random.default_rng(step)
    return {
        "model": {"weight": rng.normal(size=(size, 3)).astype(np.float32), "count": np.array(step, np.int64)},
        "optimizer": {
            "moments": [rng.normal(size=size), any_bits(DTYPES["bfloat16"], (5,), step)],
            "rate": 0.1 / (step + 1),
        },
        "random": {"key": rng.integers(0, 2**63, 2, dtype=np.uint64), "spare": None},
        "data": {"epoch": step // 7, "position": (step % 7, "train"), "order": b"\x00\xff"},
        "step": step,
    }
