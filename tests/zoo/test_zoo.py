"""Networks of the zoo: their sizes are the published ones, and what they compute is consistent."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.zoo import vgg
from trilobite.zoo.efficientnet_lite import SameConv2d

# torchvision's page of each model gives `num_params` for its weights; OpenAI's GPT-2 small and Google's
# BERT-base (uncased, with the pooler, without the heads of pre-training) are counted from the published
# checkpoints; EfficientNet-Lite0, tiny YOLOv3 and the transform network from files of PyTorch ports;
# the ResNet-18 of 32×32 images with 10 classes is that of the pytorch-cifar collection.
PUBLISHED = {
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet18_32x32": 11_173_962,
    "mobilenet_v2": 3_504_872,
    "vgg19": 143_667_240,
    "gpt2": 124_439_808,
    "bert_base": 109_482_240,
    "alexnet": 61_100_840,
    "googlenet": 6_624_904,
    "efficientnet_lite0": 4_652_008,
    "tiny_yolov3": 8_852_366,
    "style_transform": 1_679_235,
}
UNET = (64, 128, 256, 512, 1024)
TINY_GPT2 = {"vocabulary": 61, "context": 16, "width": 24, "heads": 3, "layers": 2}
TINY_BERT = {"vocabulary": 61, "context": 16, "width": 24, "heads": 3, "layers": 2}


def random(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def without_gradients(request: pytest.FixtureRequest) -> Iterator[None]:
    """Only a test that trains keeps gradients."""
    with tb.enable_grad() if "learnt" in request.node.name else tb.no_grad():
        yield


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    assert tb.zoo.parameter_count(tb.zoo.create(name, initialise=False)) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        ("mlp", 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10),
        ("lenet", 32 * 25 + 32 + 64 * 32 * 25 + 64 + 3136 * 512 + 512 + 5120 + 10),
        (
            "unet",
            sum(9 * (i * o + o * o) + 2 * o for i, o in zip((1, 64, 128, 256, 512), UNET, strict=True))
            + sum(4 * 2 * o * o + o + 9 * (2 * o * o + o * o) + 2 * o for o in UNET[:-1])
            + 64 * 2
            + 2,
        ),
        ("char_lstm", 96 * 256 + 2 * 1024 * 256 + 2 * 1024 + 96 * 256 + 96),
        ("char_transformer", 96 * 256 + 128 * 256 + 4 * (12 * 256**2 + 13 * 256) + 512 + 96 * 256 + 96),
    ],
)
def test_other_counts_are_those_worked_out_by_hand(name: str, by_hand: int) -> None:
    assert tb.zoo.parameter_count(tb.zoo.create(name)) == by_hand


def test_all_names_are_covered_here() -> None:
    assert {*tb.zoo.names()} == {*PUBLISHED, "mlp", "lenet", "char_lstm", "char_transformer", "unet"}


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"(?s)a network named 'resnet19'.*one of resnet18, resnet34"
    ) as e:
        tb.zoo.create("resnet19")
    assert "test_zoo.py" in str(e.value)


def test_the_package_and_a_name_of_it_do_not_load_the_zoo() -> None:
    code = (
        "import sys, trilobite as tb; tb.tensor, tb.nn; assert 'trilobite.zoo' not in sys.modules\n"
        "tb.zoo.names(); assert 'trilobite.zoo' in sys.modules\n"
        "assert 'trilobite.zoo.gpt2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "shape", "out"),
    [
        ("resnet18", (1, 3, 65, 47), (1, 1000)),
        ("resnet50", (1, 3, 33, 40), (1, 1000)),
        ("resnet18_32x32", (2, 3, 9, 8), (2, 10)),
        ("mobilenet_v2", (1, 3, 33, 64), (1, 1000)),
        ("alexnet", (1, 3, 70, 64), (1, 1000)),
        ("googlenet", (1, 3, 40, 33), (1, 1000)),
        ("efficientnet_lite0", (1, 3, 35, 64), (1, 1000)),
        ("mlp", (3, 784), (3, 10)),
        ("lenet", (2, 1, 28, 28), (2, 10)),
    ],
)
@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_images_become_scores_of_the_same_kind_in_jit_and_eagerly(
    name: str, shape: tuple[int, ...], out: tuple[int, ...], target: str
) -> None:
    tb.manual_seed(1)
    model = tb.zoo.create(name).eval()
    x = tb.tensor(random().standard_normal(shape).astype(np.float32))
    y, again = model(x), tb.jit(model, target=target)(x)
    assert y.shape == out
    assert np.isfinite(y.numpy()).all()
    assert y.numpy().std() > 0
    np.testing.assert_allclose(again.numpy(), y.numpy(), rtol=0, atol=3e-5 * np.abs(y.numpy()).max())


def test_vgg_without_its_classifier_takes_images_of_any_size() -> None:
    model = tb.zoo.create("vgg19", classifier=False)
    assert (
        tb.zoo.parameter_count(model) == 20_024_384
    )  # the published count less the classifier's 123,642,856
    assert model(tb.zeros((1, 3, 33, 35))).shape == (1, 512, 1, 1)


def test_scores_do_not_depend_on_later_tokens() -> None:
    tb.manual_seed(2)
    model = tb.zoo.create("gpt2", **TINY_GPT2).eval()
    tokens = random().integers(0, 61, (2, 9))
    other = tokens.copy()
    other[:, 5:] = random(4).integers(0, 61, (2, 4))
    a, b = model(tb.tensor(tokens)).numpy(), model(tb.tensor(other)).numpy()
    np.testing.assert_array_equal(a[:, :5], b[:, :5])
    assert not np.allclose(a[:, 5:], b[:, 5:])


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_token_by_token_gives_what_all_at_once_gives_and_compiles_once(target: str) -> None:
    tb.manual_seed(5)
    model = tb.zoo.create("gpt2", **TINY_GPT2).eval()
    for p in model.parameters():  # at its start a GPT's heads hardly differ
        p.copy_(p + tb.tensor(random(p.numel()).standard_normal(p.shape).astype(np.float32) * 0.2))
    tokens = tb.tensor(random().integers(0, 61, (2, 11)))
    whole = model(tokens).numpy()
    cache = model.cache(batch=2, capacity=13)
    first = model.prefill(tokens[:, :4], cache)
    np.testing.assert_allclose(first.numpy(), whole[:, 3], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.prefill(tokens[:, :4]).numpy(), whole[:, 3], rtol=1e-4, atol=1e-5)
    step = tb.jit(lambda token, position: model.decode(token, position, cache), target=target)
    for i in range(4, 11):
        scores = step(tokens[:, i : i + 1], tb.tensor([i]))
        np.testing.assert_allclose(scores.numpy(), whole[:, i], rtol=1e-4, atol=1e-5)
    assert step.recompilations == []


def test_a_mask_hides_tokens_from_bert() -> None:
    tb.manual_seed(6)
    model = tb.zoo.create("bert_base", **TINY_BERT).eval()
    tokens = random().integers(0, 61, (2, 7))
    other = tokens.copy()
    other[:, 5:] = (other[:, 5:] + 7) % 61
    mask = tb.tensor(np.arange(7)[None, :].repeat(2, 0) < 5)
    (a, pooled), (b, pooled_too) = (model(tb.tensor(t), mask=mask) for t in (tokens, other))
    assert a.shape == (2, 7, 24)
    assert pooled.shape == (2, 24)
    np.testing.assert_array_equal(a.numpy()[:, :5], b.numpy()[:, :5])
    np.testing.assert_array_equal(pooled.numpy(), pooled_too.numpy())
    assert not np.allclose(model(tb.tensor(tokens))[1].numpy(), pooled.numpy(), atol=1e-7)


@pytest.mark.parametrize("target", [None, "cpu"], ids=["eager", "cpu"])
@pytest.mark.parametrize("name", ["char_transformer", "char_lstm"])
def test_a_text_is_learnt_by_heart(name: str, target: str | None) -> None:
    tb.manual_seed(7)
    sizes = {"characters": 11, "width": 32} if name == "char_transformer" else {"symbols": 11, "width": 32}
    model = tb.zoo.create(name, **sizes)
    text = tb.tensor(random().integers(0, 11, (2, 8)))
    optimizer = tb.optim.Adam(model.parameters(), lr=1e-2)

    def step() -> tb.Tensor:
        optimizer.zero_grad()
        scores = model(text[:, :-1])
        loss = tb.nn.functional.cross_entropy(scores.reshape(-1, 11), text[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    run = step if target is None else tb.jit(step, target=target)
    losses = [float(run()) for _ in range(60)]
    assert losses[0] > 2.0
    assert losses[-1] < 0.1 * losses[0]


def test_a_tagger_reads_both_ways() -> None:
    tb.manual_seed(8)
    tagger = tb.zoo.create("char_lstm", symbols=11, width=8, outputs=5, bidirectional=True)
    text = random().integers(0, 11, (1, 6))
    changed = text.copy()
    changed[0, -1] = (changed[0, -1] + 1) % 11
    a, b = tagger(tb.tensor(text)).numpy(), tagger(tb.tensor(changed)).numpy()
    assert a.shape == (1, 6, 5)
    assert np.abs(a - b)[0, 0].max() > 1e-6


def test_skipped_initialisation_draws_nothing_and_then_ends() -> None:
    tb.manual_seed(9)
    expected = tb.rand((3,)).numpy()
    tb.manual_seed(9)
    model = tb.zoo.create("mlp", hidden=(8,), initialise=False)
    for p in model.parameters():
        np.testing.assert_array_equal(p.detach().numpy(), 0)
    np.testing.assert_array_equal(tb.rand((3,)).numpy(), expected)
    assert tb.nn.Linear(3, 4).weight.detach().numpy().any()


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_every_pixel_is_scored_by_the_u_net(target: str) -> None:
    model = tb.zoo.create("unet", channels=2, classes=3, widths=(4, 6, 8)).eval()
    x = tb.tensor(random().standard_normal((2, 2, 12, 8)).astype(np.float32))
    found = tb.jit(model, target=target)(x).numpy()
    assert found.shape == (2, 3, 12, 8)
    np.testing.assert_allclose(found, model(x).numpy(), rtol=0, atol=1e-5)


def test_boxes_of_the_detector_lie_where_their_cells_are() -> None:
    from trilobite.zoo.yolo import ANCHORS, decode

    model = tb.zoo.create("tiny_yolov3", classes=3).eval()
    coarse, fine = model(tb.tensor(random().random((1, 3, 64, 96)).astype(np.float32)))
    assert (coarse.shape, fine.shape) == ((1, 24, 2, 3), (1, 24, 4, 6))
    boxes = decode(coarse, ANCHORS[0], 32).numpy().reshape(3, 2, 3, 8)
    for row in range(2):
        for column in range(3):
            x, y = boxes[:, row, column, 0], boxes[:, row, column, 1]
            assert ((x > 32 * column) & (x < 32 * column + 32)).all()
            assert ((y > 32 * row) & (y < 32 * row + 32)).all()
    assert (boxes[..., 4:] > 0).all() and (boxes[..., 4:] < 1).all()


def test_vgg_without_a_classifier_gives_its_features_of_any_size() -> None:
    net = vgg.VGG([4, vgg.POOL, 6], classifier=False).eval()
    x = tb.tensor(random().standard_normal((2, 3, 10, 6)).astype(np.float32))
    assert net(x).shape == (2, 6, 5, 3)
    np.testing.assert_array_equal(net(x).numpy(), net.features(x).numpy())
    assert {name.partition(".")[0] for name, _ in net.named_parameters()} == {"features"}


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("shape", [(6, 6), (4, 5), (5, 4), (3, 7), (9, 6)])
def test_a_convolution_of_the_same_size_by_loops(size: int, stride: int, shape: tuple[int, int]) -> None:
    """ceil(n / stride) places whatever the sides are; of what is missing the half more lies at the end."""
    rng = np.random.default_rng(size + 10 * stride)
    layer = SameConv2d(2, 3, size, stride)
    x, w = rng.standard_normal((1, 2, *shape)).astype(np.float32), layer.weight.detach().numpy()
    counts = [math.ceil(n / stride) for n in shape]
    begins = [-(max((c - 1) * stride + size - n, 0) // 2) for c, n in zip(counts, shape, strict=True)]
    wanted = np.zeros((3, *counts))
    for i, j, di, dj in product(*map(range, (*counts, size, size))):
        r, c = begins[0] + i * stride + di, begins[1] + j * stride + dj
        if 0 <= r < shape[0] and 0 <= c < shape[1]:
            wanted[:, i, j] += w[:, :, di, dj].astype(np.float64) @ x[0, :, r, c]
    np.testing.assert_allclose(layer(tb.tensor(x)).detach().numpy()[0], wanted, rtol=1e-4, atol=1e-5)
