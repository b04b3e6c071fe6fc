"""`tb.nn.utils.parametrizations`: weights as length times direction, of bounded stretch, or orthogonal."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.functional import normalize
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.utils.parametrize import register_parametrization
from trilobite.framework.ops.registry import operators
from trilobite.framework.random.draws import normal
from trilobite.framework.tensor import Tensor


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """The length of every slice along an axis; of the whole without one."""
    if dim is None:
        return operators["norm"].public(v)  # type: ignore[no-any-return]
    axes = tuple(i for i in range(v.ndim) if i != dim % v.ndim)
    return operators["norm"].public(v, 2.0, axes, keepdims=True)  # type: ignore[no-any-return]


class _WeightNorm(Module):
    """w = g·v / |v|."""

    def __init__(self, dim: int | None = 0) -> None:
        self.dim = dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return v * (g / norm_except(v, self.dim))  # type: ignore[no-any-return]

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """The weight as lengths (original0) times directions (original1)."""
    return register_parametrization(module, name, _WeightNorm(dim))


class _SpectralNorm(Module):
    """w / its largest singular value, which a power iteration follows in training."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        self.dim, self.n_power_iterations, self.eps = dim, n_power_iterations, eps
        if weight.ndim > 1:
            m = self._matrix(weight.detach())
            self.register_buffer("_u", normalize(normal((m.shape[0],), dtype=m.dtype), dim=0, eps=eps))
            self.register_buffer("_v", normalize(normal((m.shape[1],), dtype=m.dtype), dim=0, eps=eps))
            self._iterate(m, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)  # type: ignore[no-any-return]

    def _iterate(self, m: Tensor, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(normalize(m @ self._v, dim=0, eps=self.eps))
                self._v.copy_(normalize(m.mT @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        m = self._matrix(weight)
        if self.training:
            self._iterate(m.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / operators["vecdot"].public(u, m @ v)  # type: ignore[no-any-return]

    def right_inverse(self, value: Tensor) -> Tensor:
        return value

    _u: Any
    _v: Any


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """The weight over its largest singular value."""
    weight = getattr(module, name)
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


MAPS = ("matrix_exp", "cayley", "householder")  # for the last, too, a Cayley transform


class _Orthogonal(Module):
    """The orthogonal matrix that a Cayley transform or an exponential makes of a skew-symmetric one."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        a = x.mT if wide else x
        n, k = a.shape[-2], a.shape[-1]
        low = operators["tril"].public(operators["pad"].public(a, ((0, 0), (0, n - k))), -1)
        skew = low - low.mT
        if self.kind == "matrix_exp":
            q = operators["matrix_exp"].public(skew)
        else:
            from trilobite.framework.ops import linalg

            one = operators["eye"].public(n, dtype=x.dtype)
            q = linalg.solve(one + skew / 2, one - skew / 2)
        q = q[..., :k]
        return q.mT if wide else q  # type: ignore[no-any-return]


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, **settings: Any
) -> Module:
    """The weight as an orthogonal matrix; training starts from the identity."""
    from trilobite.framework.nn import init

    kind = orthogonal_map or "matrix_exp"
    if kind not in MAPS:
        raise ArgumentError(
            f"orthogonal with the map {kind!r}", where=user_location(), expected=f"one of {', '.join(MAPS)}"
        )
    register_parametrization(module, name, _Orthogonal(kind))
    init.zeros_(module.parametrizations[name].original)  # type: ignore[attr-defined]
    return module


explain_room(globals())
