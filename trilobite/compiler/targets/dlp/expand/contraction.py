"""Products and convolutions in the forms that kernels take.

A product's operands have one stride per group of axes and a dtype that a unit multiplies. A convolution that
the matrix unit does not take as it is becomes a product with the elements under every tap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as tuples
from math import prod
from typing import Any

from trilobite.base.dtypes import (
    DType,
    accumulator,
    bfloat16,
    bits,
    float16,
    float32,
    int8,
    int16,
    int32,
    int64,
    is_complex,
    is_float,
    is_integer,
    uint8,
)
from trilobite.compiler.targets.dlp.contraction import accepts
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.kernels.passes import row_strides
from trilobite.compiler.targets.dlp.problems import convolution_of, groups_of, is_planar, one_stride
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table
from trilobite.ir.primitives.conv_geometry import Geometry, geometry
from trilobite.processor.machine import Machine

Body = Callable[..., Any] | None
_UNIT = {(float32, float32), (float16, float16), (float16, float32), (bfloat16, bfloat16),
         (bfloat16, float32), (int8, int32), (int16, int32), (int8, int64), (int16, int64)}  # fmt: skip


# -- products ------------------------------------------------------------------------------------------------


def _dot(e: Equation) -> Body:
    x, y = (v.type for v in e.inputs)
    contract, batch, dtype = (e.attributes[k] for k in ("contract", "batch", "dtype"))
    if is_complex(x.dtype):
        return None
    if 0 in (*x.shape, *y.shape):
        return lambda a, b: t.full(e.outputs[0].type.shape, dtype, 0)
    if _working(x.dtype, dtype) != (x.dtype, dtype):
        return _converted(e)
    orders = [_order(v.shape, batch[i], contract[i]) for i, v in enumerate((x, y))]
    if orders == [None, None]:
        return None
    return lambda a, b: _turned([a, b], orders, contract, batch, dtype)


def _order(shape: Sequence[Any], batch: Sequence[int], contract: Sequence[int]) -> list[int] | None:
    """The axes as (batch, free, contracted), where they are not groups of one stride as they are."""
    groups = groups_of(shape, batch, contract)
    if all(one_stride(shape, row_strides(shape), g) is not None for g in groups):
        return None
    return [a for g in groups for a in g]


def _turned(values: list[Any], orders: Sequence[Any], contract: Any, batch: Any, dtype: DType) -> Any:
    """Operands whose axes need it as (batch, free, contracted)."""
    new_contract, new_batch = list(contract), list(batch)
    for i, order in enumerate(orders):
        if order is not None:
            values[i] = t.transpose(values[i], order)
            new_batch[i] = tuple(range(len(batch[i])))
            new_contract[i] = tuple(range(len(order) - len(contract[i]), len(order)))
    return table["dot"](*values, contract=tuple(new_contract), batch=tuple(new_batch), dtype=dtype)


def _converted(e: Equation) -> Body:
    """The same with operands and sums that a unit has."""
    dtype = e.attributes["dtype"]
    operand, result = _working(e.inputs[0].type.dtype, dtype)

    def body(a: Any, b: Any) -> Any:
        attributes = {**e.attributes, "dtype": result}
        found = table[e.primitive.name](t.cast(a, operand), t.cast(b, operand), **attributes)
        same = is_integer(dtype) and bits(dtype) == bits(result) and dtype != result
        return t.bitcast(found, dtype) if same else t.cast(found, dtype)

    return body


def _working(operand: DType, result: DType) -> tuple[DType, DType]:
    """Operand and result dtypes that a unit multiplies, for these."""
    if (operand, result) in _UNIT:
        return operand, result
    if is_integer(result):
        return _integers(operand, result)
    if operand in (float16, bfloat16) and is_float(result) and result.itemsize < 4:
        return operand, float32
    if bits(operand) < 16:
        operand = float32
    wide = accumulator(operand)
    if accumulator(result).itemsize > wide.itemsize:
        wide = accumulator(result)
    return wide, wide


def _integers(operand: DType, result: DType) -> tuple[DType, DType]:
    small = {int8: int8, int16: int16, uint8: int16}.get(operand) or (int8 if bits(operand) == 4 else None)
    if bits(result) <= 32:
        return small or int32, int32
    return (small, int64) if small is not None else (result, result)


# -- convolutions --------------------------------------------------------------------------------------------


def _taps(g: Geometry) -> list[tuple[int, ...]]:
    return list(tuples(*(range(r) for r in g.kernel)))


def _patches(padded: Any, starts: Sequence[Sequence[int]], step: Sequence[int], out: Sequence[int]) -> Any:
    """[N, C, taps, *out]: for every start the elements step apart."""
    lead = tuple(padded.shape[:2])
    views = []
    for start in starts:
        stop = tuple(s + (n - 1) * d + 1 for s, n, d in zip(start, out, step, strict=True))
        view = table["slice"](padded, start=(0, 0, *start), stop=(*lead, *stop), step=(1, 1, *step))
        views.append(t.reshape(view, *lead, 1, *out))
    return t.join(views, 2)


def _spaced(x: Any, low: Sequence[int], high: Sequence[int], between: Sequence[int]) -> Any:
    if not any((*low, *high, *between)):
        return x
    none = (0, 0)
    return table["pad"](x, low=(*none, *low), high=(*none, *high), between=(*none, *between), value=0)


def _windows_of(x: Any, g: Geometry) -> Any:
    """x under every tap of every window: [N, G, C/G taps, P]."""
    padded = _spaced(x, g.low, g.high, [d - 1 for d in g.x_dilation])
    starts = [[r * d for r, d in zip(tap, g.w_dilation, strict=True)] for tap in _taps(g)]
    patches = _patches(padded, starts, g.stride, g.out)
    return t.reshape(patches, g.batch, g.groups, g.channels * prod(g.kernel), prod(g.out))


def _nothing(g: Geometry) -> bool:
    return 0 in (g.batch, g.groups * g.channels, g.groups * g.filters, *g.out, *g.space)


def _conv(e: Equation) -> Body:
    x, w = (v.type for v in e.inputs)
    attributes = dict(e.attributes)
    dtype = attributes.pop("dtype")
    if is_complex(x.dtype):
        return None
    g = geometry("conv", x.shape, w.shape, **attributes)
    if _nothing(g):
        return lambda a, b: t.full(e.outputs[0].type.shape, dtype, 0)

    def body(a: Any, b: Any) -> Any:
        filters = t.reshape(b, g.groups, g.filters, g.channels * prod(g.kernel))
        patches = _windows_of(a, g)
        found = table["dot"](filters, patches, contract=((2,), (2,)), batch=((0,), (1,)), dtype=dtype)
        found = t.transpose(found, (2, 0, 1, 3))  # group, filter, image, place
        return t.reshape(found, *e.outputs[0].type.shape)

    return body


def _input_grad(e: Equation) -> Body:
    y, w = (v.type for v in e.inputs)
    attributes = dict(e.attributes)
    dtype, space = attributes.pop("dtype"), attributes.pop("space")
    if is_complex(y.dtype):
        return None
    shape = (y.shape[0], w.shape[1] * attributes["groups"], *space)
    g = geometry("conv_input_grad", shape, w.shape, **attributes)
    if _nothing(g):
        return lambda a, b: t.full(e.outputs[0].type.shape, dtype, 0)

    def body(a: Any, b: Any) -> Any:
        patches = _spread_windows(a, g)
        filters = t.reshape(b, g.groups, g.filters, g.channels, prod(g.kernel))
        filters = t.transpose(t.reverse(filters, 3), (0, 2, 1, 3))
        filters = t.reshape(filters, g.groups, g.channels, g.filters * prod(g.kernel))
        found = table["dot"](filters, patches, contract=((2,), (2,)), batch=((0,), (1,)), dtype=dtype)
        return t.reshape(t.transpose(found, (2, 0, 1, 3)), *e.outputs[0].type.shape)

    return body


def _spread_windows(y: Any, g: Geometry) -> Any:
    """y, its elements a stride apart, under every tap (last to first) that reaches an element of x."""
    reach = [(r - 1) * d for r, d in zip(g.kernel, g.w_dilation, strict=True)]
    first = [max(0, -lo) for lo in g.low]  # positions before the window's first, where padding crops
    low = [r + f for r, f in zip(reach, first, strict=True)]
    starts_at = [lo + f for lo, f in zip(g.low, first, strict=True)]
    end = [s + (n - 1) * d + r + 1
           for s, n, d, r in zip(starts_at, g.space, g.x_dilation, reach, strict=True)]  # fmt: skip
    spread = [(n - 1) * s + 1 for n, s in zip(g.out, g.stride, strict=True)]
    high = [e - (lo + n) for e, lo, n in zip(end, low, spread, strict=True)]
    padded = _spaced(y, low, high, [s - 1 for s in g.stride])
    starts = [[s + r * d for s, r, d in zip(starts_at, tap, g.w_dilation, strict=True)] for tap in _taps(g)]
    patches = _patches(padded, starts, g.x_dilation, g.space)
    return t.reshape(patches, g.batch, g.groups, g.filters * prod(g.kernel), prod(g.space))


def _weight_grad(e: Equation) -> Body:
    x, y = (v.type for v in e.inputs)
    attributes = dict(e.attributes)
    dtype, kernel = attributes.pop("dtype"), attributes.pop("kernel")
    if is_complex(x.dtype):
        return None
    shape = (y.shape[1], x.shape[1] // attributes["groups"], *kernel)
    g = geometry("conv_weight_grad", x.shape, shape, **attributes)
    if _nothing(g):
        return lambda a, b: t.full(e.outputs[0].type.shape, dtype, 0)

    def body(a: Any, b: Any) -> Any:
        patches = _windows_of(a, g)
        errors = t.reshape(b, g.batch, g.groups, g.filters, prod(g.out))
        found = table["dot"](errors, patches, contract=((0, 3), (0, 3)), batch=((1,), (1,)), dtype=dtype)
        return t.reshape(found, *e.outputs[0].type.shape)

    return body


def rules(machine: Machine) -> dict[str, Callable[[Equation], Body]]:
    """What the matrix unit takes stays as it is."""

    def convolution(rule: Callable[[Equation], Body]) -> Callable[[Equation], Body]:
        def checked(e: Equation) -> Body:
            dtype, result = e.inputs[0].type.dtype, e.attributes["dtype"]
            if is_complex(dtype):
                return None
            if 0 not in extents(e.outputs[0]) and _working(dtype, result) != (dtype, result):
                return _converted(e)
            if is_planar(e) and accepts(convolution_of(e), machine) is None:
                return None
            return rule(e)

        return checked

    views = {"conv": _conv, "conv_input_grad": _input_grad, "conv_weight_grad": _weight_grad}
    return {"dot": _dot, **{name: convolution(rule) for name, rule in views.items()}}
