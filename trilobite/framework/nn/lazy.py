"""Layers whose number of inputs the first call tells: `nn.LazyLinear(10)`, `nn.LazyConv2d(8, 3)`.

Until then their parameters are empty places (`UninitializedParameter`); with the first call, or with a state
dict that is loaded before it, they are made and the layer is of the class that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.framework.nn.layers import convolution, linear, normalisation
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.ops.creation import zeros
from trilobite.framework.tensor import Tensor


class UninitializedParameter(Parameter):
    """The place of a parameter whose shape is not known yet."""

    __slots__ = ()

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(zeros((0,), dtype=dtype), requires_grad)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> NoReturn:
        raise StateError(
            "materialize of an empty place",
            where=user_location(),
            expected="a layer that makes its parameters anew",
            remedy="self.weight = nn.Parameter(tb.empty(shape))",
        )

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


class UninitializedBuffer(Tensor):
    """The place of a buffer whose shape is not known yet: nothing here is one."""

    __slots__ = ()


def is_lazy(tensor: Any) -> bool:
    return isinstance(tensor, (UninitializedParameter, UninitializedBuffer))


class LazyModuleMixin:
    """A layer of the user's that makes its parameters in `initialize_parameters(self, *inputs)`, when it is
    first called.
    """

    cls_to_become: Any = None

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.has_uninitialized_params():
            self.initialize_parameters(*args, **kwargs)
        became = getattr(self, "cls_to_become", None)
        if became is not None and not self.has_uninitialized_params():
            self.__class__ = became
        return Module.__call__(self, *args, **kwargs)

    def has_uninitialized_params(self: Any) -> bool:
        return any(is_lazy(p) for p in self.parameters(recurse=False))

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no initialize_parameters")


def _wanted(names: tuple[str, ...], given: Any) -> list[str]:
    """Parameters that the settings do not leave out."""
    return [n for n in names if given.get(n) is not False and given.get("affine") is not False]


def _lazy(kind: type, first: str, names: tuple[str, ...], size: Callable[[Any], int], of_state: Any) -> type:
    """The lazy form of a class whose first argument is the number of inputs."""

    class Lazy(LazyModuleMixin, kind):  # type: ignore[misc]
        cls_to_become = kind

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            object.__setattr__(self, "_given", (args, kwargs))
            for name in _wanted(names, kwargs):
                setattr(self, name, UninitializedParameter(dtype=kwargs.get("dtype")))

        def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
            self._become(size(input))

        def _become(self, inputs: int) -> None:
            given, named = self.__dict__.pop("_given")
            training, hooks = self.training, self._hooks
            for name in [n for n in names if n in self._slots]:
                delattr(self, name)
            self.__class__ = kind
            kind.__init__(self, inputs, *given, **named)  # type: ignore[misc]
            self.__dict__["_hooks"] = hooks
            self.train(training)

        def has_uninitialized_params(self) -> bool:
            return "_given" in self.__dict__

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            if self.has_uninitialized_params() and f"{prefix}weight" in state_dict:
                self._become(of_state(state_dict[f"{prefix}weight"].shape, self._given[1]))

        def extra_repr(self) -> str:
            return f"{first}=?"

    Lazy.__name__ = Lazy.__qualname__ = f"Lazy{kind.__name__}"
    Lazy.__doc__ = f"`{kind.__name__}` whose {first} the first call tells."
    Lazy.__module__ = __name__
    return Lazy


def _channels(x: Tensor, space: int) -> int:
    return int(x.shape[-1 - space])


def _conv(space: int, transposed: bool) -> type:
    kind = getattr(convolution, f"Conv{'Transpose' if transposed else ''}{space}d")

    def of_state(shape: Any, named: Any) -> int:
        return int(shape[0] if transposed else shape[1] * named.get("groups", 1))

    return _lazy(kind, "in_channels", ("weight", "bias"), lambda x: _channels(x, space), of_state)


def _norm(kind: type) -> type:
    return _lazy(kind, "num_features", ("weight",), lambda x: int(x.shape[1]), lambda shape, _: int(shape[0]))


LazyLinear = _lazy(
    linear.Linear, "in_features", ("weight", "bias"), lambda x: int(x.shape[-1]), lambda s, _: int(s[1])
)
LazyConv1d, LazyConv2d, LazyConv3d = (_conv(n, False) for n in (1, 2, 3))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (_conv(n, True) for n in (1, 2, 3))
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _norm(getattr(normalisation, f"BatchNorm{n}d")) for n in (1, 2, 3)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _norm(getattr(normalisation, f"InstanceNorm{n}d")) for n in (1, 2, 3)
)
