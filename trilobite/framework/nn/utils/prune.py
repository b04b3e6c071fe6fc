"""`tb.nn.utils.prune`: parameters with elements held at zero by a mask.

Enters: a module and the name of a parameter. Leaves: the module with `NAME_orig` (trained) and `NAME_mask` (a
buffer) in its place, and a hook that multiplies them before each call. Smaller arrays are not made: what is
pruned stays zero, and `remove` writes the zeros into a plain parameter. Pruned again, a method sees only what
is left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.ops.registry import operators
from trilobite.framework.random.draws import uniform
from trilobite.framework.tensor import Tensor


def _op(name: str) -> Any:
    return operators[name].public


class BasePruningMethod(ABC):
    """What finds a mask, and the hook that applies it. Subclasses state `compute_mask` and PRUNING_TYPE:
    "unstructured" (single elements), "structured" (whole slices along `dim`) or "global".
    """

    PRUNING_TYPE: ClassVar[str] = "unstructured"
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        module.__dict__[self._tensor_name] = self.apply_mask(module)

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of `t`, within one that is there."""

    def apply_mask(self, module: Any) -> Tensor:
        """The parameter with the elements that are held at zero."""
        orig, mask = (getattr(module, f"{self._tensor_name}_{part}") for part in ("orig", "mask"))
        return mask.to(orig.dtype) * orig  # type: ignore[no-any-return]

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter of a module; returns the method, or all that were applied to it."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _hook_of(module, name)
        if before is None:
            weight = getattr(module, name)
            mask = _op("ones_like")(weight.detach())
        else:
            weight, mask = getattr(module, f"{name}_orig"), getattr(module, f"{name}_mask").clone()
        scores = weight if importance_scores is None else importance_scores
        if tuple(scores.shape) != tuple(weight.shape):
            raise ArgumentError(
                f"importance scores of shape {tuple(scores.shape)}",
                where=user_location(),
                expected=f"the shape of {name}, {tuple(weight.shape)}",
            )
        if before is not None:
            method = PruningContainer(before.fn, method)
        with no_grad():
            found = method.compute_mask(scores.detach(), mask)
        if before is not None:
            module._hooks.forward_pre.remove(before)
        _enter(module, name, weight, found)
        method(module, ())
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """A tensor of its own, pruned."""
        mask = _op("ones_like")(t.detach()) if default_mask is None else default_mask
        scores = t if importance_scores is None else importance_scores
        with no_grad():
            found = self.compute_mask(scores.detach(), mask)
        return t * found.to(t.dtype)  # type: ignore[no-any-return]

    def remove(self, module: Any) -> None:
        """The parameter is a plain one again, with zeros where it was pruned."""
        name = self._tensor_name
        with no_grad():
            weight = self.apply_mask(module)
            orig = getattr(module, f"{name}_orig")
            orig.copy_(weight)
        for part in ("orig", "mask"):
            delattr(module, f"{name}_{part}")
        del module.__dict__[name]
        module.register_parameter(name, orig)


def _enter(module: Any, name: str, weight: Tensor, mask: Tensor) -> None:
    if hasattr(module, f"{name}_orig"):
        getattr(module, f"{name}_mask").copy_(mask)
        return
    delattr(module, name)
    trained = weight if isinstance(weight, Parameter) else Parameter(weight.detach())
    module.register_parameter(f"{name}_orig", trained)
    module.register_buffer(f"{name}_mask", mask.to(weight.dtype))


def _hook_of(module: Any, name: str) -> Any:
    rows = [] if module._hooks is None else list(module._hooks.forward_pre)
    of_it = (r for r in rows if isinstance(r.fn, BasePruningMethod) and r.fn._tensor_name == name)
    return next(of_it, None)


class PruningContainer(BasePruningMethod):
    """Methods that were applied one after the other; the last one finds the new mask."""

    def __init__(self, *methods: Any) -> None:
        self._methods: list[Any] = []
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        if not isinstance(method, BasePruningMethod):
            raise ArgumentError(
                f"a pruning method {method!r}", where=user_location(), expected="a BasePruningMethod"
            )
        names = {m._tensor_name for m in self._methods}
        if names and method._tensor_name not in names:
            raise ArgumentError(
                f"a pruning method of {method._tensor_name!r}",
                where=user_location(),
                expected=f"one of {sorted(names)[0]!r}, as those before it",
            )
        inner = list(method) if isinstance(method, PruningContainer) else [method]
        self._methods += inner
        self._tensor_name = method._tensor_name

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, i: int) -> Any:
        return self._methods[i]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask with what the last method prunes of the rest."""
        method, mask = self._methods[-1], default_mask.clone()
        if method.PRUNING_TYPE == "unstructured":
            part: Any = mask.bool()
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            others = tuple(i for i in range(t.ndim) if i != dim)
            kept = mask.sum(axis=others) != 0
            part = tuple(kept if i == dim else slice(None) for i in range(t.ndim))
        else:
            part = (slice(None),) * t.ndim
        mask[part] = method.compute_mask(t[part], mask[part]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Everything is kept: names and hook as of a pruned parameter."""

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask


