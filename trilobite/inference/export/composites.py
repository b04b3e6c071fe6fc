"""Composites that ONNX has an operator for: a call of that name becomes one node instead of its body.

A row says from which opset on, and writes the node or gives False where the operator does not mean the same
(several axes, weights elsewhere, other dtypes); then the body is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.dtypes import bfloat16, float16, float32, float64, is_float
from trilobite.inference.export.scope import Scope
from trilobite.ir.graph import Equation

Write = Callable[[Scope, Equation, dict[str, Any]], bool]


def _options(e: Equation) -> dict[str, Any]:
    return dict(e.attributes.get("options", ()))


def _one(op: str, **renamed: str) -> Write:
    """One operand, one result; options under ONNX's names."""

    def write(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
        if not is_float(e.inputs[0].type.dtype):
            return False
        attrs = {new: float(options[old]) for old, new in renamed.items()}
        (name,), loose = s.loose(e.inputs)
        s.finish(e.outputs[0], s.emit(op, name, **attrs), loose)
        return True

    return write


def _fixed(op: str, **attrs: Any) -> Write:
    def write(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
        (name,), loose = s.loose(e.inputs)
        s.finish(e.outputs[0], s.emit(op, name, **attrs), loose)
        return True

    return write


def _along(op: str) -> Write:
    def write(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
        if len(options["axes"]) != 1:
            return False
        s.set(e.outputs[0], s.emit(op, s.name(e.inputs[0]), axis=options["axes"][0]))
        return True

    return write


def _hardtanh(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
    dtype = e.inputs[0].type.dtype
    if not is_float(dtype):
        return False
    bounds = [s.constant(options[k], dtype) for k in ("low", "high")]
    s.set(e.outputs[0], s.emit("Clip", s.name(e.inputs[0]), *bounds))
    return True


def _silu(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
    (name,), loose = s.loose(e.inputs)
    s.finish(e.outputs[0], s.emit("Mul", name, s.emit("Sigmoid", name)), loose)
    return True


def _softplus(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
    """ONNX's has no threshold; beyond 20 the difference is below rounding in float32."""
    if options["beta"] != 1.0 or options["threshold"] < 20 or e.inputs[0].type.dtype == float64:
        return False
    return _fixed("Softplus")(s, e, options)


def _layer_norm(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
    x, *affine = e.inputs
    axes, rank = options["axes"], x.type.ndim
    last = tuple(range(rank - len(axes), rank))
    if options["stats"] or not affine or tuple(axes) != last or tuple(options["places"]) != last:
        return False
    names = [s.name(v) for v in (x, *affine)]
    out = s.emit("LayerNormalization", *names, axis=axes[0] - rank, epsilon=float(options["eps"]))
    s.set(e.outputs[0], out)
    return True


def _batch_norm(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
    x, mean, variance, *affine = e.inputs
    if options["place"] != 1 or x.type.dtype not in (float32, float64, float16, bfloat16):
        return False
    names = [s.name(v) for v in affine]
    shape = tuple(int(d) for d in mean.type.shape if isinstance(d, int))
    if not names:
        names.append(s.model.constant(np.ones(shape, x.type.dtype)))
    if len(names) == 1:
        names.append(s.model.constant(np.zeros(shape, x.type.dtype)))
    out = s.emit(
        "BatchNormalization", s.name(x), *names, s.name(mean), s.name(variance), epsilon=float(options["eps"])
    )
    s.set(e.outputs[0], out)
    return True


def _rms_norm(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
    x, *affine = e.inputs
    axes, rank = options["axes"], x.type.ndim
    if len(affine) != 1 or tuple(axes) != tuple(range(rank - len(axes), rank)):
        return False
    out = s.emit(
        "RMSNormalization", s.name(x), s.name(affine[0]), axis=axes[0] - rank, epsilon=float(options["eps"])
    )
    s.set(e.outputs[0], out)
    return True


def _attention(s: Scope, e: Equation, options: dict[str, Any]) -> bool:
    """Four axes; a choice of keys is written out, since rows that choose none give 0 here and NaN there."""
    q, k, v, *extra = e.inputs
    choice = bool(extra) and not is_float(extra[0].type.dtype)
    if q.type.ndim != 4 or len(extra) != int(options["masked"]) or choice:
        return False
    names = [s.name(x) for x in (q, k, v, *extra)]
    s.set(
        e.outputs[0],
        s.emit("Attention", *names, is_causal=int(options["causal"]), scale=float(options["scale"])),
    )
    return True


ROWS: dict[str, tuple[int, Write]] = {
    "relu": (14, _one("Relu")),
    "sigmoid": (13, _fixed("Sigmoid")),
    "softmax": (13, _along("Softmax")),
    "log_softmax": (13, _along("LogSoftmax")),
    "hardtanh": (13, _hardtanh),
    "leaky_relu": (16, _one("LeakyRelu", slope="alpha")),
    "elu": (6, _one("Elu", alpha="alpha")),
    "silu": (13, _silu),
    "softplus": (1, _softplus),
    "softsign": (1, _fixed("Softsign")),
    "hardswish": (14, _fixed("HardSwish")),
    "mish": (18, _fixed("Mish")),
    "gelu": (20, _fixed("Gelu", approximate="none")),
    "gelu_tanh": (20, _fixed("Gelu", approximate="tanh")),
    "layer_norm": (17, _layer_norm),
    "batch_norm_inference": (15, _batch_norm),
    "rms_norm": (23, _rms_norm),
    "attention": (23, _attention),
}


def write(s: Scope, e: Equation) -> bool:
    """One node for a call, if ONNX has it in this opset."""
    since, rule = ROWS.get(e.attributes["name"], (10**9, None))
    return rule is not None and s.model.opset >= since and rule(s, e, _options(e))
