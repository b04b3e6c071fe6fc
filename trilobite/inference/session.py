"""Sessions: a model loaded for a target, ready to run.

Enters: a model as a path, bytes or a ModelProto. Leaves: `Session`, which takes arrays by input name and
gives arrays by output name. All operators are checked when a session is made; graphs are compiled when a
size is first seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.framework.tensor import Tensor
from trilobite.inference import operators
from trilobite.inference.model import Model, Named
from trilobite.inference.program.program import Program, unsupported
from trilobite.inference.reader import read


class Session:
    """A model on a target."""

    def __init__(self, model: Model, target: str = "cpu", options: Mapping[str, Any] | None = None) -> None:
        operators.load()
        missing = unsupported(model.graph)
        if missing:
            raise ArgumentError(
                f"the model has {len(missing)} nodes that are not supported:\n    "
                + "\n    ".join(missing[:100]),
                expected="operators of docs/onnx.md",
            )
        self.model, self.target = model, target
        self.program = Program(model.graph, target, options=options)
        self._types = {i.name: i for i in model.graph.inputs}

    @property
    def inputs(self) -> tuple[Named, ...]:
        """Names, dtypes and shapes of what `run` takes; a size that may vary has its name, or None."""
        return self.model.graph.inputs

    @property
    def outputs(self) -> tuple[Named, ...]:
        """Names, dtypes and shapes of what `run` gives."""
        return self.model.graph.outputs

    def run(self, inputs: Mapping[str, Any], outputs: Iterable[str] | None = None) -> dict[str, Any]:
        """Outputs by name, for inputs by name."""
        names = list(outputs) if outputs is not None else self.program.outputs
        values = self._checked(inputs)
        unknown = [n for n in names if n not in self.program.outputs]
        if unknown:
            raise ArgumentError(
                f"the model has no output {unknown[0]!r}",
                expected=f"some of {', '.join(self.program.outputs)}",
            )
        return dict(zip(names, self.program.run(values, names), strict=True))

    def explain(self) -> str:
        """The steps, and for which sizes each was compiled."""
        return "\n".join(self.program.describe())

    def _checked(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        extra = [n for n in inputs if n not in self._types]
        lacking = [n for n in self._types if n not in inputs and self._types[n].type.kind != "optional"]
        if extra or lacking:
            what = f"the model has no input {extra[0]!r}" if extra else f"the input {lacking[0]!r} is missing"
            raise ArgumentError(what, expected=", ".join(f"{n}: {i.type}" for n, i in self._types.items()))
        sizes: dict[str, int] = {}
        return {n: _fitting(i, inputs.get(n), sizes) for n, i in self._types.items()}


def _fitting(declared: Named, value: Any, sizes: dict[str, int]) -> Any:
    t = declared.type
    if t.kind != "tensor":
        return value
    array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if t.dtype is not None and array.dtype != t.dtype:
        if t.dtype == object and array.dtype.kind in "UST":
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


def load(source: Any, *, target: str = "cpu", options: Mapping[str, Any] | None = None) -> Session:
    """A session for a model: a path, bytes, or a ModelProto in memory."""
    return Session(read(source), target, options)
