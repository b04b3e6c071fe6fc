"""Sessions: a model loaded for a target, ready to run.

Enters: a model as a path, bytes, a ModelProto, or as `read` gives it. Leaves: `Session`, which takes arrays
by input name and gives arrays by output name. All operators are checked when a session is made; graphs are
compiled when sizes are first seen. Sessions made of one `Model` share its weights; a session may run in
many threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, DTypeError, ShapeError, StateError
from trilobite.base.records import dataclass
from trilobite.compiler.targets import profiles as targets
from trilobite.framework.tensor import Tensor
from trilobite.inference import operators
from trilobite.inference.model import Graph, Model, Named
from trilobite.inference.program.program import Program, unsupported
from trilobite.inference.program.steps import Compiled, Step
from trilobite.inference.reader import read
from trilobite.inference.recognise import recognised
from trilobite.native import pool


@dataclass(frozen=True)
class Profile(targets.Profile):
    """Milliseconds of every step of a run, and what the target says about those that are compiled."""

    rows: tuple[tuple[str, float], ...]
    parts: tuple[
        tuple[int, targets.Profile], ...
    ] = ()  # of compiled steps: their number, and the target's own profile

    @property
    def each(self) -> list[targets.Profile]:
        return [found for _, found in self.parts]

    def write(self, directory: str | Path) -> list[Path]:
        """The table of steps, and of each compiled one what its target keeps, in a directory of its own."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        table = folder / "steps.txt"
        table.write_text(f"{self}\n", encoding="utf-8")
        return [table, *(path for i, found in self.parts for path in found.write(folder / f"step-{i}"))]

    @property
    def total(self) -> float:
        return sum(ms for _, ms in self.rows)

    def __str__(self) -> str:
        lines = [f"{ms:>10.3f} ms  {name}" for name, ms in self.rows]
        details = [line for i, found in self.parts for line in ("", f"step {i}:", *str(found).splitlines())]
        return "\n".join([*lines, f"{self.total:>10.3f} ms  in all", *details])


