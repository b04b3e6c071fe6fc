"""`tb.jit`: record a function once per kind of call, compile the graph for a target, run that from then on.

State is captured through cells alone: a tensor read from outside is an input, one written is an output.
Arguments are tensors (or arrays), Python numbers (traced, weakly typed), and static values: bools, strings,
None, and whatever static_argnums and static_argnames name.
"""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, update_wrapper, wraps
from typing import Any

import numpy as np

from trilobite.base.collection import uncollected
from trilobite.base.errors import ArgumentError, TraceError
from trilobite.base.forks import renewed_in_child
from trilobite.base.locations import user_location
from trilobite.base.records import dataclass
from trilobite.compiler.targets.contract import NO_USAGE, Executable, Target, Usage
from trilobite.compiler.targets.registry import executable, existing, find, target_now
from trilobite.framework.code_names import forget_classes
from trilobite.framework.deferred_gradients import can_wait, forward
from trilobite.framework.delivery import Witness, deliver, forget_gradients, old_gradients, shared_cells
from trilobite.framework.dispatch import MISS, Dispatch
from trilobite.framework.guards import NUMBERS, Place
from trilobite.framework.recordings import Entry, StateToCome, hand_on, still_holds, trace
from trilobite.framework.signature import Call, Signature, describe, hold, take_apart
from trilobite.framework.tensor import wrap
from trilobite.framework.transforms import check_function
from trilobite.ir.evaluate import distinct
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.cells import is_kept_by
from trilobite.ir.transforms.record import see
from trilobite.native.interruptible import postponed, raise_postponed

MOST_RECORDINGS = 16  # for one kind of call, of those that differ in what Python held
_NEVER = 1 << 30
# One for all functions: a function that is recorded may call any other.
_recording = renewed_in_child(threading.RLock())


_OWN = frozenset("fn target shapes options static_argnums static_argnames entries recompilations".split())


class _Bound(dict[str, "Jitted"]):
    """Compiled methods of one instance. They are no part of a copy of it, which makes its own."""

    def __reduce__(self) -> Any:
        return _Bound, ()


