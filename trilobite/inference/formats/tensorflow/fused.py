"""Operations that optimisers of TensorFlow and TensorFlow.js write: a layer and what follows as one node."""

from __future__ import annotations

from trilobite.inference.formats import tensor_ops as ops
from trilobite.inference.formats.channels_last import Tensor
from trilobite.inference.formats.tensor_ops import Unknown
from trilobite.inference.formats.tensorflow.convert import Converter, Rule
from trilobite.inference.formats.tensorflow.graph import Node
from trilobite.inference.formats.tensorflow.rules import matmul
from trilobite.inference.formats.tensorflow.windows import biased, conv, depthwise, normalised

_ACTIVATIONS = {
    "Relu": "relu", "Relu6": "relu6", "Elu": "elu", "Selu": "selu", "Sigmoid": "sigmoid", "Tanh": "tanh",
    "GeluExact": "gelu",
}  # fmt: skip


def _with_what_follows(op: str, layer: Rule) -> Rule:
    """A layer of two inputs; what is named after it takes the further ones, in order."""

    def rule(c: Converter, n: Node) -> Tensor:
        n = n._replace(op=op)
        t = layer(c, n)
        assert isinstance(t, Tensor)
        at = 2
        for name in c.texts_of(n, "fused_ops"):
            t, at = _followed(c, n, t, name, at)
        return t

    return rule


def _followed(c: Converter, n: Node, t: Tensor, name: str, at: int) -> tuple[Tensor, int]:
    """One step more, and the place of the next input that nobody has read."""
    if name == "BiasAdd":
        return biased(c, n, t, c.x(n, at)), at + 1
    if name == "FusedBatchNorm":
        return normalised(c, n, t, at), at + 4
    if name == "Prelu":
        return c.layers.pointwise("PRelu", t, c.x(n, at)), at + 1
    if name == "LeakyRelu":
        return c.layers.unary("LeakyRelu", t, alpha=c.number(n, "leakyrelu_alpha", 0.2)), at
    if name == "GeluApproximate":
        return c.layers.unary("Gelu", t, approximate="tanh"), at
    if name not in _ACTIVATIONS:
        raise Unknown(f"{n.op} with {name}")
    return ops.activation(c.layers, t, _ACTIVATIONS[name]), at


def _div_no_nan(c: Converter, n: Node) -> Tensor:
    """0 where the divisor is."""
    x, y = c.x(n, 0), c.x(n, 1)
    zero = c.layers.number(0, c.type(n, "T"))
    quotient = c.layers.pointwise("Div", x, y)
    return c.layers.pointwise("Where", c.layers.pointwise("Equal", y, zero), zero, quotient)


FUSED: dict[str, Rule] = {
    "_FusedConv2D": _with_what_follows("Conv2D", conv),
    "_FusedMatMul": _with_what_follows("MatMul", matmul),
    **dict.fromkeys(
        ("_FusedDepthwiseConv2dNative", "FusedDepthwiseConv2dNative"),
        _with_what_follows("DepthwiseConv2dNative", depthwise),
    ),
    "Prelu": lambda c, n: c.layers.pointwise("PRelu", c.x(n, 0), c.x(n, 1)),
    "DivNoNan": _div_no_nan,
}
