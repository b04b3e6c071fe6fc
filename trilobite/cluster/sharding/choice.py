"""Which way an equation is split: per side of the mesh one factor, a partial sum, or nothing.

Enters: an equation's rule, where its operands lie, where its results are wanted. Leaves: where the operands
must lie and where the results will. A side splits a factor only if an operand already is, or a result is
wanted so: splits come from annotations. Of these, the cheapest: collectives now, the sum that a partial
result will need, and the work that all ranks would repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from trilobite.cluster.sharding.conversion import Converter
from trilobite.cluster.sharding.placements import Entry, Placement, canonical, is_even
from trilobite.cluster.sharding.rules import Dims, Factor, Rule
from trilobite.ir.types import TensorType, size_of

REPEATED = 2.0  # gathering operands to compute all of it everywhere must be this much cheaper


class Operand(NamedTuple):
    """What is known of an operand: its whole type, where it lies, and what it costs to have it elsewhere."""

    identity: int  # the same value twice costs once
    type: TensorType
    placement: Placement
    seconds: Callable[[Placement], float]
    linear: bool  # may it stay a partial sum?


@dataclass
class Chosen:
    """What has been decided, side by side."""

    ins: list[list[Entry]]
    outs: list[list[Entry]]
    units: dict[int, Fraction] = field(default_factory=dict)  # per factor
    sides: dict[int, list[int]] = field(default_factory=dict)  # that split a factor


class Option(NamedTuple):
    """For one side: entries of operands and results, and the factor that is split."""

    ins: tuple[Entry, ...]
    outs: tuple[Entry, ...]
    factor: int | None = None
    unit: Fraction = Fraction(1)


class Chooser:
    """Decides for one equation after the other."""

    def __init__(self, converter: Converter) -> None:
        self.converter, self.mesh = converter, converter.mesh

    def choose(
        self,
        rule: Rule,
        operands: Sequence[Operand],
        outs: Sequence[TensorType],
        wanted: Sequence[Placement | None],
        work: float,
    ) -> tuple[list[Placement], list[Placement], Chosen]:
        chosen = Chosen([[] for _ in operands], [[] for _ in outs])
        for a, n in enumerate(self.mesh):
            best = Option((None,) * len(operands), (None,) * len(outs))
            if n > 1:
                more = self._options(rule, operands, outs, wanted, chosen, a)
                if more:
                    best = min([best, *more], key=lambda o: self._cost(o, rule, operands, outs, a, work))
            for entries, entry in zip((*chosen.ins, *chosen.outs), (*best.ins, *best.outs), strict=True):
                entries.append(entry)
            if best.factor is not None:
                chosen.units.setdefault(best.factor, best.unit)
                chosen.sides.setdefault(best.factor, []).append(a)
        ins = [
            self._placed(o.type, d, e, rule, chosen)
            for o, d, e in zip(operands, rule.ins, chosen.ins, strict=True)
        ]
        made = [
            self._placed(t, d, e, rule, chosen) for t, d, e in zip(outs, rule.outs, chosen.outs, strict=True)
        ]
        return ins, made, chosen

    # -- options ---------------------------------------------------------------------------------------------

    def _options(
        self, rule: Rule, operands: Sequence[Operand], outs: Sequence[TensorType],
        wanted: Sequence[Placement | None], chosen: Chosen, a: int,
    ) -> list[Option]:  # fmt: skip
        found = []
        for factor, unit in self._supported(rule, operands, wanted, a).items():
            option = self._split(rule, operands, outs, factor, chosen.units.get(factor, unit), chosen, a)
            if option is not None:
                found.append(option)
        for some in rule.linear:
            partial = [i for i in some if operands[i].placement.axes[a] == "sum"]
            if partial and all(operands[i].linear for i in partial):
                ins = tuple("sum" if i in some else None for i in range(len(operands)))
                found.append(Option(ins, ("sum",) * len(outs)))
        return found

    def _supported(
        self, rule: Rule, operands: Sequence[Operand], wanted: Sequence[Placement | None], a: int
    ) -> dict[int, Fraction]:
        """Factors that this side splits in an operand, or should in a result; with the unit of the cuts."""
        found: dict[int, Fraction] = {}
        rows = [(d, o.placement) for d, o in zip(rule.ins, operands, strict=True)]
        rows += [(d, p) for d, p in zip(rule.outs, wanted, strict=True) if p is not None]
        for dims, p in rows:
            entry = p.axes[a]
            f = dims[entry] if type(entry) is int else None
            if f is not None and type(entry) is int:
                unit = Fraction(1) if f.name in rule.once else p.units[entry] * f.rest
                found.setdefault(f.name, unit)
        return found

    def _split(
        self, rule: Rule, operands: Sequence[Operand], outs: Sequence[TensorType], factor: int,
        unit: Fraction, chosen: Chosen, a: int,
    ) -> Option | None:  # fmt: skip
        if not self._allowed(rule, factor, chosen, a):
            return None
        n = self.mesh[a]
        for b in chosen.sides.get(factor, ()):
            n *= self.mesh[b]
        ins: list[Entry] = []
        for i, (o, dims) in enumerate(zip(operands, rule.ins, strict=True)):
            at = _find(dims, factor)
            if at is not None and _unit(o.type, dims, at, unit, n, rule) is None:
                return None
            ins.append("sum" if i in rule.needs_partial.get(factor, ()) else at)
        made: list[Entry] = []
        for t, dims in zip(outs, rule.outs, strict=True):
            at = _find(dims, factor)
            if at is None and factor not in rule.reduces:
                return None
            if at is not None and _unit(t, dims, at, unit, n, rule) is None:
                return None
            made.append(rule.reduces[factor] if at is None else at)
        return Option(tuple(ins), tuple(made), factor, unit)

    def _allowed(self, rule: Rule, factor: int, chosen: Chosen, a: int) -> bool:
        """Lowerings of their own take one side, and one factor of an equation. They know where a rank stands,
        so they cannot serve parts that come in turns.
        """
        if factor in rule.lowerings and a in self.converter.turns:
            return False
        special = set(rule.lowerings) & set(chosen.sides)
        if factor in rule.lowerings and special:
            return False
        if factor in rule.once and rule.refuses is not None and rule.refuses(factor, self.mesh[a]):
            return False
        return not (factor in rule.once and factor in chosen.sides)

    # -- costs -----------------------------------------------------------------------------------------------

    def _cost(
        self, option: Option, rule: Rule, operands: Sequence[Operand], outs: Sequence[TensorType], a: int,
        work: float,
    ) -> tuple[float, bool]:  # fmt: skip
        seen: set[tuple[int, Entry]] = set()
        seconds = 0.0
        for o, dims, entry in zip(operands, rule.ins, option.ins, strict=True):
            if (o.identity, entry) in seen or o.placement.axes[a] == entry:
                continue
            seen.add((o.identity, entry))
            seconds += o.seconds(self._along(o, dims, entry, a, option, rule))
        if option.factor is None:
            seconds *= REPEATED
        for t, made in zip(outs, option.outs, strict=True):
            if isinstance(made, str):
                nbytes = float(size_of(t.shape)) * t.dtype.itemsize
                seconds += self.converter.costs.collective("cluster_all_reduce", nbytes, self.mesh[a], (a,))
        return seconds + work / (1 if option.factor is None else self.mesh[a]), option.factor is None

    def _along(self, o: Operand, dims: Dims, entry: Entry, a: int, option: Option, rule: Rule) -> Placement:
        p = o.placement.with_axis(a, entry)
        if type(entry) is not int:
            return p
        unit = (
            _unit(o.type, dims, entry, option.unit, len(p.splits(entry)) and self._count(p, entry), rule) or 1
        )
        return canonical(
            o.type, Placement(p.axes, (*p.units[:entry], unit, *p.units[entry + 1 :])), self.mesh
        )

    def _count(self, p: Placement, dimension: int) -> int:
        n = 1
        for a in p.splits(dimension):
            n *= self.mesh[a]
        return n

    def _placed(
        self, t: TensorType, dims: Dims, entries: Sequence[Entry], rule: Rule, chosen: Chosen
    ) -> Placement:
        units = []
        for d in range(t.ndim):
            f = dims[d]
            n = 1
            for a, entry in enumerate(entries):
                n *= self.mesh[a] if type(entry) is int and entry == d else 1
            found = 1 if f is None or n == 1 else _unit(t, dims, d, chosen.units[f.name], n, rule)
            assert found is not None
            units.append(found)
        return canonical(t, Placement(tuple(entries), tuple(units)), self.mesh)


def _find(dims: Dims, factor: int) -> int | None:
    return next((d for d, f in enumerate(dims) if f is not None and f.name == factor), None)


def _unit(t: TensorType, dims: Dims, d: int, unit: Fraction, n: int, rule: Rule) -> int | None:
    """What no cut of this dimension divides, if the factor is cut into n parts at multiples of its unit; None
    if such cuts would fall between its places, or a part would have nothing.
    """
    f = dims[d]
    size = int(t.shape[d])
    if f is None or size < n:
        return None
    if f.name in rule.once:
        return 1
    own = unit / f.rest
    if unit.denominator == 1 and own.denominator == 1 and size % own == 0 and size // own >= n:
        return int(own)
    total = size * f.rest
    even = total.denominator == 1 and total % n == 0 and size % n == 0 and (total / n) % unit == 0
    return 1 if even else None


def hints(
    requests: Mapping[int, Sequence[Placement]], homes: Mapping[int, Placement]
) -> dict[int, Placement]:
    """Values that all their readers want split in one way which they are not."""
    found = {}
    for v, asked in requests.items():
        home = homes[v]
        first = asked[0]
        axes = tuple(
            first.axes[a]
            if entry is None and type(first.axes[a]) is int and all(p.axes[a] == first.axes[a] for p in asked)
            else None
            for a, entry in enumerate(home.axes)
        )
        if any(entry is not None for entry in axes):
            units = tuple(
                u if len({p.units[d] for p in asked}) == 1 else 1 for d, u in enumerate(first.units)
            )
            found[v] = Placement(axes, units)
    return found


__all__ = ["Chooser", "Chosen", "Factor", "Operand", "hints", "is_even"]
