"""Pytrees: nested dict, list, tuple, namedtuple, dataclass and registered classes, taken apart into leaves
and put together again.

A `Tree` is the shape of such a nest: hashable, comparable, with the places of its leaves. `None` is an empty
tree, as in JAX. Dict keys are visited in insertion order only if they cannot be sorted, so equal dicts
flatten equally.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError


class Node(NamedTuple):
    """How one container class is taken apart: `(children, static data)`, and put together again."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[Any, Sequence[Any]], Any]


_registry: dict[type, Node] = {}


def register(
    cls: type,
    flatten: Callable[[Any], tuple[Sequence[Any], Any]],
    unflatten: Callable[[Any, Sequence[Any]], Any],
) -> None:
    """Make `cls` a container: `flatten(x) -> (children, static)`, `unflatten(static, children) -> x`."""
    _registry[cls] = Node(flatten, unflatten)


def _sorted_keys(d: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(d))
    except TypeError:
        return tuple(d)


register(list, lambda x: (x, None), lambda _, c: list(c))
register(tuple, lambda x: (x, None), lambda _, c: tuple(c))
register(type(None), lambda _: ((), None), lambda _, c: None)
register(
    dict,
    lambda x: ([x[k] for k in _sorted_keys(x)], _sorted_keys(x)),
    lambda ks, c: dict(zip(ks, c, strict=True)),
)
register(
    OrderedDict,
    lambda x: (list(x.values()), tuple(x)),
    lambda ks, c: OrderedDict(zip(ks, c, strict=True)),
)


def _namedtuple(cls: type) -> Node:
    return Node(lambda x: (tuple(x), None), lambda _, c: cls(*c))


def _is_dataclass(cls: type) -> bool:
    return hasattr(cls, "__dataclass_fields__")  # its module comes in where there is such a class


def _field_names(cls: type) -> list[str]:
    from dataclasses import fields

    return [f.name for f in fields(cls)]


def _dataclass(cls: type) -> Node:
    names = _field_names(cls)

    def rebuild(_: Any, children: Sequence[Any]) -> Any:
        out: Any = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(out, name, child)
        return out

    return Node(lambda x: ([getattr(x, n) for n in names], None), rebuild)


def node_of(value: Any) -> Node | None:
    """The container rule for a value, or None if it is a leaf."""
    cls = type(value)
    rule = _registry.get(cls)
    if rule is not None:
        return rule
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        rule = _registry[cls] = _namedtuple(cls)
        return rule
    if _is_dataclass(cls) and getattr(cls, "__pytree__", True):
        rule = _registry[cls] = _dataclass(cls)
        return rule
    for base in cls.__mro__[1:-1]:
        if base in _registry and base not in (list, tuple, dict):
            return _registry[base]
    return None


class Tree(NamedTuple):
    """The shape of a pytree. `kind is None` marks a leaf."""

    kind: type | None
    static: Any = None
    children: tuple[Tree, ...] = ()
    size: int = 1

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return _build(self, iter(leaves))

    def __repr__(self) -> str:
        return f"Tree({_build(self, iter(_Star() for _ in range(self.size)))!r})"


class _Star:
    def __repr__(self) -> str:
        return "*"


LEAF = Tree(None)
_PLAIN = frozenset({int, float, bool, complex, str})


def _build(tree: Tree, leaves: Any) -> Any:
    if tree.kind is None:
        return next(leaves)
    return _registry[_rule_class(tree.kind)].unflatten(
        tree.static, [_build(c, leaves) for c in tree.children]
    )


def _rule_class(cls: type) -> type:
    if cls in _registry:
        return cls
    return next(b for b in cls.__mro__ if b in _registry)


def flatten(value: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Tree]:
    """Leaves from left to right, and the shape that puts them together again."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves, is_leaf)


def _flatten(value: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> Tree:
    if type(value) in _PLAIN or (is_leaf is not None and is_leaf(value)) or (rule := node_of(value)) is None:
        leaves.append(value)
        return LEAF
    children, static = rule.flatten(value)
    before = len(leaves)
    subtrees = tuple(_flatten(c, leaves, is_leaf) for c in children)
    return Tree(type(value), static, subtrees, len(leaves) - before)


def leaves(value: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    return flatten(value, is_leaf)[0]


def unflatten(tree: Tree, values: Iterable[Any]) -> Any:
    return tree.unflatten(values)


def map(fn: Callable[..., Any], first: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Apply `fn` to corresponding leaves; all trees must have the shape of the first."""
    values, tree = flatten(first, is_leaf)
    columns = [values]
    for i, other in enumerate(rest, start=2):
        more, shape = flatten(other, is_leaf)
        if shape != tree:
            raise ArgumentError(
                f"tree map: argument {i} has another structure", expected=tree, remedy=f"got {shape}"
            )
        columns.append(more)
    return tree.unflatten(fn(*row) for row in zip(*columns, strict=True))


def paths(value: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[str, Any]]:
    """Leaves with dotted names, for messages and files: `[("layer.0.weight", leaf), ...]`."""
    found: list[tuple[str, Any]] = []
    _walk("", value, found, is_leaf)
    return found


def _walk(
    prefix: str, value: Any, found: list[tuple[str, Any]], is_leaf: Callable[[Any], bool] | None
) -> None:
    if type(value) in _PLAIN or (is_leaf is not None and is_leaf(value)) or (rule := node_of(value)) is None:
        found.append((prefix, value))
        return
    children, static = rule.flatten(value)
    names: Sequence[Any] = range(len(children))
    if isinstance(static, tuple) and len(static) == len(children):
        names = static
    elif _is_dataclass(type(value)):
        names = _field_names(type(value))
    for name, child in zip(names, children, strict=True):
        _walk(f"{prefix}.{name}" if prefix else str(name), child, found, is_leaf)


def broadcast_prefix(prefix: Any, value: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """One entry of `prefix` per leaf of `value`: a prefix leaf stands for the whole subtree beneath it."""
    if prefix is None or node_of(prefix) is None or (is_leaf is not None and is_leaf(prefix)):
        return [prefix] * flatten(value, is_leaf)[1].size
    p_rule, v_rule = node_of(prefix), node_of(value)
    if p_rule is None or v_rule is None or type(prefix) is not type(value):
        raise ArgumentError(f"prefix {prefix!r} does not fit the structure of {flatten(value)[1]}")
    p_children, p_static = p_rule.flatten(prefix)
    v_children, v_static = v_rule.flatten(value)
    if p_static != v_static or len(p_children) != len(v_children):
        raise ArgumentError(f"prefix {prefix!r} does not fit the structure of {flatten(value)[1]}")
    return [e for p, v in zip(p_children, v_children, strict=True) for e in broadcast_prefix(p, v, is_leaf)]
