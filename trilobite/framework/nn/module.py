"""Module: a tree of parameters, buffers and further modules, with a `forward`.

What an attribute is decides where it goes: a Parameter is trained, a Module is a child, a tensor given to
`register_buffer` is state that is not trained; everything else is plain Python and may not change while a
function is being recorded. The values stand in the instance itself; `_slots` only says which names are what.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.change_counter import count_change
from trilobite.framework.jit import refuse_during_recording
from trilobite.framework.leaves import get_grad, set_grad
from trilobite.framework.nn import hooks as hooked
from trilobite.framework.nn import scopes
from trilobite.framework.nn.habits import Habits
from trilobite.framework.nn.parameter import Buffer, Parameter
from trilobite.framework.nn.state import LoadResult, load_state, save_state
from trilobite.framework.ops.creation import check_device
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells

Kind = Literal["parameter", "buffer", "temporary", "module"]  # a temporary is a buffer that is not saved
BUFFERS: tuple[Kind, ...] = ("buffer", "temporary")
INTERNAL = frozenset({"_slots", "_hooks", "_owner", "_jitted", "training"})
M = TypeVar("M", bound="Module")


class Module(hooked.Hooked, Habits):
    """The base of everything that has parameters."""

    HIDDEN = INTERNAL  # names that no guard looks at
    __pytree__ = False  # also a dataclass that is a Module is taken apart as a Module
    _slots: dict[str, Kind]
    _owner: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Module:
        make = super().__new__  # of a class beside this one, perhaps, which wants the arguments
        self: Module = make(cls) if make is object.__new__ else make(cls, *args, **kwargs)
        self._begin()
        return self

    def _begin(self) -> None:
        """What every module has, before any attribute."""
        if "_slots" not in self.__dict__:
            recorder = entry.context().recorder
            self.__dict__.update(_slots={}, _hooks=None, _owner=recorder, training=True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise StateError(
            f"{type(self).__name__} has no forward",
            where=user_location(),
            expected="a class that says what its call computes",
            remedy="define forward(self, ...)",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = entry.threads.context.recorder
        try:
            if recorder is not None:
                recorder.notes.setdefault(("module", self), None)
                with scopes.inside(self):
                    return self._called(args, kwargs)
            if self._hooks is None:
                return self.forward(*args, **kwargs)
            return hooked.call(self, self._hooks, args, kwargs)
        except (AttributeError, TypeError):
            self._check_operands(args, kwargs)
            raise

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._hooks is None:
            return self.forward(*args, **kwargs)
        return hooked.call(self, self._hooks, args, kwargs)

    def _check_operands(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A layer of this package that was given none where it needs a tensor says so."""
        if self.forward.__func__.__module__.startswith("trilobite."):  # type: ignore[attr-defined]
            from trilobite.framework.nn.functional.calling import check_operands

            check_operands(self.forward, args, kwargs, type(self).__name__)

    # -- attributes ------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
            return
        own = self.__dict__
        if name in own and own[name] is value:  # also what `self.count += 1` ends with
            return
        if "_slots" not in own:  # set by another class's __new__, which runs first
            self._begin()
        self._refuse_recorded(name)
        count_change()
        kind = _kind_of(value, self._slots.get(name))
        if kind is None:
            object.__setattr__(self, name, value)
            return
        _check_fits(self, name, kind, value)
        self._slots[name] = kind
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        self._refuse_recorded(name)
        count_change()
        object.__delattr__(self, name)
        self._slots.pop(name, None)

    def _refuse_recorded(self, name: str) -> None:
        if entry.threads.context.recorder is not self._owner:
            refuse_during_recording(f"{type(self).__name__}.{name} is set")

    def _register(self, name: str, kind: Kind, value: Any) -> None:
        if not name or "." in name:
            raise ArgumentError(
                f"a {kind} named {name!r}", where=user_location(), expected="a name without dots"
            )
        if name not in self._slots and hasattr(self, name):
            raise ArgumentError(
                f"{type(self).__name__} already has an attribute {name!r}",
                where=user_location(),
                remedy="choose another name",
            )
        _check_fits(self, name, kind, value)
        self._refuse_recorded(name)
        count_change()
        self._slots[name] = kind
        self.__dict__[name] = value

    def register_parameter(self, name: str, parameter: Tensor | None) -> None:
        """Enter a parameter by name; None keeps the place."""
        self._register(name, "parameter", parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Enter a tensor that is state but not trained; the state dict has it if it is persistent."""
        self._register(name, "buffer" if persistent else "temporary", tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Enter a child by name."""
        self._register(name, "module", module)

    register_module = add_module

    def _own(self, *kinds: Kind) -> Iterator[tuple[str, Any]]:
        """The entries of these kinds in this module alone, in the order they were made; empty places are
        passed over.
        """
        for name, kind in list(self._slots.items()):
            if kind in kinds and self.__dict__[name] is not None:
                yield name, self.__dict__[name]

    # -- traversal -------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all under it, with dotted names; one that stands in two places comes once."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for name, child in self._own("module"):
            yield from child.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def _members(
        self, kinds: tuple[Kind, ...], prefix: str, recurse: bool, once: bool
    ) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=once) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, tensor in module._own(*kinds):
                if once and id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Parameters with dotted names; a tied one comes once, under its first name."""
        return self._members(("parameter",), prefix, recurse, remove_duplicate)

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names."""
        return self._members(BUFFERS, prefix, recurse, remove_duplicate)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly under this one; each once."""
        seen: set[int] = set()
        for name, child in self._own("module"):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        return (p for _, p in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers(recurse=recurse))

    def modules(self) -> Iterator[Module]:
        return (m for _, m in self.named_modules())

    def children(self) -> Iterator[Module]:
        return (m for _, m in self.named_children())

    def get_submodule(self, target: str) -> Module:
        """The module under a dotted name; this one for the empty name."""
        found: Any = self
        for i, name in enumerate(target.split(".") if target else ()):
            below = found._slots.get(name) == "module" and found.__dict__[name]
            if not below:
                at = ".".join(target.split(".")[: i + 1])
                raise ArgumentError(
                    f"{type(self).__name__} has no module {at!r}",
                    where=user_location(),
                    expected=f"one of {', '.join(n for n, _ in found.named_children()) or 'none'}",
                )
            found = below
        return found  # type: ignore[no-any-return]

    def _get(self, target: str, kinds: tuple[Kind, ...], what: str) -> Tensor:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if owner._slots.get(name) not in kinds or owner.__dict__[name] is None:
            names = ", ".join(n for n, _ in owner._own(*kinds)) or "none"
            raise ArgumentError(
                f"{type(owner).__name__} has no {what} {target!r}",
                where=user_location(),
                expected=f"one of {names}",
            )
        found: Tensor = owner.__dict__[name]
        return found

    def get_parameter(self, target: str) -> Tensor:
        """The parameter under a dotted name."""
        return self._get(target, ("parameter",), "parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer under a dotted name."""
        return self._get(target, BUFFERS, "buffer")

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """`fn` on every module, children first."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # -- modes -----------------------------------------------------------------------------------------------

    @property
    def training(self) -> bool:
        """Is the module in training mode? A recording that asks becomes one for that mode."""
        mode: bool = self.__dict__["training"]
        recorder = entry.threads.context.recorder
        while recorder is not None:
            recorder.notes.setdefault(("training", self), mode)
            recorder = recorder.parent
        return mode

    @training.setter
    def training(self, mode: bool) -> None:
        if mode == self.__dict__["training"]:
            return
        self._refuse_recorded("training")
        self.__dict__["training"] = bool(mode)
        count_change()

    def train(self: M, mode: bool = True) -> M:
        """Training mode for this module and all under it."""
        if not isinstance(mode, bool):
            raise ArgumentError(f"train({mode!r})", where=user_location(), expected="True or False")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Evaluation mode: no dropout, running statistics instead of the batch's."""
        return self.train(False)

    def requires_grad_(self: M, flag: bool = True) -> M:
        """Let all parameters collect gradients, or freeze them."""
        for p in self.parameters():
            p.requires_grad_(flag)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients (or fill them with zeros)."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = wrap(table["full"](shape=p.shape, dtype=p._peek().dtype, value=0))

    # -- conversion ------------------------------------------------------------------------------------------

    def to(
        self: M,
        *args: Any,
        dtype: Any = None,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> M:
        """Float parameters and buffers (and gradients) in another dtype, in place: tied tensors stay tied."""
        for a in args:
            if isinstance(a, Tensor):
                dtype = a.dtype
            elif isinstance(a, str) and a not in dt.BY_NAME:
                device = a
            elif a is not None and not isinstance(a, bool):  # non_blocking by its place
                dtype = a
        check_device(device)
        if dtype is None:
            return self
        want = dt.as_dtype(dtype)
        if not dt.is_float(want):
            raise ArgumentError(f"to({want.name})", where=user_location(), expected="a float dtype")
        refuse_during_recording(f"{type(self).__name__} is converted")
        for tensor in [*self.parameters(), *self.buffers()]:
            if dt.is_float(tensor.dtype) and tensor.dtype != want:
                _convert(tensor, want)
        return self

    def float(self: M) -> M:
        return self.to(dt.float32)

    def double(self: M) -> M:
        return self.to(dt.float64)

    def half(self: M) -> M:
        return self.to(dt.float16)

    def bfloat16(self: M) -> M:
        return self.to(dt.bfloat16)

    def type(self: M, dst_type: Any) -> M:
        """As `to`, by a dtype or one of PyTorch's tensor classes."""
        return self.to(getattr(dst_type, "tensor_dtype", dst_type))

    def cpu(self: M) -> M:
        """The module itself: it is on the CPU."""
        return self

    share_memory = cpu

    def cuda(self: M, device: Any = None) -> M:
        """There is no GPU: an error that says what there is."""
        check_device("cuda" if device is None else device)
        return self

    def to_empty(self: M, *, device: Any = None, recurse: bool = True) -> M:
        """The module itself, on the CPU."""
        check_device(device)
        return self

    def compile(self, *args: Any, **settings: Any) -> None:
        """Calls run compiled from now on."""
        from trilobite.framework.pytorch.settings import compile

        compile(self)

    # -- state -----------------------------------------------------------------------------------------------

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Tensor]:
        """Every parameter and persistent buffer by its dotted name, sharing memory with the module."""
        if isinstance(destination, str):
            destination, prefix = None, destination
        found = save_state(self, prefix, keep_vars)
        if destination is None:
            return found
        destination.update(found)
        return destination  # type: ignore[no-any-return]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadResult:
        """Take values by name. Nothing changes unless everything fits; the error lists all that does not."""
        return load_state(self, state_dict, strict, assign)

    def __deepcopy__(self: M, memo: dict[int, Any]) -> M:
        out: M = type(self).__new__(type(self))  # type: ignore[assignment]
        memo[id(self)] = out
        for name, value in self.__dict__.items():
            if name not in INTERNAL:
                out.__dict__[name] = copy.deepcopy(value, memo)
        out.__dict__.update(
            _slots=dict(self._slots), _hooks=self._hooks and self._hooks.copy(), training=self.training
        )
        return out

    # -- display ---------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What the repr shows between the parentheses."""
        return ""

    def __repr__(self) -> str:
        head, rows = self.extra_repr(), [f"({n}): {_indented(repr(m))}" for n, m in self._own("module")]
        name = type(self).__name__
        if not rows:
            return f"{name}({head})"
        lines = [*head.splitlines(), *rows]
        return "\n".join([f"{name}(", *(f"  {line}" for line in lines), ")"])


