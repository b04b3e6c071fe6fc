"""TFLite's variables as inputs and outputs.

A session keeps nothing between runs, so that many threads may share it. A variable becomes an input, with the
value that the file gives it before the first run as its default, and an output `NAME_next`, which the next
run takes.
"""

from __future__ import annotations

from trilobite.inference.formats.assembly import Assembly
from trilobite.inference.formats.channels_last import Layers, Tensor
from trilobite.inference.formats.mapped import Array
from trilobite.inference.formats.tensor_ops import Unknown
from trilobite.inference.formats.tflite.convert import Converter, Rule, sizes
from trilobite.inference.formats.tflite.file import Operator, Subgraph, Value


class Variables:
    """The variables of a network: what each is before the first run, and in the run now."""

    def __init__(self, a: Assembly) -> None:
        self._a, self._layers = a, Layers(a)
        self._first: dict[str, Array] = {}
        self._now: dict[str, Tensor] = {}
        self._written: dict[str, Value] = {}

    def begin(self, graph: Subgraph) -> None:
        """Values before the first run, by the subgraph that LiteRT runs once."""
        names: dict[int, str] = {}
        for o in graph.operators:
            if o.name == "VAR_HANDLE":
                names[o.outputs[0]] = _name(o)
            elif o.name == "ASSIGN_VARIABLE" and (array := graph.values[o.inputs[1]].array) is not None:
                self._first[names[o.inputs[0]]] = array
            else:
                raise Unknown(f"CALL_ONCE with {o.name} of what a run decides")

    def read(self, name: str, v: Value) -> Tensor:
        if name not in self._now:
            found = self._a.add_input(name, v.dtype, sizes(v))
            if name in self._first:
                self._a.give(found, self._first[name].astype(v.dtype, copy=False))
            self._now[name] = self._layers.made(found, len(v.shape))
        return self._now[name]

    def write(self, name: str, t: Tensor, v: Value) -> None:
        self._now[name], self._written[name] = t, v

    def end(self) -> None:
        for name, v in self._written.items():
            self._a.add_output(f"{name}_next", self._layers.last(self._now[name]), v.dtype, sizes(v))


def _name(o: Operator) -> str:
    container, name = ("", "") if o.options is None else (o.options.text(0), o.options.text(1))
    return "/".join(part for part in (container, name) if part) or "variable"


def _of(c: Converter, o: Operator) -> Variables:
    if c.a.outer is not None or c.variables is None:
        raise Unknown(f"{o.name} inside of IF or WHILE")
    return c.variables


def _handle(c: Converter, o: Operator) -> None:
    c.handles[o.outputs[0]] = _name(o)


def _named(c: Converter, o: Operator) -> str:
    if not c.given(o, 0) or o.inputs[0] not in c.handles:
        raise Unknown(f"{o.name} of a variable that another network holds")
    return c.handles[o.inputs[0]]


def _read(c: Converter, o: Operator) -> None:
    c.keep(o, _of(c, o).read(_named(c, o), c.out_info(o)))


def _assign(c: Converter, o: Operator) -> None:
    _of(c, o).write(_named(c, o), c.stored(o.inputs[1]), c.info(o, 1))


def _once(c: Converter, o: Operator) -> None:
    number = int(c.option(o, 0, "i"))
    if not 0 < number < len(c.network.subgraphs):
        raise Unknown(f"{o.name} with subgraph {number}")
    _of(c, o).begin(c.network.subgraphs[number])


ROWS: dict[str, Rule] = {
    "VAR_HANDLE": _handle,
    "READ_VARIABLE": _read,
    "ASSIGN_VARIABLE": _assign,
    "CALL_ONCE": _once,
}
