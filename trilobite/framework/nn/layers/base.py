"""What layers share: a layer that is a function with its settings kept, and how settings are shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn.module import Module
from trilobite.framework.tensor import Tensor


class FunctionLayer(Module):
    """A layer that calls `function(*inputs, **settings)`; it is made with the function's own arguments and
    defaults.
    """

    function: ClassVar[Callable[..., Any]]
    inputs: ClassVar[int] = 1  # the first parameters of the function, which forward gives
    settings: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "function" in cls.__dict__:
            parameters = list(inspect.signature(cls.function).parameters.values())[cls.inputs :]
            cls.settings = tuple(p.name for p in parameters)
            cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        signature: inspect.Signature = self.__signature__  # type: ignore[attr-defined]
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _Misuse(
                f"{type(self).__name__}: {error}",
                where=user_location(),
                expected=f"{type(self).__name__}{signature}",
            ) from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Any) -> Any:
        return type(self).function(*inputs, **{n: self.__dict__[n] for n in self.settings})

    def extra_repr(self) -> str:
        parameters = self.__signature__.parameters  # type: ignore[attr-defined]
        plain = [n for n in self.settings if not isinstance(self.__dict__[n], Tensor)]
        return shown(self, *(n for n in plain if self.__dict__[n] != parameters[n].default))


class _Misuse(ArgumentError, TypeError):
    """Arguments that a layer does not take."""


def shown(module: Module, *names: str) -> str:
    """`name=value` for each name."""
    return ", ".join(f"{name}={module.__dict__[name]!r}" for name in names)
