"""The optimisers once more, in plain NumPy and float64, written from the papers: what the tests compare
with.

A reference is a function `(p, g, state, t, **settings) -> p`, with `state` a dict that it changes and `t`
counting the parameter's own steps from 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

State = dict[str, Any]


def _descend(p: Any, g: Any, weight_decay: float, maximize: bool) -> Any:
    return (-g if maximize else g) + weight_decay * p


def sgd(
    p, g, s, t, *, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False
):
    g = _descend(p, g, weight_decay, maximize)
    if momentum:
        s["b"] = g if t == 1 else momentum * s["b"] + (1 - dampening) * g
        g = g + momentum * s["b"] if nesterov else s["b"]
    return p - lr * g


def adagrad(
    p,
    g,
    s,
    t,
    *,
    lr=1e-2,
    lr_decay=0.0,
    weight_decay=0.0,
    initial_accumulator_value=0.0,
    eps=1e-10,
    maximize=False,
):
    g = _descend(p, g, weight_decay, maximize)
    s["h"] = s.get("h", np.full(p.shape, initial_accumulator_value)) + g * g
    return p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["h"]) + eps)


def rmsprop(
    p,
    g,
    s,
    t,
    *,
    lr=1e-2,
    alpha=0.99,
    eps=1e-8,
    weight_decay=0.0,
    momentum=0.0,
    centered=False,
    maximize=False,
):
    g = _descend(p, g, weight_decay, maximize)
    s["v"] = alpha * s.get("v", 0.0) + (1 - alpha) * g * g
    spread = s["v"]
    if centered:
        s["m"] = alpha * s.get("m", 0.0) + (1 - alpha) * g
        spread = np.maximum(spread - s["m"] ** 2, 0.0)
    step = g / (np.sqrt(spread) + eps)
    if momentum:
        step = s["b"] = momentum * s.get("b", 0.0) + step
    return p - lr * step


def _moments(g, s, t, b1, b2):
    s["m"] = b1 * s.get("m", 0.0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0.0) + (1 - b2) * g * g
    return s["m"] / (1 - b1**t), s["v"]


def adam(
    p,
    g,
    s,
    t,
    *,
    lr=1e-3,
    betas=(0.9, 0.999),
    eps=1e-8,
    weight_decay=0.0,
    amsgrad=False,
    maximize=False,
    apart=False,
):
    g = _descend(p, g, 0.0 if apart else weight_decay, maximize)
    if apart:
        p = p * (1 - lr * weight_decay)
    m, v = _moments(g, s, t, *betas)
    if amsgrad:
        v = s["top"] = np.maximum(s.get("top", 0.0), v)
    return p - lr * m / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adamw(p, g, s, t, *, weight_decay=1e-2, **rest):
    return adam(p, g, s, t, weight_decay=weight_decay, apart=True, **rest)


def lion(p, g, s, t, *, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
    g, m = (-g if maximize else g), s.get("m", np.zeros(p.shape))
    step = np.sign(betas[0] * m + (1 - betas[0]) * g)
    s["m"] = betas[1] * m + (1 - betas[1]) * g
    return p - lr * (step + weight_decay * p)


def lamb(p, g, s, t, *, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0, maximize=False):
    m, v = _moments(-g if maximize else g, s, t, *betas)
    step = m / (np.sqrt(v / (1 - betas[1] ** t)) + eps) + weight_decay * p
    length, reach = np.sqrt((p * p).sum()), np.sqrt((step * step).sum())
    return p - lr * (length / reach if length > 0 and reach > 0 else 1.0) * step


def rprop(p, g, s, t, *, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0), maximize=False):
    g = -g if maximize else g
    kept, size = np.sign(g * s.get("g", 0.0)), s.get("size", np.full(p.shape, lr))
    size = np.where(kept > 0, size * etas[1], np.where(kept < 0, size * etas[0], size))
    s["size"] = np.clip(size, *step_sizes)
    s["g"] = np.where(kept < 0, 0.0, g)
    return p - np.sign(s["g"]) * s["size"]


def asgd(p, g, s, t, *, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0, maximize=False):
    g = _descend(p, g, weight_decay, maximize)
    eta = lr / (1 + lambd * lr * (t - 1)) ** alpha
    return p * (1 - lambd * eta) - eta * g


_ADAGRAD = {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.03, "initial_accumulator_value": 0.5}
_RMSPROP = {"lr": 0.01, "alpha": 0.9, "momentum": 0.7, "centered": True, "weight_decay": 0.02, "eps": 1e-4}
_ADAM = {
    "lr": 0.02,
    "betas": (0.8, 0.95),
    "eps": 1e-5,
    "weight_decay": 0.1,
    "amsgrad": True,
    "maximize": True,
}
_LION = {"lr": 0.01, "betas": (0.95, 0.98), "weight_decay": 0.3, "maximize": True}

CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "sgd": ("SGD", sgd, {"lr": 0.1}),
    "sgd decay": ("SGD", sgd, {"lr": 0.1, "weight_decay": 0.07, "maximize": True}),
    "sgd momentum": ("SGD", sgd, {"lr": 0.05, "momentum": 0.9}),
    "sgd dampening": ("SGD", sgd, {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd nesterov": ("SGD", sgd, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.02}),
    "adagrad": ("Adagrad", adagrad, {"lr": 0.1}),
    "adagrad decays": ("Adagrad", adagrad, _ADAGRAD),
    "rmsprop": ("RMSprop", rmsprop, {"lr": 0.01}),
    "rmsprop all": ("RMSprop", rmsprop, _RMSPROP),
    "rmsprop momentum": ("RMSprop", rmsprop, {"lr": 0.01, "momentum": 0.7, "maximize": True}),
    "adam": ("Adam", adam, {"lr": 0.01}),
    "adam all": ("Adam", adam, _ADAM),
    "adamw": ("AdamW", adamw, {"lr": 0.01}),
    "adamw amsgrad": ("AdamW", adamw, {"lr": 0.02, "weight_decay": 0.2, "amsgrad": True}),
    "lion": ("Lion", lion, {"lr": 0.01}),
    "lion decay": ("Lion", lion, _LION),
    "rprop": ("Rprop", rprop, {}),
    "rprop sizes": (
        "Rprop",
        rprop,
        {"lr": 0.1, "etas": (0.3, 1.7), "step_sizes": (0.02, 0.3), "maximize": True},
    ),
    "asgd": ("ASGD", asgd, {}),
    "asgd falls": (
        "ASGD",
        asgd,
        {"lr": 0.05, "lambd": 0.3, "alpha": 0.6, "weight_decay": 0.02, "maximize": True},
    ),
    "lamb": ("LAMB", lamb, {"lr": 0.02}),
    "lamb decay": ("LAMB", lamb, {"lr": 0.02, "weight_decay": 0.05, "betas": (0.8, 0.9), "eps": 1e-3}),
}
