"""linear_to_conv: a linear layer over the channels of images becomes a 1×1 convolution, where it pays.

Enters: a graph after sink_shapes. Leaves: the graph in which a product over axis 1 of x[N, C, *space] whose
result is moved back to [N, K, *space] is a convolution. It pays there and only there: two moves of the whole
image vanish, since convolutions of one size are products of matrices that leave channels where they are. A
linear layer whose operand has its channels last already is a product of matrices, and stays one.
"""

from __future__ import annotations

from trilobite.base.dtypes import FLOATS
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters, Match, Rule, by_head, rewrite
from trilobite.ir.graph import Graph, Var


def _as_convolution(m: Match) -> Var | None:
    """transpose(dot(x[N, C, *space], w)) -> conv(x, w[K, C, 1, ...]); where nobody else reads the dot."""
    dot, axes = m.inner(), m.attributes["axes"]
    x, w = dot.inputs
    (cx, cw), batch = dot.attributes["contract"], dot.attributes["batch"]
    space = x.type.ndim - 2
    fits = (cx, batch, w.type.ndim) == ((1,), ((), ()), 2) and 1 <= space <= 3 and len(cw) == 1
    if not fits or axes != (0, space + 1, *range(1, space + 1)) or m.rewriter.readers[dot.outputs[0]] > 1:
        return None
    kernels = w if cw == (1,) else m.make("transpose", w, axes=(1, 0))
    weights = m.make("reshape", kernels, shape=(*kernels.type.shape, *(1,) * space))
    ones, zeros = (1,) * space, (0,) * space
    return m.make(
        "conv", x, weights, stride=ones, low=zeros, high=zeros, x_dilation=ones, w_dilation=ones, groups=1,
        dtype=dot.attributes["dtype"],
    )  # fmt: skip


RULES = (Rule("transpose(dot(x, y))", _as_convolution, FLOATS, exact=False),)
_RULES = by_head(RULES)


def linear_to_conv(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with linear layers over axis 1 of images as convolutions."""
    return rewrite(graph, _RULES, counters)
