"""A model by path or name, whichever kind it is, with one way to run it.

Enters: the path of a model file, or the name of a network of the zoo. Leaves: a `Subject` with typed inputs
and `run`. Files are read by `trilobite.inference`; a network of the zoo has the weights that it draws.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError

Array = np.ndarray[Any, Any]
Size = int | str | None


@dataclass(frozen=True)
class Input:
    """What a model takes under one name; a size that may vary has a name of its own, or None."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Size, ...]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype}[{sizes}]"


class Subject:
    """A model on a target."""

    name: str
    target: Any
    inputs: tuple[Input, ...]

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Any]:
        raise NotImplementedError  # the two kinds below

    @property
    def last_runs(self) -> list[Any]:
        """What a processor measured in the last call, a launch each; none on targets that measure nothing."""
        raise NotImplementedError


class FileSubject(Subject):
    """A model file, through a session of `trilobite.inference`."""

    def __init__(self, path: Path, target: Any) -> None:
        from trilobite import inference

        self.name = path.name
        self.session = inference.load(path, target=target)
        self.target = self.session.target
        self.inputs = tuple(
            Input(i.name, i.type.dtype or np.dtype(np.float32), tuple(i.type.shape or ()))
            for i in self.session.inputs
        )

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Any]:
        return dict(self.session.run(feeds))

    @property
    def last_runs(self) -> list[Any]:
        return self.session.last_runs


class ZooSubject(Subject):
    """A network of the zoo in inference."""

    def __init__(self, name: str, target: Any) -> None:
        import trilobite as tb
        from trilobite.cli.networks import EXAMPLES

        shape, symbols = EXAMPLES[name]
        self.name, self.target = name, target
        tb.manual_seed(0)
        model: Any = tb.zoo.create(name).eval()
        self.model = model
        self.jitted = tb.jit(model.prefill if name == "gpt2" else model, target=target)
        dtype = np.dtype(np.int64 if symbols else np.float32)
        self.inputs = (Input("x", dtype, ("batch", *shape)),)

    def convert(self, dtype: str, feeds: dict[str, Array]) -> None:
        """The network in another format: floats as they are, integers by ranges of these inputs, which become
        what the network now takes.
        """
        import trilobite as tb

        if dtype in ("int8", "int16"):
            self.model = tb.quantize(self.model, [tb.tensor(feeds["x"])], dtype)
        elif dtype in ("float16", "bfloat16", "float64"):
            self.model.to(dtype)
            if feeds["x"].dtype.kind == "f":
                feeds["x"] = feeds["x"].astype(getattr(tb, dtype))
        elif dtype != "float32":
            raise ArgumentError(
                f"a network in {dtype}", expected="float32, float16, bfloat16, float64, int8 or int16"
            )
        self.jitted = tb.jit(self.model, target=self.target)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Any]:
        import trilobite as tb

        with tb.no_grad():
            found = self.jitted(tb.tensor(feeds["x"]))
        values = found if isinstance(found, tuple) else (found,)
        names = ["y"] if len(values) == 1 else [f"y{n}" for n in range(len(values))]
        return {n: v.numpy() for n, v in zip(names, values, strict=True) if hasattr(v, "numpy")}

    @property
    def last_runs(self) -> list[Any]:
        return [run for run in [self.jitted.last_run] if run is not None]


def open_model(name: str, target: Any = "cpu") -> Subject:
    """Whatever the word names: a file that is there, else a network of the zoo."""
    from trilobite.cli.networks import EXAMPLES

    if os.path.isfile(name):
        return FileSubject(Path(name), target)
    if name in EXAMPLES:
        return ZooSubject(name, target)
    raise ArgumentError(
        f"there is no model {name!r}",
        expected=f"the path of a model file, or a network of the zoo: {', '.join(EXAMPLES)}",
    )
