"""To and from the outside: NumPy, DLPack, Python numbers; how tensors show themselves; what the namespace
offers.
"""

from __future__ import annotations

import copy
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import trilobite as tb

DTYPES = [d for d in tb.__array_namespace_info__().dtypes()]


# -- DLPack ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, "float16"])
def test_dlpack_both_ways_shares_memory(dtype: str) -> None:
    x = tb.asarray([[1, 0], [1, 1]], dtype=dtype)
    assert x.__dlpack_device__() == (1, 0)
    a = np.from_dlpack(x)
    assert a.dtype == x.dtype and a.tolist() == x.tolist()
    y = tb.from_dlpack(np.asarray(x))
    assert y.dtype == x.dtype and y.tolist() == x.tolist()
    x[0, 0] = False
    assert not a[0, 0] and not y[0, 0]
    z = tb.from_dlpack(x, copy=True)
    x[0, 1] = True
    assert not z[0, 1]
    assert tb.from_dlpack(x).tolist() == x.tolist()


@pytest.mark.parametrize("max_version", [None, (0, 0), (1, 0), (2, 0)])
@pytest.mark.parametrize("copied", [None, True, False])
def test_dlpack_capsules(max_version: Any, copied: bool | None) -> None:
    x = tb.arange(4)
    assert "dltensor" in repr(x.__dlpack__(max_version=max_version, copy=copied, dl_device=(1, 0)))
    assert "dltensor" in repr(tb.broadcast_to(x, (2, 4)).__dlpack__(max_version=max_version))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_formats_that_dlpack_cannot_carry(dtype: str) -> None:
    with pytest.raises(BufferError, match=rf"DLPack of {dtype}(.|\n)*x.view\(dtype\) as integers"):
        tb.ones(2, dtype=dtype).__dlpack__()


def test_dlpack_of_what_it_cannot_take() -> None:
    with pytest.raises(tb.errors.GradientError, match="lose its history"):
        tb.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(tb.errors.DeviceError, match="stream"):
        tb.ones(2).__dlpack__(stream=1)
    with pytest.raises(BufferError, match="the CPU"):
        tb.ones(2).__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="__dlpack__"):
        tb.from_dlpack([1, 2])


# -- NumPy and Python ------------------------------------------------------------------------------------


def test_numpy_shares_memory_and_numpy_functions_take_tensors() -> None:
    x = tb.asarray([1.0, 4.0])
    a = x.numpy()
    a[0] = 9
    assert x.tolist() == [9, 4]
    assert np.sqrt(x).tolist() == [3, 2] and np.asarray(x, dtype=np.int32).dtype == np.int32
    assert np.array(x, copy=True) is not x.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_numbers(dtype: str) -> None:
    x = tb.asarray(1, dtype=dtype)
    kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[x.dtype.kind]
    assert type(x.item()) is kind and x.item() == 1
    assert bool(x) is True and type(complex(x)) is complex
    if kind is not complex:
        assert type(int(x)) is int and type(float(x)) is float
    if kind is int:
        assert [10, 20][x] == 20 and x.__index__() == 1
    assert tb.asarray([[1, 0]], dtype=dtype).tolist() == [[kind(1), kind(0)]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "int4", "uint4"])
def test_python_numbers_of_small_formats(dtype: str) -> None:
    x = tb.asarray([1, 2], dtype=dtype)
    assert x.tolist() == [1, 2] and type(x[0].item()) is (int if "int" in dtype else float)
    assert float(x[1]) == 2.0


def test_only_integers_without_dimensions_are_indices() -> None:
    for x in (tb.asarray(1.0), tb.asarray([1])):
        with pytest.raises(TypeError):
            [1, 2][x]


def test_one_element_is_a_truth_value_several_are_not() -> None:
    assert bool(tb.asarray([[2.0]])) is True
    with pytest.raises(ValueError, match=r"bool\(\) of a tensor of shape \(2,\)"):
        bool(tb.asarray([True, False]))


def test_tensors_hash_by_identity_and_copy_deep() -> None:
    x = tb.ones(2)
    assert len({x, x, tb.ones(2)}) == 2
    y = copy.deepcopy(x)
    y[0] = 5
    assert x.tolist() == [1, 1]


# -- display ---------------------------------------------------------------------------------------------


def test_text() -> None:
    assert repr(tb.asarray([1.0, 2.5])) == "tensor([1. , 2.5])"
    assert str(tb.asarray([[1, 2], [3, 4]])) == "tensor([[1, 2],\n        [3, 4]])"
    assert repr(tb.asarray(True)) == "tensor(True)"
    assert repr(tb.asarray([1.0], dtype=tb.float64)) == "tensor([1.], dtype=float64)"
    assert repr(tb.asarray([1.5], dtype=tb.bfloat16)) == "tensor([1.5], dtype=bfloat16)"
    assert repr(tb.asarray([-3], dtype=tb.int4)) == "tensor([-3], dtype=int4)"
    assert repr(tb.zeros((0, 3))) == "tensor([], shape=(0, 3))"
    assert repr(tb.ones(1, requires_grad=True)) == "tensor([1.], requires_grad=True)"
    assert repr(tb.ones(1, requires_grad=True) * 2) == "tensor([2.], grad_fn=mul)"
    assert repr(tb.asarray([1 + 2j])) == "tensor([1.+2.j])"
    assert "..." in repr(tb.arange(5000)) and len(repr(tb.arange(5000))) < 200


