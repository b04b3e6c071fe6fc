"""The quantised graph: each equation of the prepared one, on codes where the plan says so.

Enters: a prepared graph, a plan, and a grid for each class of coded values. Leaves: a graph, and the named
arrays that it reads besides its arguments. A value is there in up to three forms: numbers, codes on its
grid, and sums of products (integers with a scale per channel) that are rounded once when somebody reads
them: as codes by `requantise`, as a matrix unit drains, or as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, float32, float64, int32, int64
from trilobite.base.locations import told
from trilobite.base.records import dataclass
from trilobite.framework.quantization.grids import Grid, weight_codes
from trilobite.framework.quantization.plan import Plan, Product, passes_codes
from trilobite.framework.quantization.prepare import Prepared
from trilobite.framework.quantization.scheme import Scheme
from trilobite.ir.graph import Dense, Equation, Graph, Var
from trilobite.ir.primitive import Value, table
from trilobite.ir.primitives.common import cast_to
from trilobite.ir.transforms.bind import bind
from trilobite.ir.transforms.record import record_graph

Array = np.ndarray[Any, Any]
_BIAS = 1 << 30  # the largest bias that sums of 32 bits have room for beside products


@dataclass(frozen=True)
class Sums:
    """(total + shift)·scale + bias, clamped. `place` is the axis of the scales; None: one for all."""

    total: Value
    scale: Array
    place: int | None
    layer: str
    shift: Array | None = None  # integers that the sums lack, along the axis `at`
    at: int | None = None
    bias: Array | None = None
    low: float = -np.inf
    high: float = np.inf


@dataclass
class Forms:
    """One value, in the forms that were asked for or made. `computed` are numbers that are about to be
    rounded to codes: of those only the graph's results are given out as they are."""

    numbers: Value | None = None
    computed: Value | None = None
    codes: Value | None = None
    sums: Sums | None = None


def rewritten(
    p: Prepared, plan: Plan, grids: Mapping[Var, Grid], scheme: Scheme
) -> tuple[Graph, dict[str, Array]]:
    """The graph on integers and its weights: inputs behind the arguments, by name."""
    for e in p.graph.equations:  # numbers of biases: while a graph is recorded, nothing is computed
        if e.primitive.name == "add" and e.outputs[0] not in p.stable:
            for v in e.inputs:
                p.array(_repeated(p, v)[0])
    writer = Writer(p, plan, grids, scheme)
    types = [v.type for v in p.graph.inputs[: p.arguments]]
    graph = record_graph(writer.run, types, p.graph.name)
    made = {v: name for name, v in writer.weights.items()}
    used = {v for e in graph.equations for v in e.inputs} | set(graph.outputs)
    kept = {name: v for v, name in made.items() if v in used}
    equations = [e for e in graph.equations if not (e.outputs and e.outputs[0] in made)]
    inputs = [*graph.inputs, *kept.values()]
    return Graph(inputs, equations, graph.outputs, graph.name), {n: writer.arrays[n] for n in kept}


