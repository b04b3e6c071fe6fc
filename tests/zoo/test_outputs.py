"""What picture networks compute stays what it is: a few elements of their results beside kept ones.

Weights are drawn by name, so that no element of a result is without weight in it. `outputs.json` was written
by the interpreter on networks that agree with other frameworks' or with published weights; after a change
that is meant, `python -m tests.zoo.test_outputs` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from benchmarks.peers import weights

KEPT = Path(__file__).with_name("outputs.json")
PICTURES = {  # odd sizes, so that what is rounded up or padded counts
    "resnet18": (1, 3, 49, 35),
    "mobilenet_v2": (1, 3, 45, 64),
    "googlenet": (1, 3, 47, 61),
    "efficientnet_lite0": (1, 3, 45, 67),
    "unet": (1, 1, 32, 48),
    "tiny_yolov3": (1, 3, 64, 96),
    "style_transform": (1, 3, 28, 36),
}
ELEMENTS = 12  # of each result
OPTIONS: dict[str, dict[str, Any]] = {"unet": {"widths": (8, 16, 24, 32)}}


def found(name: str) -> list[list[float]]:
    options = OPTIONS.get(name, {})
    model = tb.zoo.create(name, initialise=False, **options).eval()
    model.load_state_dict({key: tb.asarray(value) for key, value in weights.each(name, **options)})
    with tb.no_grad():
        results = model(tb.asarray(weights.images(*PICTURES[name])))
    listed = results if isinstance(results, tuple) else (results,)
    flat = [np.asarray(r.numpy(), np.float64).reshape(-1) for r in listed]
    return [[float(r.std()), *r[:: max(r.size // ELEMENTS, 1)][:ELEMENTS]] for r in flat]


@pytest.mark.parametrize("name", PICTURES)
def test_results_are_the_kept_ones(name: str) -> None:
    for values, kept in zip(found(name), json.loads(KEPT.read_text())[name], strict=True):
        assert kept[0] > 1e-3  # a result that hardly varies would show nothing
        np.testing.assert_allclose(values, kept, rtol=1e-4, atol=1e-4 * kept[0])


if __name__ == "__main__":
    kept = {name: [[float(f"{v:.7g}") for v in row] for row in found(name)] for name in PICTURES}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
