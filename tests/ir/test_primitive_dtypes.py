"""Every primitive over every dtype its type rule accepts: the promised type, no warning, and for floats
smaller than 32 bits the float32 result rounded once (NumPy's own float16 loops may differ from it by one
code).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from test_primitive_table import NAMES, _has_graph, cases

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import DTypeError
from trilobite.ir.primitive import result_types, table
from trilobite.ir.types import type_of

Array = np.ndarray[Any, Any]
SMALL = sorted(dt.SMALL_FLOATS, key=str)
ALL = sorted(dt.ALL, key=str)
cast = table["cast"].evaluate


def recast(
    operands: Sequence[Array], attributes: dict[str, Any], dtype: Any
) -> tuple[list[Array], dict[str, Any]]:
    """The double operands in another dtype; a result dtype that was double follows."""
    moved = [cast(o, dtype=dtype) if o.dtype == dt.float64 else o for o in operands]
    return moved, {k: dtype if v == dt.float64 and k == "dtype" else v for k, v in attributes.items()}


def accepted(name: str, dtype: Any) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    for operands, attributes in cases(name):
        if name in ("callback", "custom_call") or any(map(_has_graph, attributes.values())):
            continue
        if not any(o.dtype == dt.float64 for o in operands):
            continue
        given, attrs = recast(operands, attributes, dtype)
        try:
            result_types(table[name], [type_of(o) for o in given], attrs)
        except DTypeError:
            continue
        yield given, attrs


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_accepted_dtypes_give_the_promised_type(dtype: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        for operands, attributes in accepted(name, dtype):
            types = result_types(table[name], [type_of(o) for o in operands], attributes)
            outs = table[name].evaluate(*operands, **attributes)
            for o, t in zip(outs if table[name].multiple else [outs], types, strict=True):
                assert type(o) is np.ndarray and type_of(o) == t, f"{name} of {dtype}"


def codes(x: Array) -> Array:
    """Small floats as whole numbers in order of their values; NaN apart."""
    wide = x.astype(np.float64)
    raw = x.view(f"u{x.dtype.itemsize}").astype(np.int64)
    top = 1 << (dt.bits(x.dtype) - 1)
    magnitude = np.where(raw >= top, top - raw, raw) if x.dtype != dt.float8_e8m0fnu else raw
    return np.where(np.isnan(wide), 10**6, magnitude)


_EDGES = ("reduce_max", "reduce_min")  # of nothing: infinity, or what the dtype has in its place
EXCEPT = {
    "window_gather": "it fills with zeros, which e8m0 does not have",
    "nextafter": "its steps are those of the dtype",
    "bitcast": "it reads the bits of the dtype",
    **dict.fromkeys(
        "conv_panels gemm_pack window_last_gather window_last_max_grad window_last_spread".split(),
        "it fills with zeros, which e8m0 does not have",
    ),
    "dot_quantised": "it is a dequantise, which rounds to its dtype, and a dot",
}


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_small_floats_are_float32_rounded_once(dtype: Any) -> None:
    for name in NAMES:
        if name in EXCEPT or name in ("constant", "full", "iota", "quantise", "dequantise"):
            continue
        for operands, attributes in accepted(name, dtype):
            wide, attrs = [o.astype(np.float32) if o.dtype == dtype else o for o in operands], attributes
            if attributes.get("dtype") == dtype:
                attrs = {**attributes, "dtype": dt.float32}
            if _filled_with_what_it_lacks(attributes, dtype) or (name in _EDGES and operands[0].size == 0):
                continue
            many = table[name].multiple
            got, want = table[name].evaluate(*operands, **attributes), table[name].evaluate(*wide, **attrs)
            for g, w in zip(got if many else [got], want if many else [want], strict=True):
                if not is_inexact(g.dtype) or g.dtype != dtype:
                    assert g.tobytes() == w.tobytes(), f"{name} of {dtype}"
                    continue
                w = cast(w, dtype=dtype) if w.dtype == dt.float32 else w
                off = np.abs(codes(g) - codes(w))
                allowed = 1 if dtype == dt.float16 else 0
                assert (off <= allowed).all(), f"{name} of {dtype} with {attributes}: {g} is not {w}"


def _filled_with_what_it_lacks(attributes: dict[str, Any], dtype: Any) -> bool:
    """A pad value that the dtype rounds differently on its own than after float32."""
    value = attributes.get("value")
    return value is not None and not bool(
        np.asarray(value, np.float32).astype(dtype).astype(np.float32) == value
    )
