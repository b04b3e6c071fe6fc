"""Networks as Keras describes them: nested, in any order, with several results; what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.inference.formats.test_keras_layers import close, random
from trilobite.base.errors import FileError
from trilobite.inference import load
from trilobite.inference.formats.keras.archive import Saved, snake_case
from trilobite.inference.formats.keras.convert import from_saved

pytest.importorskip("onnx")

RELU = {"class_name": "ReLU", "config": {"name": "r"}}


def test_networks_that_do_not_fit_together() -> None:
    for config, message in (
        ({"class_name": "Sequential", "config": {}}, "does not fit together: KeyError "),
        ({"class_name": "Spell", "config": {}}, "a network of the class Spell"),
        ({"class_name": "Sequential", "config": [RELU]}, "does not say what it takes"),
    ):
        with pytest.raises(FileError, match=message):
            from_saved(Saved(config, None, "a network", {}), "Keras")
    with pytest.raises(FileError, match="holds weights alone, and no network"):
        from_saved(Saved(None, None, "a network", {}), "Keras")


@pytest.mark.parametrize("depth", [8, 9])
def test_networks_within_networks(depth: int) -> None:
    inner: dict[str, Any] = {"class_name": "ReLU", "config": {"name": "r"}}
    for _ in range(depth):
        inner = {"class_name": "Sequential", "config": {"name": "s", "layers": [inner]}}
    first = {"class_name": "InputLayer", "config": {"batch_shape": [None, 3]}}
    whole = {"class_name": "Sequential", "config": {"layers": [first, inner]}}
    if depth == 9:
        with pytest.raises(FileError, match="networks are nested more than 8 deep"):
            from_saved(Saved(whole, None, "a network", {}), "Keras")
        return
    model = from_saved(Saved(whole, None, "a network", {}), "Keras")
    (found,) = load(model, target="reference").run({"input": random(2, 3)}).values()
    close(np.asarray(found), np.maximum(random(2, 3), 0))


def functional(rows: Sequence[dict[str, Any]], inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    config = {
        "layers": [{"name": row["config"]["name"], **row} for row in rows],
        "input_layers": [[name, 0, 0] for name in inputs],
        "output_layers": [[name, 0, 0] for name in outputs],
    }
    return from_saved(Saved({"class_name": "Functional", "config": config}, None, "a network", {}), "Keras")


def layer(kind: str, name: str, *sources: str, **config: Any) -> dict[str, Any]:
    if not sources:
        shape = {"batch_input_shape": [None, 3], "dtype": {"module": "keras"}}
        return {"class_name": kind, "config": {"name": name, **shape}}
    inbound = [[[source, 0, 0, {}] for source in sources]]
    return {"class_name": kind, "config": {"name": name, **config}, "inbound_nodes": inbound}


def test_joining_layers_in_any_order_with_several_results() -> None:
    kinds = ("Add", "Subtract", "Multiply", "Maximum", "Minimum", "Average")
    joined = [layer(kind, kind, "x", "y", "x") for kind in kinds if kind != "Subtract"]
    joined += [layer("Subtract", "Subtract", "x", "y"), layer("Concatenate", "c", "y", "x", axis=1)]
    names = [row["config"]["name"] for row in joined]
    model = functional([*joined, layer("InputLayer", "y"), layer("InputLayer", "x")], ["x", "y"], names)
    x, y = random(2, 3), random(2, 3, seed=1)
    got = load(model, target="reference").run({"x": x, "y": y})
    three = [x, y, x]
    want = {
        "Add": sum(three), "Subtract": x - y, "Multiply": x * y * x, "Maximum": np.max(three, 0),
        "Minimum": np.min(three, 0), "Average": np.mean(three, 0), "c": np.concatenate([y, x], 1),
    }  # fmt: skip
    assert list(got) == ["output", *(f"output_{n}" for n in range(1, len(names)))]
    for name, found in zip(names, got.values(), strict=True):
        close(np.asarray(found), want[name])


def test_circles_are_refused() -> None:
    rows = [layer("InputLayer", "x"), layer("Add", "a", "x", "b"), layer("ReLU", "b", "a")]
    with pytest.raises(FileError, match="layers wait for each other"):
        functional(rows, ["x"], ["b"])


@pytest.mark.parametrize(("name", "path"), [
    ("Conv2DTranspose", "conv2d_transpose"), ("LSTM", "lstm"), ("BatchNormalization", "batch_normalization"),
    ("PReLU", "p_re_lu"), ("my-Layer", "my_layer"), ("GlobalMaxPooling1D", "global_max_pooling1d"),
])  # fmt: skip
def test_names_of_classes_as_paths(name: str, path: str) -> None:
    assert snake_case(name) == path
