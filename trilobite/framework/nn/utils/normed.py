"""weight_norm and spectral_norm in PyTorch's first form: `weight_g`, `weight_v`, `weight_orig` in the module,
and a hook that computes the weight before each call.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.functional import normalize
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.utils.parametrizations import norm_except
from trilobite.framework.ops.registry import operators
from trilobite.framework.random.draws import normal
from trilobite.framework.tensor import Tensor


class _Weight:
    """A hook that sets the weight from what is trained."""

    def __init__(self, name: str) -> None:
        self.name = name

    def compute(self, module: Module) -> Tensor:
        raise NotImplementedError

    def __call__(self, module: Module, inputs: Any) -> None:
        module.__dict__[self.name] = self.compute(module)


class _WeightNorm(_Weight):
    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self.dim = dim

    def compute(self, module: Module) -> Tensor:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / norm_except(v, self.dim))  # type: ignore[no-any-return]


def _hooked(module: Module, hook: _Weight) -> None:
    module.__dict__[hook.name] = hook.compute(module)
    module.register_forward_pre_hook(hook)


def _found(module: Module, name: str, kind: Any) -> Any:
    rows: list[Any] = [] if module._hooks is None else list(module._hooks.forward_pre)
    return next(r for r in rows if isinstance(r.fn, kind) and r.fn.name == name)


def _plain_again(module: Module, name: str, value: Tensor, row: Any) -> Module:
    assert module._hooks is not None
    module._hooks.forward_pre.remove(row)
    del module.__dict__[name]
    module.register_parameter(name, Parameter(value.detach()))
    return module


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """The weight as lengths `weight_g` times directions `weight_v`."""
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(norm_except(weight.detach(), dim)))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    _hooked(module, _WeightNorm(name, dim))
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """A plain weight again, with the value it has now."""
    row = _found(module, name, _WeightNorm)
    with no_grad():
        value = row.fn.compute(module)
    delattr(module, f"{name}_g")
    delattr(module, f"{name}_v")
    return _plain_again(module, name, value, row)


class _SpectralNorm(_Weight):
    def __init__(self, name: str, times: int, eps: float, dim: int) -> None:
        super().__init__(name)
        self.times, self.eps, self.dim = times, eps, dim

    def matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)  # type: ignore[no-any-return]

    def compute(self, module: Module) -> Tensor:
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        m = self.matrix(weight)
        if module.training:
            with no_grad():
                for _ in range(self.times):
                    v.copy_(normalize(m.mT.detach() @ u, dim=0, eps=self.eps))
                    u.copy_(normalize(m.detach() @ v, dim=0, eps=self.eps))
        return weight / operators["vecdot"].public(u.clone(), m @ v.clone())  # type: ignore[no-any-return]


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """The weight over its largest singular value, which a power iteration follows in training."""
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    hook = _SpectralNorm(name, n_power_iterations, eps, dim)
    weight = getattr(module, name)
    rows, columns = hook.matrix(weight.detach()).shape
    delattr(module, name)
    module.register_parameter(f"{name}_orig", Parameter(weight.detach()))
    for label, n in (("u", rows), ("v", columns)):
        start = normalize(normal((n,), dtype=weight.dtype), dim=0, eps=eps)
        module.register_buffer(f"{name}_{label}", start)
    module.__dict__[name] = weight.detach()
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """A plain weight again, with the value it has now."""
    row = _found(module, name, _SpectralNorm)
    was, module.training = module.training, False
    with no_grad():
        value = row.fn.compute(module)
    module.training = was
    for label in ("orig", "u", "v"):
        delattr(module, f"{name}_{label}")
    return _plain_again(module, name, value, row)


explain_room(globals())
