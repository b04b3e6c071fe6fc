"""Function transforms over pytrees of tensors: grad, vjp and jvp (vmap is in mapping.py).

Each runs the function once under an interpreter of its own; none records a graph, so Python branches just
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from trilobite.base import pytree
from trilobite.base.dtypes import is_complex, is_inexact
from trilobite.base.errors import ArgumentError, DTypeError, GradientError, ShapeError, TraceError
from trilobite.base.locations import user_location
from trilobite.framework.ops.creation import to_array
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.writing import copied
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.bind import Interpreter, deeper
from trilobite.ir.transforms.cells import restore, rewrite
from trilobite.ir.transforms.forward import Forward, materialise
from trilobite.ir.transforms.tape import Leaf, Tape, zeros
from trilobite.ir.types import type_of

Fn = Callable[..., Any]


def is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def read_tree(tree: Any) -> tuple[list[Value], pytree.Tree]:
    """The leaves as values; numbers and arrays count as tensors."""
    leaves, shape = pytree.flatten(tree, is_tensor)
    return [leaf._read() if isinstance(leaf, Tensor) else to_array(leaf) for leaf in leaves], shape


@contextmanager
def _isolated(unwrap: Callable[[Value], Value]) -> Iterator[None]:
    """Cells from outside that are written inside lose the transform's own values when it ends. One whose
    value cannot leave gets its old value back, and that is an error unless another one is on its way.
    """
    ctx = entry.context()
    depth = ctx.depth
    outer, ctx.writes = ctx.writes, []
    refused: list[TraceError] = []
    try:
        yield
    finally:
        written, ctx.writes = ctx.writes, outer
        for cell, before in written:
            if cell.depth >= depth:
                continue  # made inside, and gone with it
            try:
                rewrite(cell, unwrap)
            except TraceError as error:
                refused.append(error)
                restore(cell, before)
            if outer is not None:
                outer.append((cell, before))
    if refused:
        raise refused[0]


@contextmanager
def running(interpreter: Interpreter, unwrap: Callable[[Value], Value]) -> Iterator[None]:
    try:
        with _isolated(unwrap):
            yield
    finally:
        interpreter.alive = False


def check_function(what: str, fn: Any) -> None:
    if not callable(fn):
        raise ArgumentError(
            f"{what} of {type(fn).__name__}",
            where=user_location(),
            expected="a function",
            remedy="pass the function itself: f, not f(x)",
        )


def chosen_arguments(argnums: int | Sequence[int], count: int) -> tuple[int, ...]:
    numbers: tuple[Any, ...] = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not isinstance(n, int) or not -count <= n < count:
            raise ArgumentError(
                f"argnums {argnums!r} for a call with {count} positional arguments",
                where=user_location(),
                expected=f"integers from {-count} to {count - 1}" if count else "a positional argument",
                remedy="name arguments by position, and pass them by position",
            )
    return tuple(n % count for n in numbers)


# -- reverse mode --------------------------------------------------------------------------------------------


class _Reverse:
    """One taped run of a function: its results, and the way back."""

    def __init__(
        self, fn: Fn, args: Sequence[Any], argnums: Sequence[int], kwargs: dict[str, Any], has_aux: bool
    ) -> None:
        with deeper(entry.context()) as level:
            self.tape = tape = Tape(level)
            self.leaves: list[list[Leaf | None]] = []
            self.types: list[list[Any]] = []
            self.trees: list[pytree.Tree] = []
            inner = list(args)
            for n in argnums:
                inner[n] = self._enter(args[n])
            with running(tape, tape.strip):
                out = fn(*inner, **kwargs)
                self.aux = None
                if has_aux:
                    out, aux = _pair(out)
                    self.aux = pytree.map(
                        lambda x: wrap(tape.strip(x._read())) if is_tensor(x) else x, aux, is_leaf=is_tensor
                    )
                self.outs, self.out_tree = read_tree(out)

    def _enter(self, arg: Any) -> Any:
        values, tree = read_tree(arg)
        leaves = [Leaf() if is_inexact(v.dtype) else None for v in values]
        self.leaves.append(leaves)
        self.types.append([type_of(v) for v in values])
        self.trees.append(tree)
        return tree.unflatten(
            wrap(copied(v) if leaf is None else self.tape.wrap(v, leaf))
            for v, leaf in zip(values, leaves, strict=True)
        )

    def results(self) -> Any:
        return self.out_tree.unflatten(wrap(self.tape.strip(v)) for v in self.outs)

    def pull(self, cotangents: Sequence[Value], retain: bool) -> list[Any]:
        roots = [(o, ct) for o, ct in zip(self.outs, cotangents, strict=True) if self.tape.tracks(o)]
        found = backward(self.tape, roots, retain=retain)
        trees = []
        for leaves, types, tree in zip(self.leaves, self.types, self.trees, strict=True):
            cts = [None if leaf is None else found.get(leaf) for leaf in leaves]
            trees.append(
                tree.unflatten(wrap(zeros(t) if c is None else c) for c, t in zip(cts, types, strict=True))
            )
        return trees


def _pair(out: Any) -> tuple[Any, Any]:
    if not isinstance(out, tuple) or len(out) != 2:
        raise ArgumentError(
            "has_aux=True, but the function did not return a pair",
            where=user_location(),
            expected="(result, auxiliary)",
            remedy="return result, auxiliary, or leave has_aux away",
        )
    return out


def value_and_grad(fn: Fn, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Fn:
    """`fn`'s scalar result together with its gradient with respect to the chosen arguments."""
    check_function("grad", fn)

    @wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        numbers = chosen_arguments(argnums, len(args))
        for n in numbers:
            check_inexact(args[n], n)
        r = _Reverse(fn, args, numbers, kwargs, has_aux)
        seed = [_unit(r.outs)]
        grads = r.pull(seed, retain=False)
        chosen = grads[0] if isinstance(argnums, int) else tuple(grads)
        return ((r.results(), r.aux) if has_aux else r.results()), chosen

    return run


