"""`tb.nn.utils.parametrize`: a parameter computed from others at every use.

The tensor moves to `module.parametrizations.<name>.original` (or `original0`, `original1`, ...), which is
trained; the attribute becomes a property of a class made for the module. Names are PyTorch's, so states fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.modes import no_grad
from trilobite.framework.nn.containers import ModuleDict, ModuleList
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.tensor import Tensor

_cache: dict[tuple[int, str], Any] | None = None


@contextmanager
def cached() -> Iterator[None]:
    """Parametrised tensors are computed once inside."""
    global _cache
    before = _cache
    _cache = {} if before is None else before
    try:
        yield
    finally:
        _cache = before


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, applied in order, and what they start from."""

    def __init__(self, modules: list[Module], original: Any, unsafe: bool = False) -> None:
        super().__init__(modules)
        value: Any = original
        with no_grad():
            for m in reversed(modules):
                value = m.right_inverse(value) if hasattr(m, "right_inverse") else value
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        kept = isinstance(original, Parameter)
        for name, t in zip(self._names(), [value] if self.is_tensor else value, strict=True):
            if t is original:
                self._enter(name, t, kept)
            else:
                self._enter(name, Parameter(t.detach(), original.requires_grad) if kept else t.detach(), kept)

    def _enter(self, name: str, tensor: Any, kept: bool) -> None:
        (self.register_parameter if kept else self.register_buffer)(name, tensor)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _entries(self) -> list[Any]:
        return [m for _, m in self._own("module")]

    def __len__(self) -> int:
        return len(self._entries())

    def forward(self) -> Any:
        inputs = [self.__dict__[n] for n in self._names()]
        out = inputs
        for i, m in enumerate(self._entries()):
            out = [m(*out) if i == 0 else m(out[0])]
        return out[0]

    def right_inverse(self, value: Any) -> None:
        """Change what is kept so that the result is this value."""
        with no_grad():
            for m in reversed(self._entries()):
                value = m.right_inverse(value)
            for name, t in zip(self._names(), [value] if self.is_tensor else value, strict=True):
                self.__dict__[name].copy_(t)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module a parametrised tensor (of this name)?"""
    rows = module.__dict__.get("parametrizations")
    if rows is None:
        return False
    return len(rows) > 0 if tensor_name is None else tensor_name in rows


def _property(name: str) -> property:
    def get(self: Any) -> Any:
        if _cache is None:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _own_class(module: Module) -> None:
    """A class for this module alone, so that its tensors can be properties."""
    if module.__dict__.get("parametrizations") is None:
        base = type(module)
        module.__class__ = type(f"Parametrized{base.__name__}", (base,), {"__module__": base.__module__})
        module.parametrizations = ModuleDict()


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a tensor of the module through a parametrisation from now on."""
    if is_parametrized(module, tensor_name):
        rows = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
        rows.append(parametrization)
        return module
    if module._slots.get(tensor_name) not in ("parameter", "buffer", "temporary"):
        raise ArgumentError(
            f"{type(module).__name__} has no parameter or buffer {tensor_name!r}",
            where=user_location(),
            expected=f"one of {', '.join(module._slots) or 'none'}",
        )
    original = module.__dict__[tensor_name]
    rows = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    _own_class(module)
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = rows  # type: ignore[attr-defined]
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """A plain tensor again: with the value it has now, or with the original one."""
    rows = module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    trained = any(True for _ in rows._own("parameter"))
    with no_grad():
        value = (rows() if leave_parametrized else rows.original).detach().clone()
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]  # type: ignore[attr-defined]
    if trained:
        module.register_parameter(tensor_name, Parameter(value))
    else:
        module.register_buffer(tensor_name, value)
    if len(module.parametrizations) == 0:  # type: ignore[attr-defined]
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module
