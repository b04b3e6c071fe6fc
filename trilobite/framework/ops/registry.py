"""The operator table: every public operation once, as a function over values; functions, methods, pages
derive from it.

An operation is written over values (arrays or traced ones) and calls others of its kind directly. `op` puts
it into the table and derives the public function over tensors: operands are read, results wrapped in new
tensors. `tensor_op` enters a function that works on the tensors themselves; `method` one that exists as a
method only, or whose method is called otherwise than its function (`x.reshape(2, 3)` beside `tb.reshape(x,
(2, 3))`).

Operations take `axis` and `keepdims`, as the array API standard names them; PyTorch's `dim` and `keepdim`
mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import CO_VARARGS, signature
from typing import Any, NamedTuple, TypeVar

import numpy as np

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import RAW, raise_explained
from trilobite.framework.autocast import casting
from trilobite.framework.concrete import concrete
from trilobite.framework.ops.pairs import Pair
from trilobite.framework.promotion import scalar_dtype
from trilobite.framework.replay.functions import replayed
from trilobite.framework.replay.known_views import remembered
from trilobite.framework.replay.plans import planned
from trilobite.framework.tensor import CLASSES, Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.transforms.cells import bottom, write

F = TypeVar("F", bound=Callable[..., Any])
_ALSO: dict[str, tuple[str, ...]] = {
    "dim": ("axis", "axes"), "dims": ("axis", "axes"), "keepdim": ("keepdims",),
    "start_dim": ("start_axis",), "end_dim": ("end_axis",), "dim0": ("axis1",), "dim1": ("axis2", "axis1"),
    "dim2": ("axis2",), "shifts": ("shift",), "diagonal": ("k", "offset"), "size": ("shape",),
    "steps": ("num",), "end": ("stop",), "src": ("source",), "index": ("indices",),
    "split_size_or_sections": ("sizes",), "split_size": ("sizes",), "indices_or_sections": ("sections",),
    "tensor_indices_or_sections": ("sections",), "indices": ("sections",),
    "input": ("x", "x1", "arrays", "start", "condition"), "other": ("x2", "x1"), "tensors": ("arrays",),
    "mat2": ("x2",), "vec2": ("x2",), "vec": ("x2",), "tensor": ("x2",), "a": ("x1",), "b": ("x2",),
    "A": ("x1", "x"), "B": ("x2",), "y": ("x2",), "test_elements": ("x2",), "elements": ("x1",),
    "input2": ("L",),
}  # fmt: skip
"""PyTorch's words for parameters, and which of ours each may stand for: the first that a function has."""


_BY_PLACE = (
    "n", "s", "ord", "p", "axis", "axes", "keepdims", "dtype", "norm", "rtol", "atol", "equal_nan",
    "descending", "stable", "largest", "sorted", "full_matrices", "mode", "UPLO", "tol", "weights",
    "minlength",
)  # fmt: skip
"""Parameters that the standard has by word alone, in the order in which PyTorch takes them by place."""


class Operator(NamedTuple):
    """A row: the public function, where it stands, under which method names."""

    name: str
    public: Callable[..., Any]
    group: str
    methods: tuple[str, ...]


operators: dict[str, Operator] = {}
methods: dict[str, Callable[..., Any]] = {}
"""Methods that are not simply functions of the table."""


_STATIC = "name the argument in static_argnums or static_argnames, or bind it with functools.partial"


class Weak:
    """A traced Python scalar: like the number itself, it takes the dtype of what it meets. Where a number of
    Python itself is asked for (an axis, a size, an order), it says why it is none.
    """

    __slots__ = ("kind", "value")

    def __init__(self, value: Value, kind: type) -> None:
        self.value, self.kind = value, kind

    def _known(self, *_: Any) -> Any:
        what = f"an argument {self.kind.__name__} as an axis, a size or a setting"
        return concrete(self.value, what, remedy=_STATIC).item()

    __index__ = __int__ = __float__ = __complex__ = __iter__ = __abs__ = __neg__ = _known
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _known
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __floordiv__ = _known
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self._known())


def register(name: str, public: Callable[..., Any], group: str, methods: Sequence[str]) -> None:
    if name in operators:
        raise ValueError(f"two operators named {name}")
    operators[name] = Operator(name, public, group, tuple(methods))


def op(
    group: str,
    *,
    name: str | None = None,
    methods: Sequence[str] | None = None,
    short: Callable[..., Value | None] | None = None,
    plan: bool = False,
) -> Callable[[F], F]:
    """Enter a function over values into the table. Its methods are its name unless said otherwise. `short`
    gives the same result by less if the first operand is just an array, in new memory, or None. With
    `plan`, small calls that come again are replayed: what it does depends on no values (`framework/replay`).
    """

    def enter(fn: F) -> F:
        label = name or fn.__name__.rstrip("_")
        public = lift(casting(label, fn), short, plan)
        register(label, public, group, (label,) if methods is None else methods)
        return fn

    return enter


