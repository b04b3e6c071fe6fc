"""The zoo's networks as functions of (operations, weights, input), for every peer alike.

Weights go by the zoo's names. For inference batch normalisation is folded into the convolutions beforehand
(`weights.folded`), so that no peer has to do it; a network whose weights still have it is in training mode.
Tokens stand in rows: (batch · length, width).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Weights = Mapping[str, Any]
Network = Callable[[Any, Weights, Any], Any]


def conv_norm(
    ops: Any, w: Weights, x: Any, conv: str, norm: str, stride: int = 1, groups: int = 1, act: str = "relu"
) -> Any:
    """A convolution, its normalisation, an activation (or none)."""
    kernel = w[f"{conv}.weight"]
    pad = ops.size(kernel, 2) // 2
    if f"{norm}.weight" in w:
        y = ops.conv(x, kernel, None, stride, pad, groups)
        y = ops.batch_norm(y, w[f"{norm}.weight"], w[f"{norm}.bias"])
    else:
        y = ops.conv(x, kernel, w[f"{conv}.bias"], stride, pad, groups)
    return getattr(ops, act)(y) if act else y


def resnet(ops: Any, w: Weights, x: Any, depths: Sequence[int], convs: int, small: bool = False) -> Any:
    """`convs` per block: 2, or 3 in a bottleneck, which strides in its second."""
    x = conv_norm(ops, w, x, "conv1", "bn1", 1 if small else 2)
    x = x if small else ops.max_pool(x, 3, 2, 1)
    for stage, depth in enumerate(depths):
        for i in range(depth):
            at, stride = f"layer{stage + 1}.{i}", 2 if stage and i == 0 else 1
            y = x
            for c in range(1, convs + 1):
                here = stride if c == convs - 1 else 1
                act = "" if c == convs else "relu"
                y = conv_norm(ops, w, y, f"{at}.conv{c}", f"{at}.bn{c}", here, act=act)
            past = f"{at}.downsample"
            if f"{past}.0.weight" in w:
                x = conv_norm(ops, w, x, f"{past}.0", f"{past}.1", stride, act="")
            x = ops.relu(ops.add(y, x))
    return ops.linear(ops.mean_of_pixels(x), w["fc.weight"], w["fc.bias"])


def resnet18(ops: Any, w: Weights, x: Any) -> Any:
    return resnet(ops, w, x, (2, 2, 2, 2), 2)


def resnet50(ops: Any, w: Weights, x: Any) -> Any:
    return resnet(ops, w, x, (3, 4, 6, 3), 3)


def resnet18_32x32(ops: Any, w: Weights, x: Any) -> Any:
    return resnet(ops, w, x, (2, 2, 2, 2), 2, small=True)


MOBILENET_V2 = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet_v2(ops: Any, w: Weights, x: Any) -> Any:
    x = conv_norm(ops, w, x, "features.0.0", "features.0.1", 2, act="relu6")
    inputs, block = 32, 1
    for wider, outputs, count, first in MOBILENET_V2:
        for i in range(count):
            at, y, k, stride = f"features.{block}.conv", x, 0, first if i == 0 else 1
            inside = inputs * wider
            if wider != 1:
                y = conv_norm(ops, w, y, f"{at}.0.0", f"{at}.0.1", act="relu6")
                k = 1
            y = conv_norm(ops, w, y, f"{at}.{k}.0", f"{at}.{k}.1", stride, inside, act="relu6")
            y = conv_norm(ops, w, y, f"{at}.{k + 1}", f"{at}.{k + 2}", act="")
            x = ops.add(x, y) if stride == 1 and inputs == outputs else y
            inputs, block = outputs, block + 1
    x = conv_norm(ops, w, x, "features.18.0", "features.18.1", act="relu6")
    return ops.linear(ops.mean_of_pixels(x), w["classifier.1.weight"], w["classifier.1.bias"])


VGG19 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512, 0)


def vgg19_taps(ops: Any, w: Weights, x: Any, taps: Sequence[int]) -> list[Any]:
    """Features after these convolutions, counted from 1, and no further than the last of them."""
    found, at, convs = [], 0, 0
    for outputs in VGG19:
        if outputs == 0:
            x, at = ops.max_pool(x, 2, 2, 0), at + 1
            continue
        x = ops.relu(ops.conv(x, w[f"features.{at}.weight"], w[f"features.{at}.bias"], 1, 1, 1))
        at, convs = at + 2, convs + 1
        if convs in taps:
            found.append(x)
        if convs == max(taps):
            break
    return found


def vgg19(ops: Any, w: Weights, x: Any) -> Any:
    """The convolutions alone."""
    return ops.max_pool(vgg19_taps(ops, w, x, (16,))[0], 2, 2, 0)


def mlp(ops: Any, w: Weights, x: Any) -> Any:
    for i in range(2):
        x = ops.relu(ops.linear(x, w[f"layers.{i}.weight"], w[f"layers.{i}.bias"]))
    return ops.linear(x, w["layers.2.weight"], w["layers.2.bias"])


def lenet(ops: Any, w: Weights, x: Any) -> Any:
    for name in ("conv1", "conv2"):
        x = ops.max_pool(ops.relu(ops.conv(x, w[f"{name}.weight"], w[f"{name}.bias"], 1, 2, 1)), 2, 2, 0)
    x = ops.relu(ops.linear(ops.flatten(x), w["fc1.weight"], w["fc1.bias"]))
    return ops.linear(x, w["fc2.weight"], w["fc2.bias"])


# -- text ----------------------------------------------------------------------------------------------------


def linear(ops: Any, w: Weights, x: Any, name: str) -> Any:
    return ops.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def norm(ops: Any, w: Weights, x: Any, name: str, eps: float = 1e-5) -> Any:
    return ops.layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)


def gpt2_block(
    ops: Any, w: Weights, x: Any, at: str, batch: int, heads: int, attend: Callable[..., Any]
) -> Any:
    qkv = linear(ops, w, norm(ops, w, x, f"{at}.ln_1"), f"{at}.attn.c_attn")
    q, k, v = (ops.heads(part, batch, heads) for part in ops.thirds(qkv))
    x = ops.add(x, linear(ops, w, ops.rows(attend(q, k, v)), f"{at}.attn.c_proj"))
    y = ops.gelu(linear(ops, w, norm(ops, w, x, f"{at}.ln_2"), f"{at}.mlp.c_fc"), True)
    return ops.add(x, linear(ops, w, y, f"{at}.mlp.c_proj"))


def causal(ops: Any) -> Callable[..., Any]:
    return lambda q, k, v: ops.attention(q, k, v, True)


def gpt2_prefill(ops: Any, w: Weights, tokens: Any) -> Any:
    """(1, length) to scores of the token after them."""
    length = ops.size(tokens, 1)
    x = ops.add(ops.embedding(w["wte.weight"], tokens), ops.first_rows(w["wpe.weight"], length))
    for layer in range(12):
        x = gpt2_block(ops, w, x, f"h.{layer}", 1, 12, causal(ops))
    return ops.linear(ops.row(norm(ops, w, x, "ln_f"), length - 1), w["head.weight"], None)


def gpt2_decode(
    ops: Any, w: Weights, token: Any, caches: Sequence[Any], position: int
) -> tuple[Any, list[Any]]:
    """One token (1, 1) at a position; per layer keys and values of the positions before it."""
    x = ops.add(ops.embedding(w["wte.weight"], token), ops.row(w["wpe.weight"], position))
    new: list[Any] = []

    def attend(q: Any, k: Any, v: Any) -> Any:
        layer = len(new) // 2
        new.extend(ops.extended(caches[2 * layer + i], part, position) for i, part in enumerate((k, v)))
        return ops.attention(q, new[-2], new[-1], False)

    for layer in range(12):
        x = gpt2_block(ops, w, x, f"h.{layer}", 1, 12, attend)
    return ops.linear(norm(ops, w, x, "ln_f"), w["head.weight"], None), new


def bert_base(ops: Any, w: Weights, tokens: Any) -> Any:
    """(batch, length) to the features of each token."""
    batch, length = ops.size(tokens, 0), ops.size(tokens, 1)
    e = "embeddings"
    where = ops.add(
        ops.first_rows(w[f"{e}.position_embeddings.weight"], length),
        ops.row(w[f"{e}.token_type_embeddings.weight"], 0),
    )
    words = ops.embedding(w[f"{e}.word_embeddings.weight"], tokens)
    x = norm(ops, w, ops.add_to_each(words, where, batch), f"{e}.LayerNorm", 1e-12)
    for layer in range(12):
        at = f"encoder.layer.{layer}"
        a = f"{at}.attention"
        q, k, v = (
            ops.heads(linear(ops, w, x, f"{a}.self.{part}"), batch, 12) for part in ("query", "key", "value")
        )
        y = linear(ops, w, ops.rows(ops.attention(q, k, v, False)), f"{a}.output.dense")
        x = norm(ops, w, ops.add(y, x), f"{a}.output.LayerNorm", 1e-12)
        y = ops.gelu(linear(ops, w, x, f"{at}.intermediate.dense"), False)
        x = norm(ops, w, ops.add(linear(ops, w, y, f"{at}.output.dense"), x), f"{at}.output.LayerNorm", 1e-12)
    return x


def char_transformer(ops: Any, w: Weights, text: Any) -> Any:
    batch, length = ops.size(text, 0), ops.size(text, 1)
    words = ops.embedding(w["embed.weight"], text)
    x = ops.add_to_each(words, ops.first_rows(w["position"], length), batch)
    for layer in range(4):
        x = gpt2_block(ops, w, x, f"blocks.{layer}", batch, 4, causal(ops))
    return linear(ops, w, norm(ops, w, x, "norm"), "head")


def char_lstm(ops: Any, w: Weights, text: Any) -> Any:
    parts = [w[f"lstm.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    words = ops.embedding(w["embed.weight"], text)
    return linear(ops, w, ops.lstm(words, ops.size(text, 0), *parts), "head")
