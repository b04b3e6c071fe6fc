"""Keras's recurrent layers as ONNX: LSTM, GRU, SimpleRNN, and both ways at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.inference.formats.channels_last import Tensor
from trilobite.inference.formats.keras.convert import Call, Rule
from trilobite.inference.formats.mapped import Array
from trilobite.inference.formats.tensor_ops import Unknown

# per layer: ONNX's operator, and Keras's gates in ONNX's order
_KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "LSTM": ("LSTM", (0, 3, 1, 2)),  # i f c o -> i o f c
    "GRU": ("GRU", (0, 1, 2)),  # z r h, as there
    "SimpleRNN": ("RNN", (0,)),
}
_GATES = {"LSTM": "sigmoid", "GRU": "sigmoid"}


def _turned(w: Array, gates: Sequence[int]) -> Array:
    """(inputs, gates·units) as (gates·units, inputs), gates in their new order."""
    parts = np.split(w, len(gates), axis=-1)
    found: Array = np.concatenate([parts[g] for g in gates], axis=-1)
    return np.moveaxis(found, -1, 0) if found.ndim == 2 else found


def _bias(c: Call, bias: Array | None, gates: Sequence[int], units: int) -> Array:
    """Of the input and of the state, behind each other."""
    if bias is None:
        return np.zeros(2 * len(gates) * units, np.float32)
    if bias.ndim == 2:  # a GRU that resets after its product has two
        return np.concatenate([_turned(row, gates) for row in bias])
    return np.concatenate([_turned(bias, gates), np.zeros_like(bias)])


def _check(c: Call, kind: str) -> None:
    plain = c.word("activation", "tanh") == "tanh"
    plain &= kind not in _GATES or c.word("recurrent_activation", "sigmoid") == _GATES[kind]
    if not plain or c.get("return_state") or c.get("stateful") or c.get("time_major"):
        raise Unknown(f"{kind} with other activations, states that are kept or given, or time first")


def _run(c: Call, kind: str, weights: Sequence[Array], direction: str) -> str:
    """All steps of one direction: (steps, batch, units)."""
    _check(c, kind)
    op, gates = _KINDS[kind]
    a = c.layers.a
    kernel, state = weights[0], weights[1]
    bias = weights[2] if len(weights) > 2 else None
    units = state.shape[0]
    x = a.node("Transpose", c.layers.last(c.x), perm=[1, 0, 2])
    more: dict[str, Any] = {"hidden_size": units, "direction": direction}
    if kind == "GRU":
        more["linear_before_reset"] = int(bool(c.get("reset_after", True)))
    w, r = (
        a.constant(_turned(v, gates)[None], hint=f"{c.get('name')}.{role}")
        for v, role in ((kernel, "kernel"), (state, "recurrent_kernel"))
    )
    y = a.many(op, [x, w, r, a.constant(_bias(c, bias, gates, units)[None])], 1, **more)[0]
    return a.node("Squeeze", y, a.ints(1))


def _result(c: Call, steps: str, sequences: bool, backwards: bool) -> str:
    """All steps in the order in which they were made, or the last that was made."""
    a = c.layers.a
    if not sequences:
        at = 0 if backwards else -1
        return a.node("Gather", steps, a.constant(at, np.int64), axis=0)
    out = a.node("Transpose", steps, perm=[1, 0, 2])
    if backwards:
        far = 2**31 - 1
        out = a.node("Slice", out, a.ints(-1), a.ints(-far), a.ints(1), a.ints(-1))
    return out


def _layer(kind: str) -> Rule:
    def rule(c: Call) -> Tensor:
        c.weight(1)
        backwards, sequences = bool(c.get("go_backwards")), bool(c.get("return_sequences"))
        steps = _run(c, kind, c.weights, "reverse" if backwards else "forward")
        return c.layers.made(_result(c, steps, sequences, backwards), 3 if sequences else 2)

    return rule


def _bidirectional(c: Call) -> Tensor:
    inner = c.get("layer", {})
    kind, config = inner.get("class_name", ""), inner.get("config", {})
    if kind not in _KINDS or c.get("merge_mode", "concat") not in ("concat", "sum", "ave", "mul"):
        raise Unknown(f"Bidirectional of {kind} joined by {c.get('merge_mode')}")
    half = len(c.weights) // 2
    sequences = bool(config.get("return_sequences"))
    one = Call(c.layers, kind, config, c.weights, c.xs)
    a = c.layers.a
    parts = []
    for k, direction in enumerate(("forward", "reverse")):
        steps = _run(one, kind, c.weights[k * half : (k + 1) * half], direction)
        # what comes back is put into the order of the input again
        parts.append(
            a.node("Transpose", steps, perm=[1, 0, 2]) if sequences else _result(one, steps, False, k == 1)
        )
    mode = c.get("merge_mode", "concat")
    if mode == "concat":
        out = a.node("Concat", *parts, axis=-1)
    else:
        out = a.node("Mul" if mode == "mul" else "Add", *parts)
        out = a.node("Mul", out, a.constant(0.5, np.float32)) if mode == "ave" else out
    return c.layers.made(out, 3 if sequences else 2)


ROWS: dict[str, Rule] = {**{kind: _layer(kind) for kind in _KINDS}, "Bidirectional": _bidirectional}
