"""Quantised models: near the model they come from, the same bits on every target, modules like others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trilobite.quantization import Scheme

import trilobite as tb
from trilobite.base.reciprocals import with_reciprocal

nn, F = tb.nn, tb.nn.functional


class Kinds(nn.Module):
    """Every kind of layer and joint: strided, dilated, depthwise, grouped, transposed convolutions, batch
    norms, clamps, poolings, a residual, a join, paddings, products.
    """

    def __init__(self) -> None:
        self.stem, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8)
        self.grouped, self.norm2 = nn.Conv2d(8, 12, (1, 3), padding=(0, 1), groups=4), nn.BatchNorm2d(12)
        self.past = nn.Conv2d(8, 12, 1)
        self.grow = nn.ConvTranspose2d(12, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
        self.back = nn.Conv2d(18, 10, 3, padding=1)
        self.hidden, self.head = nn.Linear(10, 16), nn.Linear(16, 7)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.norm(self.stem(x)))
        y = self.deep(x).clip(-0.8, 0.9)
        y = F.relu(self.norm2(self.grouped(F.avg_pool2d(y, 3, 1, 1))) + self.past(x))
        up = F.leaky_relu(self.grow(y), 0.1)
        wide = tb.concat([F.pad(F.max_pool2d(up, 2), (0, 1, 0, 0)), F.pad(y, (0, 1, 0, 0))], axis=1)
        z = F.relu6(self.back(wide))
        return self.head(F.relu(self.hidden(z.mean((2, 3)))))


def kinds(seed: int = 0) -> Any:
    tb.manual_seed(seed)
    model, rng = Kinds(), np.random.default_rng(seed)
    for norm in (model.norm, model.norm2):
        n = norm.running_mean.shape[0]
        norm.running_mean.copy_(tb.tensor(rng.normal(size=n).astype(np.float32) / 5))
        norm.running_var.copy_(tb.tensor(rng.uniform(0.3, 2, n).astype(np.float32)))
        norm.weight.data.copy_(tb.tensor(rng.normal(1, 0.3, n).astype(np.float32)))
        norm.bias.data.copy_(tb.tensor(rng.normal(size=n).astype(np.float32) / 3))
    return model.eval()


def pictures(count: int = 3, seed: int = 1, shape: tuple[int, ...] = (3, 12, 14)) -> Any:
    return tb.tensor(np.random.default_rng(seed).normal(size=(count, *shape)).astype(np.float32))


def on(target: str, model: Any, *args: Any) -> np.ndarray[Any, Any]:
    with tb.no_grad():
        return np.asarray(tb.jit(model, target=target)(*args).numpy())


SCHEMES = {
    "plain": Scheme(),
    "zero points": Scheme(symmetric=False),
    "per tensor": Scheme(per_channel=False, symmetric=False, calibration="percentile"),
    "int16": Scheme("int16"),
    "int16 zero points": Scheme("int16", symmetric=False, calibration="entropy"),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_quantised_model_is_near_and_the_same_bits_everywhere(name: str) -> None:
    model, scheme = kinds(), SCHEMES[name]
    q = tb.quantize(model, [pictures(4, s) for s in range(3)], scheme)
    x = pictures(2, 9)
    want = on("reference", model, x)
    got = on("reference", q, x)
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert error < (2e-3 if scheme.dtype == tb.int16 else 0.08)
    assert np.array_equal(on("cpu", q, x), got)
    with tb.no_grad():
        assert np.array_equal(q(x).numpy(), got)
    assert set(q.quantization.layers.values()) == {scheme.dtype.name}
    assert len(q.quantization.layers) == 8


@pytest.mark.parametrize("name", ["plain", "zero points", "int16"])
def test_the_processor_gives_these_bits_too(name: str) -> None:
    q = tb.quantize(kinds(), [pictures(4)], SCHEMES[name])
    x = pictures(1, 9)
    assert np.array_equal(on("dlp:dlp-s", q, x), on("reference", q, x))


def test_the_model_itself_stays_as_it_was() -> None:
    model = kinds().train()
    before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    tb.quantize(model, [pictures()])
    assert model.training
    assert all(np.array_equal(v.numpy(), before[k]) for k, v in model.state_dict().items())


def test_any_batch_runs_and_another_size_is_refused() -> None:
    q = tb.quantize(kinds(), [pictures(4)])
    with tb.no_grad():
        whole = q(pictures(5, 2)).numpy()
        assert np.array_equal(q(pictures(5, 2)[:2]).numpy(), whole[:2])
        with pytest.raises(tb.errors.ShapeError, match="only the batch may differ"):
            q(pictures(2, 2, (3, 12, 12)))


def test_products_are_of_integers() -> None:
    q = tb.quantize(kinds(), [pictures()], Scheme(symmetric=False))
    kinds_of = ("conv", "conv_input_grad", "dot")
    products = [e for e in q.quantization.graph.equations if e.primitive.name in kinds_of]
    assert len(products) == 8
    assert all(str(v.type.dtype) == "int8" for e in products for v in e.inputs)
    stem = products[0].attributes
    assert not any((*stem["low"], *stem["high"]))  # the padding is written out
    state = q.state_dict()
    assert state["stem.weight"].dtype == tb.int8 and state["stem.bias"].dtype == tb.int32


@pytest.mark.parametrize("keep", ["head", ["hid*", "head"], [nn.Linear], ["stem", nn.Linear]])
def test_layers_that_stay(keep: Any) -> None:
    q = tb.quantize(kinds(), [pictures()], Scheme(keep=keep))
    floats = {n for n, how in q.quantization.layers.items() if how.startswith("floating point")}
    wanted = {"head"} if keep == "head" else {"hidden", "head"} | ({"stem"} if "stem" in keep else set())
    assert floats == wanted
    assert q.state_dict()["head.weight"].dtype == tb.float32
    assert "head: floating point: the scheme keeps it" in repr(q)
    want = on("reference", kinds(), pictures(2, 9))
    assert np.linalg.norm(on("cpu", q, pictures(2, 9)) - want) < 0.08 * np.linalg.norm(want)


def test_it_is_a_module_like_others(tmp_path: Path) -> None:
    first, second = tb.quantize(kinds(), [pictures()]), tb.quantize(kinds(1), [pictures(3, 5)])
    x = pictures(2, 9)
    tb.save(first.state_dict(), tmp_path / "codes")
    other = copy.deepcopy(first)
    assert not any(a is b for a, b in zip(other.buffers(), first.buffers(), strict=True))
    loaded = tb.load(tmp_path / "codes")
    assert set(loaded) == set(first.state_dict()) and all(
        loaded[k].dtype == v.dtype for k, v in first.state_dict().items()
    )
    for v in other.state_dict().values():
        v.copy_(tb.zeros_like(v))
    other.load_state_dict(loaded)
    assert np.array_equal(on("cpu", other, x), on("cpu", first, x))
    assert not np.array_equal(on("cpu", second, x), on("cpu", first, x))


def test_a_model_of_half_precision_and_of_double_is_quantised_too() -> None:
    for dtype in (tb.float16, tb.float64):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3)).eval()
        want = on("reference", model, pictures())
        x = pictures().astype(dtype)
        got = on("reference", tb.quantize(model.to(dtype), [x]), x)
        assert got.dtype == dtype
        assert np.linalg.norm(got.astype(np.float64) - want) < 0.1 * np.linalg.norm(want)


def test_long_sums_are_held_in_64_bits() -> None:
    """200,000 products of int8 at their ends need more than 32 bits."""
    model = nn.Linear(200_000, 2)
    model.weight.data.copy_(tb.ones((2, 200_000)))
    x = tb.ones((1, 200_000))
    q = tb.quantize(model, [x])
    one = 127 * with_reciprocal(float(np.float32(1 / 127)), -128, 127)  # as the grid of x has it
    assert abs(on("cpu", q, x)[0, 0] - 200_000 * one - float(model.bias[0])) < 2


def test_scan_bodies_and_attention_stay_in_floating_point() -> None:
    tb.manual_seed(0)
    model = nn.LSTM(5, 6, batch_first=True).eval()
    x = tb.tensor(np.random.default_rng(0).normal(size=(2, 4, 5)).astype(np.float32))
    q = tb.quantize(model, [x])
    with tb.no_grad():
        (want, _), (got, _) = model(x), q(x)
    assert np.abs(got.numpy() - want.numpy()).max() < 0.02


# -- data and errors -----------------------------------------------------------------------------------------


def test_labels_of_a_loader_are_passed_over() -> None:
    x, y = pictures(6), tb.tensor(np.arange(6))
    loader = tb.data.Loader(tb.data.ArrayDataset(x, y), batch_size=3)
    a, b = tb.quantize(kinds(), loader), tb.quantize(kinds(), [x[:3], x[3:]])
    assert np.array_equal(on("cpu", a, x), on("cpu", b, x))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Scheme("int4"), "int8 or int16"),
        (lambda: Scheme("what"), "int8 or int16"),
        (lambda: Scheme(calibration="mean"), "one of minmax, percentile, entropy"),
        (lambda: Scheme(percentile=20.0), "above 50"),
        (lambda: Scheme(keep=[3]), "names of layers"),
        (lambda: tb.quantize(kinds(), []), "at least one batch"),
        (lambda: tb.quantize(lambda x: x, [pictures()]), "a module"),
        (lambda: tb.quantize(nn.ReLU(), [pictures()]), "has no layer to quantise"),
        (lambda: tb.quantize(kinds(), [{"x": pictures()}]), "a tuple of the model's arguments"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(tb.errors.ArgumentError) as caught:
        make()
    assert text in str(caught.value)


# -- elsewhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain", "zero points", "int16"])
def test_export_keeps_integers(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    q = tb.quantize(kinds(), [pictures()], SCHEMES[name])
    x = pictures(2, 9)
    made = tb.inference.export(q, x)
    held = {t.name: onnx.helper.tensor_dtype_to_np_dtype(t.data_type) for t in made.graph.initializer}
    assert held["stem.weight"] == SCHEMES[name].dtype
    back = tb.inference.load(made)
    got = back.run({made.graph.input[0].name: x.numpy()})
    assert np.array_equal(np.asarray(got["output"]), on("reference", q, x))


@pytest.mark.parametrize("dtype", [tb.float16, tb.bfloat16])
def test_half_precision_on_the_processor(dtype: Any) -> None:
    layers = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(120, 7)
    model = nn.Sequential(*layers).eval()
    want = on("reference", model, pictures(1, 3))
    got = on("dlp:dlp-s", model.to(dtype), pictures(1, 3).astype(dtype))
    assert got.dtype == dtype
    bound = 0.01 if dtype == tb.float16 else 0.06
    assert np.abs(got.astype(np.float32) - want).max() < bound * np.abs(want).max()