class _ByAmount(BasePruningMethod):
    """Some of the elements or slices: a share of them, or a number."""

    def __init__(self, amount: Any) -> None:
        share = isinstance(amount, float)
        if (
            isinstance(amount, bool)
            or not isinstance(amount, (int, float))
            or amount < 0
            or (share and amount > 1)
        ):
            raise ArgumentError(
                f"amount is {amount!r}",
                where=user_location(),
                expected="a share from 0.0 to 1.0, or a number of elements",
            )
        self.amount = amount

    def count_of(self, size: int) -> int:
        if isinstance(self.amount, float):
            return round(self.amount * size)
        if self.amount > size:
            raise ArgumentError(
                f"{self.amount} are to be pruned, and there are {size}",
                where=user_location(),
                expected=f"an amount up to {size}",
            )
        return int(self.amount)

    def least(self, line: Any) -> Any:
        """Places of the smallest of a line."""
        return _op("argsort")(line, axis=0, stable=True)[: self.count_of(line.shape[0])]


class _OfElements(_ByAmount):
    def scores(self, t: Any) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        at = self.least(self.scores(t).reshape(-1))
        line = default_mask.clone().reshape(-1)
        line[at] = 0
        return line.reshape(tuple(default_mask.shape))


class RandomUnstructured(_OfElements):
    """Elements that are drawn."""

    def scores(self, t: Any) -> Any:
        return uniform(tuple(t.shape))


class L1Unstructured(_OfElements):
    """The elements nearest to zero."""

    def scores(self, t: Any) -> Any:
        return abs(t)


class _OfSlices(_ByAmount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Any) -> Any:
        """One number per slice."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if t.ndim < 2:
            raise ArgumentError(
                f"slices of a tensor with {t.ndim} dimensions",
                where=user_location(),
                expected="at least two; an unstructured method takes fewer",
            )
        mask = default_mask.clone()
        at = self.least(self.scores(t))
        mask[tuple(at if i == self.dim % t.ndim else slice(None) for i in range(t.ndim))] = 0
        return mask


class RandomStructured(_OfSlices):
    """Slices that are drawn."""

    def scores(self, t: Any) -> Any:
        return uniform((t.shape[self.dim],))


class LnStructured(_OfSlices):
    """The slices of least norm of order n."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Any) -> Any:
        lines = t.movedim(self.dim, 0).reshape(t.shape[self.dim], -1)
        return lines.norm(p=self.n, dim=1)


class CustomFromMask(BasePruningMethod):
    """A mask of the user's, within the one that is there."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if tuple(self.mask.shape) != tuple(default_mask.shape):
            raise ArgumentError(
                f"a mask of shape {tuple(self.mask.shape)}",
                where=user_location(),
                expected=f"the shape of the parameter, {tuple(default_mask.shape)}",
            )
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Any, name: str) -> Any:
    """The parameter as if it was pruned, with a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Drawn elements of a parameter are held at zero."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """The smallest elements of a parameter are held at zero."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Drawn slices of a parameter are held at zero."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """The slices of least norm of a parameter are held at zero."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """A parameter is held at zero where a mask is."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Elements of several parameters are pruned as one line: the smallest of all, not of each."""
    if not issubclass(pruning_method, BasePruningMethod) or pruning_method.PRUNING_TYPE != "unstructured":
        raise ArgumentError(
            f"global_unstructured by {getattr(pruning_method, '__name__', pruning_method)}",
            where=user_location(),
            expected="a method of single elements, as L1Unstructured",
        )
    listed, given = list(parameters), importance_scores or {}
    tensors = [_now(module, name) for module, name in listed]
    scores = [given.get(key, t).detach() for key, t in zip(listed, tensors, strict=True)]
    masks = [_mask_of(module, name, t) for (module, name), t in zip(listed, tensors, strict=True)]
    whole = PruningContainer()
    whole._tensor_name = "temporary"
    method = pruning_method(**kwargs)
    method._tensor_name = "temporary"
    whole.add_pruning_method(method)
    with no_grad():
        mask = whole.compute_mask(_line(scores), _line(masks))
    for (module, name), part in zip(listed, _parts(mask, tensors), strict=True):
        custom_from_mask(module, name, part)


def _now(module: Any, name: str) -> Any:
    return getattr(module, f"{name}_orig", getattr(module, name))


def _mask_of(module: Any, name: str, t: Any) -> Any:
    found = getattr(module, f"{name}_mask", None)
    return _op("ones_like")(t.detach()) if found is None else found


def _line(tensors: Sequence[Any]) -> Any:
    return _op("concat")([t.reshape(-1) for t in tensors])


def _parts(line: Any, like: Sequence[Any]) -> list[Any]:
    ends = np.cumsum([t.numel() for t in like])
    return [
        line[int(e) - t.numel() : int(e)].reshape(tuple(t.shape)) for e, t in zip(ends, like, strict=True)
    ]


def remove(module: Any, name: str) -> Any:
    """A pruned parameter is a plain one again; its zeros stay."""
    row = _hook_of(module, name)
    if row is None:
        raise StateError(
            f"{name!r} of a {type(module).__name__} is not pruned",
            where=user_location(),
            expected="a parameter that was pruned before",
        )
    module._hooks.forward_pre.remove(row)
    row.fn.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Is a parameter of the module, or of one within it, pruned?"""
    rows = (r for m in module.modules() if m._hooks is not None for r in m._hooks.forward_pre)
    return any(isinstance(row.fn, BasePruningMethod) for row in rows)


explain_room(globals())
