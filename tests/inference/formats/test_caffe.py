"""Caffe networks: layers of both generations, beside what OpenCV's reader gave for the same inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.caffe import convert
from trilobite.inference.formats.caffe.layers import RULES
from trilobite.inference.formats.caffe.prototxt import parse

onnx = pytest.importorskip("onnx")
FILES = Path(__file__).parent / "files"
NAMES = sorted(p.stem for p in FILES.glob("*.prototxt"))


@pytest.mark.parametrize("name", NAMES)
def test_networks_give_what_opencv_gives(name: str) -> None:
    with np.load(FILES / f"{name}_caffe.npz") as found:
        kept = {k: found[k] for k in found.files}
    model = convert(FILES / f"{name}.prototxt", FILES / f"{name}.caffemodel")
    onnx.checker.check_model(model, full_check=True)
    feeds = {str(n): kept[f"in{k}"] for k, n in enumerate(kept["inputs"])}
    results = load(model, target="reference").run(feeds)
    assert {*results} == {str(n) for n in kept["names"]}
    for k, n in enumerate(kept["names"]):
        got, want = np.asarray(results[str(n)]), kept[f"out{k}"]
        assert got.shape == want.shape, n
        np.testing.assert_allclose(
            got, want, rtol=1e-4, atol=2e-6 * max(1.0, float(np.abs(want).max())), err_msg=n
        )


def test_most_layers_are_tried_here() -> None:
    text = "".join((FILES / f"{name}.prototxt").read_text() for name in NAMES)
    assert len(RULES) >= 33 and sum(f'"{kind}"' in text for kind in RULES) >= 20


def test_text_in_all_its_forms() -> None:
    found = parse(
        "a: 1 a: -2.5e1 b { c: 'x y' d: WORD, e: true } f: [1, 2; 3] # end\n g < h: \"q\" >", "test"
    )
    assert found["a"] == [1, -25.0] and found.block("b") == {"c": ["x y"], "d": ["WORD"], "e": [True]}
    assert found.integers("f") == [1, 2, 3] and found.block("g").word("h") == "q"


INPUT = 'input: "x" input_shape { dim: 1 dim: 3 dim: 4 dim: 4 }\n'
REFUSED = {
    "bracket": ("layer { name: 'a'", "not closed"),
    "closed": ("}", "never opened"),
    "value": ("a: }", "where a value is due"),
    "name": ("1: 2", "where a name is due"),
    "end": ("a:", "no value"),
    "deep": ("a {" * 50 + "}" * 50, "nested more than 32"),
    "sign": ("a: $", "in line 1"),
    "unknown": (
        INPUT + 'layer { name: "a" type: "Magic" bottom: "x" top: "a" }'
        'layer { name: "b" type: "Spell" bottom: "a" top: "b" }',
        "2 kinds.*Magic.*Spell",
    ),
    "missing": (
        INPUT + 'layer { name: "a" type: "ReLU" bottom: "y" top: "a" }',
        "reads 'y', which nothing makes",
    ),
    "weights": (
        INPUT + 'layer { name: "no" type: "InnerProduct" bottom: "x" top: "a" }',
        "without its weight 0",
    ),
    "shapes": ('input: "x"', "inputs without shapes"),
    "stride": (
        INPUT
        + 'layer { name: "p" type: "Pooling" bottom: "x" top: "p" pooling_param { kernel_size: 99999999 } }',
        "windows with kernel_size",
    ),
}


@pytest.mark.parametrize("fault", list(REFUSED))
def test_doubtful_texts_are_refused(fault: str, tmp_path: Path) -> None:
    text, message = REFUSED[fault]
    path = tmp_path / "m.prototxt"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        convert(path, FILES / "caffe_v1.caffemodel")


@pytest.mark.parametrize("size", [0, 1, 40, 300, 800])
def test_a_model_that_is_cut_off_is_refused(size: int, tmp_path: Path) -> None:
    path = tmp_path / "m.caffemodel"
    path.write_bytes((FILES / "caffe_v1.caffemodel").read_bytes()[:size])
    with pytest.raises(FileError):
        convert(FILES / "caffe_v1.prototxt", path)
