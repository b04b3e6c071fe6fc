"""Methods and functions that programs rarely call: devices, notebooks, functional updates, in-place scatters,
names of modules' insides, masks of attention, containers of classes written for PyTorch.
"""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import ArgumentError, DeviceError, ShapeError, StateError, TrilobiteError
from trilobite.framework.functional_updates import Places
from trilobite.framework.nn.attention import flex_attention as flex
from trilobite.framework.nn.tuples import _pair, _reverse_repeat_tuple, _triple

RNG = np.random.default_rng(2)


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape)


# -- devices and what the namespace tells --------------------------------------------------------------------


def test_devices() -> None:
    cpu, second = tb.device("cpu"), tb.device("cpu", 1)
    assert cpu.index is None and second.index == 1 and second == "cpu:1" and tb.device(3) == "cuda:3"
    assert repr(cpu) == "device(type='cpu')" and repr(second) == "device('cpu:1')"
    assert cpu.type == "cpu" and tb.device("cuda:12").index == 12 and hash(cpu) == hash("cpu")
    with cpu as entered:
        assert entered is cpu
    with tb.device("cpu:0"):
        pass
    for other in ("cpu:1", "cuda"):
        with pytest.raises(DeviceError, match=f"no device '{other}'"), tb.device(other):
            pass
    for wrong in ("gpu", "cpu:x", ""):
        with pytest.raises(ArgumentError, match="a device"):
            tb.device(wrong)


def test_the_namespace_tells_itself() -> None:
    info = tb.__array_namespace_info__()
    told = info.capabilities()
    assert told["boolean indexing"] is True and told["data-dependent shapes"] is True
    assert info.default_device() == "cpu" and info.devices() == ("cpu",)
    assert (
        info.default_dtypes()["integral"] == tb.int64 and info.default_dtypes()["real floating"] == tb.float32
    )
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    }
    with pytest.raises(ArgumentError, match="dtypes of the kind 'word'"):
        info.dtypes(kind=("bool", "word"))
    with pytest.raises(DeviceError):
        info.dtypes(device="cuda")
    x = tb.ones((2,))
    assert x.__array_namespace__() is tb and x.__array_namespace__(api_version="2023.12") is tb
    with pytest.raises(ArgumentError, match=r"version '1999\.1'"):
        x.__array_namespace__(api_version="1999.1")


# -- notebooks -----------------------------------------------------------------------------------------------


def test_tables_for_notebooks() -> None:
    small = tb.tensor([[1, -2], [3, 40000]])._repr_html_()
    assert small.count("<tr>") == 2 and small.count("<td") == 4
    assert "tensor</b> int64 · 2 × 2" in small and ">40000<" in small and "requires_grad" not in small
    floats = tb.tensor([0.123456, 1e-9, math.nan], requires_grad=True)._repr_html_()
    assert ">0.1235<" in floats and ">1e-09<" in floats and ">nan<" in floats and " · requires_grad" in floats
    assert floats.count("<tr>") == 1
    assert "one number" in tb.tensor(2.5)._repr_html_() and "<pre>" in tb.tensor(2.5)._repr_html_()
    assert "<pre>" in tb.zeros((2, 2, 2))._repr_html_() and "<table>" not in tb.zeros((0, 3))._repr_html_()
    said: list[str] = []
    tb.jit(lambda x: (said.append(x._repr_html_()), x)[1])(tb.ones((2, 3)))
    assert "<table>" not in said[0] and "2 × 3" in said[0]


@pytest.mark.parametrize("extra", [0, 1])
def test_large_tables_have_gaps(extra: int) -> None:
    from trilobite.framework.display import _EDGE, _LIMIT

    n = _LIMIT + extra
    told = tb.reshape(tb.arange(n * n), (n, n))._repr_html_()
    rows = 2 * _EDGE + 1 if extra else n
    assert told.count("<tr>") == rows and told.count("⋯") == (rows - 1 if extra else 0)
    assert told.count("⋮") == (rows if extra else 0)
    assert f">{n * n - 1}<" in told and ">0<" in told
    assert (f">{n * (n - _EDGE)}<" in told) and (f">{n * _EDGE}<" in told) == (not extra)


# -- updates that make new tensors ---------------------------------------------------------------------------


