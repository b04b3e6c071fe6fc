"""Tensor: a handle on a cell, perhaps through a view. State, views, gradients and conversion live here.

The operations are not here: they stand in the operator table (`framework/ops`), which gives each its method
and function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.dtypes import dtype, is_inexact, shown
from trilobite.base.errors import ArgumentError, DTypeError, GradientError
from trilobite.base.locations import user_location
from trilobite.framework.change_counter import count_change
from trilobite.framework.concrete import concrete, nested, single
from trilobite.framework.devices import CPU, device
from trilobite.framework.layouts import Strides, strides
from trilobite.framework.leaves import GradLeaf, added_in_place, get_grad, not_tracked, own, seed_of, set_grad
from trilobite.framework.sizes import Size, counted
from trilobite.framework.view_node import looked
from trilobite.framework.views import Step
from trilobite.framework.writing import copied, is_detached, store
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells
from trilobite.ir.transforms.backward import backward
from trilobite.ir.transforms.bind import bind
from trilobite.ir.transforms.cells import Cell
from trilobite.ir.transforms.record import see_outer
from trilobite.ir.transforms.tape import Leaf, Node, Taped, taped
from trilobite.ir.types import Shape

if TYPE_CHECKING:
    from trilobite.framework.attached import (
        Attached,
    )  # what the operator table gives to Tensor when it is loaded
else:
    Attached = object

_stop = table["stop_gradient"]
_make, _make_cell = object.__new__, Cell.__new__


class Tensor(Attached):
    """An n-dimensional array that can be differentiated, traced and compiled."""

    __slots__ = ("__dict__", "__weakref__", "_cell", "_extra", "_view")  # the dict is for marks of the user's
    __array_priority__ = 1000
    _cell: Cell
    _view: tuple[Step, ...] | None
    _extra: dict[str, Any] | None

    def __init__(
        self, *data: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None
    ) -> None:
        """As in PyTorch: data as a float tensor, or sizes of zeros: `Tensor([1, 2])`, `Tensor(2, 3)`."""
        from trilobite.framework.ops.conversion import legacy_array

        self._cell, self._view, self._extra = Cell(legacy_array(data, dtype, device)), None, None
        if requires_grad:
            self.requires_grad_()

    # -- reading and writing ---------------------------------------------------------------------------------

    def _read(self) -> Value:
        """The value as the running transforms see it."""
        cell = self._cell
        ctx = entry.threads.context
        value = cell.value if cell.owner is ctx.recorder else see_outer(cell)
        if cell.leaf is not None and ctx.ambient.level > ctx.grad_off:
            value = taped(ctx.ambient, value, cell.leaf)
        return value if self._view is None else self._look(value)

    def _look(self, value: Value) -> Value:
        """Apply the view. Remembered while the base is the same object and, where the result is a copy,
        unwritten.
        """
        seen = None if self._extra is None else self._extra.get("seen")
        if (
            seen is not None
            and (seen[0] is value or _is_same_leaf(seen[0], value, seen[1]))
            and (seen[2] is None or not cells.stamped_after(value, seen[2]))
        ):
            return seen[1]
        out, steps = value, self._view or ()
        parent = None if self._extra is None or type(value) is not Taped else self._extra.get("parent")
        if parent is not None:  # hooks of the view that this one was taken of are on the way
            out, steps = parent._look(value), steps[len(parent._view or ()) :]
        found = looked(out, steps) if steps else None
        if found is not None:
            out = found
        else:
            for primitive, attributes in steps:
                out = bind(primitive, out, **attributes)
        if self._extra is not None and type(out) is Taped and "hooks" in self._extra:
            _hang(out, self._extra["hooks"])
        apart = type(out) is np.ndarray and out is not value and not _shares(out, value)
        self._note("seen", (value, out, cells.now if apart else None))
        return out

    def _note(self, key: str, value: Any) -> None:
        if self._extra is None:
            self._extra = {}
        self._extra[key] = value

    _store = store

    def _through(self, *steps: Step) -> Tensor:
        """Another handle on the same cell, looking through further steps."""
        out = Tensor.__new__(Tensor)
        out._cell = self._cell
        out._extra = None if self._view is None else {"parent": self}
        out._view = (*(self._view or ()), *steps) or None
        return out

    def _strides(self) -> Strides | None:
        """Where neighbours lie, counted in elements of the base; None if no strides reach them."""
        return strides(self._peek().shape, self._view or ())

    # -- what it is ------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        return Size(self._read().shape if self._view is not None else self._peek().shape)

    @property
    def dtype(self) -> dtype:
        return shown(self._peek().dtype)

    def _peek(self) -> Value:
        """What has the cell's shape and dtype."""
        cell = self._cell
        ctx = entry.threads.context
        return cell.held if cell.owner is ctx.recorder else see_outer(cell)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        """How many elements there are; called, the shape: `x.size()`, `x.size(0)`."""
        return counted(self.shape)

    @property
    def device(self) -> device:
        return CPU

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError(
                "len() of a tensor without dimensions",
                where=user_location(),
                expected="at least one dimension",
                remedy="x.size counts its elements, x.reshape(1) gives it a dimension",
            )
        return self.shape[0]  # type: ignore[return-value]

    def __hash__(self) -> int:
        return id(self)

    # -- concrete values -------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a NumPy array, sharing memory where possible."""
        value = self._read()
        if isinstance(value, Taped) and value.interpreter is entry.threads.context.ambient:
            raise GradientError(
                "numpy() of a tensor that requires a gradient would lose its history",
                where=user_location(),
                expected="a tensor without a history",
                remedy="x.detach().numpy()",
            )
        out = concrete(value, "numpy()")
        cells.expose(out)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        out = self.numpy()
        if dtype is not None and out.dtype != dtype:
            return out.astype(dtype)
        return out.copy() if copy else out

    def item(self) -> Any:
        """The only element as a Python number."""
        return single(self._read(), "item()")

    def tolist(self) -> Any:
        value = concrete(self._read(), "tolist()", strip=True)
        return value.tolist() if value.dtype.isbuiltin == 1 else nested(value)

    def __bool__(self) -> bool:
        if self._extra is not None and "whole" in self._extra and self.size != 1:  # of `tb.equal`
            return bool(self._extra["whole"] and concrete(self._read(), "bool()").all())
        return bool(single(self._read(), "bool()", branch=True))

    def __int__(self) -> int:
        return int(single(self._read(), "int()", kinds="c"))

    def __float__(self) -> float:
        return float(single(self._read(), "float()", kinds="c"))

    def __complex__(self) -> complex:
        return complex(single(self._read(), "complex()"))

    def __index__(self) -> int:
        remedy = "n elements from i on are x[i + tb.arange(n)]; a size is an int or one of static_argnums"
        value = concrete(self._read(), "a tensor as an index or a size", strip=True, remedy=remedy)
        if value.dtype.kind not in "iu" or value.shape != ():
            raise DTypeError(
                f"a tensor {value.dtype}{list(value.shape)} used as an index",
                where=user_location(),
                expected="an integer tensor without dimensions",
                remedy="cast it: x.astype(tb.int64), or index it down to one element",
            )
        return int(value)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise DTypeError(
                "iteration over a tensor without dimensions",
                where=user_location(),
                expected="at least one dimension",
                remedy="x.item() is its number, x.reshape(1) gives it a dimension",
            )
        return (self[i] for i in range(len(self)))

    # -- gradients -------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        if self._cell.leaf is not None and self._view is None:
            return True
        value = self._read()
        return type(value) is Taped and value.interpreter.ambient

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.requires_grad_(flag)

    def requires_grad_(self, flag: bool = True) -> Tensor:
        """Make `backward()` collect a gradient here (or stop it)."""
        if flag == self.requires_grad:
            return self
        if flag and self._view is not None and (is_detached(self) or not self.requires_grad):
            # A leaf is a tensor of its own: it leaves the memory it looked at.
            self._cell, self._view = Cell(copied(self._read())), None
        if self._view is not None or not self.is_leaf:
            raise GradientError(
                "requires_grad can be changed for leaves only",
                where=user_location(),
                expected="a tensor that was not computed from others, and not a view",
                remedy="x.detach().requires_grad_()",
            )
        if flag and not is_inexact(self.dtype):
            raise DTypeError(
                f"a tensor of {self.dtype} cannot require a gradient",
                where=user_location(),
                expected="a float or complex dtype",
                remedy="cast it first: x.float().requires_grad_()",
            )
        cell = self._cell  # what it has gathered, and its hooks, stay with a tensor that is frozen for a time
        if flag:
            cell.leaf = getattr(cell, "resting", None) or GradLeaf(cell.owner)
        else:
            cell.leaf, cell.resting = None, cell.leaf
        count_change()
        return self

    @property
    def is_leaf(self) -> bool:
        return (self._cell.leaf is not None and self._view is None) or not self.requires_grad

    @property
    def grad_fn(self) -> Node | None:
        value = self._read()
        return value.node if type(value) is Taped and not isinstance(value.node, Leaf) else None

    @property
    def grad(self) -> Tensor | None:
        """What `backward()` has accumulated."""
        if self._cell.leaf is None or self._view is not None:
            if self._extra is not None and "grad" in self._extra:
                return self._extra["grad"]  # type: ignore[no-any-return]
            leaf = None if self._view is not None else getattr(self._cell, "resting", None)
        else:
            leaf = self._cell.leaf
        return None if leaf is None else get_grad(leaf)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        leaf = self._cell.leaf or getattr(self._cell, "resting", None)
        if value is not None and (value.shape != self.shape or value.dtype != self.dtype):
            raise ArgumentError(
                f"a gradient {value.dtype}{list(value.shape)} for a tensor {self.dtype}{list(self.shape)}",
                where=user_location(),
                expected="the same dtype and shape",
                remedy="cast or reshape the gradient, or set it to None",
            )
        if leaf is None:
            self._note("grad", value)
        else:
            set_grad(leaf, value)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Sequence[Tensor] | None = None,
    ) -> None:
        """Accumulate d(self)/d(leaf) into `leaf.grad` for every leaf that requires a gradient, or for the
        tensors in `inputs` alone.
        """
        ctx = entry.threads.context
        value = self._read()
        if not (type(value) is Taped and value.interpreter is ctx.ambient):
            raise not_tracked(value)
        seed = seed_of(value, gradient._read() if isinstance(gradient, Tensor) else gradient)
        only = None if inputs is None else {t._cell.leaf for t in inputs}
        listeners = [_listen(t) for t in inputs or ()]
        try:
            found = backward(
                ctx.ambient,
                [(value, seed)],
                retain=create_graph if retain_graph is None else retain_graph,
                again=create_graph,
            )
        finally:
            for stop in listeners:
                stop()
        shared: set[int] = {id(cells.bottom(seed))}
        for leaf in list(found):
            ct = found.pop(leaf)  # one after another: a gradient may be a copy of what has arrived
            if isinstance(leaf, GradLeaf) and (only is None or leaf in only):
                accumulate(leaf, ct if create_graph else ctx.ambient.strip(ct), shared)

    def detach(self) -> Tensor:
        """The same memory, as a constant to every derivative."""
        return self._through((_stop, {}))

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor although it is not a leaf."""
        if self._cell.leaf is None or self._view is not None:
            self.register_hook(lambda g: self._note("grad", g))

    def register_hook(self, hook: Callable[[Tensor], Any]) -> Callable[[], None]:
        """Call `hook(gradient)` when backward arrives here; what it returns replaces the gradient. Returns a
        remover.
        """
        value = self._read()
        if type(value) is not Taped:
            raise GradientError(
                "register_hook() on a tensor that requires no gradient",
                where=user_location(),
                expected="a tensor that backward() reaches",
                remedy="x.requires_grad_()",
            )
        row: list[Callable[[Value], Value | None]] = []
        if self._view is not None:
            # A view of a leaf, or of a base that was written, is taken anew: its hooks stay with the handle.
            self._extra = {} if self._extra is None else self._extra
            row = self._extra.setdefault("hooks", row)
        row = _hang(value, row)

        def call(ct: Value) -> Value:
            shown = wrap(ct)
            changed = _from_hook(hook(shown), ct)
            # Who listens may keep the tensor: the gradient goes on, and is added to, in memory of its own.
            return copied(shown._read() if changed is None else changed)

        vars(call)["__wrapped__"] = hook  # what a recording looks into
        if isinstance(value.node, Leaf):
            count_change()
        row.append(call)
        return Remover(row, call)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> Remover:
        """Call `hook(tensor)` whenever backward has added to the gradient of this leaf."""
        leaf = self._cell.leaf
        if not isinstance(leaf, GradLeaf) or self._view is not None:
            raise GradientError(
                "register_post_accumulate_grad_hook() on a tensor that keeps no gradient",
                where=user_location(),
                expected="a leaf that requires a gradient",
                remedy="x.requires_grad_(), or register_hook() for what is computed",
            )

        def call() -> None:
            hook(self)

        vars(call)["__wrapped__"] = hook
        leaf.after = [] if leaf.after is None else leaf.after
        count_change()
        leaf.after.append(call)
        return Remover(leaf.after, call)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise GradientError(
                "deepcopy of a tensor that is not a leaf",
                where=user_location(),
                expected="a leaf: a copy has no history",
                remedy="x.detach().clone(), or x.clone() to keep the gradient flowing",
            )
        out = type(self).__new__(type(self))
        out._cell, out._view, out._extra = Cell(copied(self.detach()._read())), None, None
        if self.__dict__:
            out.__dict__.update(copy.deepcopy(self.__dict__, memo))
        if self.requires_grad:
            out._cell.leaf = GradLeaf()
        memo[id(self)] = out
        return out


CLASSES: set[type] = {Tensor}
"""Kinds of tensors that are nothing but a cell, seen through a view."""


class Remover:
    """Takes a hook away again: call it or its `remove()`, or use it as a context."""

    def __init__(self, row: list[Any], call: Any) -> None:
        self._row, self._call = row, call

    def remove(self) -> None:
        if self._call in self._row:
            self._row.remove(self._call)
            count_change()

    __call__ = remove

    def __enter__(self) -> Remover:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _listen(t: Tensor) -> Callable[[], None]:
    """Collect the gradient of an input of `backward` that is not a leaf; returns how to stop."""
    if not t.requires_grad:
        raise GradientError(
            "backward(inputs=) with a tensor that requires no gradient",
            where=user_location(),
            expected="tensors that the result was computed from, with requires_grad=True",
            remedy="x.requires_grad_() before the forward pass",
        )
    if t.is_leaf:
        return lambda: None

    def collect(g: Tensor) -> None:
        old = t.grad
        t._note("grad", g if old is None else wrap(bind(table["add"], old._read(), g._read())))

    return t.register_hook(collect)


def _is_same_leaf(before: Value, value: Value, seen: Value) -> bool:
    """Is it the leaf that a view looked at before, and has no backward pass come by since? Then the view is
    the same value of the tape, and gradients by it can be asked for.
    """
    return (
        type(before) is type(value) is type(seen) is Taped
        and before.node is value.node
        and before.primal is value.primal
        and isinstance(value.node, Leaf)
        and not seen.node.freed
    )


def _hang(value: Taped, row: list[Any]) -> list[Any]:
    """Puts a row of hooks on a value of the tape; the row that is in force there."""
    if value.node.hooks is None:
        value.node.hooks = {}
    return value.node.hooks.setdefault(value.index, row)


def _from_hook(out: Any, ct: Value) -> Value | None:
    """What a hook returned, if it can stand in for the gradient."""
    if out is None:
        return None
    if not isinstance(out, Tensor) or out.shape != ct.shape or out.dtype != ct.dtype:
        is_it = f"{out.dtype}{list(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise GradientError(
            f"a hook returned {is_it} for a gradient {ct.dtype}{list(ct.shape)}",
            where=user_location(),
            expected="None, or a tensor of the gradient's dtype and shape",
            remedy="return nothing to leave the gradient as it is",
        )
    return out._read()


def _shares(part: np.ndarray[Any, Any], whole: Any) -> bool:
    base = part.base
    if type(whole) is not np.ndarray:
        return False
    if base is not None and (base is whole or base is whole.base):
        return True
    return bool(np.may_share_memory(part, whole))


def wrap(value: Value) -> Tensor:
    """A new tensor that holds `value`."""
    ctx = entry.threads.context
    cell = _make_cell(Cell)  # field by field, without calls: every operation comes by
    cell.value, cell.leaf, cell.owner, cell.depth = value, None, ctx.recorder, ctx.depth
    out = _make(Tensor)
    out._cell, out._view, out._extra = cell, None, None
    return out


def wrap_recorded(ctx: entry.Context, value: np.ndarray[Any, Any], node: Node) -> Tensor:
    """`wrap(taped(...))` of an array outside of any recording, in one call."""
    recorded = _make(Taped)
    recorded.interpreter, recorded.primal, recorded.node, recorded.index = ctx.ambient, value, node, 0
    recorded.shape, recorded.dtype = value.shape, value.dtype
    cell = _make_cell(Cell)
    cell.value, cell.leaf, cell.owner, cell.depth = recorded, None, None, ctx.depth
    out = _make(Tensor)
    out._cell, out._view, out._extra = cell, None, None
    return out


def accumulate(leaf: GradLeaf, ct: Value, shared: set[int]) -> None:
    """Add a cotangent to a leaf's gradient; the first one becomes the gradient, with memory of its own."""
    old = get_grad(leaf)
    if old is None:
        set_grad(leaf, wrap(own(ct, shared)))
    elif not added_in_place(old, ct):
        _add_gradient(leaf, old, ct)
    for call in list(leaf.after or ()):
        call()


def _add_gradient(leaf: GradLeaf, old: Tensor, ct: Value) -> None:
    total = bind(table["add"], old._read(), ct)
    if isinstance(total, Taped):  # create_graph: the sum itself can be differentiated
        set_grad(leaf, wrap(total))
    else:
        old._store(total)
