"""Small parts of the applications: figures of the demo's page, the pattern, inputs of the labs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.apps import assets, demo_page
from trilobite.apps.demo_part import Part
from trilobite.apps.labs import pass_lab
from trilobite.apps.labs.catalogue import LABS, load
from trilobite.apps.style import int8, pictures

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5])
def test_a_page_begins_with_three_pictures_if_there_are_as_many(count: int) -> None:
    part = Part("a")
    part.shown = [(f"p{n}.png", f"picture {n}") for n in range(count)]
    lines = list(demo_page._hero([part]))
    assert [line for line in lines if "<img" in line] == (
        [f'<img src="p{n}.png" alt="picture {n}">' for n in range(3)] if count >= 3 else []
    )


def test_tiles_say_what_parts_measured() -> None:
    part, other = Part("a"), Part("b")
    part.numbers |= {"a picture": 0.1234, "width": 12, "height": 8, "joules": 0.0021, "levels apart": 0.5}
    other.numbers |= {
        "jit step": 0.00456,
        "read right": 0.987,
        "chip seconds": 0.0987,
        "chip width": 5,
        "chip height": 6,
    }
    (text,) = demo_page._tiles([part, other])
    for said in ("123 ms", "a picture of 12 x 8 in a style", "98.70 ms",
     "a picture of 5 x 6 on the processor", "2.1 mJ",
                 "0.500 / 255", "4.56 ms", "98.7 %"):  # fmt: skip
        assert said in text
    assert text.count('class="tile"') == 6 and not list(demo_page._tiles([Part("c")]))


def test_sections_show_what_there_is() -> None:
    part = Part("A part")
    assert "".join(demo_page._section(part)).count("<") == 6  # a title alone
    part.lines, part.seconds = ["agrees: all", "DIFFERS: one", "plain"], 12.6
    part.shown = [("a.png", "one")]
    text = "".join(demo_page._section(part))
    assert "<small>13 s</small>" in text and '<li class="agrees">' in text and '<li class="differs">' in text
    assert "<li>plain</li>" in text and '<div class="wide">' in text
    part.shown.append(("b.png", "two"))
    assert '<div class="row">' in "".join(demo_page._section(part))


def test_next_steps_are_commands_for_the_machine() -> None:
    steps = demo_page.next_steps("dlp-m")
    assert len(steps) == 5 and any("--on dlp:dlp-m" in line for _, line in steps)


def test_whirls_of_the_pattern_are_bright_in_their_middle() -> None:
    """The same places that the seed gives: bright and warm there, dark and blue far from all of them."""
    size, seed = 96, 7
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:size, 0:size] / size
    light = np.zeros((size, size))
    for _ in range(7):
        y, x, _turn, width = rng.random(), rng.random(), rng.choice((-1, 1)), 0.06 + 0.12 * rng.random()
        away = np.hypot(rows - y, columns - x)
        light = np.maximum(
            light, np.exp(-((away / (0.45 * width)) ** 2)) + 0.45 * np.exp(-((away / width) ** 2))
        )
    picture = pictures.pattern(size, seed)
    assert picture.shape == (size, size, 3) and picture.min() >= 0 and picture.max() <= 1
    red, blue = picture[..., 0], picture[..., 2]
    bright, dark = light > 0.9, light < 0.02
    assert bright.sum() > 20 and dark.sum() > 500
    assert (red[bright] > blue[bright] - 0.05).all() and (red[dark] < blue[dark]).all()
    between = (light > 0.3) & (light < 0.6)
    assert red[dark].mean() < red[between].mean() < red[bright].mean()
    assert np.corrcoef(np.clip(light, 0, 1).ravel(), red.ravel())[0, 1] > 0.8
    assert not np.array_equal(picture, pictures.pattern(size, seed + 1))


def test_colours_lie_between_those_of_a_ramp() -> None:
    colours = np.asarray([[0, 0, 0], [1, 0.5, 0], [1, 1, 1]], np.float32)
    found = pictures._ramp(np.asarray([[0.0, 0.25, 0.5, 0.75, 1.0]], np.float32), colours)
    np.testing.assert_allclose(
        found[0], [[0, 0, 0], [0.5, 0.25, 0], [1, 0.5, 0], [1, 0.75, 0.5], [1, 1, 1]], atol=1e-6
    )


@pytest.mark.parametrize("kind", ["transpose", "neg", "tanh", "add", "mul"])
def test_steps_of_a_random_graph_are_what_they_are_called(kind: str) -> None:
    a, b = RNG.standard_normal((2, 2, 3, 4)).astype(np.float32)
    found = pass_lab._step(kind, tb.tensor(a), tb.tensor(b), (2, 0, 1)).numpy()
    wanted: dict[str, Any] = {
        "transpose": a.transpose(2, 0, 1),
        "neg": -a,
        "tanh": np.tanh(a),
        "add": a + b,
        "mul": a * b,
    }
    np.testing.assert_allclose(found, wanted[kind], rtol=1e-6)
    apart = pass_lab._step(kind, tb.tensor(a), tb.tensor(b.transpose(1, 0, 2)), (2, 0, 1)).numpy()
    if kind in ("add", "mul"):
        np.testing.assert_array_equal(apart, -a)


@pytest.mark.parametrize("name", LABS)
def test_inputs_of_a_lab_are_the_same_for_the_same_seed(name: str) -> None:
    """And others for another: each part draws all that it is given from its generator."""
    for part in load(name).parts:
        sizes = {key: max(least, min(most, least + 2)) for key, (least, most) in part.sizes.items()}
        first, again = (part.make(np.random.default_rng(1), sizes) for _ in range(2))
        assert first.keys() == again.keys()
        for key, value in first.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(value, again[key])


def test_a_convolution_without_a_name_has_that_of_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx = pytest.importorskip("onnx")
    from tests.apps.test_parts import quantised_network

    path = tmp_path / "m.onnx"
    quantised_network(path)
    made = onnx.load(path)
    (conv,) = (node for node in made.graph.node if node.name == "conv0")
    conv.name, result = "", conv.output[0]
    onnx.save(made, path)
    monkeypatch.setattr(assets, "fetch", lambda name: path)
    (one,) = int8.convolutions("any")
    assert one.name == result and one.model.graph.name == "conv"


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_being_done_is_said_on_a_terminal_alone(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    part = Part("a")
    with part.doing("a picture"):
        during = capsys.readouterr().out
    after = capsys.readouterr().out
    assert during == ("    … a picture" if terminal else "")
    assert after == ("\r\x1b[K" if terminal else "") and 0 <= part.numbers["a picture"] < 60
    with pytest.raises(ValueError, match="no"), part.doing("another"):
        raise ValueError("no")
    assert "another" in part.numbers