def test_functional_updates_beside_numpy() -> None:
    x, v = f(5), f(4)
    key = np.array([1, 3, 1, 4])

    def numpy(ufunc: Any, value: Any) -> Any:
        out = x.copy()
        ufunc.at(out, key, value)
        return out

    t, places = tb.tensor(x), Places(tb.tensor(x), tb.tensor(key))
    y = tb.tensor(v)
    np.testing.assert_array_equal(places.get().numpy(), x[key])
    for found, want in (
        (places.add(y), numpy(np.add, v)), (places.subtract(y), numpy(np.subtract, v)),
        (places.multiply(y), numpy(np.multiply, v)), (places.mul(y), numpy(np.multiply, v)),
        (places.divide(y), numpy(np.divide, v)), (places.min(y), numpy(np.minimum, v)),
        (places.max(y), numpy(np.maximum, v)),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    some = Places(t, slice(1, 4))
    squared = x.copy()
    squared[1:4] **= 2
    np.testing.assert_allclose(some.power(2).numpy(), squared, rtol=1e-12)
    np.testing.assert_allclose(some.apply(lambda p: p * p).numpy(), squared, rtol=1e-12)
    np.testing.assert_array_equal(t.numpy(), x)
    assert some.set(0.5).tolist()[1:4] == [0.5] * 3


def test_scatters_in_place_beside_numpy() -> None:
    x, s = f(3, 4), f(2, 4)
    index = np.array([[0, 2, 1, 2], [2, 2, 0, 1]])
    rows, columns = index, np.broadcast_to(np.arange(4), index.shape)

    def made(way: str) -> Any:
        out = x.copy()
        if way == "set":
            out[rows, columns] = s
        elif way == "number":
            out[rows, columns] = 0.5
        else:
            getattr(np, way).at(out, (rows, columns), s)
        return out

    i, source = tb.tensor(index), tb.tensor(s)
    for call, way in (
        (lambda t: t.scatter_(0, i, source), "set"), (lambda t: t.scatter_(0, i, value=0.5), "number"),
        (lambda t: t.scatter_(0, i, 0.5), "number"),
        (lambda t: t.scatter_(0, i, source, reduce="add"), "add"),
        (lambda t: t.scatter_(0, i, source, reduce="multiply"), "multiply"),
        (lambda t: t.scatter_add_(0, i, source), "add"),
    ):  # fmt: skip
        t = tb.tensor(x)
        assert call(t) is t
        np.testing.assert_allclose(t.numpy(), made(way), rtol=1e-12)
    t = tb.tensor(x)
    places = tb.tensor(np.array([2, 0, 2]))
    assert t.index_add_(1, places, tb.tensor(x[:, :3]), alpha=2) is t
    want = x.copy()
    np.add.at(want, (slice(None), [2, 0, 2]), 2 * x[:, :3])
    np.testing.assert_allclose(t.numpy(), want, rtol=1e-12)
    t = tb.tensor(x)
    assert t.masked_fill_(tb.tensor(x > 0), -1.5) is t
    np.testing.assert_array_equal(t.numpy(), np.where(x > 0, -1.5, x))


def test_a_tensor_contains_what_it_holds() -> None:
    x = tb.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert 3 in x and 5 not in x and tb.tensor(4.0) in x


# -- modules' insides ----------------------------------------------------------------------------------------


def test_entries_of_a_module_as_mappings() -> None:
    module = nn.BatchNorm1d(3)
    names = {
        "_parameters": ["weight", "bias"],
        "_buffers": ["running_mean", "running_var", "num_batches_tracked"],
    }
    for table, wanted in names.items():
        entries = getattr(module, table)
        assert list(entries) == wanted and len(entries) == len(wanted)
        assert entries[wanted[0]] is getattr(module, wanted[0]) and repr(entries).startswith("{'")
        for missing in ("nothing", "bias" if table == "_buffers" else "running_mean"):
            with pytest.raises(KeyError):
                entries[missing]
            with pytest.raises(KeyError):
                del entries[missing]
    module._parameters["weight"] = nn.Parameter(tb.full((3,), 2.0))
    assert module.weight.tolist() == [2.0] * 3
    module._buffers["more"] = tb.ones((2,))
    assert "more" in module.state_dict() and "more" not in dict(module.named_parameters())
    module._parameters["gain"] = nn.Parameter(tb.ones((2,)))
    assert "gain" in dict(module.named_parameters())
    del module._parameters["gain"]
    assert "gain" not in dict(module.named_parameters()) and not hasattr(module, "gain")
    outer = nn.Sequential(nn.Linear(2, 2))
    outer._modules["0"] = nn.Linear(2, 5)
    assert (
        outer(tb.ones((1, 2))).shape == (1, 5) and list(outer._modules) == ["0"] and not len(outer._buffers)
    )


def test_hooks_before_loading() -> None:
    told: list[Any] = []
    module = nn.Linear(2, 2, bias=False)

    def renamed(state: Any, prefix: str, *rest: Any) -> None:
        told.append((prefix, len(rest)))
        state[f"{prefix}weight"] = state.pop(f"{prefix}old")

    remove = module._register_load_state_dict_pre_hook(renamed)
    module.load_state_dict({"old": tb.full((2, 2), 3.0)})
    assert module.weight.tolist() == [[3.0] * 2] * 2 and told == [("", 5)]
    remove()
    with pytest.raises(TrilobiteError):
        module.load_state_dict({"old": tb.ones((2, 2))})
    given: list[Any] = []
    outer = nn.Sequential(module)
    again = module.register_load_state_dict_pre_hook(lambda *args: given.append(args))
    outer.load_state_dict({"0.weight": tb.ones((2, 2))})
    assert given[0][0] is module and given[0][2] == "0." and len(given[0]) == 8
    again()


def test_modules_stay_where_they_are() -> None:
    module = nn.Linear(2, 3)
    assert (
        module.cpu() is module and module.to_empty(device="cpu") is module and module.share_memory() is module
    )
    for call in (module.cuda, lambda: module.to_empty(device="cuda"), lambda: module.cuda(1)):
        with pytest.raises(DeviceError, match="there is no device 'cuda"):
            call()
    assert module.cuda("cpu") is module
    x = tb.ones((1, 2))
    before = module(x).detach().numpy()
    module.compile()
    np.testing.assert_allclose(module(x).detach().numpy(), before, rtol=1e-6)
    assert (
        nn.DistributedDataParallel(module)(x).shape == (1, 3)
        if hasattr(nn, "DistributedDataParallel")
        else True
    )
    assert nn.DataParallel(module)(x).shape == (1, 3)


def test_places_of_parameters_that_are_not_made() -> None:
    lazy = nn.LazyLinear(3)
    assert repr(lazy.weight) == "<UninitializedParameter>"
    with pytest.raises(StateError, match="materialize of an empty place"):
        lazy.weight.materialize((3, 2))

    class Own(nn.modules.lazy.LazyModuleMixin, nn.Module):
        cls_to_become = None

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.parameter.UninitializedParameter()
            self.asked = 0

        def initialize_parameters(self, x: Any) -> None:
            self.asked += 1
            self.weight = nn.Parameter(tb.full((x.shape[-1],), 2.0))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    own = Own()
    assert own.has_uninitialized_params()
    assert own(tb.ones((3,))).tolist() == [2.0] * 3 and own(tb.ones((3,))).tolist() == [2.0] * 3
    assert own.asked == 1 and not own.has_uninitialized_params()


def test_one_number_as_several() -> None:
    assert _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2) and _triple("ab") == ("ab",) * 3
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1) and _pair.__name__ == "_pair"


