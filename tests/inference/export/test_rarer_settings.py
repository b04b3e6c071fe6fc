"""Settings, dtypes and shapes that ONNX's operators do not have are written out, and give the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.inference.export.running import apart
from trilobite.base.errors import TrilobiteError
from trilobite.inference import export, load

pytest.importorskip("onnx")
nn, F = tb.nn, tb.nn.functional
RNG = np.random.default_rng(3)


def f(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


IMAGE, ROWS, WHOLE = f(2, 4, 9, 8), f(3, 8), RNG.integers(-20, 20, (3, 8))
HEADS = f(2, 4, 5, 6)
PLAIN, TRUTH = f(4), RNG.random((5, 5)) > 0.3
KERNEL, TURNED = f(6, 4, 3, 2), f(4, 6, 3, 2)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "relu of integers": (F.relu, (WHOLE,)),
    "negative integers": (lambda x: -x, (WHOLE.astype(np.int16),)),
    "softplus steep": (lambda x: F.softplus(x, 2.5), (ROWS,)),
    "softplus bent early": (lambda x: F.softplus(x, 1.0, 0.5), (ROWS,)),
    "softplus wide": (F.softplus, (ROWS.astype(np.float64) * 20,)),
    "softmax of two axes": (lambda x: F.softmax(x.flatten(1), 1), (IMAGE,)),
    "hardtanh of integers": (lambda x: F.hardtanh(x, -3, 4), (WHOLE,)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.3, 0.4), (ROWS,)),
    "batch_norm of rows": (
        lambda x: F.batch_norm(x, tb.asarray(PLAIN), tb.asarray(PLAIN**2 + 1)),
        (f(3, 4),),
    ),
    "batch_norm with weights": (
        lambda x: F.batch_norm(
            x, tb.asarray(PLAIN), tb.asarray(PLAIN**2 + 1), tb.asarray(PLAIN + 2), eps=0.1
        ),
        (IMAGE,),
    ),
    "batch_norm in doubles": (
        lambda x: F.batch_norm(x, tb.asarray(PLAIN.astype("f8")), tb.asarray(PLAIN.astype("f8") ** 2 + 1)),
        (IMAGE.astype(np.float64),),
    ),
    "rms_norm": (lambda x: F.rms_norm(x, (9, 8), eps=0.01), (IMAGE,)),
    "attention": (F.scaled_dot_product_attention, (HEADS, HEADS + 1, HEADS * 2)),
    "attention that looks back": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        (HEADS, HEADS + 1),
    ),
    "attention with choices": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, tb.asarray(TRUTH)),
        (HEADS, HEADS + 1),
    ),
    "attention with numbers": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, tb.asarray(TRUTH.astype("f4")), scale=0.3),
        (HEADS, HEADS + 1),
    ),
    "attention of rows": (F.scaled_dot_product_attention, (HEADS[0], HEADS[1], HEADS[0])),
    "power of negatives": (lambda x: (x * 4).round() ** 3.0, (ROWS,)),
    "power of positives": (lambda x: x.abs() ** 1.5, (ROWS,)),
    "power of tensors": (lambda x, y: x.abs() ** y, (ROWS, f(3, 8))),
    "power of integers": (lambda x: x**2, (WHOLE,)),
    "padding on one side": (lambda x: F.conv2d(F.pad(x, (-1, 2, 3, -2)), tb.asarray(KERNEL)), (IMAGE,)),
    "transposed with padding": (
        lambda x: F.conv_transpose2d(x, tb.asarray(TURNED), stride=3, padding=1, output_padding=2),
        (IMAGE,),
    ),
    "transposed spread": (lambda x: F.conv_transpose2d(x, tb.asarray(TURNED), dilation=(2, 3)), (IMAGE,)),
    "transposed groups": (lambda x: F.conv_transpose2d(x, tb.asarray(TURNED), stride=2, groups=2), (IMAGE,)),
    "windows with padding": (lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2), (IMAGE,)),
    "windows of bytes": (
        lambda x: F.max_pool2d(x, 2),
        (RNG.integers(0, 255, (1, 2, 4, 4)).astype(np.uint8),),
    ),
    "average of halves": (lambda x: F.avg_pool2d(x, 2), (IMAGE.astype(np.float16),)),
    "sums of windows": (lambda x: F.avg_pool2d(x, (2, 3), (1, 2), divisor_override=5), (IMAGE,)),
    "places of windows": (lambda x: F.max_pool2d(x, 2, 1, return_indices=True), (IMAGE,)),
    "norms of windows": (lambda x: F.lp_pool2d(x, 2.0, 2), (IMAGE,)),
    "running product": (lambda x: tb.cumulative_prod(x, axis=1), (ROWS,)),
    "running product backwards": (lambda x: tb.flip(tb.cumulative_prod(tb.flip(x, 1), axis=1), 1), (ROWS,)),
    "running largest": (lambda x: tb.cummax(x, 0)[0], (ROWS,)),
    "running sum of integers": (lambda x: tb.cumulative_sum(x, axis=0), (WHOLE,)),
    "gather by a number": (lambda x: x[tb.asarray(np.array(2))], (ROWS,)),
    "rows by a table": (lambda x, i: x[i], (ROWS, np.array([[0, 2], [1, 1]]))),
    "largest of scattered": (
        lambda x: tb.zeros((3, 8)).scatter_reduce(
            0, tb.asarray(np.array([[0, 1, 2, 0, 1, 2, 0, 1]] * 3)), x, "amax"
        ),
        (ROWS,),
    ),
    "sum of scattered": (
        lambda x: tb.zeros((3, 8)).scatter_add(0, tb.asarray(np.array([[0, 1, 2, 0, 1, 2, 0, 1]] * 3)), x),
        (ROWS,),
    ),
    "while": (
        lambda x: tb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2), (tb.tensor(0), x))[1],
        (ROWS,),
    ),
    "cond": (lambda x: tb.cond(x.sum() > 0, lambda v: v + 1, lambda v: v * 2, x), (ROWS,)),
    "one value everywhere": (lambda x: tb.broadcast_to(x.sum(), (2, 3)), (ROWS,)),
    "axes that stay": (lambda x: x.permute(0, 1, 2, 3), (IMAGE,)),
    "products of integers": (lambda x, y: x.astype(tb.int32) @ y.astype(tb.int32), (WHOLE, WHOLE.T.copy())),
    "remainders": (lambda x: (x % 3, tb.fmod(x, 3), x // 3), (ROWS * 9,)),
    "remainders of integers": (lambda x: (x % 3, tb.fmod(x, 3), x // 3), (WHOLE,)),
    "shifts": (lambda x: (x << 2, x >> 1), (RNG.integers(0, 256, (3, 8)).astype(np.uint8),)),
    **{
        f"shifts of {dtype}": (
            lambda x: tuple(
                y
                for n in (0, 1, 5, 7, 8, 31, 40, 64, *([] if "uint" in str(x.dtype) else [-1]))
                for y in (x << tb.full_like(x, n), x >> tb.full_like(x, n))
            ),
            (RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 8), dtype),),
        )
        for dtype in ("int8", "int16", "int32", "int64", "uint16", "uint64")
    },
    "places in order": (lambda x: tb.searchsorted(tb.asarray(ROWS[0].copy()).sort()[0], x), (ROWS,)),
    "sides": (lambda x: (tb.sign(x), tb.trunc(x), tb.round(x * 2) / 2, tb.floor(x)), (ROWS,)),
    "distances": (lambda x, y: tb.cdist(x, y), (ROWS, f(2, 8))),
    "order": (lambda x: (tb.argsort(x, 1), tb.topk(x, 3)[0]), (ROWS,)),
}


@pytest.mark.parametrize("opset", [21, 24])
@pytest.mark.parametrize("name", CASES)
def test_written_out_or_not_they_give_the_same(name: str, opset: int) -> None:
    function, arrays = CASES[name]
    with tb.no_grad():
        made = function(*map(tb.asarray, arrays))
    wanted = [np.asarray(y) for y in (made if isinstance(made, tuple) else [made])]
    model = export(function, tuple(map(tb.asarray, arrays)), opset=opset)
    feeds = dict(zip((i.name for i in model.graph.input), arrays, strict=True))
    found = [np.asarray(y) for y in load(model, target="reference").run(feeds).values()]
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert apart(got, want) < 5e-5, (got, want)


REFUSED: dict[str, tuple[Callable[..., Any], Any, str]] = {
    "sums of windows of integers": (
        lambda x: F.max_pool2d(x, 2),
        WHOLE.reshape(1, 1, 3, 8),
        "pools no int64",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_operator_means_is_refused(name: str) -> None:
    function, x, text = REFUSED[name]
    with pytest.raises(TrilobiteError, match=text):
        export(function, tb.asarray(x))


@pytest.mark.parametrize("shift", [0, 1, -3, 4, -4, (2, -5)])
def test_sizes_that_vary_are_rolled(shift: Any) -> None:
    """One graph for all sizes; a shift that some of them do not have is an error that says so."""
    axis = (0, 1) if isinstance(shift, tuple) else 0
    n = tb.dim("n", min=4, max=64)
    model = export(lambda x: tb.roll(x, shift, axis), (tb.ones((5, 3)),), shapes=((n, 3),))
    for size in (4, 5, 9):
        x = RNG.normal(size=(size, 3)).astype(np.float32)
        (found,) = load(model, target="reference").run({model.graph.input[0].name: x}).values()
        np.testing.assert_array_equal(found, np.roll(x, shift, axis))
    for far, text in ((5, "whether n < 5 depends"), (65, "roll by 65 along n")):
        with pytest.raises(TrilobiteError, match=text):
            export(partial(tb.roll, shift=far, axis=0), (tb.ones((5, 3)),), shapes=((n, 3),))


def test_names_of_arguments_and_results() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y, x * y

    a, b = tb.asarray(ROWS), tb.asarray(ROWS[:1])
    model = export(f, (a, b), input_names=["left", "right"], output_names=["sum", "product"])
    assert [i.name for i in model.graph.input] == ["left", "right"]
    assert [o.name for o in model.graph.output] == ["sum", "product"]
    for given in ({"input_names": ["x"]}, {"input_names": ["x", "x"]}, {"output_names": ["x"]},
                  {"output_names": ["x", "y", "z"]}):  # fmt: skip
        with pytest.raises(TrilobiteError, match="name"):
            export(f, (a, b), **given)
