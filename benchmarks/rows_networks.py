"""Inference of whole networks.

The zoo's networks, with 224×224 images or 128 tokens; b1 and b8 are batches of 1 and 8. VGG19 is its
convolutions alone. GPT-2 decodes one token with keys and values of 128 before it: PyTorch and ours write to a
cache in place, JAX to a donated one, ONNX Runtime joins a new one. Peers get batch normalisation folded into
the convolutions beforehand; ours is the network as the zoo has it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import ours
from benchmarks.peers import networks, weights
from benchmarks.row import Job, Row, both_thread_counts

TOKENS = 128
# name -> (shape after the batch, options of the zoo's network, operations of one example, aim)
IMAGES: dict[str, tuple[tuple[int, ...], dict[str, Any], float, float]] = {
    "resnet18": ((3, 224, 224), {}, 3.63e9, 1 / 1.2),
    "resnet50": ((3, 224, 224), {}, 8.18e9, 1.0),
    "mobilenet_v2": ((3, 224, 224), {}, 0.60e9, 1.0),
    "vgg19": ((3, 224, 224), {"classifier": False}, 39.0e9, 1 / 1.2),
}
SHOWN = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "mobilenet_v2": "MobileNetV2",
    "vgg19": "VGG19 features",
}


# -- images --------------------------------------------------------------------------------------------------


def images_on_trilobite(name: str, batch: int) -> Job:
    shape, options, *_ = IMAGES[name]
    return ours.inference(name, weights.images(batch, *shape), **options)


def images_on_torch(name: str, batch: int, variant: str) -> Job:
    from benchmarks.peers import on_torch

    shape, options, *_ = IMAGES[name]
    w, x = weights.folded(name, **options), weights.images(batch, *shape)
    return on_torch.inference(getattr(networks, name), w, x, variant)


def images_on_onnxruntime(name: str, batch: int) -> Job:
    from benchmarks.peers import on_onnxruntime

    shape, options, *_ = IMAGES[name]
    w, x = partial(weights.folded, name, **options), weights.images(batch, *shape)
    return on_onnxruntime.inference(getattr(networks, name), w, x)


def images_on_jax(name: str, batch: int) -> Job:
    from benchmarks.peers import on_jax

    shape, options, *_ = IMAGES[name]
    w, x = weights.folded(name, **options), weights.images(batch, *shape)
    return on_jax.inference(getattr(networks, name), w, x)


def image_row(name: str, batch: int) -> Row:
    *_, flops, aim = IMAGES[name]
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(images_on_trilobite, name, batch),
        "torch": partial(images_on_torch, name, batch, "eager"),
        "torch channels last": partial(images_on_torch, name, batch, "channels last"),
        "torch.compile": partial(images_on_torch, name, batch, "compile"),
        "onnxruntime": partial(images_on_onnxruntime, name, batch),
        "jax": partial(images_on_jax, name, batch),
    }
    quick = name in ("resnet18", "mobilenet_v2") and batch == 1
    shown = f"{SHOWN[name]} b{batch}"
    return Row(shown, systems, unit="ms", flops=flops * batch, aim_ratio=aim, quick=quick)


# -- text ----------------------------------------------------------------------------------------------------

TEXT = {"gpt2": (networks.gpt2_prefill, 50257), "bert_base": (networks.bert_base, 30522)}


def tokens(name: str, batch: int) -> Any:
    return weights.labels(TEXT[name][1], batch, TOKENS)


def text_on_trilobite(name: str, batch: int) -> Job:
    model = ours.network(name).eval()
    if name == "gpt2":
        return ours.job(lambda t: model.prefill(t), tokens(name, batch))
    return ours.job(lambda t: model(t)[0].reshape(batch * TOKENS, -1), tokens(name, batch))


def text_on_torch(name: str, batch: int, variant: str) -> Job:
    from benchmarks.peers import on_torch

    return on_torch.inference(TEXT[name][0], weights.folded(name), tokens(name, batch), variant)


def text_on_onnxruntime(name: str, batch: int) -> Job:
    from benchmarks.peers import on_onnxruntime

    return on_onnxruntime.inference(TEXT[name][0], partial(weights.folded, name), tokens(name, batch))


def text_on_jax(name: str, batch: int) -> Job:
    from benchmarks.peers import on_jax

    return on_jax.inference(TEXT[name][0], weights.folded(name), tokens(name, batch))


def text_row(shown: str, name: str, batch: int) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(text_on_trilobite, name, batch),
        "torch": partial(text_on_torch, name, batch, "eager"),
        "torch.compile": partial(text_on_torch, name, batch, "compile"),
        "onnxruntime": partial(text_on_onnxruntime, name, batch),
        "jax": partial(text_on_jax, name, batch),
    }
    flops = 2 * 85e6 * TOKENS * batch
    return Row(shown, systems, unit="ms", flops=flops, aim_ratio=1.0)


# -- one token -----------------------------------------------------------------------------------------------


def caches() -> list[Any]:
    """Keys and values of a layer in turn, with one place that is still free."""
    found = [weights.images(1, 12, TOKENS + 1, 64, seed=10 + i) for i in range(24)]
    for cache in found:
        cache[:, :, -1] = 0
    return found


def token() -> Any:
    return weights.labels(50257, 1, 1)


def decode_on_trilobite() -> Job:
    import numpy as np

    import trilobite as tb

    model = ours.network("gpt2").eval()
    cache = model.cache(capacity=TOKENS + 1)
    for i, values in enumerate(caches()):
        (cache.values if i % 2 else cache.keys)[i // 2].copy_(tb.tensor(values))
    return ours.job(lambda t, p: model.decode(t, p, cache), token(), np.array([TOKENS]))


def decode_on_torch(variant: str) -> Job:
    from benchmarks.peers import on_torch

    return on_torch.decoding(networks.gpt2_decode, weights.folded("gpt2"), token(), caches(), variant)


def decode_on_onnxruntime() -> Job:
    from benchmarks.peers import on_onnxruntime

    w = partial(weights.folded, "gpt2")
    return on_onnxruntime.decoding(networks.gpt2_decode, w, token(), caches())


def decode_on_jax() -> Job:
    from benchmarks.peers import on_jax

    return on_jax.decoding(networks.gpt2_decode, weights.folded("gpt2"), token(), caches())


DECODE = Row(
    "GPT-2 small, decode 1 token",
    {
        "trilobite": decode_on_trilobite,
        "torch": partial(decode_on_torch, "eager"),
        "torch.compile": partial(decode_on_torch, "compile"),
        "onnxruntime": decode_on_onnxruntime,
        "jax": decode_on_jax,
    },
    unit="ms",
    aim_ratio=1.0,
)

ROWS = both_thread_counts(
    [
        *(image_row(name, batch) for name in IMAGES for batch in (1, 8)),
        text_row(f"GPT-2 small, prefill {TOKENS}", "gpt2", 1),
        DECODE,
        *(text_row(f"BERT-base, {TOKENS} tokens b{batch}", "bert_base", batch) for batch in (1, 8)),
    ]
)
