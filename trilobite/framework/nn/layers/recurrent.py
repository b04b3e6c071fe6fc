"""Recurrent layers: several layers, both directions, sequences of different lengths; and single cells.

A sequence is (steps, batch, features), with batch_first (batch, steps, features), or (steps, features) for
one alone. `lengths` (one per sequence) or `mask` (True where a step counts) say where sequences end: outputs
beyond are 0, and the last state is that of the last step that counts.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.nn import functional as F
from trilobite.framework.nn import init
from trilobite.framework.nn.composites.arithmetic import join, lt, reshape, transpose
from trilobite.framework.nn.composites.recurrent import CELLS, carried
from trilobite.framework.nn.functional.dropout import batch_second
from trilobite.framework.nn.functional.linear import linear_of
from trilobite.framework.nn.layers.base import shown
from trilobite.framework.nn.module import Module
from trilobite.framework.nn.packing import Packed
from trilobite.framework.nn.parameter import Parameter
from trilobite.framework.nn.settings import check_sizes
from trilobite.framework.ops.creation import to_array, zeros
from trilobite.framework.ops.meeting import astype
from trilobite.framework.ops.registry import read
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

MODES = {"RNN_TANH": "tanh", "RNN_RELU": "relu", "LSTM": "lstm", "GRU": "gru"}  # and the cells they run


class RNNBase(Module):
    """Weights by PyTorch's names: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then `_reverse`."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        dtype: Any = None,
    ) -> None:
        if mode not in MODES:
            raise ArgumentError(
                f"a recurrent layer of mode {mode!r}", where=user_location(), expected=", ".join(MODES)
            )
        self.mode = mode
        check_sizes(
            type(self).__name__, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers
        )
        if not 0 <= dropout <= 1 or not 0 <= proj_size < hidden_size:
            raise ArgumentError(
                f"{type(self).__name__}(dropout={dropout}, proj_size={proj_size})",
                where=user_location(),
                expected="a probability, and a projection smaller than hidden_size",
            )
        self.input_size, self.hidden_size, self.num_layers, self.bias = (
            input_size,
            hidden_size,
            num_layers,
            bias,
        )
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        self.proj_size = proj_size
        gates = CELLS[self._cell()][1] * hidden_size
        width = proj_size or hidden_size
        for layer, suffix in self._places():
            features = input_size if layer == 0 else width * (1 + bidirectional)
            sizes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, features), "weight_hh": (gates, width)}
            if bias:
                sizes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                sizes["weight_hr"] = (proj_size, hidden_size)
            for name, size in sizes.items():
                setattr(self, f"{name}_{suffix}", Parameter(zeros(size, dtype=dtype)))
        self.reset_parameters()

    def _cell(self) -> str:
        return MODES[self.mode]

    def _places(self) -> list[tuple[int, str]]:
        """The number of the layer and the suffix of its names, forward before backward."""
        ends = ("", "_reverse") if self.bidirectional else ("",)
        return [(i, f"l{i}{end}") for i in range(self.num_layers) for end in ends]

    def reset_parameters(self) -> None:
        """Uniform within ±1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    # -- running ---------------------------------------------------------------------------------------------

    def flatten_parameters(self) -> None:
        """Nothing: weights are packed where a compiled function wants them so."""

    def forward(self, input: Any, hx: Any = None, lengths: Any = None, mask: Tensor | None = None) -> Any:
        if isinstance(input, Packed):
            return input.through(self, hx)
        x = read(input)
        single = x.ndim == 2
        self._check(x)
        if single:
            x = reshape(x, shape=(x.shape[0], 1, x.shape[1]))
        elif self.batch_first:
            x = transpose(x, axes=(1, 0, 2))
        states = self._initial(x, hx, single)
        live = self._live(x, lengths, mask)
        out, last = self._layers(x, states, live)
        if single:
            out = reshape(out, shape=(out.shape[0], out.shape[2]))
            last = [reshape(s, shape=(s.shape[0], s.shape[2])) for s in last]
        elif self.batch_first:
            out = transpose(out, axes=(1, 0, 2))
        ends = tuple(map(wrap, last))
        return wrap(out), (ends if len(ends) > 1 else ends[0])

    def _check(self, x: Value) -> None:
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            order = "(batch, steps, features)" if self.batch_first else "(steps, batch, features)"
            raise ShapeError(
                f"{type(self).__name__} of shape {tuple(x.shape)}",
                where=user_location(),
                expected=f"{order} or (steps, features), with {self.input_size} features",
            )

    def _widths(self) -> list[int]:
        return [self.proj_size or self.hidden_size, self.hidden_size][: CELLS[self._cell()][2]]

    def _initial(self, x: Value, hx: Any, single: bool) -> list[Value]:
        """The first states, (layers and directions, batch, width) each; zeros unless given."""
        rows = len(self._places())
        sizes = [(rows, x.shape[1], width) for width in self._widths()]
        if hx is None:
            return [table["full"](shape=size, dtype=x.dtype, value=0.0) for size in sizes]
        given = [read(h) for h in (hx if isinstance(hx, (tuple, list)) else (hx,))]
        if single:
            given = [reshape(h, shape=(h.shape[0], 1, *h.shape[1:])) if h.ndim == 2 else h for h in given]
        if [tuple(h.shape) for h in given] != sizes:
            raise ShapeError(
                f"{type(self).__name__} with a first state of {_shapes(given)}",
                where=user_location(),
                expected=" and ".join(map(str, sizes)),
            )
        return [astype(h, x.dtype) for h in given]

    def _live(self, x: Value, lengths: Any, mask: Tensor | None) -> Value | None:
        """(steps, batch, 1), True where a step counts; None if all do."""
        if lengths is None and mask is None:
            return None
        steps, batch = x.shape[:2]
        if lengths is not None and mask is not None:
            raise ArgumentError("lengths and mask", where=user_location(), expected="one of them")
        if mask is not None:
            live = read(mask)
            live = transpose(live, axes=(1, 0)) if self.batch_first and live.ndim == 2 else live
        else:
            n = astype(read(lengths) if isinstance(lengths, Tensor) else to_array(lengths), dt.int64)
            if n.shape != (batch,):
                raise ShapeError(
                    f"lengths of shape {tuple(n.shape)}", where=user_location(), expected=f"({batch},)"
                )
            live = lt(table["iota"](shape=(steps, batch), dtype=dt.int64, axis=0), n)
        if live.shape != (steps, batch) or live.dtype != dt.bool_:
            raise ShapeError(
                f"a mask {live.dtype}{list(live.shape)}",
                where=user_location(),
                expected=f"bool, {batch} sequences of {steps} steps",
            )
        return reshape(live, shape=(steps, batch, 1))

    def _layers(self, x: Value, states: list[Value], live: Value | None) -> tuple[Value, list[Value]]:
        last: list[list[Value]] = [[] for _ in states]
        ways = 1 + self.bidirectional
        training = self.training
        for layer in range(self.num_layers):
            if layer and self.dropout and training:
                with batch_second():
                    x = F.dropout(wrap(x), self.dropout)._read()
            outs = []
            for way in range(ways):
                at = layer * ways + way
                first = [_row(s, at) for s in states]
                out, ends = self._one(x, self._places()[at][1], first, live, reverse=bool(way))
                outs.append(out)
                for row, end in zip(last, ends, strict=True):
                    row.append(reshape(end, shape=(1, *end.shape)))
            x = join(outs, 2)
        return x, [join(row, 0) for row in last]

    def _one(
        self, x: Value, suffix: str, first: list[Value], live: Value | None, reverse: bool
    ) -> tuple[Value, list[Value]]:
        own = {n: read(self.__dict__[f"{n}_{suffix}"]) for n in self._names()}
        gates = linear_of(x, own["weight_ih"], own.get("bias_ih"))
        weights = [own["weight_hh"], *([own["bias_hh"]] if self.bias else [])]
        return carried(self._cell(), gates, first, weights, own.get("weight_hr"), live, reverse)

    def _names(self) -> list[str]:
        names = ["weight_ih", "weight_hh"]
        names += ["bias_ih", "bias_hh"] if self.bias else []
        return [*names, "weight_hr"] if self.proj_size else names

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        plain = {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
            "proj_size": 0,
        }
        changed = [n for n, default in plain.items() if self.__dict__[n] != default]
        return f"{text}, {shown(self, *changed)}" if changed else text


def _shapes(values: list[Value]) -> str:
    return ", ".join(str(tuple(v.shape)) for v in values)


def _row(x: Value, i: int) -> Value:
    part = table["slice"](x, start=(i, 0, 0), stop=(i + 1, *x.shape[1:]), step=(1, 1, 1))
    return reshape(part, shape=x.shape[1:])


class RNN(RNNBase):
    """h' = tanh (or relu) of W·x + U·h + b."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = _nonlinearity(nonlinearity)
        sizes = (input_size, hidden_size, num_layers)
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(mode, *sizes, bias, batch_first, dropout, bidirectional, 0, dtype)


