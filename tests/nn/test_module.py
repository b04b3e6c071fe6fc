"""Modules: attributes and what they become, traversal, modes, conversion, and what a recording refuses."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError, StateError, TraceError
from trilobite.framework import nn, random
from trilobite.framework.nn.skeleton import flatten, unflatten


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU())
        self.scale = nn.Parameter(tb.ones((4,)))
        self.register_buffer("count", tb.zeros(()))
        self.register_buffer("scratch", tb.ones((2,)), persistent=False)
        self.note = "plain"

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        self.count += 1
        return self.second(self.first(x)) * self.scale


class Tied(nn.Module):
    def __init__(self) -> None:
        self.embed = nn.Linear(4, 4, bias=False)
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.embed.weight
        self.again = self.embed

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        return self.head(tb.tanh(self.embed(x)))


# -- attributes and traversal ------------------------------------------------------------------------------


def test_attributes_go_where_their_class_says() -> None:
    m = Block()
    assert [n for n, _ in m.named_parameters()] == [
        "scale", "first.weight", "first.bias", "second.0.weight", "second.0.bias",
    ]  # fmt: skip
    assert [n for n, _ in m.named_buffers()] == [
        "count", "scratch", "second.0.running_mean", "second.0.running_var", "second.0.num_batches_tracked",
    ]  # fmt: skip
    assert [n for n, _ in m.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert [n for n, _ in m.named_children()] == ["first", "second"]
    assert len(list(m.parameters(recurse=False))) == 1 and len(list(m.buffers(recurse=False))) == 2
    assert list(m.state_dict()) == [
        "scale", "count", "first.weight", "first.bias", "second.0.weight", "second.0.bias",
        "second.0.running_mean", "second.0.running_var", "second.0.num_batches_tracked",
    ]  # fmt: skip


def test_tied_weights_come_once_and_collect_both_gradients() -> None:
    m = Tied()
    assert [n for n, _ in m.named_parameters()] == ["embed.weight"]
    assert [n for n, _ in m.named_parameters(remove_duplicate=False)] == [
        "embed.weight",
        "head.weight",
        "again.weight",
    ]
    assert [n for n, _ in m.named_modules()] == ["", "embed", "head"]
    x = tb.tensor(np.random.default_rng(0).standard_normal((2, 4)).astype("float32"))
    m(x).sum().backward()
    separate = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    with tb.no_grad():
        for layer in (separate[0], separate[2]):
            layer.weight.copy_(m.embed.weight)
    separate(x).sum().backward()
    expected = separate[0].weight.grad.numpy() + separate[2].weight.grad.numpy()
    np.testing.assert_allclose(m.embed.weight.grad.numpy(), expected, rtol=1e-6)


def test_a_copy_of_tied_modules_is_tied() -> None:
    m = copy.deepcopy(Tied())
    assert m.head.weight is m.embed.weight and m.again is m.embed


def test_a_module_needs_no_call_of_super() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(2, 2)

    assert len(list(Lazy().parameters())) == 2


def test_a_dataclass_can_be_a_module() -> None:
    @dataclass(eq=False)
    class Scaled(nn.Module):
        factor: float
        layer: nn.Linear

        def forward(self, x: tb.Tensor) -> tb.Tensor:
            return self.layer(x) * self.factor

    m = Scaled(2.0, nn.Linear(3, 1))
    assert [n for n, _ in m.named_parameters()] == ["layer.weight", "layer.bias"]
    grads = tb.grad(lambda module, x: module(x).sum())(m, tb.ones((1, 3)))
    np.testing.assert_allclose(grads.layer.weight.numpy(), np.full((1, 3), 2.0))


def test_places_are_found_by_dotted_names() -> None:
    m = Block()
    assert m.get_submodule("second.0") is m.second[0] and m.get_submodule("") is m
    assert m.get_parameter("first.weight") is m.first.weight
    assert m.get_buffer("second.0.running_var") is m.second[0].running_var
    with pytest.raises(ArgumentError, match=r"Block has no module 'second\.7'") as e:
        m.get_submodule("second.7.x")
    assert "expected: one of 0, 1" in str(e.value)
    with pytest.raises(ArgumentError, match=r"Linear has no parameter 'first\.wait'") as e:
        m.get_parameter("first.wait")
    assert "expected: one of weight, bias" in str(e.value)


def test_wrong_values_for_a_place_are_refused() -> None:
    m = Block()
    with pytest.raises(ArgumentError, match="Tensor for the parameter 'scale' of Block") as e:
        m.scale = tb.ones((4,))
    assert "remedy: wrap it: nn.Parameter(tensor)" in str(e.value)
    with pytest.raises(ArgumentError, match="int for the module 'first' of Block"):
        m.first = 3
    with pytest.raises(ArgumentError, match="str for the buffer 'count' of Block"):
        m.count = "many"
    with pytest.raises(ArgumentError, match=r"a parameter named 'a\.b'"):
        m.register_parameter("a.b", None)
    with pytest.raises(ArgumentError, match="Block already has an attribute 'note'"):
        m.register_buffer("note", tb.ones(()))
    with pytest.raises(StateError, match="Empty has no forward"):
        type("Empty", (nn.Module,), {})()(1)
    m.scale = None
    assert "scale" not in dict(m.named_parameters())
    m.count = tb.ones(())
    assert dict(m.named_buffers())["count"].item() == 1.0


def test_a_place_can_be_deleted_and_change_its_kind() -> None:
    m = Block()
    del m.scale
    assert not hasattr(m, "scale") and "scale" not in m.state_dict()
    m.count = nn.Parameter(tb.ones(()))
    assert "count" in dict(m.named_parameters()) and "count" not in dict(m.named_buffers())


def test_apply_reaches_children_first() -> None:
    seen: list[str] = []
    Block().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "BatchNorm1d", "ReLU", "Sequential", "Block"]


def test_the_repr_is_a_tree() -> None:
    assert repr(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (1): Sequential(\n    (0): ReLU()\n  )\n)"
    )


# -- modes -------------------------------------------------------------------------------------------------


def test_modes_reach_every_module() -> None:
    m = Block().eval()
    assert not any(x.training for x in m.modules())
    m.second.train()
    assert m.second.training and m.second[0].training and not m.training
    with pytest.raises(ArgumentError, match=r"train\('yes'\)"):
        m.train("yes")  # type: ignore[arg-type]


def test_a_change_of_mode_records_again_and_back_does_not() -> None:
    m = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    f = tb.jit(lambda x: m(x))
    x = tb.ones((2, 3))
    f(x)
    m.eval()
    np.testing.assert_array_equal(f(x).detach().numpy(), m(x).detach().numpy())
    assert len(f.recompilations) == 1 and "Dropout is in evaluation mode now" in f.recompilations[0]
    for _ in range(2):
        f(x)
        m.train(not m.training)
    assert len(f.recompilations) == 1


def test_a_mode_asked_for_inside_a_loop_counts_too() -> None:
    drop = nn.Dropout(0.5)
    f = tb.jit(lambda x: tb.scan(lambda c, _: (drop(c), None), x, None, length=2)[0])
    x = tb.ones((4, 4))
    random.manual_seed(0)
    assert 0.0 in f(x).numpy()
    drop.eval()
    np.testing.assert_array_equal(f(x).numpy(), x.numpy())


def test_freezing_and_forgetting_gradients() -> None:
    m = Block()
    m(tb.ones((2, 3))).sum().backward()
    assert all(p.grad is not None for p in m.parameters())
    m.zero_grad(set_to_none=False)
    assert all(not p.grad.numpy().any() for p in m.parameters())
    m.zero_grad()
    assert all(p.grad is None for p in m.parameters())
    m.requires_grad_(False)
    assert not any(p.requires_grad for p in m.parameters())


# -- conversion --------------------------------------------------------------------------------------------


def test_conversion_is_in_place_and_leaves_integers() -> None:
    m = Block()
    kept = {n: p for n, p in m.named_parameters()}
    m(tb.ones((2, 3))).sum().backward()
    m.double()
    assert all(
        p is kept[n] and p.dtype == tb.float64 and p.grad.dtype == tb.float64 for n, p in m.named_parameters()
    )
    assert m.second[0].num_batches_tracked.dtype == tb.int64 and m.count.dtype == tb.float64
    assert m.to("bfloat16").scale.dtype == tb.bfloat16 and m.half().scale.dtype == tb.float16
    assert m.to("cpu").float().scale.dtype == tb.float32
    assert m(tb.ones((2, 3))).dtype == tb.float32
    with pytest.raises(ArgumentError, match=r"to\(int32\)"):
        m.to(tb.int32)


def test_tied_tensors_stay_tied_when_converted() -> None:
    m = Tied().double()
    assert m.head.weight is m.embed.weight and m.head.weight.dtype == tb.float64


# -- recordings --------------------------------------------------------------------------------------------


def test_attributes_may_not_change_while_recording() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            self.calls = 0
            self.layer = nn.Linear(2, 2)

        def forward(self, x: tb.Tensor) -> tb.Tensor:
            self.calls += 1
            return self.layer(x)

    m = Counts()
    m(tb.ones((1, 2)))
    assert m.calls == 1
    with pytest.raises(TraceError, match=r"Counts\.calls is set while a function is being recorded") as e:
        tb.jit(lambda x: m(x))(tb.ones((1, 2)))
    assert "remedy: make it a buffer and write to it in place" in str(e.value) and "test_module.py" in str(
        e.value
    )
    for change in (
        lambda: m.eval(),
        lambda: m.double(),
        lambda: setattr(m, "layer", None),
        lambda: delattr(m, "calls"),
    ):
        with pytest.raises(TraceError):
            tb.jit(lambda x, c=change: (c(), x)[1])(tb.ones(()))
    assert m.training and m.layer is not None


def test_buffers_change_in_place_inside_a_recording() -> None:
    m = Block()
    f = tb.jit(lambda x: m(x))
    for i in range(3):
        f(tb.ones((2, 3)))
        assert m.count.item() == i + 1 and m.second[0].num_batches_tracked.item() == i + 1


def test_a_module_made_inside_a_recording_may_set_its_attributes() -> None:
    def f(x: tb.Tensor) -> tb.Tensor:
        layer = nn.Linear(3, 2)
        layer.note = "mine"
        return layer(x)

    random.manual_seed(3)
    expected = f(tb.ones((1, 3))).detach().numpy()
    random.manual_seed(3)
    np.testing.assert_array_equal(tb.jit(f)(tb.ones((1, 3))).detach().numpy(), expected)


def test_a_method_can_be_jitted() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(2, 2)

        @tb.jit
        def forward(self, x: tb.Tensor) -> tb.Tensor:
            return self.layer(x) * 2

    m = Doubled()
    x = tb.ones((1, 2))
    np.testing.assert_array_equal(m(x).detach().numpy(), (m.layer(x) * 2).detach().numpy())
    twin = copy.deepcopy(m)
    with tb.no_grad():
        twin.layer.weight.fill_(0.0)
    assert not np.array_equal(twin(x).detach().numpy(), m(x).detach().numpy())


# -- parameters --------------------------------------------------------------------------------------------


def test_a_parameter_has_memory_of_its_own() -> None:
    t = tb.ones((3,))
    p = nn.Parameter(t)
    assert p.requires_grad and not t.requires_grad
    with tb.no_grad():
        p.fill_(5.0)
    assert t.numpy().tolist() == [1.0, 1.0, 1.0]
    assert nn.Parameter(np.ones(2), requires_grad=False, dtype="float32").dtype == tb.float32
    assert isinstance(p, tb.Tensor) and type(p + 1) is tb.Tensor and type(copy.deepcopy(p)) is nn.Parameter
    assert repr(p).startswith("Parameter containing:\n")


def test_a_skeleton_holds_what_is_no_tensor_and_none_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two modules of one structure are one structure to transforms; what is theirs alone is not in it."""
    one, two = Block(), Block()
    leaves, skeleton = flatten(one)
    plain = {k for k in vars(one) if k not in {"first", "second", "scale", "count", "scratch"}}
    assert set(skeleton.root.attributes) == plain - {"_jitted", "_owner"}
    assert not any(isinstance(v, tb.Tensor | nn.Module) for v in skeleton.root.attributes.values())
    assert skeleton == flatten(two)[1] and hash(skeleton) == hash(flatten(two)[1])
    two.note = "other"
    assert skeleton != flatten(two)[1]
    made = unflatten(skeleton, leaves)
    assert isinstance(made, Block) and made.note == "plain" and made.scale is one.scale
    made(tb.ones((2, 3)))
    assert made._owner is None and "_jitted" not in vars(made)
