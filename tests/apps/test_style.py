"""Style transfer by optimisation and by training a network, on small pictures and a small feature network."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import trilobite as tb
from trilobite.apps.style import features, optimise, pictures, real_time, training
from trilobite.base.errors import ArgumentError, DataError
from trilobite.framework import nn
from trilobite.zoo.vgg import POOL, VGG

RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def extractor() -> features.Extractor:
    tb.manual_seed(1)
    network = VGG((8, POOL, 12, 12), classifier=False)
    return features.Extractor(network, ("features.0", "features.3"), ("features.5",))


def picture(height: int = 24, width: int = 20) -> np.ndarray:
    return pictures.resized(RNG.random((6, 5, 3)).astype(np.float32), height, width)


def test_the_extractor_sees_what_the_layers_give(extractor: features.Extractor) -> None:
    x = tb.tensor(RNG.random((1, 3, 8, 8)).astype(np.float32))
    seen = extractor(x)
    assert sorted(seen) == ["features.0", "features.3", "features.5"]
    layers = extractor.network.features
    first = layers[0]((x - extractor.mean) / extractor.deviation)
    np.testing.assert_array_equal(seen["features.0"].numpy(), first.numpy())
    np.testing.assert_array_equal(seen["features.3"].numpy(), layers[3](layers[2](layers[1](first))).numpy())


def test_gram_matrices_are_products_of_channels() -> None:
    values = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    found = features.gram(tb.tensor(values)).numpy()
    np.testing.assert_allclose(found, np.einsum("nchw,ndhw->ncd", values, values) / 60, rtol=1e-5)


@pytest.mark.parametrize("optimiser", ["adam", "lbfgs"])
def test_optimisation_lowers_the_loss(extractor: features.Extractor, optimiser: str) -> None:
    losses: list[float] = []
    settings = optimise.Settings(steps=12, optimiser=optimiser)
    content = picture()
    found = optimise.stylise(
        content, pictures.pattern(32), extractor, settings, lambda _n, loss, _p: losses.append(loss)
    )
    assert found.shape == content.shape and found.min() >= 0 and found.max() <= 1
    assert len(losses) == 12 and losses[-1] < 0.6 * losses[0]


def test_a_run_that_was_stopped_goes_on_bit_for_bit(extractor: features.Extractor, tmp_path: Path) -> None:
    for name in "ab":
        pictures.write(tmp_path / "in" / f"{name}.png", picture(40, 50))
    plan = training.Plan(steps=6, batch=2, side=16, width=4, blocks=1, keep_every=2)
    style, reports = pictures.pattern(32), []
    whole = training.train(tmp_path / "in", style, extractor, plan, tmp_path / "one", reports.append)
    training.train(tmp_path / "in", style, extractor, dataclasses.replace(plan, steps=4), tmp_path / "two")
    resumed = training.train(tmp_path / "in", style, extractor, plan, tmp_path / "two")
    for name, value in whole.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), resumed.state_dict()[name].numpy(), err_msg=name)
    assert [report.step for report in reports] == [1, 2, 3, 4, 5, 6]


def test_training_lowers_the_style_loss(extractor: features.Extractor, tmp_path: Path) -> None:
    pictures.write(tmp_path / "a.png", picture(40, 40))
    plan = training.Plan(steps=30, batch=2, side=16, width=4, blocks=1, rate=1e-2)
    reports: list[training.Report] = []
    training.train(tmp_path, pictures.pattern(32), extractor, plan, watch=reports.append)
    assert np.mean([r.style for r in reports[-5:]]) < 0.5 * np.mean([r.style for r in reports[:3]])


def test_the_transform_network_keeps_sizes_that_are_multiples_of_four() -> None:
    network = tb.zoo.create("style_transform", width=4, blocks=1).eval()
    with tb.no_grad():
        out = network(tb.tensor(RNG.random((2, 3, 20, 28)).astype(np.float32))).numpy()
    assert out.shape == (2, 3, 20, 28) and out.min() >= 0 and out.max() <= 1
    assert isinstance(network, nn.Module)


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="an optimiser 'sgd'"):
        optimise.Settings(optimiser="sgd")
    with pytest.raises(ArgumentError, match="squares of 30 pixels"):
        training.Plan(side=30)
    for wrong in ({"steps": 0}, {"batch": 0}, {"steps": -1, "batch": 0}):
        with pytest.raises(ArgumentError, match="at least 1 of each"):
            training.Plan(**wrong)
    with pytest.raises(DataError, match="no pictures to learn from"):
        training.Squares(tmp_path, training.Plan())


def test_styles_are_numbers_or_mixtures() -> None:
    assert real_time.style_weights(7).argmax() == 7
    mixed = real_time.style_weights("3:0.7,11:0.3")
    assert mixed[3] == np.float32(0.7) and mixed[11] == np.float32(0.3)
    assert real_time.style_weights({2: 1.0, 4: 3.0})[4] == 0.75
    for wrong, said in ((26, "style 26"), ("cat", "a style 'cat'"), ("3:0", "of nothing"), ("3:-1", "-1.0")):
        with pytest.raises(ArgumentError, match=said):
            real_time.style_weights(wrong)