def tensor_op(
    group: str, *, name: str | None = None, methods: Sequence[str] | None = None, view: bool = False,
    plan: bool = False,
) -> Callable[[F], F]:  # fmt: skip
    """Enter a function that works on tensors themselves: views, in-place changes, state. A `view` looks
    through steps that only the shape and the arguments decide: they are remembered. With `plan`, small
    calls that come again are replayed, as those of `op` are.
    """

    def enter(fn: F) -> F:
        label = name or fn.__name__.rstrip("_")
        public = replayed(_bilingual(fn)) if plan else _bilingual(fn)
        words = Words(fn)
        if plan and not (words.known or words.more or words.has_out):
            public = heeding_out(public)
        register(
            label, remembered(public) if view else public, group, (label,) if methods is None else methods
        )
        return fn

    return enter


def method(*names: str, view: bool = False) -> Callable[[F], F]:
    """Give Tensor a method that is no function of the namespace, or is called otherwise than the function."""

    def enter(fn: F) -> F:
        for label in names:
            if label in methods:
                raise ValueError(f"two methods named {label}")
            methods[label] = remembered(_bilingual(fn)) if view else _bilingual(fn)
        return fn

    return enter


def alias(name: str, of: str, methods: Sequence[str] = ()) -> None:
    """A second name for a function, where NumPy or PyTorch users know it under another."""
    row = operators[of]
    operators[name] = Operator(name, row.public, row.group, tuple(methods))


