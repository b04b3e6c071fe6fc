"""JAX: jit, with donated buffers where state goes round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.peers.networks import Network
from benchmarks.row import Job

EMBEDDINGS = ("wte.", "wpe.", "embed", "position")


class Ops:
    """What networks are written with; see `networks`. Linear weights stand (inputs, outputs)."""

    relu, tanh = staticmethod(jax.nn.relu), staticmethod(jnp.tanh)
    add = staticmethod(jnp.add)

    @staticmethod
    def relu6(x: Any) -> Any:
        return jnp.clip(x, 0, 6)

    @staticmethod
    def linear(x: Any, w: Any, b: Any) -> Any:
        return x @ w if b is None else x @ w + b

    @staticmethod
    def size(x: Any, axis: int) -> int:
        return int(x.shape[axis])

    @staticmethod
    def conv(x: Any, w: Any, b: Any, stride: int, pad: int, groups: int) -> Any:
        y = lax.conv_general_dilated(
            x, w, (stride, stride), [(pad, pad)] * 2, feature_group_count=groups,
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )  # fmt: skip
        return y if b is None else y + b[:, None, None]

    @staticmethod
    def batch_norm(x: Any, scale: Any, shift: Any) -> Any:
        mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * scale[:, None, None] + shift[:, None, None]

    @staticmethod
    def max_pool(x: Any, size: int, stride: int, pad: int) -> Any:
        edges = [(0, 0), (0, 0), (pad, pad), (pad, pad)]
        window, steps = (1, 1, size, size), (1, 1, stride, stride)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, steps, edges)

    @staticmethod
    def mean_of_pixels(x: Any) -> Any:
        return x.mean((2, 3))

    @staticmethod
    def flatten(x: Any) -> Any:
        return x.reshape(x.shape[0], -1)

    @staticmethod
    def layer_norm(x: Any, scale: Any, shift: Any, eps: float) -> Any:
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + eps) * scale + shift

    @staticmethod
    def gelu(x: Any, tanh: bool) -> Any:
        return jax.nn.gelu(x, approximate=tanh)

    @staticmethod
    def softmax(x: Any) -> Any:
        return jax.nn.softmax(x, -1)

    @staticmethod
    def embedding(table: Any, tokens: Any) -> Any:
        return table[tokens.reshape(-1)]

    @staticmethod
    def first_rows(table: Any, count: int) -> Any:
        return table[:count]

    @staticmethod
    def row(table: Any, at: int) -> Any:
        return table[at : at + 1]

    @staticmethod
    def add_to_each(x: Any, rows: Any, batch: int) -> Any:
        return (x.reshape(batch, *rows.shape) + rows).reshape(x.shape)

    @staticmethod
    def thirds(x: Any) -> Any:
        return jnp.split(x, 3, -1)

    @staticmethod
    def heads(x: Any, batch: int, heads: int) -> Any:
        return x.reshape(batch, x.shape[0] // batch, heads, -1).transpose(0, 2, 1, 3)

    @staticmethod
    def rows(x: Any) -> Any:
        batch, heads, length, features = x.shape
        return x.transpose(0, 2, 1, 3).reshape(batch * length, heads * features)

    @staticmethod
    def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5)
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e30)
        return jax.nn.softmax(scores, -1) @ v

    @staticmethod
    def extended(cache: Any, new: Any, position: int) -> Any:
        return lax.dynamic_update_slice(cache, new, (0, 0, position, 0))

    @staticmethod
    def lstm(x: Any, batch: int, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        width = w_hh.shape[0]
        projected = (x @ w_ih + (b_ih + b_hh)).reshape(batch, -1, 4 * width).swapaxes(0, 1)

        def cell(state: Any, z: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(z + h @ w_hh, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((batch, width), x.dtype)
        return lax.scan(cell, (zero, zero), projected)[1].swapaxes(0, 1).reshape(x.shape[0], width)


def arrays(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Matrices turned to (inputs, outputs), as JAX programs have them; tables stay."""
    turned = {
        name: value.T if value.ndim == 2 and not name.startswith(EMBEDDINGS) else value
        for name, value in weights.items()
    }
    return {name: jnp.asarray(np.ascontiguousarray(value)) for name, value in turned.items()}


def job(fn: Any, *arguments: Any) -> Job:
    jitted = jax.jit(fn)
    given = jax.tree.map(jnp.asarray, arguments)

    def work() -> Any:
        return jitted(*given).block_until_ready()

    return Job(work, lambda: [np.asarray(work())])


def inference(network: Network, weights: Mapping[str, Any], x: Any) -> Job:
    return job(lambda w, x: network(Ops, w, x), arrays(weights), x)


def decoding(network: Any, weights: Mapping[str, Any], token: Any, caches: Any) -> Job:
    w, given, position = arrays(weights), jnp.asarray(token), caches[0].shape[2] - 1
    jitted = jax.jit(lambda w, t, memory: network(Ops, w, t, memory, position), donate_argnums=(2,))
    memory = [jnp.asarray(cache) for cache in caches]

    def work() -> Any:
        nonlocal memory
        scores, memory = jitted(w, given, memory)
        return scores.block_until_ready()

    return Job(work, lambda: [np.asarray(work())])


def training(network: Network, weights: Mapping[str, Any], x: Any, y: Any) -> Job:
    """Forward, backward and Adam in one function whose state is donated."""
    labels, given = jnp.asarray(y.reshape(-1)), jnp.asarray(x)

    def loss_of(w: Any, x: Any, y: Any) -> Any:
        scores = jax.nn.log_softmax(network(Ops, w, x))
        return -jnp.mean(jnp.take_along_axis(scores, y[:, None], 1))

    return optimised(loss_of, arrays(weights), given, labels)


def optimised(loss_of: Any, weights: Any, *arguments: Any, rate: float = 1e-3) -> Job:
    def update(w: Any, m: Any, v: Any, t: Any, *arguments: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(w, *arguments)
        t = t + 1
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, gradient)
        step, root = rate / (1 - 0.9**t), jnp.sqrt(1 - 0.999**t)
        w = jax.tree.map(lambda p, a, b: p - step * a / (jnp.sqrt(b) / root + 1e-8), w, m, v)
        return (w, m, v, t), loss

    jitted = jax.jit(update, donate_argnums=(0, 1, 2, 3))
    blank = [jax.tree.map(jnp.zeros_like, weights) for _ in range(2)]
    state = (weights, *blank, jnp.float32(0))

    def step() -> Any:
        nonlocal state
        state, loss = jitted(*state, *arguments)
        return loss.block_until_ready()

    return Job(step, lambda: [np.array([float(step()) for _ in range(3)])])
