"""The zoo's networks beside PyTorch's, JAX's and ONNX Runtime's of the same weights: those that `make bench`
measures.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import ours, rows_networks
from benchmarks.peers import networks, weights
from benchmarks.row import Job

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

IMAGES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "resnet18": ((2, 3, 65, 47), {}),
    "resnet50": ((1, 3, 64, 33), {}),
    "mobilenet_v2": ((2, 3, 65, 64), {}),
    "vgg19": ((1, 3, 35, 33), {"classifier": False}),
    "mlp": ((5, 784), {}),
    "lenet": ((3, 1, 28, 28), {}),
}
TRAINED = {
    "mlp": ((7, 784), 10, (7,)),
    "lenet": ((3, 1, 28, 28), 10, (3,)),
    "resnet18_32x32": ((3, 3, 16, 16), 10, (3,)),
    "char_transformer": (None, 96, (3, 17)),
    "char_lstm": (None, 96, (3, 17)),
}


@pytest.fixture(autouse=True)
def reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ours.VARIABLE, "reference")


def others(network: Any, w: dict[str, Any], x: Any) -> dict[str, Job]:
    from benchmarks.peers import on_jax, on_onnxruntime, on_torch

    return {
        "torch": on_torch.inference(network, w, x, "eager"),
        "torch channels last": on_torch.inference(network, w, x, "channels last"),
        "jax": on_jax.inference(network, w, x),
        "onnxruntime": on_onnxruntime.inference(network, lambda: w, x),
    }


def compare(mine: Job, theirs: dict[str, Job], tolerance: float) -> np.ndarray:
    (found,) = mine.outputs()
    assert np.isfinite(found).all()
    assert found.std() > 0
    for name, job in theirs.items():
        (expected,) = job.outputs()
        assert found.shape == expected.shape, name
        assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max(), name
    return found


@pytest.mark.parametrize("name", IMAGES)
def test_scores_of_images_are_the_peers(name: str) -> None:
    shape, options = IMAGES[name]
    x = weights.images(*shape)
    theirs = others(getattr(networks, name), weights.folded(name, **options), x)
    compare(ours.inference(name, x, **options), theirs, 2e-5)


def test_features_of_a_text_are_the_peers() -> None:
    x = weights.labels(30522, 2, 9)
    model = ours.network("bert_base").eval()
    theirs = others(networks.bert_base, weights.folded("bert_base"), x)
    compare(ours.job(lambda t: model(t)[0].reshape(18, -1), x), theirs, 2e-5)


def test_the_next_token_is_the_peers() -> None:
    x = weights.labels(50257, 1, 9)
    model = ours.network("gpt2").eval()
    theirs = others(networks.gpt2_prefill, weights.folded("gpt2"), x)
    compare(ours.job(lambda t: model.prefill(t), x), theirs, 2e-5)


def test_a_token_after_others_is_the_peers_again_and_again() -> None:
    mine, theirs = (
        rows_networks.decode_on_trilobite(),
        {
            "torch": rows_networks.decode_on_torch("eager"),
            "jax": rows_networks.decode_on_jax(),
            "onnxruntime": rows_networks.decode_on_onnxruntime(),
        },
    )
    for _ in range(2):
        compare(mine, theirs, 2e-5)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("eager", [False, True], ids=["jit", "eager"])
def test_losses_of_the_first_steps_are_the_peers(name: str, eager: bool) -> None:
    from benchmarks.peers import on_jax, on_torch

    shape, classes, wanted = TRAINED[name]
    x = weights.labels(classes, *wanted) if shape is None else weights.images(*shape)
    y = weights.labels(classes, *wanted, seed=5)
    network, w = getattr(networks, name), weights.trained(name)
    theirs = {
        "torch": on_torch.training(network, {k: v.copy() for k, v in w.items()}, x, y, "eager"),
        "jax": on_jax.training(network, w, x, y),
    }
    mine = ours.training(name, x, y, eager=eager)
    assert np.diff(compare(mine, theirs, 2e-4)).max() < 0