# -- masks of attention --------------------------------------------------------------------------------------


def test_masks_together() -> None:
    causal, near = (lambda b, h, q, k: q >= k), (lambda b, h, q, k: (q - k) < 2)
    for name, fold in (("and_masks", np.logical_and), ("or_masks", np.logical_or)):
        mask = flex.create_mask(getattr(flex, name)(causal, near, lambda b, h, q, k: k != 1), 1, 1, 4, 5)
        q, k = np.ogrid[:4, :5]
        want = fold(fold(q >= k, q - k < 2), k != 1)
        np.testing.assert_array_equal(np.asarray(mask).reshape(4, 5), want)
    assert np.asarray(flex.create_mask(flex.noop_mask, 1, 1, 3, 2)).all()
    block = flex.create_block_mask(causal, 1, 1, 4, 4)
    assert block.to("cpu") is block and block.sparsity() == pytest.approx(37.5)
    assert repr(block) == f"BlockMask(shape={tuple(block.shape)}, sparsity=37.50%)"


def test_shared_heads_of_flexible_attention() -> None:
    q, k = tb.tensor(f(1, 4, 3, 2)), tb.tensor(f(1, 2, 3, 2))
    for key, on in ((k, False), (tb.tensor(f(1, 3, 3, 2)), True)):
        with pytest.raises(ShapeError, match="4 query heads and"):
            flex.flex_attention(q, key, key, enable_gqa=on)
    found = flex.flex_attention(q, k, k, enable_gqa=True)
    wide = tb.repeat_interleave(k, 2, axis=1)
    np.testing.assert_allclose(found.numpy(), flex.flex_attention(q, wide, wide).numpy(), rtol=1e-12)


# -- distributions written for PyTorch -----------------------------------------------------------------------


def test_distributions_written_for_pytorch() -> None:
    base = tb.distributions.Distribution

    class Own(base):
        def __init__(self, scale: Any, **given: Any) -> None:
            self.scale = scale
            super().__init__(scale.shape, **given)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Own, _instance)
            new.scale = self.scale.expand(batch_shape)
            super(Own, new).__init__(tb.Size(batch_shape), validate_args=False)
            return new

    own = Own(tb.ones((3,)))
    assert (
        own._extended_shape((2,)) == (2, 3)
        and own._extended_shape() == (3,)
        and own._extended_shape(4) == (4, 3)
    )
    assert own.expand((5, 3)).scale.shape == (5, 3) and own.expand((5, 3)).batch_shape == (5, 3)
    assert own._validate_sample(tb.ones((7,))) is None and base.set_default_validate_args(False) is None
    for name in ("variance", "mean"):
        with pytest.raises(NotImplementedError, match=f"Own has no {name}"):
            getattr(own, name)
    for call in (own.entropy, lambda: own.log_prob(1.0)):
        with pytest.raises(NotImplementedError, match="Own has no"):
            call()

    class Derived(Own):
        def __init__(self, scale: Any) -> None:
            super().__init__(scale)

    with pytest.raises(NotImplementedError, match="has to define expand"):
        Derived(tb.ones((3,))).expand((2, 3))


def test_functions_of_jit_are_pickled_by_name() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError, TrilobiteError)):
        pickle.dumps(tb.jit(lambda x: x))
    again = pickle.loads(pickle.dumps(JITTED))
    assert again(tb.tensor(2.0)).item() == 6.0


@tb.jit
def JITTED(x: Any) -> Any:
    return x * 3
