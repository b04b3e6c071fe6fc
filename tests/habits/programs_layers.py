"""Programs of layers and containers, for `programs.py`: the same rules."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from tests.habits.programs_nn import IMAGE, W4, X, Y, filled, program, refuses, room


@program
def fused(m: Any) -> Any:
    fusion, out = room(m, "nn.utils.fusion"), []
    for bias in (True, False):
        conv = filled(m, m.nn.Conv2d(3, 4, 2, bias=bias).double())
        norm = filled(m, m.nn.BatchNorm2d(4).double())
        with m.no_grad():
            norm.running_mean.copy_(m.tensor(X[0]))
            norm.running_var.copy_(m.tensor(W4[0] + 0.5))
        both = fusion.fuse_conv_bn_eval(conv.eval(), norm.eval())
        out += [both.weight, both.bias, both(m.tensor(IMAGE)), norm(conv(m.tensor(IMAGE)))]
    return out


@program
def parametrized(m: Any) -> Any:
    p, out = room(m, "nn.utils.parametrize"), []

    class Symmetric(m.nn.Module):
        def forward(self, w: Any) -> Any:
            return w.triu() + w.triu(1).transpose(-1, -2)

        def right_inverse(self, w: Any) -> Any:
            return w.triu()

    class Doubled(m.nn.Module):
        def forward(self, w: Any) -> Any:
            return w * 2

        def right_inverse(self, w: Any) -> Any:
            return w / 2

    layer = filled(m, m.nn.Linear(4, 4).double())
    p.register_parametrization(layer, "weight", Symmetric())
    p.register_parametrization(layer, "weight", Doubled())
    out += [
        layer.weight,
        len(layer.parametrizations.weight),
        p.is_parametrized(layer),
        p.is_parametrized(layer, "bias"),
    ]
    layer.weight = m.tensor(np.arange(16.0).reshape(4, 4))
    out += [
        layer.weight,
        layer.parametrizations.weight.original.clone(),
        sorted(k for k, _ in layer.named_parameters()),
    ]
    with p.cached():
        out += [layer.weight is layer.weight, layer(m.tensor(X))]
    out.append(layer.weight is layer.weight)
    p.remove_parametrizations(layer, "weight", leave_parametrized=True)
    out += [layer.weight, p.is_parametrized(layer), type(layer).__name__]
    other = filled(m, m.nn.Linear(4, 4).double())
    p.register_parametrization(other, "weight", Doubled())
    p.remove_parametrizations(other, "weight", leave_parametrized=False)
    return [*out, other.weight, refuses(lambda: p.register_parametrization(other, "none", Doubled()))]


@program
def orthogonal(m: Any) -> Any:
    made, out = room(m, "nn.utils.parametrizations"), []
    for rows, columns in ((4, 4), (5, 3), (3, 5)):
        layer = made.orthogonal(filled(m, m.nn.Linear(columns, rows).double()), orthogonal_map="matrix_exp")
        w = layer.weight
        out.append((w.mT @ w if rows >= columns else w @ w.mT).round(decimals=8) + 0.0)
    return [*out, refuses(lambda: made.orthogonal(m.nn.Linear(3, 3), orthogonal_map="other"))]


@program
def containers(m: Any) -> Any:
    nn = m.nn
    rows = nn.ModuleList([nn.Linear(1, i + 1) for i in range(5)])
    del rows[1]
    del rows[1:3]
    rows.insert(1, nn.Linear(1, 9))
    rows.extend([nn.Linear(1, 7)])
    out: list[Any] = [[r.out_features for r in rows], [r.out_features for r in rows[-2:]], len(rows)]
    seq = nn.Sequential(OrderedDict(a=nn.Linear(1, 2), b=nn.ReLU(), c=nn.Linear(2, 3)))
    del seq[1]
    seq.append(nn.Tanh())
    seq.insert(0, nn.Linear(1, 1))
    out += [
        [type(x).__name__ for x in seq],
        list(dict(seq.named_children())),
        len(seq[1:]),
        type(seq[1:]).__name__,
    ]
    out += [
        refuses(lambda: rows[4]),
        refuses(lambda: rows[3]),
        refuses(lambda: seq[-5]),
        rows[-1].out_features,
    ]
    table = nn.ModuleDict({"x": nn.ReLU(), "y": nn.Linear(1, 2)})
    del table["x"]
    table.update({"z": nn.Tanh(), "a": nn.GELU()})
    out += [
        list(table),
        "x" in table,
        "z" in table,
        type(table.pop("a")).__name__,
        len(table),
        list(table.keys()),
    ]
    ps = nn.ParameterList([m.tensor([1.0 * i]) for i in range(4)])
    ps.append(m.tensor([9.0]))
    out += [
        ps[-1],
        [float(p) for p in ps[1:3]],
        len(ps),
        refuses(lambda: ps[5]),
        [type(p).__name__ for p in ps][:1],
    ]
    named = nn.ParameterDict({"w": m.tensor([1.0]), "b": m.tensor([2.0])})
    named["c"] = m.tensor([3.0])
    del named["w"]
    out += [sorted(named.keys()), named["c"], refuses(lambda: named["w"]), "b" in named, len(named)]
    return [
        *out,
        named.pop("b"),
        len(named),
    ]


@program
def modules(m: Any) -> Any:
    """What a module says of itself, and its hooks around states."""
    nn, out = m.nn, []
    net = filled(
        m, nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Sequential(nn.Linear(2, 1, bias=False)))
    )
    out += [sorted(n for n, _ in net.named_parameters()), sorted(n for n, _ in net.named_buffers())]
    out += [
        [n for n, _ in net.named_modules()],
        sorted(net.state_dict()),
        sorted(net.state_dict(prefix="a.")),
    ]
    out += [str(net.double()[0].weight.dtype).split(".")[-1], str(net.half()[0].weight.dtype).split(".")[-1]]
    out += [
        str(net.bfloat16()[1].running_mean.dtype).split(".")[-1],
        str(net.float()[0].weight.dtype).split(".")[-1],
    ]
    out += [
        str(net.type(m.float64)[0].weight.dtype).split(".")[-1],
        str(net.to(m.float32)[1].running_var.dtype).split(".")[-1],
    ]
    out += [
        type(net.get_submodule("2.0")).__name__,
        tuple(net.get_parameter("0.weight").shape),
        net._get_name(),
    ]
    out += [refuses(lambda: net.get_submodule("2.1")), refuses(lambda: net.get_parameter("0.none"))]
    net.set_submodule("2.0", nn.Linear(2, 5))
    out += [
        net[2][0].out_features,
        net.training,
        net.eval().training,
        net[2][0].training,
        net.train()[2][0].training,
    ]
    net.requires_grad_(False)
    out += [any(p.requires_grad for p in net.parameters()), refuses(lambda: net.load_state_dict({}))]
    kept = net.load_state_dict({"0.bias": m.tensor([1.0, 2.0]), "other": m.tensor(0.0)}, strict=False)
    out += [net[0].bias, "1.weight" in kept.missing_keys, kept.unexpected_keys]
    net[0].register_forward_hook(lambda module, args, result: result * 2)
    net[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    net.load_state_dict(net.state_dict())
    prefixed = {f"module.{k}": v for k, v in net.state_dict().items()}
    consume = room(m, "nn.modules.utils").consume_prefix_in_state_dict_if_present
    consume(prefixed, "module.")
    norm = nn.LayerNorm(3)
    with m.no_grad():
        norm.weight.fill_(3.0)
        norm.bias.fill_(3.0)
    norm.reset_parameters()
    group = nn.GroupNorm(2, 4)
    with m.no_grad():
        group.weight.fill_(3.0)
    group.reset_parameters()
    out += [net[0](m.ones(1, 3)), sorted(prefixed), norm.weight, norm.bias, group.weight]
    return [
        *out,
        *(nn.init.calculate_gain(k) for k in ("relu", "tanh", "selu", "linear", "sigmoid")),
    ]


@program
def lazy(m: Any) -> Any:
    nn = m.nn
    net = nn.Sequential(nn.LazyConv2d(4, 2), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3))
    before = (
        [type(x).__name__ for x in net],
        net[3].has_uninitialized_params(),
        nn.parameter.is_lazy(net[3].weight),
    )
    net(m.ones(2, 3, 4, 5))
    shapes = [tuple(p.shape) for p in net.parameters()]
    loaded = nn.LazyLinear(3)
    loaded.load_state_dict({"weight": m.ones(3, 7), "bias": m.zeros(3)})
    return [
        *before,
        [type(x).__name__ for x in net],
        shapes,
        tuple(loaded.weight.shape),
        net[3].in_features,
        refuses(lambda: net(m.ones(2, 3, 4, 6))),
        nn.parameter.is_lazy(net[3].weight),
    ]


@program
def clipping(m: Any) -> Any:
    utils, out = m.nn.utils, []
    for order in (1.0, 2.0, 3.5, float("inf")):
        for most in (0.7, 1e6):
            ws = [m.nn.Parameter(m.tensor(a)) for a in (X, Y[0])]
            for w, g in zip(ws, (Y, X[1]), strict=True):
                w.grad = m.tensor(g * 3)
            out += [utils.clip_grad_norm_(ws, most, order), *(w.grad for w in ws)]
    utils.clip_grad_value_(ws, 0.5)
    line = utils.parameters_to_vector(ws)
    utils.vector_to_parameters(line * 2, ws)
    return [*out, *(w.grad for w in ws), line, *ws]