class Writer:
    """Walks the equations in order; `forms` knows each value."""

    def __init__(self, p: Prepared, plan: Plan, grids: Mapping[Var, Grid], scheme: Scheme) -> None:
        self.p, self.plan, self.grids, self.scheme = p, plan, grids, scheme
        self.forms: dict[Var, Forms] = {}
        self.weights: dict[str, Var] = {}
        self.arrays: dict[str, Array] = {}

    def run(self, *arguments: Value) -> list[Value]:
        p = self.p
        for v, x in zip(p.graph.inputs, arguments, strict=False):
            self.forms[v] = Forms(numbers=x)
        for e in p.graph.equations:
            with told(e.location):
                self._write(e)
        return [self._result(v) for v in p.graph.outputs]

    def _result(self, v: Var) -> Value:
        computed = self._form(v).computed
        return self.numbers(v) if computed is None else computed

    def _write(self, e: Equation) -> None:
        if e.outputs and all(v in self.p.stable for v in e.outputs):
            return  # numbers of weights are made when somebody reads them
        for rule in (self._product, self._sum, self._shift, self._clamp, self._move):
            found = rule(e)
            if found is not None:
                self.forms[e.outputs[0]] = found
                return
        out = bind(e.primitive, *[self.numbers(v) for v in e.inputs], **e.attributes)
        results = out if e.primitive.multiple else (out,)
        for v, x in zip(e.outputs, results, strict=True):
            self.forms[v] = Forms(computed=x) if v in self.plan.coded else Forms(numbers=x)

    # -- forms of a value ------------------------------------------------------------------------------------

    def numbers(self, v: Var) -> Value:
        """A value as numbers of its own dtype. One that lives on a grid is read from there."""
        form = self._form(v)
        if form.numbers is None:
            if v in self.plan.coded or form.codes is not None:
                form.numbers = self._dequantised(self.codes(v), self.grid(v), v.type.dtype)
            else:
                assert form.sums is not None
                form.numbers = self._plain(form.sums, v.type.dtype)
        return form.numbers

    def codes(self, v: Var) -> Value:
        form = self._form(v)
        if form.codes is None:
            grid = self.grid(v)
            if form.sums is not None:
                form.codes = self._drained(form.sums, grid)
            else:
                x = cast_to(form.numbers if form.computed is None else form.computed, float32)
                scale, zero = _full((), float32, grid.scale), _full((), grid.dtype, grid.zero)
                form.codes = table["quantise"](x, scale, zero, axis=None, dtype=grid.dtype)
        return form.codes

    def grid(self, v: Var) -> Grid:
        return self.grids[self.plan.root(v)]

    def _form(self, v: Var) -> Forms:
        found = self.forms.get(v)
        if found is None:
            found = self.forms[v] = Forms(numbers=self._stable(v))
        return found

    def _stable(self, v: Var) -> Value:
        """A weight that stays as it is, or what is made of weights alone."""
        if v in self.p.names:
            return self.weight(self.p.names[v], self.p.weights[v])
        e = self.p.makers[v]
        out = bind(e.primitive, *[self.numbers(i) for i in e.inputs], **e.attributes)
        if e.primitive.multiple:
            for w, x in zip(e.outputs, out, strict=True):
                self.forms[w] = Forms(numbers=x)
            return out[e.outputs.index(v)]
        return out

    def weight(self, name: str, array: Array) -> Value:
        """An array that the module will hold under this name."""
        while name in self.arrays and self.arrays[name] is not array:
            name += "_"
        made = table["constant"](value=Dense(array))
        if name in self.weights:  # the same array again: read what is there
            made.var = self.weights[name]
            return made
        self.weights[name], self.arrays[name] = made.var, array
        return made

    # -- products --------------------------------------------------------------------------------------------

    def _product(self, e: Equation) -> Forms | None:
        product = self.plan.products.get(e.outputs[0]) if e.outputs else None
        if product is None:
            return None
        grid = self.grid(product.x)
        w = self.p.array(product.w)
        assert w is not None
        least = self._least_scales(product, grid)
        codes, scale = weight_codes(w, product.channels, grid.dtype, least)
        sums = self._width(product, codes)
        x, attributes = self._padded(product, grid)
        named = self.weight(_under(product.layer, "weight"), codes)
        operands = (x, named) if product.side else (named, x)
        total = bind(e.primitive, *operands, **{**attributes, "dtype": sums})
        shift, at = _taken_back(product, codes, grid.zero) if grid.zero else (None, None)
        by = scale.astype(np.float64) * grid.scale
        return Forms(sums=Sums(total, by, product.place, product.layer, shift, at))

    def _least_scales(self, product: Product, grid: Grid) -> Array | None:
        """Scales below which the bias behind the product would not fit beside the sums."""
        if self.scheme.sums == int64 or not product.channels:
            return None
        bias = self._bias_behind(product)
        return None if bias is None else np.abs(bias) / (grid.scale * _BIAS)

    def _bias_behind(self, product: Product) -> Array | None:
        for e in self.p.graph.equations:
            if e.primitive.name == "add" and product.equation.outputs[0] in e.inputs:
                other = e.inputs[1 - e.inputs.index(product.equation.outputs[0])]
                return self._per_channel(other, product.place)
        return None

    def _width(self, product: Product, codes: Array) -> DType:
        """What the sums need: more than 32 bits for the longest products."""
        per_result = codes.size // max(1, int(np.prod([codes.shape[a] for a in product.channels])))
        most = per_result * (int(np.iinfo(codes.dtype).max) + 1) ** 2 + _BIAS
        return int64 if self.scheme.sums == int64 or most >= 1 << 31 else int32

    def _padded(self, product: Product, grid: Grid) -> tuple[Value, dict[str, Any]]:
        """The operand with its padding written out where zero is not the code 0."""
        e, x = product.equation, self.codes(product.x)
        attributes = dict(e.attributes)
        if e.primitive.name != "conv" or not grid.zero:
            return x, attributes
        spread = [d - 1 for d in attributes["x_dilation"]]
        if any(attributes["low"]) or any(attributes["high"]) or any(spread):
            low, high = attributes["low"], attributes["high"]
            x = table["pad"](
                x, low=(0, 0, *low), high=(0, 0, *high), between=(0, 0, *spread), value=float(grid.zero)
            )
            none = (0,) * len(low)
            attributes |= {"low": none, "high": none, "x_dilation": (1,) * len(low)}
        return x, attributes

    # -- sums, shifts, clamps, moves -------------------------------------------------------------------------

    def _sum(self, e: Equation) -> Forms | None:
        """Codes added up. Windows at a border hold fewer elements, so zero points are taken off first."""
        if not e.outputs or e.outputs[0] not in self.plan.sums:
            return None
        (v,) = e.inputs
        grid = self.grid(v)
        x = cast_to(self.codes(v), int32)
        if grid.zero:
            x = table["sub"](x, _full(x.shape, int32, grid.zero))
        most = int(np.prod([d for d in _added(e)])) * (int(np.iinfo(grid.dtype).max) + 1) * 2
        total = bind(e.primitive, cast_to(x, int64 if most >= 1 << 31 else int32), **e.attributes)
        return Forms(sums=Sums(total, np.asarray(grid.scale, np.float64), None, ""))

    def _shift(self, e: Equation) -> Forms | None:
        """A bias behind a product goes into its sums."""
        if e.primitive.name != "add":
            return None
        for i, v in enumerate(e.inputs):
            form = self.forms.get(v)
            if form is None or form.sums is None or v in self.plan.coded or not form.sums.layer:
                continue
            if np.isfinite(form.sums.low) or np.isfinite(form.sums.high):
                continue
            bias = self._per_channel(e.inputs[1 - i], form.sums.place)
            if bias is not None:
                before = 0.0 if form.sums.bias is None else form.sums.bias
                return Forms(sums=replace(form.sums, bias=before + bias))
        return None

    def _per_channel(self, v: Var, place: int | None) -> Array | None:
        """A value that depends on weights alone and is the same along all axes but one, as a vector (as a
        number where there is one scale for all)."""
        if v not in self.p.stable:
            return None
        shape = v.type.shape
        v, axes = _repeated(self.p, v)
        array = self.p.array(v)
        if array is None or any(n != 1 and a != place for n, a in zip(array.shape, axes, strict=True)):
            return None
        size = 1 if place is None else int(shape[place])
        return np.broadcast_to(array.astype(np.float64).reshape(-1), (size,)).reshape(
            () if place is None else (size,)
        )

    def _clamp(self, e: Equation) -> Forms | None:
        found = self.plan.clamps.get(e.outputs[0]) if e.outputs else None
        if found is None:
            return None
        form = self.forms.get(found.x)
        if form is not None and form.sums is not None and found.x not in self.plan.coded:
            s = form.sums
            low, high = max(s.low, found.low), max(min(s.high, found.high), found.low)
            return Forms(sums=replace(s, low=low, high=high))
        if e.outputs[0] in self.plan.coded and passes_codes(self.p, self.plan, e):
            grid = self.grid(e.outputs[0])
            return Forms(codes=_held(self.codes(found.x), grid, found.low, found.high))
        return None

    def _move(self, e: Equation) -> Forms | None:
        """Codes are moved as numbers would be; what is put around them is the code of that number."""
        if not e.outputs or e.outputs[0] not in self.plan.coded or not passes_codes(self.p, self.plan, e):
            return None
        attributes = dict(e.attributes)
        if e.primitive.name == "pad":
            attributes["value"] = float(self.grid(e.outputs[0]).code(float(np.real(attributes["value"]))))
        return Forms(codes=bind(e.primitive, *[self.codes(v) for v in e.inputs], **attributes))

    # -- rounding --------------------------------------------------------------------------------------------

    def _total(self, s: Sums) -> Value:
        """The sums with their bias, an integer of the same scale."""
        if s.bias is None and s.shift is None:
            return s.total
        place, bias = s.place, np.zeros(s.scale.shape, np.int64)
        if s.bias is not None:
            bias = np.rint(np.clip(s.bias / s.scale, -(2.0**62), 2.0**62)).astype(np.int64)
        if s.shift is not None:
            place, bias = (s.at if place is None else place), bias + s.shift
        if not bias.any():
            return s.total
        info = np.iinfo(s.total.dtype)
        fitting = np.clip(bias, info.min, info.max).astype(s.total.dtype)
        wide = self.weight(_under(s.layer, "bias"), fitting)
        axes = () if fitting.ndim == 0 else (place,)
        return table["add"](s.total, table["broadcast"](wide, shape=s.total.shape, axes=axes))

    def _drained(self, s: Sums, grid: Grid) -> Value:
        factor = (s.scale / grid.scale).astype(np.float32)
        if s.place is None:
            scale, zero = _full((), float32, float(factor)), _full((), grid.dtype, grid.zero)
        else:
            scale = self.weight(_under(s.layer, "rescale"), factor)
            zero = _full(factor.shape, grid.dtype, grid.zero)
        q = table["requantise"](self._total(s), scale, zero, axis=s.place, dtype=grid.dtype)
        return _held(q, grid, s.low, s.high)

    def _plain(self, s: Sums, dtype: DType) -> Value:
        total = self._total(s)
        scale = s.scale.astype(np.float32)
        if s.place is None:
            by = _full((), float32, float(scale))
        else:
            by = self.weight(_under(s.layer, "scale"), scale)
        if total.dtype == int32:
            out = table["dequantise"](total, by, _full(scale.shape, int32, 0), axis=s.place)
        else:
            axes = () if s.place is None else (s.place,)
            wide = table["broadcast"](cast_to(by, float64), shape=total.shape, axes=axes)
            out = cast_to(table["mul"](cast_to(total, float64), wide), float32)
        if np.isfinite(s.low):
            out = table["maximum"](out, _full(out.shape, float32, s.low))
        if np.isfinite(s.high):
            out = table["minimum"](out, _full(out.shape, float32, s.high))
        return cast_to(out, dtype)

    def _dequantised(self, q: Value, grid: Grid, dtype: DType) -> Value:
        scale, zero = _full((), float32, grid.scale), _full((), grid.dtype, grid.zero)
        return cast_to(table["dequantise"](q, scale, zero, axis=None), dtype)