class Words:
    """The parameters of a function under PyTorch's words as well as its own."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        while hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        code = fn.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.has_out = "out" in own
        self.most = code.co_argcount  # arguments by their place
        words = own[code.co_argcount :]
        takes = "axis" in own or "axes" in own or "x" in own or "x1" in own  # creation has words only
        free = takes and not code.co_flags & CO_VARARGS
        self.more = tuple(n for n in _BY_PLACE if n in words) if free else ()
        self.places = {name: i for i, name in enumerate(own[: code.co_posonlyargcount])}
        self.known = {
            word: next(name for name in names if name in own)
            for word, names in _ALSO.items()
            if word not in own and any(name in own for name in names)
        }
        if "axis1" in self.places:  # transpose(dim0, dim1), but diagonal(dim1, dim2)
            self.known |= {"axis0": "axis1", "axis1": "axis2"}
        elif "axis1" in own:
            self.known["dim1"] = "axis1"
        for name in self.places:
            self.known.setdefault(name, name)

    def placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments by place that the function takes by word only: `x.sum(1, True)`."""
        extra = args[self.most :]
        if len(extra) > len(self.more):
            return args, kwargs  # the call says what is wrong
        return args[: self.most], {**dict(zip(self.more, extra, strict=False)), **kwargs}

    def told(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments as the function takes them: own words, positional ones in their places."""
        known = self.known
        named = {known.get(k, k): v for k, v in kwargs.items()}
        if len(named) != len(kwargs):
            raise TypeError(f"one argument was given under several names: {', '.join(kwargs)}")
        if self.places and not self.places.keys().isdisjoint(named):
            for name, place in self.places.items():
                if name in named and place == len(args):
                    args = (*args, named.pop(name))
        return args, named


def into(out: Any, found: Any) -> Any:
    """PyTorch's `out=`: the result is written into tensors that are there. An empty one takes its shape."""
    if isinstance(out, (tuple, list)):
        return type(found)(*(into(o, f) for o, f in zip(out, found, strict=True)))
    if out.shape != found.shape and 0 in out.shape and out._view is None:
        write(out._cell, copy_value(read(found.to(out.dtype))))
        return out
    return out.copy_(found) if out.shape == found.shape else _misfit(out, found)


def given_out(kwargs: dict[str, Any], public: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A call without its `out=`, and the result written there."""
    out = kwargs.pop("out")
    found = public(*args, **kwargs)
    return found if out is None else into(out, found)


def heeding_out(public: Callable[..., Any]) -> Callable[..., Any]:
    """`public`, which has no words of its own, also with `out=`."""

    @wraps(public)
    def call(*args: Any, **kwargs: Any) -> Any:
        return given_out(kwargs, public, args) if "out" in kwargs else public(*args, **kwargs)

    return call


def _misfit(out: Any, found: Any) -> Any:
    raise ShapeError(
        f"out= of shape {tuple(out.shape)} for a result of shape {tuple(found.shape)}",
        where=user_location(),
        expected="the shape of the result, or an empty tensor",
    )


def _bilingual(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which has words of the standard, also with PyTorch's."""
    words = Words(fn)
    if not words.known and not words.more:
        return fn
    more, most = words.more, words.most

    @wraps(fn)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            if more and len(args) > most:
                args, kwargs = words.placed(args, kwargs)
            if kwargs:
                args, kwargs = words.told(args, kwargs)
                if "out" in kwargs and not words.has_out:
                    return given_out(kwargs, public, args)
            return fn(*args, **kwargs)
        except RAW as error:
            raise_explained(error, fn, args, kwargs, fn.__name__)

    return public


def lift(
    fn: Callable[..., Any], short: Callable[..., Value | None] | None = None, plan: bool = False
) -> Callable[..., Any]:
    """The function over tensors that a function over values means."""
    words = Words(fn)
    short_of = 0 if short is None else len(signature(short).parameters)
    more, most = words.more, words.most

    @wraps(fn)
    def public(*args: Any, **kwargs: Any) -> Any:
        if more and len(args) > most:
            args, kwargs = words.placed(args, kwargs)
        if kwargs:
            args, kwargs = words.told(args, kwargs)
            if "out" in kwargs and not words.has_out:
                return given_out(kwargs, public, args)
        elif short is not None and len(args) == short_of and type(first := bare(args[0])) is np.ndarray:
            found = short(first) if short_of == 1 else short(first, args[1])
            if found is not None:
                return wrap(found)
        if plan and (done := planned(fn, args, kwargs)) is not None:
            return done
        return _long_way(fn, args, kwargs)

    return public


def _long_way(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        values = [read_operand(a) for a in args]
        if not kwargs:
            return wrap_results(fn(*values), values)
        named = {k: read_operand(v) for k, v in kwargs.items()}
        return wrap_results(fn(*values, **named), [*values, *named.values()])
    except RAW as error:
        raise_explained(error, fn, args, kwargs, fn.__name__)


def bare(arg: Any) -> Any:
    """The value of a tensor that is nothing but that: no view, no gradient, no notes. Others as they are."""
    if type(arg) in CLASSES and arg._view is None and arg._extra is None:
        cell = arg._cell
        return cell.value if cell.leaf is None and cell.owner is None else arg
    return arg


def read_operand(arg: Any) -> Any:
    """Operands as values: tensors are read, also inside lists and tuples; traced Python numbers stay weak."""
    if isinstance(arg, Tensor):
        extra = arg._extra
        return arg._read() if extra is None or "weak" not in extra else Weak(arg._read(), extra["weak"])
    if type(arg) in (list, tuple) and any(isinstance(a, (Tensor, list, tuple)) for a in arg):
        return type(arg)(read_operand(a) for a in arg)
    return read_operand(arg.values) if type(arg) is Pair else arg


def read(arg: Any) -> Any:
    """As `read_operand`, but a traced Python number has the default dtype of its kind, as it has alone."""
    if type(arg) in (list, tuple) and any(isinstance(a, (Tensor, list, tuple)) for a in arg):
        return type(arg)(read(a) for a in arg)
    found = read_operand(arg)
    return table["cast"](found.value, dtype=scalar_dtype(found.kind)) if isinstance(found, Weak) else found


def wrap_results(out: Any, operands: Sequence[Any]) -> Any:
    """Results as tensors. One that shares memory with an operand is copied: a result is nobody's view."""
    if type(out) is np.ndarray or isinstance(out, Traced):
        memory = out if type(out) is np.ndarray else bottom(out)
        if type(memory) is np.ndarray and _shares(memory, operands):
            out = copy_value(out)
        return wrap(out)
    if isinstance(out, tuple) and hasattr(out, "_fields"):
        return type(out)(*(wrap_results(o, operands) for o in out))
    if isinstance(out, (tuple, list)):
        return type(out)(wrap_results(o, operands) for o in out)
    return out


def copy_value(value: Value) -> Value:
    """The value in memory of its own, through which gradients flow."""
    return value.copy() if type(value) is np.ndarray else table["cast"](value, dtype=value.dtype)


def _shares(memory: np.ndarray[Any, Any], operands: Sequence[Any]) -> bool:
    """Is the memory that of an operand, or part of it?"""
    base = memory.base
    for v in operands:
        if isinstance(v, (list, tuple)):
            if _shares(memory, v):
                return True
        elif v is memory or (isinstance(v, Traced) and bottom(v) is memory):
            return True
        elif base is not None and isinstance(v, (np.ndarray, Traced)):
            other = bottom(v)
            if base is other or base is getattr(other, "base", None):
                return True
    return False
