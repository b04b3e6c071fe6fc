"""`tb.utils._pytree`: nested containers taken apart and put together, as PyTorch calls it, over `tb.tree`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from trilobite.base import pytree
from trilobite.base.pytree import Tree as TreeSpec
from trilobite.base.pytree import leaves as _leaves

PyTree = Any
Leaf = Callable[[Any], bool] | None


def _ends(is_leaf: Leaf) -> Callable[[Any], bool]:
    """To PyTorch None is a leaf."""
    return (lambda x: x is None) if is_leaf is None else (lambda x: x is None or is_leaf(x))


def tree_flatten(tree: Any, is_leaf: Leaf = None) -> tuple[list[Any], TreeSpec]:
    return pytree.flatten(tree, _ends(is_leaf))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    return pytree.unflatten(treespec, leaves)


def tree_leaves(tree: Any, is_leaf: Leaf = None) -> list[Any]:
    return _leaves(tree, _ends(is_leaf))


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Leaf = None) -> TreeSpec:
    return pytree.flatten(tree, _ends(is_leaf))[1]


def tree_map(fn: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    return pytree.map(fn, tree, *rests, is_leaf=_ends(is_leaf))


def tree_map_(fn: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Leaf = None) -> Any:
    """The tree itself, after the function was called on every leaf."""
    pytree.map(fn, tree, *rests, is_leaf=_ends(is_leaf))
    return tree


def tree_map_only(kind: Any, fn: Callable[[Any], Any], tree: Any, is_leaf: Leaf = None) -> Any:
    """The function on leaves of these kinds; others stay."""
    wanted = kind if isinstance(kind, type | tuple) else None

    def one(x: Any) -> Any:
        return fn(x) if (kind(x) if wanted is None else isinstance(x, wanted)) else x

    return pytree.map(one, tree, is_leaf=_ends(is_leaf))


def tree_all(predicate: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    return all(map(predicate, _leaves(tree, _ends(is_leaf))))


def tree_any(predicate: Callable[[Any], bool], tree: Any, is_leaf: Leaf = None) -> bool:
    return any(map(predicate, _leaves(tree, _ends(is_leaf))))


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Any, Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    **settings: Any,
) -> None:
    """A class of containers: how it is taken apart, and put together from children and the rest."""

    def flatten(value: Any) -> Any:
        children, rest = flatten_fn(value)
        return tuple(children), rest

    pytree.register(cls, flatten, lambda rest, children: unflatten_fn(list(children), rest))


_register_pytree_node = register_pytree_node


def _dict_flatten(tree: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(tree.values()), list(tree)


def _dict_unflatten(values: Iterable[Any], context: Iterable[Any]) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _list_flatten(tree: list[Any]) -> tuple[list[Any], None]:
    return list(tree), None


def _list_unflatten(values: Iterable[Any], context: None) -> list[Any]:
    return list(values)


def _dict_flatten_with_keys(tree: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    return [(MappingKey(k), v) for k, v in tree.items()], list(tree)


class MappingKey(NamedTuple):
    """A step on the way to a leaf: a key."""

    key: Any


class SequenceKey(NamedTuple):
    """A step on the way to a leaf: a number."""

    idx: int


class GetAttrKey(NamedTuple):
    """A step on the way to a leaf: an attribute."""

    name: str


Context, KeyPath = Any, tuple[Any, ...]


SUPPORTED_NODES = {kind: kind for kind in (tuple, list, dict)}
"""Kinds of containers that are taken apart."""
