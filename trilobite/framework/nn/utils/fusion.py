"""A convolution or linear layer and the batch norm behind it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.ops.registry import operators


def _folded(layer: Any, bn: Any, axis: int) -> Any:
    out = copy.deepcopy(layer)
    with no_grad():
        scale = operators["rsqrt"].public(bn.running_var + bn.eps)
        scale = scale if bn.weight is None else scale * bn.weight
        bias = -bn.running_mean if layer.bias is None else layer.bias - bn.running_mean
        shift = bias * scale if bn.bias is None else bias * scale + bn.bias
        shape = [-1 if i == axis else 1 for i in range(layer.weight.ndim)]
        out.weight = Parameter(layer.weight * scale.reshape(shape), layer.weight.requires_grad)
        out.bias = Parameter(shift, layer.weight.requires_grad)
    return out


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what conv and bn do in evaluation."""
    return _folded(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what linear and bn do in evaluation."""
    return _folded(linear, bn, 0)


explain_room(globals())