def check_inexact(arg: Any, n: int) -> None:
    """Refuse what has no derivative. The counters of a module are no parameters: their gradient is zero."""
    counts = hasattr(arg, "named_buffers")
    for name, leaf in pytree.paths(arg, is_tensor):
        dtype = leaf.dtype if hasattr(leaf, "dtype") else to_array(leaf).dtype
        if not is_inexact(dtype) and not counts:
            raise DTypeError(
                f"grad with respect to argument {n}{'.' + name if name else ''}, which is {dtype}",
                where=user_location(),
                expected="float or complex tensors",
                remedy="cast it, or choose other arguments with argnums",
            )


def _unit(outs: Sequence[Value]) -> Value:
    if len(outs) != 1 or outs[0].shape != () or not is_inexact(outs[0].dtype):
        found = ", ".join(str(type_of(o)) for o in outs) or "no tensor"
        raise GradientError(
            f"grad of a function that returns {found}",
            where=user_location(),
            expected="one float scalar",
            remedy="reduce the result, or use vjp or jacrev",
        )
    if is_complex(outs[0].dtype):
        raise GradientError(
            "grad of a function with a complex result",
            where=user_location(),
            expected="a real scalar",
            remedy="take tb.real or tb.abs of it, or use vjp",
        )
    return table["full"](shape=(), dtype=outs[0].dtype, value=1.0)


def grad(fn: Fn, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Fn:
    """The gradient of a scalar function with respect to the chosen arguments."""
    both = value_and_grad(fn, argnums, has_aux)

    @wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return run


def vjp(fn: Fn, *primals: Any, has_aux: bool = False) -> Any:
    """`(results, pullback)`: the pullback turns a cotangent of the results into those of the arguments."""
    r = _Reverse(fn, primals, range(len(primals)), {}, has_aux)

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        values, tree = read_tree(cotangents)
        if tree != r.out_tree:
            raise ArgumentError(
                f"a cotangent of structure {tree}",
                where=user_location(),
                expected=f"that of the results: {r.out_tree}",
                remedy="pass one tensor for each tensor that the function returned",
            )
        for v, o in zip(values, r.outs, strict=True):
            if v.shape != o.shape:
                raise ShapeError(
                    f"a cotangent of shape {tuple(v.shape)} for a result of shape {tuple(o.shape)}",
                    where=user_location(),
                    expected="equal shapes",
                    remedy="tb.ones_like(result) sums over it",
                )
        cast = [
            v if v.dtype == o.dtype else table["cast"](v, dtype=o.dtype)
            for v, o in zip(values, r.outs, strict=True)
        ]
        return tuple(r.pull(cast, retain=True))

    return (r.results(), pullback, r.aux) if has_aux else (r.results(), pullback)


# -- forward mode --------------------------------------------------------------------------------------------


def _pass_tuples(primals: Any, tangents: Any) -> None:
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise ArgumentError(
                f"jvp with {name} of type {type(given).__name__}",
                where=user_location(),
                expected="a tuple with one entry per argument",
                remedy="jvp(f, (x,), (dx,))",
            )


def jvp(fn: Fn, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """`(results, their tangents)` of `fn` at `primals` in the direction `tangents`."""
    _pass_tuples(primals, tangents)
    values, tree = read_tree(tuple(primals))
    directions, same = read_tree(tuple(tangents))
    if tree != same:
        raise ArgumentError(
            f"tangents of structure {same}",
            where=user_location(),
            expected=f"that of the primals: {tree}",
            remedy="pass two tuples: jvp(f, (x, y), (dx, dy))",
        )
    for v, t in zip(values, directions, strict=True):
        if v.shape != t.shape:
            raise ShapeError(
                f"a tangent of shape {tuple(t.shape)} for an argument of shape {tuple(v.shape)}",
                where=user_location(),
                expected="equal shapes",
                remedy="tb.zeros_like(argument) for one that stands still",
            )
    with deeper(entry.context()) as level:
        forward = Forward(level)
        with running(forward, lambda v: forward.split(v)[0]):
            casts = [
                t if t.dtype == v.dtype or not is_inexact(v.dtype) else table["cast"](t, dtype=v.dtype)
                for v, t in zip(values, directions, strict=True)
            ]
            duals = tree.unflatten(wrap(forward.dual(v, t)) for v, t in zip(values, casts, strict=True))
            out = fn(*duals)
            aux = None
            if has_aux:
                out, aux = _pair(out)
                aux = pytree.map(
                    lambda x: wrap(forward.split(x._read())[0]) if is_tensor(x) else x, aux, is_leaf=is_tensor
                )
            outs, out_tree = read_tree(out)
            pairs = [forward.split(o) for o in outs]
    results = out_tree.unflatten(wrap(p) for p, _ in pairs)
    moved = out_tree.unflatten(wrap(materialise(t, p)) for p, t in pairs)
    return (results, moved, aux) if has_aux else (results, moved)
