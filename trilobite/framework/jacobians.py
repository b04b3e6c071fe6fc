"""Jacobians and Hessians: unit vectors pushed forward or pulled back, all at once under vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.framework.mapping import vmap
from trilobite.framework.tensor import wrap
from trilobite.framework.transforms import check_inexact, chosen_arguments, jvp, read_tree, vjp
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

Fn = Callable[..., Any]


def _basis(values: Sequence[Value]) -> list[np.ndarray[Any, Any]]:
    """Unit vectors of the joint space of several tensors, one batch entry each."""
    sizes = [int(np.prod(v.shape, dtype=np.int64)) for v in values]
    total, at, out = sum(sizes), 0, []
    for v, n in zip(values, sizes, strict=True):
        block = np.zeros((total, n), v.dtype)
        block[at + np.arange(n), np.arange(n)] = 1
        out.append(block.reshape(total, *v.shape))
        at += n
    return out


def _pieces(stacked: Value, like: Sequence[Value]) -> list[Value]:
    """Cut the batch of unit vectors into one block per tensor, shaped as that tensor."""
    out, at = [], 0
    for v in like:
        n = int(np.prod(v.shape, dtype=np.int64))
        start, stop = (at, *[0] * (stacked.ndim - 1)), (at + n, *stacked.shape[1:])
        block = table["slice"](stacked, start=start, stop=stop, step=(1,) * stacked.ndim)
        out.append(table["reshape"](block, shape=(*v.shape, *stacked.shape[1:])))
        at += n
    return out


def jacrev(fn: Fn, argnums: int | Sequence[int] = 0) -> Fn:
    """The Jacobian by reverse mode, one pass per element of the result: axes of the result, then of the
    argument.
    """

    @wraps(fn, updated=())
    def run(*args: Any) -> Any:
        numbers = chosen_arguments(argnums, len(args))
        for n in numbers:
            check_inexact(args[n], n)

        def chosen(*inner: Any) -> Any:
            full = list(args)
            for n, a in zip(numbers, inner, strict=True):
                full[n] = a
            return fn(*full)

        out, pullback = vjp(chosen, *(args[n] for n in numbers))
        outs, out_tree = read_tree(out)
        basis = out_tree.unflatten(wrap(b) for b in _basis(outs))
        rows = vmap(pullback)(basis)
        per_arg = [_jac_rows(tree, outs, out_tree) for tree in rows]
        nested = [out_tree.unflatten(p[i] for i in range(len(outs))) for p in per_arg]
        if isinstance(argnums, int):
            return nested[0]
        return out_tree.unflatten(tuple(p[i] for p in per_arg) for i in range(len(outs)))

    return run


def _jac_rows(tree: Any, outs: Sequence[Value], out_tree: pytree.Tree) -> list[Any]:
    leaves, shape = read_tree(tree)
    blocks = [_pieces(leaf, outs) for leaf in leaves]
    return [shape.unflatten(wrap(b[i]) for b in blocks) for i in range(len(outs))]


def jacfwd(fn: Fn, argnums: int | Sequence[int] = 0) -> Fn:
    """The Jacobian by forward mode, one pass per element of the argument: axes of the result, then of the
    argument.
    """

    @wraps(fn, updated=())
    def run(*args: Any) -> Any:
        numbers = chosen_arguments(argnums, len(args))
        for n in numbers:
            check_inexact(args[n], n)
        primals = tuple(args[n] for n in numbers)
        values, tree = read_tree(primals)

        def push(*directions: Any) -> Any:
            def chosen(*inner: Any) -> Any:
                full = list(args)
                for n, a in zip(numbers, inner, strict=True):
                    full[n] = a
                return fn(*full)

            return jvp(chosen, primals, directions)[1]

        columns = vmap(push, out_axes=-1)(*tree.unflatten(wrap(b) for b in _basis(values)))
        leaves, out_tree = read_tree(columns)
        cut = [[wrap(c) for c in _columns(leaf, values)] for leaf in leaves]
        per_out = [tree.unflatten(row) for row in cut]
        return out_tree.unflatten(p[0] if isinstance(argnums, int) else p for p in per_out)

    return run


def _columns(stacked: Value, like: Sequence[Value]) -> list[Value]:
    out, at, nd = [], 0, stacked.ndim - 1
    for v in like:
        n = int(np.prod(v.shape, dtype=np.int64))
        start, stop = (*[0] * nd, at), (*stacked.shape[:-1], at + n)
        block = table["slice"](stacked, start=start, stop=stop, step=(1,) * (nd + 1))
        out.append(table["reshape"](block, shape=(*stacked.shape[:-1], *v.shape)))
        at += n
    return out


def hessian(fn: Fn, argnums: int | Sequence[int] = 0) -> Fn:
    """The matrix of second derivatives: forward mode over reverse mode."""
    return jacfwd(jacrev(fn, argnums), argnums)