class Jitted:
    """A compiled function. Call it like the original."""

    def __init__(
        self,
        fn: Callable[..., Any],
        target: object,
        static_argnums: Sequence[int],
        static_argnames: Sequence[str],
        shapes: Any,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.fn, self.target, self.shapes = fn, target, shapes
        kept = ((k, frozenset(v) if isinstance(v, set | list) else v) for k, v in (options or {}).items())
        self.options = tuple(sorted(kept))
        self.static_argnums, self.static_argnames = tuple(static_argnums), tuple(static_argnames)
        self.entries: dict[Signature, list[Entry]] = {}
        self.recompilations: list[str] = []
        self._fast: Dispatch | None = None
        self._entry: Entry | None = None  # of the last call
        self._changes: Counter[Any] = Counter()  # how often a number of Python was another one
        self._numbers: dict[Any, Place] = {}  # those that changed so often that they are inputs
        self._warned = False
        update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fast = self._fast
        if fast is not None and not kwargs:
            out = fast(args)
            if out is not MISS:
                return out
        self._fast = fast = None  # it holds the arrays that this call may overwrite
        return self._long_way(args, kwargs)

    def on_arrays(self, values: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """A call with arrays that are nobody's tensors, of a function of tensors alone that gives a tuple of
        them: its results as arrays. What is called again and again is not made tensors of.
        """
        fast = self._fast
        outs = None if fast is None else fast.arrays(list(values))
        return [o.numpy() for o in self(*map(wrap, values))] if outs is None else outs

    def _long_way(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        call = self._take_apart(args, kwargs)
        try:
            found, call = self._ready(call)
        except StateToCome:
            if entry.threads.context.recorder is not None:
                raise
            return self.fn(*args, **kwargs)
        out = self._run(found, call)
        self._entry = found
        self._fast = Dispatch.of(found, call, args, kwargs, self._target)
        return out

    def _ready(self, call: Call) -> tuple[Entry, Call]:
        """The recording that serves a call, compiled."""
        with uncollected():
            found = self._find(call)
            shared = shared_cells(found, call)
            if shared:
                call = hold(call, shared)
                found = self._find(call)
            self._prepare(found, call)
        return found, call

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = instance.__dict__.setdefault("_jitted", _Bound()) if hasattr(instance, "__dict__") else {}
        name = self.fn.__name__
        if name not in bound:
            bound[name] = Jitted(
                self.fn.__get__(instance, owner),
                self.target,
                [n - 1 for n in self.static_argnums],
                self.static_argnames,
                self.shapes,
                dict(self.options),
            )
        return bound[name]

    def __reduce__(self) -> Any:
        """By its name if it stands for its function there; else a copy of function and settings that records
        anew.
        """
        name = getattr(self, "__qualname__", "")
        if name and getattr(sys.modules.get(self.__module__), name, None) is self:
            return name
        settings = (self.target, self.static_argnums, self.static_argnames, self.shapes)
        return Jitted, (self.fn, *settings)

    def __getattr__(self, name: str) -> Any:
        """What the function or module itself has: `jitted.eval()`, `jitted.parameters()`, `jitted.weight`."""
        if "fn" not in self.__dict__ or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"a compiled function has no {name!r}")
        found = getattr(self.fn, name)
        if getattr(found, "__self__", None) is not self.fn or not _is_module(self.fn):
            return found

        @wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            out = found(*args, **kwargs)
            return self if out is self.fn else out  # `jitted.eval()` is still compiled

        return method

    def __setattr__(self, name: str, value: Any) -> None:
        """Attributes of a compiled module are the module's."""
        fn = self.__dict__.get("fn")
        if name in _OWN or name.startswith("_") or fn is None or not _is_module(fn):
            object.__setattr__(self, name, value)
        else:
            setattr(fn, name, value)

    def __repr__(self) -> str:
        what = repr(self.fn) if _is_module(self.fn) else _name(self.fn)
        return f"<compiled {what} for {self.target!r}, recorded {sum(map(len, self.entries.values()))} times>"

    @cached_property
    def _target(self) -> Target:
        return find(self.target)

    def _take_apart(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        return take_apart(args, kwargs, self.static_argnums, self.static_argnames, self.shapes)

    # -- recordings ------------------------------------------------------------------------------------------

    def _find(self, call: Call) -> Entry:
        found, _ = self._found(call)
        if found is not None:
            return found
        with _recording:
            found, reason = self._found(call)  # another thread may have recorded it meanwhile
            if found is not None:
                return found
            if self.entries:
                self.recompilations.append(reason or self._difference(call.signature))
                self._note_change(call)
                forget_classes()
            found = self._traced(call)
            if found.guards.escaped:  # the next call finds it there: an error if it reads it
                with found.guards.as_they_are():
                    self._traced(call)
            # one that closes over values of a running transform serves this call only
            if not found.recording.values:
                self._keep(call, found, reason)
            return found

    def _traced(self, call: Call) -> Entry:
        """With numbers that keep changing as inputs; where the function needs one in Python, it is static."""
        numbers = tuple(place for place in self._numbers.values() if type(place.now()) in NUMBERS)
        if numbers:
            try:
                return trace(self.fn, call, self.options, numbers)
            except TraceError:
                self._changes = Counter(dict.fromkeys(self._changes, -_NEVER))
                self._numbers = {}
        return trace(self.fn, call, self.options)

    def _note_change(self, call: Call) -> None:
        """A number that changes for the second time becomes an input."""
        for e in self.entries.get(call.signature, ())[-1:]:
            place = e.changed
            if place is not None and place.is_writable and type(place.now()) in NUMBERS:
                self._changes[place.identity] += 1
                if self._changes[place.identity] >= 2:
                    self._numbers[place.identity] = place

    def _keep(self, call: Call, found: Entry, reason: str) -> None:
        kept = self.entries.setdefault(call.signature, [])
        kept.append(found)
        if len(kept) <= MOST_RECORDINGS:
            return
        del kept[0]
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{_name(self.fn)} was recorded {MOST_RECORDINGS} times for one kind of call, last because "
                f"{reason}; make what changes a tensor, or pass it as an argument",
                RuntimeWarning,
                stacklevel=6,
            )

    def _found(self, call: Call) -> tuple[Entry | None, str]:
        """A recording that serves; or why the last of those for such a call does not."""
        reason = ""
        for e in self.entries.get(call.signature, ()):
            reason = still_holds(e, call)
            if not reason:
                return e, ""
        return None, reason

    def _difference(self, new: Signature) -> str:
        """Why no recording so far serves: compared with the newest of them."""
        old = list(self.entries)[-1]
        if old.tree != new.tree:
            return f"the arguments have another structure: {new.tree} instead of {old.tree}"
        for i, (a, b) in enumerate(zip(old.leaves, new.leaves, strict=True)):
            if a != b:
                return f"argument leaf {i} is {describe(b)} instead of {describe(a)}"
        if old.aliases != new.aliases:
            return "other arguments are the same tensor"
        if old.autocast != new.autocast:
            return f"autocast is {'off' if new.autocast is None else new.autocast.name}"
        if old.default_float != new.default_float:
            return f"the default dtype is {new.default_float.name}"
        if old.place != new.place:
            return f"it runs as rank {new.place[0]} of {new.place[1]}"
        return f"gradients are {'on' if new.grad_enabled else 'off'}"

    # -- running ---------------------------------------------------------------------------------------------

    def _run(self, e: Entry, call: Call) -> Any:
        target = target_now(self._target)
        hand_on(e, entry.threads.context.recorder)
        e.guards.refresh()
        with _state_lock(e):
            values = self._values(e, call, target)
            if _is_plain(values):
                outs = self._outputs(e, values, target)
            elif can_wait(e, values):
                outs = forward(e, values, target)
            else:
                outs = distinct(table["call"](*values, **e.attributes, target=target.name), values)
            result = deliver(e, call, outs)
            if postponed:
                raise_postponed()
            return result

    def _outputs(self, e: Entry, values: list[Value], target: Target) -> Sequence[Value]:
        run, witness, old = executable(e.recording.graph, target, e.usage).run, Witness(e), old_gradients(e)
        replaces = bool(old)
        try:
            outs: Sequence[Value] = run(values, old, 0)
        except BaseException:
            if replaces:
                forget_gradients(e.grads)
            raise
        witness.check()
        return outs

    def _prepare(self, e: Entry, call: Call) -> None:
        """Compiling takes time, in which others may write; so the state is read afterwards."""
        target = target_now(self._target)
        values = self._values(e, call, target)
        if not _is_plain(values):
            return
        owners = dict(enumerate(e.recording.cells, len(call.tensors)))
        executable(e.recording.graph, target, e.usage).prepare(values, owners)

    def _values(self, e: Entry, call: Call, target: Target) -> list[Value]:
        """What the recording takes, as it is now: arguments, then captured cells."""
        r = e.recording
        run = None if e.differentiable else existing(r.graph, target, e.usage)
        keeper, present = None if run is None else run.keeper, e.present()
        captured = [c.held if is_kept_by(c, keeper) else see(present.get(c, c)) for c in r.cells]
        values = [*(t._read() for t in call.tensors), *captured, *r.values]
        if e.differentiable:
            return values
        # nothing that backward() outside could follow: its tape need not know
        return [entry.threads.context.ambient.strip(v) for v in values]

    # -- looking inside --------------------------------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The recorded program for these arguments, without running it."""
        found = self._find(self._take_apart(args, kwargs))
        return Lowered(found.recording.graph, self._target, found.usage)

    @property
    def last_run(self) -> Any:
        """What the target kept of the last call: on a processor cycles, joules, stalls and the timeline."""
        if self._entry is None:
            return None
        made = existing(self._entry.recording.graph, self._target, self._entry.usage)
        return None if made is None else made.last_run

    def profile(self, *args: Any, repeats: int = 1, **kwargs: Any) -> Any:
        """Where the time of a call with these arguments goes; `str` shows it."""
        made = self.lower(*args, **kwargs).compile()
        return made.profile(lambda: self(*args, **kwargs), repeats)

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Where each operation runs, and why the function was recorded more than once."""
        lines = []
        if args or kwargs:
            lines += self.lower(*args, **kwargs).explain()
        lines += [f"recorded again: {why}" for why in self.recompilations]
        return "\n".join(lines) or ("recorded once" if self.entries else "not called yet")


def _is_module(fn: Any) -> bool:
    return hasattr(type(fn), "named_modules")


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _state_lock(e: Entry) -> AbstractContextManager[Any]:
    """A call that is recorded changes nothing now."""
    recorded = entry.threads.context.recorder is not None
    return nullcontext() if e.lock is None or recorded else e.lock.now()


def _is_plain(values: Sequence[Value]) -> bool:
    """Are all just arrays, and does nobody record?"""
    return entry.threads.context.recorder is None and all(type(v) is np.ndarray for v in values)


@dataclass(frozen=True)
class Lowered:
    """A recorded program on its way to a target."""

    graph: Graph
    target: Target
    usage: Usage = NO_USAGE

    @property
    def stages(self) -> Mapping[str, str]:
        """Every level as text, in order."""
        return self.compile().stages

    def explain(self) -> list[str]:
        """Where each operation runs and why, line by line."""
        head = f"{self.graph.name} on {self.target.name}: {len(self.graph)} equations"
        return [head, *self.compile().explain()]

    def compile(self) -> Executable:
        return executable(self.graph, self.target, self.usage)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    target: object = "cpu",
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    shapes: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a function for a target: "cpu", "reference", or one with arguments, by name or as an object:
    "dlp:dlp-m", "dlp:file.yaml", a machine's description. `shapes` declares symbolic dimensions: one entry
    per positional argument, None for "as it is". `options` go to the target; the cpu knows accuracy="strict"
    (no algorithm that rounds more than plain sums do), mixed_precision="bfloat16" (operands of large
    products), memory=bytes (compute again what is cheap, to stay below, and keep no packed weights) and
    skip={"pass", ...}.
    """
    numbers = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    names = (static_argnames,) if isinstance(static_argnames, str) else static_argnames
    if fn is None:
        return lambda f: jit(
            f, target=target, static_argnums=numbers, static_argnames=names, shapes=shapes, options=options
        )
    check_function("jit", fn)
    _check_static(fn, numbers, names)
    return Jitted(fn, target, numbers, tuple(names) + _names_of(fn, numbers), shapes, options)


def _check_static(fn: Callable[..., Any], numbers: Sequence[int], names: Sequence[str]) -> None:
    """Static arguments must be ones that the function has."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return
    kinds = {p.kind for p in parameters.values()}
    open_ended, any_name = inspect.Parameter.VAR_POSITIONAL in kinds, inspect.Parameter.VAR_KEYWORD in kinds
    n = len(parameters)
    wrong: list[object] = [] if open_ended else [i for i in numbers if not -n <= i < n]
    wrong += [] if any_name else [name for name in names if name not in parameters]
    if wrong:
        raise ArgumentError(
            f"jit with the static argument {wrong[0]!r} of a function of ({', '.join(parameters)})",
            where=user_location(),
            expected="positions and names of its parameters",
            remedy="static_argnums counts from 0; static_argnames are the parameters' names",
        )


def _names_of(fn: Callable[..., Any], numbers: Sequence[int]) -> tuple[str, ...]:
    """Static positions are static by keyword as well."""
    try:
        parameters = list(inspect.signature(fn).parameters)
    except (TypeError, ValueError):
        return ()
    return tuple(parameters[n] for n in numbers if -len(parameters) <= n < len(parameters))


def make_graph(fn: Callable[..., Any], *, static_argnums: int | Sequence[int] = ()) -> Callable[..., Graph]:
    """`make_graph(f)(x)` is the graph that f records for x."""
    jitted = jit(fn, static_argnums=static_argnums)
    return lambda *args, **kwargs: jitted.lower(*args, **kwargs).graph


def eval_shape(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The types of `fn`'s results, without computing them."""
    jitted = jit(fn)
    e = jitted._find(jitted._take_apart(args, kwargs))
    types = iter(e.recording.graph.output_types)
    return e.out_tree.unflatten(next(types) if s is None else s.value for s in e.out_static)


def refuse_during_recording(what: str) -> None:
    """Called where Python state is about to change: inside a recording that would happen once instead of
    every run.
    """
    if entry.threads.context.recorder is not None:
        raise TraceError(
            f"{what} while a function is being recorded",
            where=user_location(),
            expected="state that changes from run to run lives in tensors",
            remedy="make it a buffer and write to it in place: self.count += 1",
        )
