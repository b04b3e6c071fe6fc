"""`tb.library`: operations with names of their own, as PyTorch registers them.

A function that is registered here is the function itself: `jit` records plain Python, so fake versions and
marks for PyTorch's tracers are taken and not needed. A derivative that is registered is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilobite.framework.function_class import Function
from trilobite.framework.pytorch.compiler import marked

registered: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operation under a name like `mine::scale`."""

    def __init__(self, name: str, fn: Callable[..., Any]) -> None:
        self._name, self._fn = name, fn
        self._differentiable: Any = None
        self.__name__, self.__doc__ = name.rpartition("::")[2], fn.__doc__
        self.default = self._opoverload = self

    def __getattr__(self, name: str) -> Any:
        """PyTorch names a version for each kind of arguments (`mm.out`, `sort.stable`): here it is one."""
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._differentiable is None or kwargs:
            return self._fn(*args, **kwargs)
        return self._differentiable.apply(*args)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """`backward(ctx, *gradients)`; `setup_context(ctx, inputs, output)` keeps what it needs."""
        fn = self._fn

        def forward(ctx: Any, *args: Any) -> Any:
            out = fn(*args)
            if setup_context is not None:
                setup_context(ctx, args, out)
            return out

        body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        self._differentiable = type(self.__name__, (Function,), body)

    def register_fake(self, fn: Any = None, /) -> Any:
        return marked(fn)

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """A version for a device: that for the CPU is the one that runs."""
        kinds = [device_types] if isinstance(device_types, str) else device_types

        def keep(given: Callable[..., Any]) -> Callable[..., Any]:
            if kinds is None or "cpu" in kinds:
                self._fn = given
            return given

        return keep if fn is None else keep(fn)

    register_vmap = register_torch_dispatch = register_fake


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any = (), **settings: Any
) -> Any:
    """The function as an operation that `tb.ops` has under its name."""

    def made(given: Callable[..., Any]) -> CustomOpDef:
        registered[name] = CustomOpDef(name, given)
        return registered[name]

    return made if fn is None else made(fn)


triton_op = custom_op


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, **_: Any
) -> None:
    named(op).register_autograd(backward, setup_context=setup_context)


def register_kernel(op: Any, device_types: Any, fn: Any = None, /, **_: Any) -> Any:
    return named(op).register_kernel(device_types, fn)


def named(op: Any) -> CustomOpDef:
    """An operation by its name, or itself."""
    return op if isinstance(op, CustomOpDef) else registered[str(op)]


def register_fake(op: Any, fn: Any = None, /, **settings: Any) -> Any:
    """Taken and not needed: sizes are found by recording the function itself."""
    return marked(fn)


register_vmap = register_torch_dispatch = impl_abstract = register_fake


def wrap_triton(kernel: Any, /) -> Any:
    return kernel


class Library:
    """A family of operations: `define` names one, `impl` gives its function."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        return schema.partition("(")[0].strip()

    def impl(self, op_name: Any, fn: Any = None, dispatch_key: str = "", **settings: Any) -> Any:
        """The function that runs on the CPU; those for other devices and for PyTorch's tracers are passed
        over.
        """
        key = dispatch_key or self.dispatch_key or "CPU"

        def keep(given: Callable[..., Any]) -> Callable[..., Any]:
            if key in ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "Autograd", ""):
                name = str(op_name)
                full = name if "::" in name else f"{self.ns}::{name}"
                registered[full] = CustomOpDef(full, given)
            return given

        return keep if fn is None else keep(fn)

    def _register_fake(self, op_name: Any, fn: Any = None, **settings: Any) -> Any:
        return marked(fn)


def define(qualname: str, schema: str = "", *, lib: Any = None, tags: Sequence[Any] = ()) -> None:
    """A name is enough: what an operation takes its function says."""


def impl(qualname: str, types: Any = "cpu", func: Any = None, *, lib: Any = None) -> Any:
    """The function of an operation."""
    kinds = [types] if isinstance(types, str) else list(types)

    def keep(given: Callable[..., Any]) -> Callable[..., Any]:
        if {"cpu", "CPU", "default", "CompositeImplicitAutograd"} & set(kinds):
            registered[qualname] = CustomOpDef(qualname, given)
        return given

    return keep if func is None else keep(func)
