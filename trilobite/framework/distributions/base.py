"""What distributions share: parameters that broadcast, shapes of batches and events, draws with and without
gradients. Draws take their keys from the global generator.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, GradientError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.ops.registry import operators
from trilobite.framework.ops.shaping import handle
from trilobite.framework.sizes import Size
from trilobite.framework.tensor import Tensor
from trilobite.ir.transforms.cells import bottom


def op(name: str) -> Any:
    """A function of the table."""
    return operators[name].public


def broadcast(*parameters: Any) -> list[Any]:
    """Parameters as float tensors of one shape."""
    floats = [p for p in parameters if isinstance(p, Tensor) and p.dtype in dt.FLOATS]
    like = floats[0].dtype if floats else dt.default_float
    tensors = [
        p if isinstance(p, Tensor) and p.dtype in dt.FLOATS else handle(p).to(like) for p in parameters
    ]
    return list(op("broadcast_arrays")(*tensors))


class Distribution:
    """The base: `sample`, `rsample`, `log_prob`, `entropy`, `mean`, `variance`."""

    guarded_whole = True  # a recording depends on every attribute
    _validate_args = False
    has_rsample = False
    has_enumerate_support = False
    event_dims = 0

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    def _extended(self, sample_shape: Any) -> tuple[Any, ...]:
        lead = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return (*lead, *self._batch_shape, *self._event_shape)

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(self._extended(sample_shape))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for a larger batch: its parameters are repeated as views."""
        new = tuple(batch_shape)
        out = copy.copy(self) if _instance is None else _instance
        for name, value in vars(self).items():
            out.__dict__[name] = self._expanded(value, new)
        out.__dict__["_batch_shape"] = Size(new)
        return out

    def _expanded(self, value: Any, new: tuple[Any, ...]) -> Any:
        """A parameter as it is for a batch of another shape."""
        had = len(self._batch_shape)
        if isinstance(value, Tensor) and tuple(value.shape[:had]) == tuple(self._batch_shape):
            return op("broadcast_to")(value, (*new, *value.shape[had:]))
        if isinstance(value, Distribution):
            return value.expand((*new, *value.batch_shape[had:]))
        return tuple(self._expanded(each, new) for each in value) if type(value) is tuple else value

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """For `expand` of a class written for PyTorch: an object that its parameters are put into."""
        if _instance is None and type(self).__init__ is not getattr(cls, "__init__", None):
            raise NotImplementedError(
                f"{type(self).__name__} with an __init__ of its own has to define expand"
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _validate_sample(self, value: Any) -> None:
        """Values are not checked: densities outside of the support are what the formula gives."""

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Parameters are always checked, values never."""

    def _draw(self, shape: tuple[Any, ...]) -> Any:
        raise NotImplementedError

    def sample(self, sample_shape: Any = ()) -> Any:
        """Draws without a gradient."""
        with no_grad():
            return self._draw(self._extended(sample_shape)).detach()

    def rsample(self, sample_shape: Any = ()) -> Any:
        """Draws that depend on the parameters, so that gradients pass."""
        if not self.has_rsample:
            raise GradientError(
                f"rsample of {type(self).__name__}, whose draws are no smooth function of its parameters",
                where=user_location(),
                expected="a distribution with has_rsample",
                remedy="sample(), and a score-function estimate: (log_prob(x) * reward).backward()",
            )
        return self._draw(self._extended(sample_shape))

    sample_n = sample

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no variance")

    @property
    def mean(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    def log_prob(self, value: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def entropy(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Any:
        """e to the entropy."""
        return self.entropy().exp()

    def __repr__(self) -> str:
        shown = [f"{n}: {tuple(v.shape)}" for n, v in vars(self).items() if isinstance(v, Tensor)]
        return f"{type(self).__name__}({', '.join(shown)})"


def _standard_normal(shape: Any, dtype: Any, device: Any = None) -> Any:
    from trilobite.framework.random import draws

    return draws.normal(tuple(shape), dtype=dtype)


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over some last axes."""
    return value.sum(axis=tuple(range(-dim, 0))) if dim > 0 else value


def check(owner: str, name: str, value: Any, holds: Any, expected: str) -> None:
    """A parameter that makes no sense is an error where its values are known."""
    found = bottom(value._read()) if isinstance(value, Tensor) else value
    if isinstance(found, (bool, int, float)):
        found = np.asarray(found)
    if hasattr(found, "flags") and not bool(holds(found).all()):
        raise ArgumentError(
            f"{owner}: {name} is {found.tolist() if found.size < 8 else f'a tensor of {found.shape}'}",
            where=user_location(),
            expected=f"{name} {expected}",
        )


def positive(owner: str, **parameters: Any) -> None:
    for name, value in parameters.items():
        check(owner, name, value, lambda v: v > 0, "> 0")


def no_path(owner: str, name: str, value: Any) -> None:
    """Draws by rejection are no smooth function of this parameter."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise GradientError(
            f"rsample of {owner} with a {name} that requires a gradient",
            where=user_location(),
            expected=f"a {name} that is a constant: draws are made by rejection",
            remedy=f"{name}.detach(), or sample() and log_prob",
        )


explain_room(globals())
