"""A module as a pytree: its distinct tensors are the leaves, and what remains is the skeleton.

Skeletons compare by structure: classes, modes, which place shares which tensor, hooks, and the plain
attributes by value (by identity where a value cannot be compared). Putting one together again gives a new
tree of modules around other tensors; it is how `tb.grad(f)(module, x)` is a module of gradients and how
`functional_call` lends a module other weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.framework.nn.module import INTERNAL, Kind, Module
from trilobite.framework.tensor import Tensor


class Part:
    """One module without its tensors: attributes, and per slot the number of a leaf, a further part, or
    nothing.
    """

    __slots__ = ("attributes", "cls", "slots")

    def __init__(self, module: Module) -> None:
        self.cls = type(module)
        own = module.__dict__
        self.attributes = {
            k: v for k, v in own.items() if k not in module._slots and k not in ("_jitted", "_owner")
        }
        self.slots: list[tuple[str, Kind, int | Part | None]] = []

    def build(self, leaves: Sequence[Any], made: dict[int, Module]) -> Module:
        if id(self) in made:
            return made[id(self)]
        out = made[id(self)] = object.__new__(self.cls)
        out.__dict__.update(self.attributes)
        out.__dict__.update(_owner=None, _slots={name: kind for name, kind, _ in self.slots})
        for name, _, ref in self.slots:
            out.__dict__[name] = (
                ref.build(leaves, made) if isinstance(ref, Part) else None if ref is None else leaves[ref]
            )
        return out


class Skeleton(tuple[str, ...]):
    """The names of the leaves, with the parts that stand between them; equal to another of the same
    structure.
    """

    root: Part
    key: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Skeleton) and self.key == other.key

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.key)


class _Same:
    """Equal to itself alone: stands for values that cannot be compared."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _frozen(value: Any) -> Any:
    """A plain attribute as something hashable that is equal where the attribute is."""
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_frozen, value))
    if isinstance(value, dict):
        return (type(value), *((_frozen(k), _frozen(v)) for k, v in value.items()))
    if isinstance(value, Tensor):
        return _Same(value)
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return type(value), value


class _Dissection:
    """One walk over a module: leaves in the order they are met, each once."""

    def __init__(self) -> None:
        self.leaves: list[Tensor] = []
        self.names: list[str] = []
        self.aliases: dict[str, int] = {}
        self.at: dict[int, int] = {}
        self.parts: dict[int, tuple[Part, int]] = {}

    def visit(self, module: Module, prefix: str) -> tuple[Part, tuple[Any, ...]]:
        if id(module) in self.parts:
            part, number = self.parts[id(module)]
            return part, ("again", number)
        part = Part(module)
        self.parts[id(module)] = part, len(self.parts)
        rows = [self._slot(module, part, name, kind, prefix) for name, kind in module._slots.items()]
        plain = tuple((k, _frozen(v)) for k, v in part.attributes.items() if k not in INTERNAL)
        hooks = () if module._hooks is None else tuple(_Same(r.fn) for r in module._hooks.all())
        return part, (part.cls, module.training, tuple(rows), plain, hooks)

    def _slot(self, module: Module, part: Part, name: str, kind: Kind, prefix: str) -> tuple[Any, ...]:
        value = module.__dict__[name]
        ref: int | Part | None = None
        key: Any = None
        if kind == "module" and value is not None:
            ref, key = self.visit(value, f"{prefix}{name}.")
        elif value is not None:
            ref = key = self._leaf(value, prefix + name)
        part.slots.append((name, kind, ref))
        return name, kind, key

    def _leaf(self, tensor: Any, name: str) -> int:
        at = self.at.get(id(tensor))
        if at is None:
            at = self.at[id(tensor)] = len(self.leaves)
            self.leaves.append(tensor)
            self.names.append(name)
        self.aliases[name] = at
        return at


def _dissect(module: Module) -> tuple[_Dissection, Skeleton]:
    walk = _Dissection()
    part, key = walk.visit(module, "")
    skeleton = Skeleton(walk.names)
    skeleton.root, skeleton.key = part, key
    return walk, skeleton


def flatten(module: Module) -> tuple[list[Tensor], Skeleton]:
    walk, skeleton = _dissect(module)
    return walk.leaves, skeleton


def unflatten(skeleton: Skeleton, leaves: Sequence[Any]) -> Module:
    return skeleton.root.build(leaves, {})


pytree.register(Module, flatten, unflatten)


def functional_call(
    module: Module,
    params_and_buffers: Mapping[str, Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Call a module with other tensors in place of some of its own, by name; tied places change together."""
    walk, skeleton = _dissect(module)
    unknown = [name for name in params_and_buffers if name not in walk.aliases]
    if unknown:
        raise ArgumentError(
            f"functional_call: {type(module).__name__} has no {', '.join(unknown)}",
            where=user_location(),
            expected="names of its parameters and buffers",
            remedy="module.state_dict() lists them",
        )
    leaves: list[Any] = list(walk.leaves)
    for name, tensor in params_and_buffers.items():
        leaves[walk.aliases[name]] = tensor
    positional = args if isinstance(args, tuple) else (args,)
    return unflatten(skeleton, leaves)(*positional, **(kwargs or {}))