def _kind_of(value: Any, before: Kind | None) -> Kind | None:
    """Where a value goes that is set under a name: by its class, else where the name already belongs."""
    if isinstance(value, Parameter):
        return "parameter"
    if isinstance(value, Buffer):
        return "buffer" if value.persistent else "temporary"
    return "module" if isinstance(value, Module) else before


def _check_fits(module: Module, name: str, kind: Kind, value: Any) -> None:
    wanted: tuple[type, str] = {
        "parameter": (Parameter, "an nn.Parameter or None"),
        "module": (Module, "an nn.Module or None"),
    }.get(kind, (Tensor, "a tensor or None"))
    if value is None or isinstance(value, wanted[0]):
        return
    remedy = (
        "wrap it: nn.Parameter(tensor), or write into the one there: p.copy_(tensor)"
        if kind == "parameter"
        else None
    )
    raise ArgumentError(
        f"{type(value).__name__} for the {kind} {name!r} of {type(module).__name__}",
        where=user_location(),
        expected=wanted[1],
        remedy=remedy,
    )


def _convert(tensor: Tensor, dtype: dt.DType) -> None:
    cast = table["cast"]
    cell = tensor._cell
    cells.write(cell, cast(cells.read(cell), dtype=dtype))
    leaf: Any = cell.leaf or getattr(cell, "resting", None)
    grad = None if leaf is None else get_grad(leaf)
    if grad is not None:
        set_grad(leaf, wrap(cast(grad._read(), dtype=dtype)))


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


_IncompatibleKeys = LoadResult  # as PyTorch calls it