class Session:
    """A model on a target."""

    def __init__(
        self,
        model: Model,
        target: str = "cpu",
        threads: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        operators.load()
        missing = unsupported(model.graph)
        if missing:
            raise ArgumentError(
                f"the model has {len(missing)} nodes that are not supported:\n    "
                + "\n    ".join(missing[:100]),
                expected="operators of docs/onnx.md",
            )
        self.model, self.target, self.threads = model, target, threads
        self._graph, self.recognised = recognised(model.graph)
        self._options = options
        self.program = Program(self._graph, target, options=options)
        self._types = {i.name: i for i in model.graph.inputs}
        self._defaults = {i.name: i for i in model.defaults}
        self._others: dict[frozenset[str], Program] = {}
        self._last: list[tuple[str, tuple[int, ...], Any]] = []  # inputs that were found to fit

    @property
    def inputs(self) -> tuple[Named, ...]:
        """Names, dtypes and shapes of what `run` takes; a size that may vary has its name, or None."""
        return self.model.graph.inputs

    @property
    def outputs(self) -> tuple[Named, ...]:
        """Names, dtypes and shapes of what `run` gives."""
        return self.model.graph.outputs

    # -- running ---------------------------------------------------------------------------------------------

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Iterable[str] | None = None,
        *,
        into: Mapping[str, np.ndarray[Any, Any]] | None = None,
        cancel: Event | None = None,
    ) -> dict[str, Any]:
        """Outputs by name, for inputs by name, which are not copied. Results named in `into` are written to
        those arrays. When `cancel` is set, by another thread, the run ends with an error before its next
        step.
        """
        if type(inputs) is not dict and not isinstance(inputs, Mapping):
            raise ArgumentError(
                f"inputs as a {type(inputs).__name__}",
                expected=f"arrays by name: {', '.join(f'{n}: {i.type}' for n, i in self._types.items())}",
            )
        if outputs is None and into is None and cancel is None and self._are_as_before(inputs):
            self._take_threads()
            return dict(zip(self.program.outputs, self.program.run(inputs), strict=True))
        names = list(outputs) if outputs is not None else self.program.outputs
        unknown = [n for n in (*names, *(into or ())) if n not in self.program.outputs]
        if unknown:
            raise ArgumentError(
                f"the model has no output {unknown[0]!r}",
                expected=f"some of {', '.join(self.program.outputs)}",
            )
        values = self._checked(inputs)
        self._take_threads()
        watch = None if cancel is None else _watching(cancel)
        program = self._program(frozenset(n for n in values if n in self._defaults))
        found = dict(zip(names, program.run(values, names, watch), strict=True))
        for name, array in (into or {}).items():
            found[name] = _written(name, found[name], array)
        return found

    def _are_as_before(self, inputs: Mapping[str, Any]) -> bool:
        """Arrays of the names, sizes and dtypes that were looked at last."""
        rows = self._last
        if len(inputs) != len(rows):
            return False
        for name, shape, dtype in rows:
            value = inputs.get(name)
            if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                return False
        return bool(rows)

    def _program(self, replaced: frozenset[str]) -> Program:
        """The program in which these values of the file are inputs."""
        if not replaced:
            return self.program
        if replaced not in self._others:
            g = self._graph
            kept = {k: v for k, v in g.constants.items() if k not in replaced}
            inputs = (*g.inputs, *(self._defaults[n] for n in sorted(replaced)))
            graph = Graph(g.name, inputs, g.outputs, g.nodes, kept)
            self._others[replaced] = Program(graph, self.target, options=self._options)
        return self._others[replaced]

    def _take_threads(self) -> None:
        if self.threads is not None and pool.threads() != self.threads:
            pool.set_threads(self.threads)

    def batched(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Several inputs in one run: joined along the first axis, and the results parted again."""
        if not rows:
            return []
        arrays = [self._checked(r) for r in rows]
        joined = {n: np.concatenate([a[n] for a in arrays]) for n in self._types}
        counts = [len(next(iter(a.values()))) for a in arrays]
        out = self.run(joined)
        ends = np.cumsum(counts)[:-1]
        parts = {n: np.split(v, ends) for n, v in out.items() if len(v) == sum(counts)}
        if len(parts) != len(out):
            odd = next(n for n in out if n not in parts)
            raise ShapeError(
                f"the output {odd!r} has the shape {out[odd].shape} for a batch of {sum(counts)}",
                expected="a first axis as long as the batch",
                remedy="run the inputs one by one",
            )
        return [{n: p[i] for n, p in parts.items()} for i in range(len(rows))]

    # -- looking inside --------------------------------------------------------------------------------------

    @property
    def last_runs(self) -> list[Any]:
        """What a processor kept of the last run, a launch each: cycles, joules, timeline; else nothing."""
        made = [step.latest for step in self.program.steps if isinstance(step, Compiled)]
        runs = (function.last_run for function in made if function is not None)
        return [run for run in runs if run is not None]

    def explain(self) -> str:
        """The steps, and for which sizes each was compiled."""
        named = ", ".join(f"{count} {op}" for op, count in sorted(self.recognised.items()))
        head = [f"found in written-out form: {named}"] if named else []
        return "\n".join([*head, *self.program.describe()])

    def profile(self, inputs: Mapping[str, Any], repeats: int = 10) -> Profile:
        """Where the time of a run goes: step by step, and inside compiled steps kernel by kernel."""
        self.run(inputs)
        values = self._checked(inputs)
        rows: dict[int, list[float]] = {}
        seen: dict[int, dict[str, Any]] = {}
        for _ in range(repeats):
            marks: list[float] = []

            def mark(step: Step, there: Mapping[str, Any], marks: list[float] = marks) -> None:
                seen[len(marks)] = dict(there)
                marks.append(time.perf_counter())

            self.program.run(values, before=mark)
            marks.append(time.perf_counter())
            for i, (a, b) in enumerate(pairwise(marks)):
                rows.setdefault(i, []).append((b - a) * 1000)
        best = tuple((self.program.steps[i].describe()[0], min(ms)) for i, ms in rows.items())
        return Profile(best, tuple(self._kernels(seen, repeats)))

    def _kernels(self, seen: Mapping[int, dict[str, Any]], repeats: int) -> list[tuple[int, Any]]:
        parts: list[tuple[int, Any]] = []
        for i, step in enumerate(self.program.steps):
            if isinstance(step, Compiled):
                try:
                    found = step.executable(seen[i]).profile(partial(step.run, seen[i]), repeats)
                except ArgumentError:
                    continue  # the target says nothing about kernels
                parts.append((i, found))
        return parts

    def memory(self, inputs: Mapping[str, Any]) -> str:
        """Bytes of weights, and what compiled steps plan for inputs of these sizes."""
        lines = [f"weights: {self.program.weights():,} bytes"]

        def note(step: Step, there: Mapping[str, Any]) -> None:
            if isinstance(step, Compiled):
                step.run(there)
                try:
                    lines.extend(str(step.executable(there).memory()).splitlines())
                except ArgumentError:
                    lines.append(f"{step.name}: the target {self.target!r} plans no memory")

        self.program.run(self._checked(inputs), before=note)
        return "\n".join(lines)

    # -- inputs ----------------------------------------------------------------------------------------------

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        extra = [n for n in inputs if n not in self._types and n not in self._defaults]
        lacking = [n for n in self._types if n not in inputs and self._types[n].type.kind != "optional"]
        if extra or lacking:
            what = f"the model has no input {extra[0]!r}" if extra else f"the input {lacking[0]!r} is missing"
            raise ArgumentError(what, expected=", ".join(f"{n}: {i.type}" for n, i in self._types.items()))
        sizes: dict[str, int] = {}
        taken = {**self._types, **{n: self._defaults[n] for n in inputs if n in self._defaults}}
        found = {n: _fitting(i, inputs.get(n), sizes) for n, i in taken.items()}
        plain = not self._defaults.keys() & inputs and all(type(v) is np.ndarray for v in found.values())
        self._last = [(n, v.shape, v.dtype) for n, v in found.items()] if plain else []
        return found


def _watching(cancel: Event) -> Any:
    def check(step: Step, there: Mapping[str, Any]) -> None:
        if cancel.is_set():
            raise StateError(
                "the run was cancelled", where=step.describe()[0], remedy="clear the event and run again"
            )

    return check


def _written(name: str, value: Any, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not isinstance(value, np.ndarray) or value.shape != array.shape or value.dtype != array.dtype:
        raise ShapeError(
            f"an array of {array.dtype}{list(array.shape)} for the output {name!r}",
            expected=f"{value.dtype}{list(value.shape)}",
        )
    np.copyto(array, value)
    return array


def _fitting(declared: Named, value: Any, sizes: dict[str, int]) -> Any:
    t = declared.type
    if t.kind != "tensor":
        return value
    array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if t.dtype is not None and array.dtype != t.dtype:
        if t.dtype == np.dtype(object) and array.dtype.kind in "UST":
            return array.astype(object)
        raise DTypeError(
            f"the input {declared.name!r} has the dtype {array.dtype}",
            expected=str(t),
            remedy="convert it: x.astype",
        )
    if t.shape is None:
        return array
    fits = array.ndim == len(t.shape)
    for d, n in zip(t.shape, array.shape, strict=False):
        fits &= d is None or n == (sizes.setdefault(d, n) if isinstance(d, str) else d)
    if not fits:
        known = "".join(f", {k} = {v}" for k, v in sizes.items())
        raise ShapeError(f"the input {declared.name!r} has the shape {array.shape}", expected=f"{t}{known}")
    return array


def load(
    source: Any,
    *,
    target: str = "cpu",
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Session:
    """A session for a model: a path, bytes, a ModelProto in memory, or what `read` gave. `threads` sets the
    size of the process's pool when the session runs. A bundle (`.tbm`) runs on the target it was built for;
    asking for another one is an error.
    """
    if isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".tbm"):
        from trilobite.inference.bundle import open_bundle

        session = open_bundle(source, threads=threads)
        if target not in ("cpu", session.target):
            raise ArgumentError(
                f"the bundle was built for {session.target}, not for {target}",
                where=os.fspath(source),
                remedy="build one for that target, or leave the target out",
            )
        return session
    model = source if isinstance(source, Model) else read(source)
    return Session(model, target, threads, options)
