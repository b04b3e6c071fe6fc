"""`tb.nn.utils`: gradients clipped, parameters as one vector, parametrised weights, packed sequences.

Enters: modules and their parameters. Leaves: the same, changed. May import `framework` and `base`. Read
`parametrize.py` first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trilobite.base.rooms import inner_room
from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.nn import packing as rnn
from trilobite.framework.nn.skeleton import functional_call
from trilobite.framework.nn.utils import parametrizations, parametrize, prune, stateless
from trilobite.framework.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from trilobite.framework.nn.utils.normed import (
    remove_spectral_norm,
    remove_weight_norm,
    spectral_norm,
    weight_norm,
)
from trilobite.framework.ops.registry import operators
from trilobite.framework.optim.clipping import clip_grad_norm_, clip_grad_value_
from trilobite.framework.tensor import Tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "functional_call", "fuse_conv_bn_eval",
    "fuse_linear_bn_eval", "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize",
    "prune",
    "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm", "stateless",
    "vector_to_parameters", "weight_norm",
]  # fmt: skip
clip_grad_norm = clip_grad_norm_


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements in one line."""
    return operators["concat"].public([p.reshape(-1) for p in parameters])  # type: ignore[no-any-return]


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write a line of elements back into the parameters."""
    at = 0
    with no_grad():
        for p in parameters:
            n = p.numel()
            p.copy_(vec[at : at + n].reshape(tuple(p.shape)))
            at += n


def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0, **settings: Any) -> Tensor:
    """The norm of all tensors together."""
    norms = [operators["norm"].public(t, norm_type) for t in tensors]
    return operators["norm"].public(operators["stack"].public(norms), norm_type)  # type: ignore[no-any-return]


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module whose weights are not drawn: they will be loaded."""
    from trilobite.framework.nn import init

    with init.skipped():
        return module_cls(*args, **kwargs)


def __getattr__(name: str) -> Any:
    return inner_room("nn.utils", name)


explain_room(globals())
