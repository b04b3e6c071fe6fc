"""Normalisations over values: subtract a mean, divide by a deviation, scale and shift.

Statistics are in the wide dtype. One pair of rules serves batch, layer, group and instance normalisation;
they differ in the axes that statistics run over and the axes that weights stand on. The reverse rule is
stated: it needs two sums where the derived one needs six passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.framework.nn.composites.arithmetic import (
    add,
    along,
    average,
    check_real,
    floating,
    mul,
    rsqrt,
    stop_gradient,
    sub,
    total,
    wide,
)
from trilobite.framework.ops.meeting import astype
from trilobite.ir.primitive import Value
from trilobite.ir.transforms.composite import composite

Axes = tuple[int, ...]


def _standardised(x: Value, axes: Axes, eps: float) -> tuple[Value, Value, Value, Value]:
    """(x - mean)·scale, scale, mean, variance; all in the wide dtype, reduced axes kept."""
    check_real("a variance", x)
    x = wide(x)
    mean = average(x, axes, keepdims=True)
    centred = sub(x, mean)
    variance = average(mul(centred, centred), axes, keepdims=True)
    scale = rsqrt(add(variance, eps))
    return mul(centred, scale), scale, mean, variance


def _affine(x: Value, affine: Sequence[Value], places: Axes) -> Value:
    """x·weight + bias; the weights stand on the axes `places`."""
    if affine:
        x = mul(x, along(wide(affine[0]), places, x.ndim))
    if len(affine) > 1:
        x = add(x, along(wide(affine[1]), places, x.ndim))
    return x


def _normalise(x: Value, *affine: Value, axes: Axes, places: Axes, eps: float, stats: bool) -> Any:
    """(x - mean)/sqrt(variance + eps)·weight + bias, with statistics over `axes`; with `stats`, these too as
    constants.
    """
    return _forward(x, *affine, axes=axes, places=places, eps=eps, stats=stats)[0]


def _forward(
    x: Value, *affine: Value, axes: Axes, places: Axes, eps: float, stats: bool
) -> tuple[Any, tuple[Value, ...]]:
    x = floating(x)
    hat, scale, mean, variance = _standardised(x, axes, eps)
    out = astype(_affine(hat, affine, places), x.dtype)
    kept = (hat, scale, x, *affine)
    return ((out, stop_gradient(mean), stop_gradient(variance)) if stats else out), kept


def _backward(
    residuals: Sequence[Value], cts: Sequence[Value], *, axes: Axes, places: Axes, eps: float, stats: bool
) -> list[Value]:
    hat, scale, x, *affine = residuals
    g = wide(cts[0])
    others = tuple(a for a in range(g.ndim) if a not in places)
    slopes = [astype(total(mul(g, hat), others), affine[0].dtype)] if affine else []
    slopes += [astype(total(g, others), affine[1].dtype)] if len(affine) > 1 else []
    if affine:
        g = mul(g, along(wide(affine[0]), places, g.ndim))
    spread = add(average(g, axes, keepdims=True), mul(hat, average(mul(g, hat), axes, keepdims=True)))
    return [astype(mul(scale, sub(g, spread)), x.dtype), *slopes]


batch_norm, layer_norm, group_norm, instance_norm = (
    composite(name, _forward, _backward)(_normalise)
    for name in ("batch_norm", "layer_norm", "group_norm", "instance_norm")
)


@composite("batch_norm_inference")
def batch_norm_inference(
    x: Value, mean: Value, variance: Value, *affine: Value, place: int, eps: float
) -> Value:
    """Normalisation by given statistics along one axis."""
    x = floating(x)
    mean, scale = (along(v, (place,), x.ndim) for v in (wide(mean), rsqrt(add(wide(variance), eps))))
    return astype(_affine(mul(sub(wide(x), mean), scale), affine, (place,)), x.dtype)


@composite("rms_norm")
def rms_norm(x: Value, *affine: Value, axes: Axes, eps: float) -> Value:
    """x divided by its root mean square over the last axes, times the weight."""
    x = floating(x)
    w = wide(x)
    scale = rsqrt(add(average(mul(w, w), axes, keepdims=True), eps))
    return astype(_affine(mul(w, scale), affine, axes), x.dtype)