def _nonlinearity(name: str) -> str:
    if name not in ("tanh", "relu"):
        raise ArgumentError(f"a nonlinearity {name!r}", where=user_location(), expected="'tanh' or 'relu'")
    return name


class LSTM(RNNBase):
    """Long short-term memory; the state is a pair (h, c)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        dtype: Any = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        super().__init__("LSTM", *sizes, bias, batch_first, dropout, bidirectional, proj_size, dtype)


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers)
        super().__init__("GRU", *sizes, bias, batch_first, dropout, bidirectional, 0, dtype)


# -- single steps --------------------------------------------------------------------------------------------


class RNNCellBase(Module):
    """The parameters of a cell: weights of input and state for each of its gates, one below the other."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, dtype: Any = None
    ) -> None:
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates = num_chunks * hidden_size
        self.weight_ih = Parameter(zeros((gates, input_size), dtype=dtype))
        self.weight_hh = Parameter(zeros((gates, hidden_size), dtype=dtype))
        self.register_parameter("bias_ih", Parameter(zeros((gates,), dtype=dtype)) if bias else None)
        self.register_parameter("bias_hh", Parameter(zeros((gates,), dtype=dtype)) if bias else None)
        self.reset_parameters()

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def reset_parameters(self) -> None:
        """Uniform within ±1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class _Cell(RNNCellBase):
    kind: ClassVar[str]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None) -> None:
        super().__init__(input_size, hidden_size, bias, CELLS[self._cell()][1], dtype)

    def _cell(self) -> str:
        return self.kind

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        x = read(input)
        cell, _, states = CELLS[self._cell()]
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__} of shape {tuple(x.shape)}",
                where=user_location(),
                expected=f"(batch, {self.input_size}) or ({self.input_size},)",
            )
        size = (*x.shape[:-1], self.hidden_size)
        given = [None] * states if hx is None else hx if isinstance(hx, (tuple, list)) else [hx]
        old = [table["full"](shape=size, dtype=x.dtype, value=0.0) if h is None else read(h) for h in given]
        if len(old) != states or any(h.shape != size for h in old):
            raise ShapeError(
                f"{type(self).__name__} with a state of {_shapes(old)}",
                where=user_location(),
                expected=" and ".join([str(tuple(size))] * states),
            )
        gates = linear_of(x, read(self.weight_ih), None if self.bias_ih is None else read(self.bias_ih))
        bias = [] if self.bias_hh is None else [read(self.bias_hh)]
        out = cell(gates, *old, read(self.weight_hh), *bias)
        return tuple(map(wrap, out)) if isinstance(out, tuple) else wrap(out)


class RNNCell(_Cell):
    """One step of an RNN."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = _nonlinearity(nonlinearity)
        super().__init__(input_size, hidden_size, bias, dtype)

    def _cell(self) -> str:
        return self.nonlinearity


class LSTMCell(_Cell):
    """One step of an LSTM."""

    kind = "lstm"


class GRUCell(_Cell):
    """One step of a GRU."""

    kind = "gru"
