"""The text networks beside a plain reading of their papers in NumPy: every sum, norm and head by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import trilobite as tb

SIZES = {"vocabulary": 61, "context": 16, "width": 24, "heads": 3, "layers": 2}
Weights = dict[str, np.ndarray[Any, Any]]


def weights_of(model: tb.nn.Module) -> Weights:
    """All of them drawn anew, far from zero and one: what starts as zeros hides what is done with it."""
    rng = np.random.default_rng(3)
    state = {name: rng.normal(0, 0.4, tuple(t.shape)) for name, t in model.state_dict().items()}
    model.load_state_dict({name: tb.tensor(w.astype(np.float32)) for name, w in state.items()})
    return state


def linear(w: Weights, name: str, x: Any) -> Any:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(w: Weights, name: str, x: Any, epsilon: float) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def attend(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """(batch, length, width) each, by heads; `seen` is True where a token counts."""

    def heads(x: Any) -> Any:
        return x.reshape(*x.shape[:2], SIZES["heads"], -1).transpose(0, 2, 1, 3)

    scores = heads(q) @ heads(k).transpose(0, 1, 3, 2) / math.sqrt(SIZES["width"] // SIZES["heads"])
    shares = np.exp(np.where(seen, scores, -np.inf))
    return (shares / shares.sum(-1, keepdims=True) @ heads(v)).transpose(0, 2, 1, 3).reshape(q.shape)


def bert(w: Weights, tokens: Any, sentences: Any, mask: Any) -> tuple[Any, Any]:
    x = sum(
        w[f"embeddings.{name}_embeddings.weight"][at]
        for name, at in (
            ("word", tokens),
            ("position", np.arange(tokens.shape[1])),
            ("token_type", sentences),
        )
    )
    x = norm(w, "embeddings.LayerNorm", x, 1e-12)
    erf = np.vectorize(math.erf)
    for n in range(SIZES["layers"]):
        at = f"encoder.layer.{n}"
        q, k, v = (linear(w, f"{at}.attention.self.{name}", x) for name in ("query", "key", "value"))
        y = linear(w, f"{at}.attention.output.dense", attend(q, k, v, mask[:, None, None]))
        x = norm(w, f"{at}.attention.output.LayerNorm", y + x, 1e-12)
        y = linear(w, f"{at}.intermediate.dense", x)
        y = linear(w, f"{at}.output.dense", 0.5 * y * (1 + erf(y / math.sqrt(2))))
        x = norm(w, f"{at}.output.LayerNorm", y + x, 1e-12)
    return x, np.tanh(linear(w, "pooler.dense", x[:, 0]))


def gpt2(w: Weights, tokens: Any) -> Any:
    length = tokens.shape[1]
    x = w["wte.weight"][tokens] + w["wpe.weight"][:length]
    for n in range(SIZES["layers"]):
        q, k, v = np.split(linear(w, f"h.{n}.attn.c_attn", norm(w, f"h.{n}.ln_1", x, 1e-5)), 3, -1)
        y = attend(q, k, v, np.tril(np.ones((length, length), bool)))
        x = x + linear(w, f"h.{n}.attn.c_proj", y)
        y = linear(w, f"h.{n}.mlp.c_fc", norm(w, f"h.{n}.ln_2", x, 1e-5))
        y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + linear(w, f"h.{n}.mlp.c_proj", y)
    return norm(w, "ln_f", x, 1e-5) @ w["wte.weight"].T


@pytest.mark.parametrize("length", [1, 7, 16])
def test_bert(length: int) -> None:
    model = tb.zoo.create("bert_base", **SIZES).eval()
    weights, rng = weights_of(model), np.random.default_rng(length)
    tokens, sentences = rng.integers(0, 61, (3, length)), rng.integers(0, 2, (3, length))
    mask = rng.random((3, length)) < 0.7
    mask[:, 0] = True
    found = model(tb.tensor(tokens), tb.tensor(sentences), tb.tensor(mask))
    for got, wanted in zip(found, bert(weights, tokens, sentences, mask), strict=True):
        np.testing.assert_allclose(got.detach().numpy(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("length", [1, 7, 16])
def test_gpt2(length: int) -> None:
    model = tb.zoo.create("gpt2", **SIZES).eval()
    weights = weights_of(model)
    tokens = np.random.default_rng(length).integers(0, 61, (3, length))
    found = model(tb.tensor(tokens)).detach().numpy()
    np.testing.assert_allclose(found, gpt2(weights, tokens), rtol=1e-3, atol=1e-3)
