"""Every layer: its state travels, copies are apart, it is a pytree, batches map, small floats are near."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from layer_cases import ALL, PLAIN, Case
from layer_checks import build, call, inputs

import trilobite as tb
from trilobite.base import pytree
from trilobite.framework import nn

every = pytest.mark.parametrize("case", ALL, ids=lambda c: c.id)
plain = pytest.mark.parametrize("case", PLAIN, ids=lambda c: c.id)


def leaves(out: Any) -> list[np.ndarray]:
    found = pytree.leaves(out, lambda x: isinstance(x, tb.Tensor))
    return [np.array(x.detach().numpy()) for x in found if isinstance(x, tb.Tensor)]


def same_bits(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert x.tobytes() == y.tobytes()


@every
def test_state_travels(case: Case) -> None:
    source, target = build(case, seed=1), build(case, seed=2)
    args = inputs(case)
    call(source, case, args)  # moves running statistics
    target.load_state_dict(source.state_dict())
    same_bits(leaves(call(source.eval(), case, args)), leaves(call(target.eval(), case, args)))
    for a, b in zip(source.state_dict().values(), target.state_dict().values(), strict=True):
        assert not np.shares_memory(a.numpy(), b.numpy())


@every
def test_a_deep_copy_is_the_same_and_apart(case: Case) -> None:
    layer = build(case)
    twin = copy.deepcopy(layer)
    args = inputs(case)
    same_bits(leaves(call(layer, case, args)), leaves(call(twin, case, args)))
    before = leaves(layer.state_dict())
    with tb.no_grad():
        for t in [*twin.parameters(), *twin.buffers()]:
            t.fill_(3)
    same_bits(before, leaves(layer.state_dict()))


@every
def test_a_layer_is_a_pytree_whose_leaves_are_its_tensors(case: Case) -> None:
    layer = build(case).eval()
    args = inputs(case)
    found, tree = pytree.flatten(layer)
    assert {id(t) for t in found} == {id(t) for t in [*layer.parameters(), *layer.buffers()]}
    assert tree == pytree.flatten(copy.deepcopy(layer))[1]
    again = tree.unflatten(found)
    assert type(again) is type(layer) and again is not layer
    same_bits(leaves(call(layer, case, args)), leaves(call(again, case, args)))
    compiled = tb.jit(lambda module, *a: call(module, case, list(a)), target="reference")
    same_bits(leaves(call(layer, case, args)), leaves(compiled(layer, *args)))


def _mapped(case: Case) -> list[tb.Tensor]:
    """Each input three times, the float ones changed, along a new first axis."""
    out = []
    for a in inputs(case):
        x = a.numpy()
        rows = [x + 0.1 * i if x.dtype.kind == "f" and case.layer != "BCELoss" else x for i in range(3)]
        out.append(tb.tensor(np.stack(rows)))
    return out


@plain
def test_vmap_is_one_call_per_entry(case: Case) -> None:
    layer = build(case).eval()
    args = _mapped(case)
    whole = leaves(tb.vmap(lambda *a: call(layer, case, list(a)))(*args))
    for i in range(3):
        one = leaves(call(layer, case, [tb.tensor(a.numpy()[i]) for a in args]))
        for x, y in zip(whole, one, strict=True):
            np.testing.assert_allclose(x[i], y, rtol=1e-9, atol=1e-10)


@plain
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_smaller_floats_are_near_the_large_ones(case: Case, dtype: str) -> None:
    exact = leaves(call(build(case).eval(), case, inputs(case)))
    found = call(build(case).eval().to(dtype), case, inputs(case, dtype))
    tol = {"float32": 2e-4, "float16": 4e-2, "bfloat16": 3e-1}[dtype]
    for x, y in zip(leaves(found), exact, strict=True):
        if y.dtype.kind == "f":
            assert x.dtype.name == dtype
            scale = max(1.0, float(np.abs(y).max(initial=0.0)))
            np.testing.assert_allclose(x.astype(np.float64), y, atol=tol * scale, rtol=0)


@every
def test_the_repr_names_the_layer(case: Case) -> None:
    assert repr(build(case)).startswith(f"{case.layer}(")


def test_every_public_layer_stands_in_the_table() -> None:
    """A layer that is added without a case fails here."""
    special = {
        "Module", "Parameter", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict",
        "TransformerEncoder", "TransformerDecoder", "TripletMarginWithDistanceLoss",
        "DataParallel", "SyncBatchNorm", "RNNBase", "RNNCellBase",
        "AdaptiveLogSoftmaxWithLoss", "FractionalMaxPool2d", "FractionalMaxPool3d",  # test_rarer_layers.py
    }  # fmt: skip
    public = {n for n, v in vars(nn).items() if isinstance(v, type) and issubclass(v, nn.Module)}
    assert public - special == {c.layer for c in ALL}
