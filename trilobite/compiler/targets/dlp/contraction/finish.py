"""The matrix instruction of a tile, and what is done to its sums before they are stored.

Enters: places of tiles on chip. Leaves: MM, CONV, CONVDX or CONVDW with the drain's flags, conversions, and
the epilogue's own instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.region import Regions
from trilobite.compiler.targets.dlp.contraction.scalars import Int, Scalars
from trilobite.compiler.targets.dlp.contraction.walk import Point
from trilobite.processor.lang.ir import Value
from trilobite.processor.lang.types import ANY

ROWS = {"product": "MM", "forward": "CONV", "input_grad": "CONVDX", "weight_grad": "CONVDW"}


class Finish:
    """`base`: where each buffer begins."""

    def __init__(self, s: Scalars, plan: Plan, base: Mapping[str, Value]) -> None:
        self.s, self.plan, self.nest, self.base = s, plan, plan.nest, base

    def multiply(
        self, regions: Regions, at: Point, places: Mapping[str, Value], extras: Mapping[int, Value],
        is_first: bool, is_last: bool,
    ) -> None:  # fmt: skip
        """Adds a tile's products to its sums, or begins them; with `is_last` they are drained."""
        nest, s, kind = self.nest, self.s, self.nest.kind
        flags = ["" if is_first else "acc"]
        fields: list[Int] = regions.product_sizes(at) if kind == "product" else regions.window_fields(at)
        drain: list[Value] = []
        if kind in ("product", "forward"):
            chosen, drain = self._drain(extras, is_last)
            flags += [
                *chosen,
                *(("ta" if regions.ta else "", "tb" if regions.tb else "") if kind == "product" else ()),
                "",
            ]
        values = [places["sums"], places["left"], places["right"], *map(s.value, fields), *drain]
        formats = (self.plan.sums, nest.left, nest.left)
        s.tensor(ROWS[kind], values, formats, flags, is_async=self.plan.is_async)

    def _drain(self, extras: Mapping[int, Value], is_last: bool) -> tuple[list[str], list[Value]]:
        nothing = self.s.builder.constant(ANY, 0)
        plan = self.plan.drain
        if plan is None or not is_last:
            return ["", "", ""], [nothing, nothing]
        bias, scale = (extras.get(number, nothing) for number in (plan.bias, plan.scale))
        return ["bias" if plan.bias >= 0 else "", "scale" if plan.scale >= 0 else "", plan.activation], [
            bias,
            scale,
        ]

    def behind(
        self, regions: Regions, at: Point, sums: Value, extras: Mapping[int, Value],
        results: Sequence[Value],
    ) -> None:  # fmt: skip
        """From sums to results: narrower numbers, then the epilogue's body, as many places at a time as the
        plan says."""
        s, plan, count = self.s, self.plan, regions.result_elements(at)
        if plan.epilogue is None:
            self._narrow(results[0], sums, count)
            return
        inputs = [sums, *(self._spread(regions, at, n, extras[n]) for n in plan.read)]
        rows = plan.chunk_rows
        if not rows:
            self._body(inputs, results, count)
            return
        places, outputs = regions.places(at)
        items = [
            plan.sums.bits // 8,
            *(0 if plan.is_spread(n) else self.nest.extras[n].item for n in plan.read),
        ]

        def one(number: Int) -> None:
            first = s.mul(number, rows)
            mine, skip = s.mul(s.min(s.sub(places, first), rows), outputs), s.mul(first, outputs)
            here = [s.offset(p, s.mul(skip, item)) for p, item in zip(inputs, items, strict=True)]
            there = [s.offset(p, s.mul(skip, n)) for p, n in zip(results, plan.result_items, strict=True)]
            self._body(here, there, mine)

        s.loop(s.ceil_div(places, rows), one, "chunks")

    def _body(self, inputs: Sequence[Value], results: Sequence[Value], count: Int) -> None:
        tile, *others = inputs
        if self.plan.is_narrowed:
            tile = self.base["narrow"]
            self._narrow(tile, inputs[0], count)
        scratch = self.base["scratch"]
        if self.s.is_ahead:
            return
        assert self.plan.body is not None
        self.plan.body.emit(self.s.builder, [tile, *others], results, count, scratch, self.plan.chunk)

    def _narrow(self, to: Value, of: Value, count: Int) -> None:
        """Floats are rounded; integers keep their low bytes, as sums of integers wrap."""
        s, out, sums = self.s, self.nest.out, self.plan.sums
        if out.kind == "float":
            s.tensor("VCVT", [to, s.value(count), of], (out, sums))
            return
        wide, item = sums.bits // 8, out.bits // 8
        s.tensor("COPY2", [to, of, *map(s.value, (item, item, wide, count))])

    def _spread(self, regions: Regions, at: Point, number: int, place: Value) -> Value:
        """A number for each output, repeated for every place of the tile."""
        if not self.plan.is_spread(number):
            return place
        s, item = self.s, self.nest.extras[number].item
        to = self.base[f"spread{number}"]
        places, outputs = regions.places(at)
        row = s.mul(outputs, item)
        if self.plan.chunk_rows:
            places = s.min(places, self.plan.chunk_rows)
        s.tensor("COPY2", [to, place, s.value(row), s.value(row), s.value(0), s.value(places)])
        return to
