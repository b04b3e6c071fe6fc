"""Rooms and names of PyTorch's that packages of models ask for when they are imported."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from trilobite.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention

import trilobite as tb
from trilobite import nn
from trilobite.base.errors import ArgumentError, StateError

R = np.random.default_rng(2)
ROOMS = """
    library ops testing profiler xpu mps accelerator cpu serialization types multiprocessing export sparse ao
    ao.quantization onnx.symbolic_helper utils._pytree utils.hooks utils.dlpack utils.tensorboard
    autograd.graph nn.modules.lazy nn.attention.flex_attention distributions.normal distributions.categorical
    distributions.kl distributed.tensor distributed.device_mesh
"""


@pytest.mark.parametrize("name", ROOMS.split())
def test_rooms_are_found_by_import_and_by_name(name: str) -> None:
    importlib.import_module(f"trilobite.{name}")
    found: Any = tb
    for part in name.split("."):
        found = getattr(found, part)
    assert found is not None


def test_names_after_other_names() -> None:
    x = tb.tensor(R.normal(size=(2, 3)))
    y = x.clone()
    assert tb.exp_(y) is y and np.array_equal(y.numpy(), np.exp(x.numpy()))
    assert tb.view_copy(x, (3, 2)).shape == (3, 2)
    rows = tb._foreach_add([x, x], [y, y])
    assert np.array_equal(rows[1].numpy(), (x + y).numpy())
    tb._foreach_mul_([y], 2.0)
    assert np.array_equal(y.numpy(), 2 * np.exp(x.numpy()))
    assert not tb.compiler.is_compiling() and tb.jit(lambda: tb.tensor(tb.compiler.is_compiling()))()
    assert tb.ops.aten.mm.default(x, x.T).shape == (2, 2)


def test_functions_that_were_missing() -> None:
    x = tb.tensor([3.0, -0.1, 0.0])
    mantissa, exponent = tb.frexp(x)
    assert np.array_equal(mantissa.numpy(), np.frexp(x.numpy())[0])
    assert exponent.tolist() == [2, -3, 0]
    a = R.normal(size=(4, 5))
    t = tb.tensor(a)
    assert np.array_equal(tb.flipud(t).numpy(), a[::-1]) and np.array_equal(t.fliplr().numpy(), a[:, ::-1])
    np.testing.assert_allclose(tb.gradient(t, spacing=0.5, dim=1)[0].numpy(), np.gradient(a, 0.5, axis=1))
    slopes = tb.gradient(t, edge_order=2)
    for found, wanted in zip(slopes, np.gradient(a, edge_order=2), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(tb.vander(t[0], 3).numpy(), np.vander(a[0], 3))
    holes = np.where(R.random((4, 5)) < 0.3, np.nan, a)
    holes[0, 0], holes[2] = 1.0, np.nan
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="All-NaN"):
        wanted = np.nanquantile(holes, 0.3, axis=1)
    np.testing.assert_allclose(tb.nanquantile(tb.tensor(holes), 0.3, dim=1).numpy(), wanted)
    with pytest.raises(ValueError, match="no"):
        tb._check_value(False, lambda: "no")
    with pytest.raises(OSError, match="native part"):
        tb.ops.load_library("x.so")
    with pytest.raises(AttributeError, match="there is no operation mine::nothing"):
        tb.ops.mine.nothing
    with pytest.raises(StateError, match="quantisation"):
        tb.ao.quantization.QuantStub()


def test_a_registered_operation_has_its_derivative() -> None:
    @tb.library.custom_op("mine::cube", mutates_args=())
    def cube(x: tb.Tensor) -> tb.Tensor:
        return x.detach() ** 3

    cube.register_autograd(
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = tb.tensor(R.normal(size=4), requires_grad=True)
    tb.ops.mine.cube(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * x.detach().numpy() ** 2)


def test_functions_of_the_newer_kind() -> None:
    class Scale(tb.autograd.Function):
        @staticmethod
        def forward(x: tb.Tensor, k: float, nothing: Any) -> Any:
            return x * k, x.argmax()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, ctx.k, _ = inputs
            ctx.save_for_backward(x, None)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            x, nothing = ctx.saved_tensors
            assert nothing is None and ctx.needs_input_grad == (True, False, False)
            return g * ctx.k * 7 + 0 * x, None, None

    x = tb.tensor(R.normal(size=4), requires_grad=True)
    y, at = Scale.apply(x, 2.0, None)
    assert not at.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [14.0] * 4


def test_lazy_layers_are_made_by_the_first_call_or_by_their_state() -> None:
    def made() -> nn.Sequential:
        return nn.Sequential(
            nn.LazyConv2d(8, 3, groups=1), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(5, bias=False)
        )

    model, x = made(), tb.tensor(R.normal(size=(2, 3, 6, 6)).astype(np.float32))
    assert "LazyConv2d(in_channels=?)" in repr(model)
    y = model(x)
    assert type(model[0]) is nn.Conv2d and [tuple(p.shape) for p in model.parameters()] == [
        (8, 3, 3, 3), (8,), (8,), (8,), (5, 128)
    ]  # fmt: skip
    other = made()
    other.load_state_dict(model.state_dict())
    assert np.array_equal(other.eval()(x).detach().numpy(), model.eval()(x).detach().numpy())
    assert y.shape == (2, 5)


def test_lists_of_modules_may_have_empty_places() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2), None])
    layers.append(None)
    assert len(layers) == 3 and layers[1] is None and len(list(layers.parameters())) == 2
    nested = nn.ParameterList([nn.ParameterList([nn.Parameter(tb.ones(2))])])
    assert [n for n, _ in nested.named_parameters()] == ["0.0"]


def test_flexible_attention_is_attention_with_its_scores_changed() -> None:
    q, k, v = (tb.tensor(R.normal(size=(2, 4, n, 8)), requires_grad=True) for n in (5, 7, 7))
    far = tb.tensor(R.normal(size=4))

    def biased(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score - far[h] * (i - j).abs()

    places = np.abs(np.arange(5)[:, None] - np.arange(7)[None])
    bias = tb.tensor(-far.numpy()[:, None, None] * places)
    mask = create_block_mask(
        and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: j != 0), None, None, 5, 7
    )
    seen = tb.where(mask.to_dense(), bias, float("-inf"))
    out = flex_attention(q, k, v, score_mod=biased, block_mask=mask)
    plain = nn.functional.scaled_dot_product_attention(q, k, v, seen)
    assert not out[:, :, 0].any()  # which sees nothing
    np.testing.assert_allclose(out[:, :, 1:].detach().numpy(), plain[:, :, 1:].detach().numpy(), rtol=1e-9)
    out.sum().backward()
    assert np.isfinite(q.grad.numpy()).all() and v.grad.abs().sum() > 0
    grouped = flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    wanted = flex_attention(q, *(x[:, :2].repeat_interleave(2, dim=1) for x in (k, v)))
    assert np.array_equal(grouped.detach().numpy(), wanted.detach().numpy())


def test_tensors_compared_as_pytorch_compares_them() -> None:
    tb.testing.assert_close(tb.tensor([1.0]), tb.tensor([1.0 + 1e-7]))
    with pytest.raises(AssertionError):
        tb.testing.assert_close(tb.tensor([1.0]), tb.tensor([1.01]))
    with pytest.raises(AssertionError, match="float64"):
        tb.testing.assert_close(tb.tensor([1.0]), tb.tensor([1.0], dtype=tb.float64))
    with pytest.raises(ArgumentError, match="export"):
        tb.onnx.export()


@pytest.mark.parametrize(
    "name",
    """utils.data.dataset utils.data.dataloader utils.data.sampler utils.data.distributed fx.node
    fx.experimental.symbolic_shapes _subclasses.fake_tensor utils.data._utils.collate
    distributions.relaxed_bernoulli distributions.wishart""".split(),
)
def test_rooms_inside_of_rooms(name: str) -> None:
    assert importlib.import_module(f"trilobite.{name}") is not None


def test_losses_of_others_begin_with_pytorchs_base() -> None:
    from trilobite.nn.modules.loss import _Loss, _WeightedLoss

    class Mine(_Loss):
        def forward(self, x: Any, y: Any) -> Any:
            return getattr((x - y).abs(), "sum" if self.reduction == "sum" else "mean")()

    x, y = tb.tensor([1.0, 3.0]), tb.tensor([0.0, 0.0])
    assert Mine(reduction="sum")(x, y).item() == 4 and Mine(size_average=True)(x, y).item() == 2
    assert isinstance(nn.MSELoss(), _Loss) and _WeightedLoss(x).weight is x


def test_operations_of_the_native_part_can_be_named_not_called() -> None:
    assert tb.ops.aten._sparse_addmm.default is not None and tb.ops.aten.sort.stable is not None
    with pytest.raises(StateError, match="aten::_sparse_addmm"):
        tb.ops.aten._sparse_addmm(1)
    assert not hasattr(tb.ops.aten, "no_such_operation")


def test_shares_of_a_shuffled_dataset_are_disjoint_and_change_with_the_epoch() -> None:
    from trilobite.utils.data import DistributedSampler, StackDataset

    made = [DistributedSampler(range(20), 4, rank, seed=3) for rank in range(4)]
    first = [list(s) for s in made]
    assert sorted(i for share in first for i in share) == list(range(20))
    for s in made:
        s.set_epoch(1)
    assert [list(s) for s in made] != first
    assert StackDataset(a=[1, 2], b=[3, 4])[1] == {"a": 2, "b": 4}
    with pytest.raises(ArgumentError, match="lengths"):
        StackDataset([1], [2, 3])


def test_a_class_beside_module_may_make_the_instance_and_set_attributes() -> None:
    class Mixin:
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            made = super().__new__(cls)
            made.config, made.note = kwargs, tb.tensor([1.0])
            return made

    class Plain(nn.Module):
        def __init__(self, width: int = 2) -> None:
            super().__init__()
            self.layer = nn.Linear(3, width)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    class Before(Mixin, Plain):
        pass

    class After(Plain, Mixin):
        pass

    for kind in (Before, After):
        model = kind(width=4)
        assert model.config == {"width": 4} and model.training and list(model.state_dict())
        assert tb.jit(model)(tb.zeros((2, 3))).shape == (2, 4)


def test_random_states_and_older_words_of_factors() -> None:
    tb.manual_seed(3)
    with tb.random.fork_rng(devices=[]):
        inside = tb.rand(4)
    assert np.array_equal(inside.numpy(), tb.rand(4).numpy())
    assert tb.random.get_rng_state().shape == tb.get_rng_state().shape
    x = tb.tensor(R.normal(size=(5, 3)))
    for some, width in ((True, 3), (False, 5)):
        q, r = tb.qr(x, some=some)
        assert q.shape == (5, width) and np.allclose((q @ r).numpy(), x.numpy())
