"""A model of each sample of each primitive: the rows that tests of the primitive table walk, in float32."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import TrilobiteError
from trilobite.inference.export.walk import to_model
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types
from trilobite.ir.primitives import table
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]
_IR = str(Path(__file__).parents[2] / "ir")


class Case(NamedTuple):
    """A model (None if it was refused, then why), what goes in and what must come out."""

    label: str
    model: Any
    why: str
    feeds: dict[str, Array]
    wanted: list[Array]


def rows(name: str) -> Iterator[tuple[list[Array], dict[str, Any]]]:
    if _IR not in sys.path:
        sys.path.append(_IR)
    from samples import samples  # type: ignore[import-not-found, unused-ignore]

    for operands, attributes in samples[name](np.random.default_rng(7)):
        arrays = [np.asarray(x) for x in operands]
        regions = any(isinstance(v, Graph | tuple) and "Graph" in repr(type(v)) for v in attributes.values())
        held = any(isinstance(w, Graph) for v in attributes.values() if isinstance(v, tuple) for w in v)
        if regions or held:
            yield arrays, attributes
            continue
        single = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]
        yield (
            single,
            {
                k: np.dtype(np.float32) if isinstance(v, np.dtype) and v == np.float64 else v
                for k, v in attributes.items()
            },
        )


def cases(name: str, opset: int = 21) -> Iterator[Case]:
    primitive = table[name]
    for i, (operands, attributes) in enumerate(rows(name)):
        types = [TensorType(x.shape, x.dtype) for x in operands]
        try:
            outs = result_types(primitive, types, attributes)
            found = primitive.evaluate(*operands, **attributes)
        except TrilobiteError:
            continue  # a sample that only float64 fits
        inputs, outputs = [Var(t) for t in types], [Var(t) for t in outs]
        graph = Graph(inputs, [Equation(primitive, tuple(inputs), attributes, tuple(outputs))], outputs, name)
        names = [f"x{k}" for k in range(len(inputs))]
        wanted = [np.asarray(y) for y in (found if primitive.multiple else [found])]
        model, why = None, ""
        try:
            model = to_model(graph, names, [f"y{k}" for k in range(len(outputs))], {}, opset)
        except TrilobiteError as error:
            why = str(error)
        yield Case(f"{name} {i}: {types}", model, why, dict(zip(names, operands, strict=True)), wanted)
