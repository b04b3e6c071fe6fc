"""Training steps.

Forward, backward and Adam in one call, from the same weights. MLP: 784-512-512-10, batch 128. LeNet: batch 64
of 28×28. ResNet-18: batch 32 of 32×32. LSTM: 256 wide, 64 characters, batch 32. Character transformer: 4
layers, 256 wide, 128 characters, batch 16. Style: a step of Gatys, Ecker and Bethge (2015) on an image of
256×256 through VGG19. JAX donates its state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import ours
from benchmarks.peers import networks, weights
from benchmarks.row import Job, Row, both_thread_counts

AIM = 1.0
# shown -> (name in the zoo, shape of images or None for text, classes, shape of the labels)
STEPS: dict[str, tuple[str, tuple[int, ...] | None, int, tuple[int, ...]]] = {
    "MLP b128": ("mlp", (128, 784), 10, (128,)),
    "LeNet b64": ("lenet", (64, 1, 28, 28), 10, (64,)),
    "ResNet-18 32×32 b32": ("resnet18_32x32", (32, 3, 32, 32), 10, (32,)),
    "LSTM 256, 64 characters b32": ("char_lstm", None, 96, (32, 64)),
    "character transformer b16": ("char_transformer", None, 96, (16, 128)),
}


def batch(shown: str) -> tuple[Any, Any]:
    _, shape, classes, wanted = STEPS[shown]
    x = weights.labels(classes, *wanted) if shape is None else weights.images(*shape)
    return x, weights.labels(classes, *wanted, seed=5)


def on_trilobite(shown: str, eager: bool = False) -> Job:
    return ours.training(STEPS[shown][0], *batch(shown), eager=eager)


def on_torch(shown: str, variant: str) -> Job:
    from benchmarks.peers import on_torch

    name = STEPS[shown][0]
    return on_torch.training(getattr(networks, name), weights.trained(name), *batch(shown), variant)


def on_jax(shown: str) -> Job:
    from benchmarks.peers import on_jax

    name = STEPS[shown][0]
    return on_jax.training(getattr(networks, name), weights.trained(name), *batch(shown))


def step_row(shown: str) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(on_trilobite, shown),
        "torch": partial(on_torch, shown, "eager"),
        "torch.compile": partial(on_torch, shown, "compile"),
        "jax": partial(on_jax, shown),
    }
    return Row(shown, systems, unit="ms", aim_ratio=AIM, quick=shown in ("MLP b128", "LeNet b64"))


# -- style transfer ------------------------------------------------------------------------------------------

SIZE = 256
STYLE, CONTENT = (1, 3, 5, 9, 13), 10  # convolutions of VGG19: the first of each size; the second of 512
CHANNELS = (64, 128, 256, 512, 512)
STYLE_WEIGHT = 1e4


def style_inputs() -> tuple[Any, list[Any], Any]:
    """An image, the correlations that its features shall have, and the content that it shall keep."""
    style = [0.1 * weights.images(c, c, seed=20 + i) for i, c in enumerate(CHANNELS)]
    return weights.images(1, 3, SIZE, SIZE), style, weights.images(1, 512, SIZE // 8, SIZE // 8, seed=9)


def style_loss(features: list[Any], style: list[Any], content: Any) -> Any:
    """`features` are those after STYLE and CONTENT, in the network's order. Works in every framework."""
    order = sorted((*STYLE, CONTENT))
    at = dict(zip(order, features, strict=True))
    loss = ((at[CONTENT] - content) ** 2).mean()
    for tap, wanted in zip(STYLE, style, strict=True):
        flat = at[tap].reshape(at[tap].shape[1], -1)
        gram = flat @ flat.T / (flat.shape[0] * flat.shape[1])
        loss = loss + STYLE_WEIGHT * ((gram - wanted) ** 2).mean()
    return loss


def style_on_trilobite() -> Job:
    import trilobite as tb

    model = ours.network("vgg19", classifier=False).requires_grad_(False).eval()
    first, style, content = style_inputs()
    image = tb.nn.Parameter(tb.tensor(first))
    wanted, kept = [tb.tensor(s) for s in style], tb.tensor(content)
    optimizer = tb.optim.Adam([image], lr=1e-2)

    def update() -> Any:
        optimizer.zero_grad()
        loss = style_loss(vgg_taps(model.features, image), wanted, kept)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return ours.first_losses(ours.compiled(update))


def vgg_taps(features: Any, x: Any) -> list[Any]:
    import trilobite as tb

    found, convs, after = [], 0, False
    for layer in features:
        x = layer(x)
        if after:
            found.append(x)
        if after and convs == max(STYLE):
            break
        convs += isinstance(layer, tb.nn.Conv2d)
        after = isinstance(layer, tb.nn.Conv2d) and convs in (*STYLE, CONTENT)
    return found


def style_on_torch(variant: str) -> Job:
    import torch

    from benchmarks.peers import on_torch

    first, style, content = style_inputs()
    w = on_torch.tensors(weights.folded("vgg19", classifier=False))
    image = torch.from_numpy(first).requires_grad_()
    wanted, kept = [torch.from_numpy(s) for s in style], torch.from_numpy(content)
    optimizer = torch.optim.Adam([image], 1e-2, fused=True)

    def run(image: Any) -> Any:
        taps = networks.vgg19_taps(on_torch.Ops, w, image, (*STYLE, CONTENT))
        return style_loss(taps, wanted, kept)

    loss_of = on_torch.compiled(run) if variant == "compile" else run

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(image)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return on_torch.with_first_losses(step)


def style_on_jax() -> Job:
    import jax.numpy as jnp

    from benchmarks.peers import on_jax

    first, style, content = style_inputs()
    w = on_jax.arrays(weights.folded("vgg19", classifier=False))

    def loss_of(image: Any, w: Any, wanted: Any, kept: Any) -> Any:
        return style_loss(networks.vgg19_taps(on_jax.Ops, w, image, (*STYLE, CONTENT)), wanted, kept)

    given = w, [jnp.asarray(s) for s in style], jnp.asarray(content)
    return on_jax.optimised(loss_of, jnp.asarray(first), *given, rate=1e-2)


STYLE_ROW = Row(
    f"style step, VGG19 {SIZE}²",
    {
        "trilobite": style_on_trilobite,
        "torch": partial(style_on_torch, "eager"),
        "torch.compile": partial(style_on_torch, "compile"),
        "jax": style_on_jax,
    },
    unit="ms",
    aim_ratio=AIM,
)

ROWS = both_thread_counts([*map(step_row, STEPS), STYLE_ROW])
