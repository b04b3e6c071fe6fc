"""PyTorch: eager, with channels last, and torch.compile."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.peers.networks import Network
from benchmarks.row import Job

torch.set_num_threads(len(os.sched_getaffinity(0)))


class Ops:
    """What networks are written with; see `networks`."""

    relu, relu6 = staticmethod(F.relu), staticmethod(F.relu6)
    add = staticmethod(torch.add)
    linear = staticmethod(F.linear)
    tanh = staticmethod(torch.tanh)

    @staticmethod
    def size(x: Any, axis: int) -> int:
        return int(x.shape[axis])

    @staticmethod
    def conv(x: Any, w: Any, b: Any, stride: int, pad: int, groups: int) -> Any:
        return F.conv2d(x, w, b, stride, pad, 1, groups)

    @staticmethod
    def batch_norm(x: Any, scale: Any, shift: Any) -> Any:
        return F.batch_norm(x, None, None, scale, shift, training=True)

    @staticmethod
    def max_pool(x: Any, size: int, stride: int, pad: int) -> Any:
        return F.max_pool2d(x, size, stride, pad)

    @staticmethod
    def mean_of_pixels(x: Any) -> Any:
        return x.mean((2, 3))

    @staticmethod
    def flatten(x: Any) -> Any:
        return x.flatten(1)

    @staticmethod
    def layer_norm(x: Any, scale: Any, shift: Any, eps: float) -> Any:
        return F.layer_norm(x, (x.shape[-1],), scale, shift, eps)

    @staticmethod
    def gelu(x: Any, tanh: bool) -> Any:
        return F.gelu(x, approximate="tanh" if tanh else "none")

    @staticmethod
    def softmax(x: Any) -> Any:
        return F.softmax(x, -1)

    @staticmethod
    def embedding(table: Any, tokens: Any) -> Any:
        return F.embedding(tokens.reshape(-1), table)

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
        return x.chunk(3, -1)

    @staticmethod
    def heads(x: Any, batch: int, heads: int) -> Any:
        return x.reshape(batch, x.shape[0] // batch, heads, -1).transpose(1, 2)

    @staticmethod
    def rows(x: Any) -> Any:
        batch, heads, length, features = x.shape
        return x.transpose(1, 2).reshape(batch * length, heads * features)

    @staticmethod
    def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    @staticmethod
    def extended(cache: Any, new: Any, position: int) -> Any:
        cache[:, :, position : position + 1] = new
        return cache

    @staticmethod
    def lstm(x: Any, batch: int, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        steps = x.reshape(batch, -1, x.shape[-1])
        zero = x.new_zeros(1, batch, w_hh.shape[1])
        out = torch.lstm(steps, (zero, zero), (w_ih, w_hh, b_ih, b_hh), True, 1, 0.0, True, False, True)[0]
        return out.reshape(x.shape[0], -1)


def tensors(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def channels_last(value: Any) -> Any:
    return value.to(memory_format=torch.channels_last) if value.ndim == 4 else value


def compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A row begins with no memory of the rows before."""
    torch._dynamo.reset()
    found: Callable[..., Any] = torch.compile(fn)
    return found


def job(fn: Callable[..., Any], *arguments: Any) -> Job:
    """The call of a function without gradients, and what it gives."""

    def work() -> Any:
        with torch.no_grad():
            return fn(*arguments)

    return Job(work, lambda: [work().numpy()])


def inference(network: Network, weights: Mapping[str, Any], x: Any, variant: str) -> Job:
    """`variant` is eager, channels last or compile."""
    w, given = tensors(weights), torch.from_numpy(x)
    if variant == "channels last":
        w, given = {name: channels_last(value) for name, value in w.items()}, channels_last(given)

    def run(w: Any, x: Any) -> Any:
        return network(Ops, w, x)

    return job(compiled(run) if variant == "compile" else run, w, given)


def decoding(network: Any, weights: Mapping[str, Any], token: Any, caches: Any, variant: str) -> Job:
    """The caches have one place more than they are filled: each call writes to it."""
    w, given, position = tensors(weights), torch.from_numpy(token), caches[0].shape[2] - 1
    memory = [torch.from_numpy(cache.copy()) for cache in caches]

    def run(w: Any, token: Any, memory: Any) -> Any:
        return network(Ops, w, token, memory, position)[0]

    return job(compiled(run) if variant == "compile" else run, w, given, memory)


def training(network: Network, weights: Mapping[str, Any], x: Any, y: Any, variant: str) -> Job:
    """Forward, backward and Adam; the outputs are the first three losses."""
    w = {name: value.requires_grad_() for name, value in tensors(weights).items()}
    optimizer = torch.optim.Adam(list(w.values()), 1e-3, fused=True)
    given, wanted = torch.from_numpy(x), torch.from_numpy(y.reshape(-1))

    def run(w: Any, x: Any, y: Any) -> Any:
        return F.cross_entropy(network(Ops, w, x), y)

    loss_of = compiled(run) if variant == "compile" else run

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(w, given, wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return with_first_losses(step)


def with_first_losses(step: Callable[[], Any]) -> Job:
    return Job(step, lambda: [np.array([float(step()) for _ in range(3)])])