def test_text_inside_transforms() -> None:
    seen: list[str] = []

    def f(x: tb.Tensor) -> tb.Tensor:
        seen.append(repr(x))
        return x.sum()

    tb.jit(f)(tb.ones((2, 3)))
    tb.vmap(f)(tb.ones((2, 3)))
    tb.grad(f)(tb.ones(2))
    assert seen == ["tensor(f32[2, 3], recorded)", "tensor(f32[3], mapped by vmap)", "tensor([1., 1.])"]


def test_format() -> None:
    assert f"{tb.asarray(3.14159):.2f}" == "3.14" and f"{tb.asarray([7]):04d}" == "0007"
    assert f"{tb.asarray([1.0, 2.0])}" == "tensor([1., 2.])"


def test_notebooks() -> None:
    html = tb.asarray([[1.0, 2.0], [3.0, math.nan]])._repr_html_()
    assert "float32 · 2 × 2" in html and html.count("<td") == 4 and "nan" in html
    large = tb.zeros((100, 100), requires_grad=True)._repr_html_()
    assert large.count("<tr>") == 9 and "⋯" in large and "⋮" in large and "requires_grad" in large
    assert "<pre>" in tb.zeros((2, 2, 2))._repr_html_() and "one number" in tb.asarray(1)._repr_html_()
    assert (
        "<td" in tb.asarray([1.5], dtype=tb.bfloat16)._repr_html_()
        and "True" in tb.asarray([True])._repr_html_()
    )


# -- the namespace ---------------------------------------------------------------------------------------


def test_the_namespace_has_its_rooms_and_suggests_names() -> None:
    assert tb.nn.__name__ == "trilobite.framework.nn" and "nn" in dir(tb) and "sum" in dir(tb)
    with pytest.raises(
        AttributeError, match=r"trilobite has no 'permute_dim'; did you mean tb.permute_dims\?"
    ):
        tb.permute_dim
    assert tb.save.__module__.startswith("trilobite.framework.checkpoint")
    assert (
        tb.newaxis is None
        and tb.e == math.e
        and tb.pi == math.pi
        and math.isnan(tb.nan)
        and tb.inf == math.inf
    )


def test_the_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, trilobite\n"
        "heavy = ('llvmlite', 'onnx', 'typer', 'rich', 'PIL', 'yaml', 'safetensors',"
        " 'multiprocessing', 'trilobite.processor', 'trilobite.framework.nn', 'trilobite.framework.data')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_dim_and_keepdim_mean_axis_and_keepdims() -> None:
    x = tb.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(dim=1).tolist() == tb.sum(x, axis=1).tolist() == x.sum(1).tolist() == [3, 7]
    assert x.mean(dim=0, keepdim=True).shape == (1, 2) and x.amax(dim=-1).tolist() == [2, 4]
    assert tb.cat([x, x], dim=1).shape == (2, 4) and tb.stack([x, x], dim=2).shape == (2, 2, 2)
    assert x[:1].squeeze(dim=0).shape == (2,) and x.flatten(start_dim=0, end_dim=1).shape == (4,)
    assert tb.flip(x, dims=(0, 1)).tolist() == [[4, 3], [2, 1]]
    assert x.softmax(dim=-1).shape == (2, 2) and x.argmax(dim=1).tolist() == [1, 1]
    assert (
        x.unsqueeze(dim=0).shape == (1, 2, 2)
        and len(x.split(1, dim=1)) == 2
        and x.flip(dim=0).tolist()[0] == [3, 4]
    )


def test_everything_a_function_names_is_also_a_method_where_pytorch_has_one() -> None:
    x = tb.ones((2, 3))
    names = """abs add all any argmax argmin argsort astype ceil chunk clamp clip clone contiguous cos cumsum
        detach div dot
        dtype eq exp expand flatten flip float floor gather ge gt half index_select int isfinite isinf isnan
        item le log
        log_softmax logsumexp long lt masked_fill masked_select matmul max mean min mm mul ne neg nonzero
        norm numel numpy
        permute pow prod ravel reciprocal relu repeat_interleave requires_grad reshape roll round rsqrt
        scatter scatter_add
        sigmoid sign sin softmax sort split sqrt square squeeze std sub sum swapaxes T take tan tanh tile to
        tolist topk
        transpose tril triu trunc type_as unbind unflatten unique unsqueeze var view where zero_ add_ mul_
        copy_ fill_ sub_
        div_ clamp_ exp_ masked_fill_ bfloat16 double bool backward grad is_leaf""".split()
    missing = [n for n in names if not hasattr(type(x), n) and n not in ("where",)]
    assert missing == []


def test_in_place_methods() -> None:
    x = tb.asarray([1.0, -2.0, 3.0])
    alias = x[:2]
    x.add_(1).mul_(2)
    assert x.tolist() == [4, -2, 8] and alias.tolist() == [4, -2]
    assert x.clamp_(min=0).sqrt_().tolist() == pytest.approx([2, 0, 8**0.5])
    x.zero_().fill_(3).sub_(tb.asarray([1.0, 2.0, 3.0]))
    assert x.tolist() == [2, 1, 0]
    m = tb.asarray([[1.0, 2.0], [3.0, 4.0]])
    m @= m
    assert m.tolist() == [[7, 10], [15, 22]]
    i = tb.asarray([5, 6])
    i //= 2
    i <<= 1
    i |= 1
    i ^= 2
    i %= 4
    assert i.tolist() == [((v // 2 << 1 | 1) ^ 2) % 4 for v in (5, 6)]


@pytest.mark.parametrize(("size", "shown"), [(9, 9), (10, 10), (11, 9), (12, 9)])
def test_tables_of_up_to_ten_are_whole(size: int, shown: int) -> None:
    html = tb.arange(size)._repr_html_()
    assert html.count("<td") == shown and ("⋯" in html) == (size > 10)
