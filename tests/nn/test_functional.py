"""Functions beyond the table: in place, tables of rows, padding, pooling and resampling, and what they
refuse.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb
import trilobite.framework.nn.functional as F
from trilobite.base.errors import ArgumentError, DTypeError, IndexingError, ShapeError
from trilobite.framework import nn

RNG = np.random.default_rng(2)


def t(x: Any) -> tb.Tensor:
    return tb.tensor(np.asarray(x))


# -- activations -------------------------------------------------------------------------------------------

IN_PLACE = [
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "ELU",
    "SELU",
    "CELU",
    "SiLU",
    "Mish",
    "Hardswish",
    "Hardsigmoid",
    "Hardtanh",
]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_changes_the_tensor_and_its_gradient_is_the_same(name: str) -> None:
    x = RNG.standard_normal((3, 4)) * 3
    plain = t(x).requires_grad_()
    out = getattr(nn, name)()(plain * 1)
    (out**2).sum().backward()
    changed = t(x).requires_grad_()
    inner = changed * 1
    assert getattr(nn, name)(inplace=True)(inner) is inner
    np.testing.assert_array_equal(inner.detach().numpy(), out.detach().numpy())
    (inner**2).sum().backward()
    np.testing.assert_allclose(changed.grad.numpy(), plain.grad.numpy(), rtol=1e-12)


def test_nan_infinity_and_signed_zero() -> None:
    x = t(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32))
    assert np.isnan(F.relu(x).numpy()[0]) and F.relu(x).tolist()[1:] == [math.inf, 0.0, 0.0, 0.0]
    assert F.sigmoid(x).tolist()[1:] == [1.0, 0.0, 0.5, 0.5]
    assert F.logsigmoid(x).tolist()[1:3] == [0.0, -math.inf]
    assert F.softplus(x).tolist()[1:3] == [math.inf, 0.0]
    assert F.elu(x).tolist()[1:3] == [math.inf, -1.0]
    for fn in (F.relu, F.sigmoid, F.elu, F.gelu, F.silu, F.softplus, F.mish, F.hardswish, F.celu, F.selu):
        assert np.isnan(fn(x).numpy()[0]), fn.__name__


def test_large_inputs_have_finite_slopes_of_every_order() -> None:
    x = t(np.array([-300.0, -90.0, 0.0, 90.0, 300.0], np.float32))
    for fn in (
        F.sigmoid,
        F.logsigmoid,
        F.softplus,
        F.elu,
        F.celu,
        F.selu,
        F.mish,
        F.silu,
        F.gelu,
        F.tanhshrink,
    ):
        first = tb.grad(lambda v, f=fn: f(v).sum())
        second = tb.grad(lambda v, f=first: f(v).sum())
        assert np.isfinite(first(x).numpy()).all(), fn.__name__
        assert np.isfinite(second(x).numpy()).all(), fn.__name__


def test_slopes_at_corners() -> None:
    zero = t([0.0])
    for fn, slope in (
        (F.relu, 0.0),
        (F.leaky_relu, 0.01),
        (F.elu, 1.0),
        (F.sigmoid, 0.25),
        (F.softsign, 1.0),
    ):
        g = tb.grad(lambda v, f=fn: f(v).sum())(zero).item()
        _, tangent = tb.jvp(fn, (zero,), (t([1.0]),))
        assert g == pytest.approx(slope) and tangent.item() == pytest.approx(slope), fn.__name__


def test_integers_become_floats_where_they_must() -> None:
    assert F.relu(t([-1, 2])).dtype == tb.int64 and F.relu(t([-1, 2])).tolist() == [0, 2]
    assert F.sigmoid(t([0])).dtype == tb.float32 and F.gelu(t([1])).dtype == tb.float32
    assert F.softmax(t([1, 1]), 0).tolist() == [0.5, 0.5]
    assert F.softmax(t(3.0), 0).item() == 1.0 and F.softmax(t([1, 2]), 0, dtype="float64").dtype == tb.float64


def test_softmax_of_masked_rows() -> None:
    x = t(np.array([[0.0, -np.inf, 0.0], [-np.inf, -np.inf, -np.inf]], np.float32))
    assert F.softmax(x, 1).tolist()[0] == [0.5, 0.0, 0.5] and np.isnan(F.softmax(x, 1).numpy()[1]).all()
    np.testing.assert_allclose(F.log_softmax(t([[1000.0, 0.0]]), 1).numpy(), [[0.0, -1000.0]])


def test_wrong_settings_are_refused() -> None:
    x = tb.ones((2, 3))
    with pytest.raises(ArgumentError, match="softmax without an axis"):
        F.softmax(x)
    with pytest.raises(ArgumentError, match="hardtanh between 2 and 1"):
        F.hardtanh(x, 2, 1)
    with pytest.raises(ArgumentError, match=r"gelu\(approximate='erf'\)"):
        F.gelu(x, "erf")
    with pytest.raises(ShapeError, match=r"glu along axis 1 of shape \(2, 3\)"):
        F.glu(x, 1)
    with pytest.raises(ShapeError, match="prelu of shape"):
        F.prelu(x, tb.ones((2,)))
    with pytest.raises(ArgumentError, match="softshrink by -1"):
        F.softshrink(x, -1)
    with pytest.raises(TypeError, match="ReLU: got an unexpected keyword argument 'slope'") as e:
        nn.ReLU(slope=1)
    assert "expected: ReLU(inplace" in str(e.value)


# -- tables of rows ----------------------------------------------------------------------------------------


def test_the_padding_row_gets_no_gradient() -> None:
    m = nn.Embedding(5, 3, padding_idx=1)
    assert not m.weight.detach().numpy()[1].any()
    m(t([[1, 0], [1, 4]])).sum().backward()
    assert m.weight.grad.numpy().sum(1).tolist() == [3.0, 0.0, 0.0, 0.0, 3.0]


def test_gradients_by_frequency() -> None:
    m = nn.Embedding(4, 2, scale_grad_by_freq=True)
    m(t([0, 2, 2, 2])).sum().backward()
    assert m.weight.grad.numpy()[:, 0].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_long_rows_are_shortened_in_place() -> None:
    m = nn.Embedding(3, 4, max_norm=1.0).double()
    with tb.no_grad():
        m.weight.copy_(np.array([[3.0, 4, 0, 0], [0.1, 0, 0, 0], [0, 0, 5, 12]]))
    out = m(t([0, 1, 0]))
    np.testing.assert_allclose(
        out.detach().numpy(), [[0.6, 0.8, 0, 0], [0.1, 0, 0, 0], [0.6, 0.8, 0, 0]], rtol=1e-6
    )
    np.testing.assert_allclose(
        m.weight.detach().numpy()[[0, 2]], [[0.6, 0.8, 0, 0], [0, 0, 5, 12]], rtol=1e-6
    )
    f = tb.jit(lambda i: m(i))
    f(t([2]))
    np.testing.assert_allclose(np.linalg.norm(m.weight.detach().numpy()[2]), 1.0, rtol=1e-6)


def test_pretrained_tables_and_weighted_bags() -> None:
    table = RNG.standard_normal((4, 2))
    m = nn.Embedding.from_pretrained(t(table))
    assert not m.weight.requires_grad and np.array_equal(m(t([3])).numpy(), table[[3]])
    w = np.array([0.5, -1.0, 2.0])
    out = F.embedding_bag(t([0, 1, 2]), t(table), t([0, 2]), mode="sum", per_sample_weights=t(w))
    np.testing.assert_allclose(out.numpy(), [0.5 * table[0] - table[1], 2 * table[2]])


def test_wrong_indices_are_refused() -> None:
    m = nn.Embedding(4, 2)
    with pytest.raises(IndexingError, match="embedding: an index 4 of a table with 4 rows") as e:
        m(t([0, 4]))
    assert "expected: 0 <= index < 4" in str(e.value)
    with pytest.raises(IndexingError, match="an index -1"):
        m(t([-1]))
    with pytest.raises(DTypeError, match="embedding of float64 indices"):
        m(t([0.5]))
    with pytest.raises(ArgumentError, match=r"Embedding\(padding_idx=4\) of 4 rows"):
        nn.Embedding(4, 2, padding_idx=4)
    with pytest.raises(ShapeError, match="a matrix without offsets, or a vector with them"):
        F.embedding_bag(t([0, 1]), m.weight)
    with pytest.raises(IndexingError, match="one_hot of a class outside of 3"):
        F.one_hot(t([3]), 3)
    assert F.one_hot(t([[0, 2]])).tolist() == [[[1, 0, 0], [0, 0, 1]]]


# -- space -------------------------------------------------------------------------------------------------


def test_unpooling_undoes_pooling() -> None:
    x = t(RNG.standard_normal((2, 3, 6, 4)))
    out, at = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(out, at, 2).numpy()
    assert (back != 0).sum() == out.size and np.array_equal(
        np.sort(back[back != 0]), np.sort(out.numpy().ravel())
    )
    odd = t(RNG.standard_normal((1, 1, 5, 7)))
    out, at = F.max_pool2d(odd, 2, return_indices=True)
    assert F.max_unpool2d(out, at, 2, output_size=odd.shape).shape == odd.shape
    with pytest.raises(ArgumentError, match=r"max_unpool2d: output_size \(9, 9\)"):
        F.max_unpool2d(out, at, 2, output_size=(9, 9))


def test_a_transposed_convolution_can_be_told_its_size() -> None:
    m = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    x = tb.ones((1, 2, 4, 5))
    assert m(x).shape == (1, 3, 7, 9) and m(x, output_size=(8, 10)).shape == (1, 3, 8, 10)
    with pytest.raises(ArgumentError, match=r"output_size \(9, 9\) of ConvTranspose2d") as e:
        m(x, output_size=(9, 9))
    assert "expected: between (7, 9) and (8, 10)" in str(e.value)


def test_empty_batches_pass() -> None:
    x = tb.zeros((0, 3, 8, 8))
    for m in (
        nn.Conv2d(3, 4, 3),
        nn.MaxPool2d(2),
        nn.AvgPool2d(2),
        nn.ReLU(),
        nn.Upsample(scale_factor=2),
        nn.Flatten(),
    ):
        assert m(x).shape[0] == 0
    assert nn.Linear(3, 2)(tb.zeros((0, 3))).shape == (0, 2)
    assert nn.LayerNorm(3)(tb.zeros((0, 3))).shape == (0, 3)
    assert nn.BatchNorm2d(3).eval()(x).shape == x.shape


def test_pooling_knows_nan_and_padding() -> None:
    x = np.array([[[1.0, np.nan, -5.0, -7.0]]])
    assert np.isnan(F.max_pool1d(t(x), 2).numpy()[0, 0, 0]) and F.max_pool1d(t(x), 2).numpy()[0, 0, 1] == -5.0
    negative = t(-np.ones((1, 1, 3)))
    assert F.max_pool1d(negative, 3, 1, 1).tolist() == [[[-1.0] * 3]]
    assert F.avg_pool1d(negative, 3, 1, 1, count_include_pad=False).tolist() == [[[-1.0] * 3]]


def test_wrong_geometry_is_refused_by_name() -> None:
    x = tb.ones((1, 3, 8, 8))
    with pytest.raises(ShapeError, match="conv2d of 3 channels in 1 groups, weight of shape") as e:
        F.conv2d(x, tb.ones((4, 2, 3, 3)))
    assert "expected: 2 channels" in str(e.value)
    with pytest.raises(ShapeError, match=r"Conv2d of shape \(1, 3\)") as e:
        nn.Conv2d(3, 4, 3)(tb.ones((1, 3)))
    assert "expected: 3 or 4 axes: perhaps a batch, channels, and 2 of space" in str(e.value)
    with pytest.raises(ArgumentError, match=r"padding 'same' with stride \(2, 2\)"):
        nn.Conv2d(3, 4, 3, stride=2, padding="same")
    with pytest.raises(ArgumentError, match="Conv2d of 3 to 4 channels in 2 groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ArgumentError, match=r"kernel_size \(3, 3, 3\)"):
        nn.Conv2d(3, 4, (3, 3, 3))
    with pytest.raises(ArgumentError, match="padding_mode 'mirror'"):
        nn.Conv2d(3, 4, 3, padding_mode="mirror")
    with pytest.raises(ArgumentError, match=r"max_pool2d: padding \(2, 2\) of windows \(3, 3\)"):
        F.max_pool2d(x, 3, padding=2)
    with pytest.raises(ShapeError, match=r"pad\(mode='reflect'\) of axis 3 with 8 elements by 8 and 0"):
        F.pad(x, (8, 0), "reflect")
    with pytest.raises(ArgumentError, match=r"pad by \(1, 2, 3\) of shape"):
        F.pad(x, (1, 2, 3))
    with pytest.raises(ArgumentError, match=r"pad\(mode='mirror'\)"):
        F.pad(x, (1, 1), "mirror")
    with pytest.raises(ShapeError, match=r"interpolate\(mode='linear'\) of shape"):
        F.interpolate(x, 4, mode="linear")
    with pytest.raises(ArgumentError, match="expected: one of size and scale_factor"):
        F.interpolate(x)
    with pytest.raises(ArgumentError, match="align_corners with linear"):
        F.interpolate(x, 4, align_corners=True)
    with pytest.raises(ShapeError, match="pixel_shuffle by 2 of shape"):
        F.pixel_shuffle(x, 2)
    with pytest.raises(ArgumentError, match="output_padding"):
        nn.ConvTranspose1d(1, 1, 3, output_padding=1)(tb.ones((1, 1, 4)))


def test_wrong_norms_are_refused_by_name() -> None:
    with pytest.raises(ShapeError, match=r"batch_norm in training of shape \(1, 3\)") as e:
        nn.BatchNorm1d(3)(tb.ones((1, 3)))
    assert "expected: more than one value per channel" in str(e.value) and "module.eval()" in str(e.value)
    with pytest.raises(ShapeError, match=r"BatchNorm2d of shape \(2, 3\)"):
        nn.BatchNorm2d(3)(tb.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"layer_norm of shape \(2, 3\) over \(4,\)"):
        nn.LayerNorm(4)(tb.ones((2, 3)))
    with pytest.raises(ArgumentError, match="GroupNorm of 4 channels in 3 groups"):
        nn.GroupNorm(3, 4)
    with pytest.raises(ArgumentError, match="batch_norm without statistics"):
        F.batch_norm(tb.ones((2, 3)), None, None)
    with pytest.raises(ArgumentError, match=r"Linear\(in_features=0\)"):
        nn.Linear(0, 3)
    with pytest.raises(
        ShapeError, match=r"linear of an input of shape \(2, 4\) with a weight of shape \(5, 3\)"
    ):
        nn.Linear(3, 5)(tb.ones((2, 4)))
    with pytest.raises(ArgumentError, match=r"Dropout\(p=1.5\)"):
        nn.Dropout(1.5)


# -- norms and similarity ----------------------------------------------------------------------------------


def test_running_statistics_average_all_batches_without_a_momentum() -> None:
    m = nn.BatchNorm1d(2, momentum=None).double()
    batches = [RNG.standard_normal((5, 2)) + i for i in range(3)]
    for b in batches:
        m(t(b))
    np.testing.assert_allclose(m.running_mean.numpy(), np.mean([b.mean(0) for b in batches], 0), rtol=1e-10)
    np.testing.assert_allclose(
        m.running_var.numpy(), np.mean([b.var(0, ddof=1) for b in batches], 0), rtol=1e-10
    )
    x = RNG.standard_normal((4, 2))
    expected = (x - m.running_mean.numpy()) / np.sqrt(m.running_var.numpy() + 1e-5)
    np.testing.assert_allclose(m.eval()(t(x)).detach().numpy(), expected, rtol=1e-9)
    m.reset_parameters()
    assert m.num_batches_tracked.item() == 0 and m.running_var.tolist() == [1.0, 1.0]


def test_similarity_distance_and_normalize() -> None:
    a, b = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
    cos = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(F.cosine_similarity(t(a), t(b)).numpy(), cos, rtol=1e-10)
    for p in (1.0, 2.0, 3.0, math.inf):
        expected = np.linalg.norm(a - b + 1e-6, p, axis=-1, keepdims=True)
        np.testing.assert_allclose(
            F.pairwise_distance(t(a), t(b), p, keepdim=True).numpy(), expected, rtol=1e-10
        )
        np.testing.assert_allclose(
            F.normalize(t(a), p).numpy(), a / np.linalg.norm(a, p, axis=1, keepdims=True), rtol=1e-10
        )
    assert F.normalize(tb.zeros((2, 3))).tolist() == [[0.0] * 3] * 2


def test_composites_stay_whole_in_a_graph() -> None:
    x = tb.ones((2, 4))

    def names(fn: Any) -> list[str]:
        with tb.no_grad():
            graph = tb.make_graph(fn)(x)
        return [e.attributes["name"] for e in graph.equations if e.primitive.name == "call"]

    assert names(lambda v: F.gelu(F.silu(v))) == ["silu", "gelu"]
    assert names(nn.LayerNorm(4)) == ["layer_norm"] and names(nn.BatchNorm1d(4)) == ["batch_norm"]
    assert names(nn.BatchNorm1d(4).eval()) == ["batch_norm_inference"] and names(nn.RMSNorm(4)) == [
        "rms_norm"
    ]
    assert names(nn.Dropout()) == ["dropout"] and names(lambda v: F.softmax(v, 1)) == ["softmax"]


@pytest.mark.parametrize(
    "before, after, order",
    [
        ((4, 4), (8, 8), [1, 0]), ((8, 8), (4, 4), [0, 1]), ((4, 8), (8, 4), [1, 0]),
        ((8, 4), (4, 8), [0, 1]),
        ((3, 4, 5), (3, 8, 9), [0, 2, 1]),
    ],
)  # fmt: skip
def test_axes_are_resampled_where_there_are_fewest_elements(
    before: tuple[int, ...], after: tuple[int, ...], order: list[int]
) -> None:
    from trilobite.framework.nn.functional.resampling import order_of_axes

    assert order_of_axes(before, after) == order