def _repeated(p: Prepared, v: Var) -> tuple[Var, tuple[int, ...]]:
    """What a value repeats, and the axes that this has in it."""
    e = p.makers.get(v)
    if e is not None and e.primitive.name == "broadcast":
        return e.inputs[0], e.attributes["axes"]
    return v, tuple(range(len(v.type.shape)))


def _added(e: Equation) -> list[int]:
    if e.primitive.name == "window_reduce":
        return list(e.attributes["size"])
    return [int(e.inputs[0].type.shape[a]) for a in e.attributes["axes"]]


def _taken_back(product: Product, codes: Array, zero: int) -> tuple[Array, int]:
    """What a zero point has added to every sum, negative: zero times the sum of the weights; and its axis."""
    keep, at = (0, 1) if product.equation.primitive.name == "conv" else _free_axis(product)
    others = tuple(i for i in range(codes.ndim) if i != keep)
    return -(zero * codes.astype(np.int64).sum(others)), at


def _free_axis(product: Product) -> tuple[int, int]:
    """The weight's axis that a product keeps, and the axis of the result that it is."""
    e = product.equation
    contract = e.attributes["contract"]
    (free,) = (i for i in range(e.inputs[product.side].type.ndim) if i not in contract[product.side])
    x = e.inputs[1 - product.side].type.ndim - len(contract[1 - product.side])
    return free, x if product.side else 0


def _held(q: Value, grid: Grid, low: float, high: float) -> Value:
    """Codes between the codes of two numbers, where the format alone does not keep them there."""
    info = np.iinfo(grid.dtype)
    if grid.code(low) > info.min:
        q = table["maximum"](q, _full(q.shape, grid.dtype, grid.code(low)))
    if grid.code(high) < info.max:
        q = table["minimum"](q, _full(q.shape, grid.dtype, grid.code(high)))
    return q


def _full(shape: Any, dtype: DType, value: float) -> Value:
    return table["full"](shape=tuple(shape), dtype=dtype, value=value)


def _under(layer: str, name: str) -> str:
    return f"{layer}.{name}" if layer else name
