"""What every field of a machine's description means: unit, meaning, bounds; and machines as YAML text.

`MEANINGS` says it once, by part and field; `docs/machines.md` and comments of exported machines derive
from it. Types, defaults and least values are read off the dataclasses and their checks: they cannot differ.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass

from trilobite.processor.machine.description import (
    GATINGS,
    GEOMETRIES,
    INTERLOCKS,
    NOC_KINDS,
    RATE_FORMATS,
    Machine,
)
from trilobite.processor.machine.validate import ZERO_ALLOWED

# part -> field -> (unit, meaning); a part is a dataclass of `description.py`
MEANINGS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Machine": {
        "name": ("", "how the machine is called in reports"),
        "clock_ghz": ("GHz", "clock of the cores; a cycle is 1 / clock"),
        "process_nm": ("nm", "process node, for energy and area"),
        "interlock": ("", "ranges: an instruction waits for what touches its bytes; none: only SYNC orders"),
        "chips": ("", "dies in the part; clusters and DRAM are spread over them evenly"),
        "clusters": ("", "clusters in the whole part; at most 254"),
        "cores_per_cluster": ("", "cores that share a cluster's SRAM; at most 127"),
        "memory_core": ("", "whether a cluster has a core that only moves data; needs an SRAM"),
        "barrier_cycles": ("cycles", "from the last core that comes to a barrier until all go on"),
        "note": ("", "a remark, shown in the drawing"),
    },
    "Scratchpad": {
        "kib": ("KiB", "size; 0: there is none (only acc may be missing)"),
        "banks": ("", "equal parts; must divide the size"),
        "bytes_per_cycle": ("B/cycle", "what the memory gives or takes in a cycle"),
        "reserved_kib": ("KiB", "at the top, for stack and spills; at most the size"),
        "fifo_tiles": ("", "of WRAM: loads of weights that can be ahead of the products that use them"),
        "contended": ("", "whether units that use the memory at the same time share its bytes per cycle"),
    },
    "MatrixUnit": {
        "geometry": ("", "how the array works: weight- or output-stationary, adder tree, row-stationary"),
        "rows": ("", "rows of an array; inputs of an adder tree"),
        "cols": ("", "columns of an array; outputs of an adder tree"),
        "macs_per_cycle": ("MAC/cycle", "rate by number format; at most rows × cols × count × factor"),
        "weight_buffers": ("", "1: load weights, then compute; 2: load behind the computation"),
        "count": ("", "arrays that work on one product"),
        "first_layer_fold": ("", "of an adder tree: taps fill up the channels of an image, four at most"),
        "factors": ("", "products of a format that one multiplier makes a cycle; int4 makes 2 unless stated"),
        "geometry_published": ("", "false: rows and columns are a guess, and sweeps over them are refused"),
        "sparse": ("", "whether two of four weights are zero and skipped"),
        "zero_gating": ("", "operands whose zeros cost no energy; how many there are, activity says"),
        "register_bytes": ("B", "register file of an element of a row-stationary array, and only there"),
    },
    "VectorUnit": {
        "bytes_per_cycle": ("B/cycle", "bytes of one operand that are taken in a cycle"),
        "granule_bytes": ("B", "operands are rounded up to a multiple of this"),
        "latency": ("cycles", "from the last element to the result"),
        "divide_passes": ("", "how often a division goes through the unit"),
        "transcendental_passes": ("", "how often exp, log, tanh and their kind do"),
    },
    "ScalarUnit": {
        "add": ("cycles", "additions, logic, comparisons"),
        "multiply": ("cycles", "multiplications"),
        "divide16": ("cycles", "divisions of 16 bits"),
        "divide": ("cycles", "other divisions and square roots"),
        "transcendental": ("cycles", "exp, log, sin and their kind"),
        "branch": ("cycles", "a branch that is taken"),
        "scratchpad": ("cycles", "a load from NRAM, WRAM or SRAM"),
        "dram": ("cycles", "a load from GDRAM or LDRAM"),
        "atomic": ("cycles", "an atomic operation"),
    },
    "Dma": {
        "bytes_per_cycle": ("B/cycle", "what the engine moves in a cycle"),
        "outstanding": ("", "bursts under way at once"),
        "setup": ("cycles", "from the instruction to the first byte"),
    },
    "Queues": {
        "depth": ("", "instructions that may wait in a queue before dispatch stalls"),
        "dispatch": ("cycles", "between two dispatched instructions"),
    },
    "InstructionCache": {
        "kib": ("KiB", "size; 0: instructions are always in time"),
        "line_bytes": ("B", "a line; whole instructions, and must divide the size"),
    },
    "Core": {
        "gprs": ("", "general-purpose registers; 64, for instruction words name them by six bits"),
        "pool_kib": ("KiB", "one memory that NRAM and WRAM are parts of; 0: they are two"),
    },
    "SharedMemory": {
        "kib": ("KiB", "size of a cluster's SRAM; 0: there is none"),
        "reserved_kib": ("KiB", "at the top, for stack and spills; at most the size"),
        "banks": ("", "equal parts; must divide the size"),
        "bytes_per_cycle": ("B/cycle", "of the memory's ports; needed where there is an SRAM"),
        "bus_bytes_per_cycle": ("B/cycle", "of the bus to the cores; needed where there is an SRAM"),
        "multicast": ("", "whether one bus transfer may reach several cores"),
    },
    "Noc": {
        "kind": ("", "the network between clusters"),
        "shape": ("", "extents of a mesh or torus; their product is the number of clusters"),
        "link_bytes_per_cycle": ("B/cycle", "width of a link; needed where there is a network"),
        "hop_cycles": ("cycles", "from one cluster to its neighbour"),
        "links": ("", "for kind links: pairs of cluster numbers; every cluster must be reached"),
        "dram_at": ("", "clusters beside which DRAM is attached; none: each has a way of its own"),
    },
    "Dram": {
        "gb_per_s": ("GB/s", "peak bandwidth of the whole part"),
        "channels": ("", "channels that share it"),
        "latency_ns": ("ns", "from a request to its first byte"),
        "efficiency": ("", "sustained share of the peak, above 0 and at most 1: refresh and turnaround"),
        "granule_bytes": ("B", "transfers are rounded up to a multiple of this"),
        "burst_bytes": ("B", "a burst; the unit in which transfers take turns"),
        "gib": ("GiB", "size"),
        "row_bytes": ("B", "a row; 0: rows are not modelled; a multiple of burst_bytes"),
        "banks": ("", "rows that are open at a time"),
        "row_ns": ("ns", "opening a row"),
        "refresh_interval_ns": ("ns", "between refreshes; 0: not modelled"),
        "refresh_ns": ("ns", "of a refresh; less than the interval"),
    },
    "LastLevelCache": {
        "kib": ("KiB", "size, for the whole part; 0: there is none"),
        "line_bytes": ("B", "a line; must divide the size"),
        "bytes_per_cycle": ("B/cycle", "rate of hits; needed where there is a cache"),
        "latency_ns": ("ns", "of a hit"),
    },
    "Launch": {
        "overhead_ns": ("ns", "what the host pays before the first instruction"),
        "round_ns": ("ns", "between rounds of tasks, where the grid is larger than the part"),
    },
    "Power": {
        "idle_watts": ("W", "published; 0: nothing is"),
        "busy_watts": ("W", "published; 0: nothing is"),
        "tdp_watts": ("W", "published; 0: nothing is"),
        "area_mm2": ("mm²", "published; 0: nothing is"),
    },
    "HostLink": {
        "gb_per_s": ("GB/s", "between the host's memory and DRAM; 0: no link is described"),
        "latency_ns": ("ns", "of a transfer"),
    },
    "Activity": {
        "zero_weights": ("", "share of zeros among weights, from 0 to 1, for energy"),
        "zero_activations": ("", "share of zeros among activations, from 0 to 1, for energy"),
    },
}  # fmt: skip
CHOICES: Mapping[str, tuple[str, ...]] = {
    "interlock": INTERLOCKS,
    "core.mfu.geometry": GEOMETRIES,
    "core.mfu.zero_gating": GATINGS,
    "noc.kind": NOC_KINDS,
}


class Row(typing.NamedTuple):
    """One field of the description: its path in the YAML, and all that is known about it."""

    path: str
    kind: str
    unit: str
    meaning: str
    bounds: str
    default: str


def rows(part: type = Machine, path: str = "") -> Iterator[Row]:
    """Every field of a machine, in the order of the description."""
    hints = typing.get_type_hints(part)
    for item in fields(part):
        here, kind = f"{path}{item.name}", hints[item.name]
        if is_dataclass(kind) and isinstance(kind, type):
            yield from rows(kind, here + ".")
            continue
        unit, meaning = MEANINGS[part.__name__][item.name]
        yield Row(here, _kind(kind), unit, meaning, _bounds(here, item.name, kind), _default(item))


def _kind(kind: typing.Any) -> str:
    if typing.get_origin(kind) is tuple:
        return "list"
    if typing.get_origin(kind) is not None:
        return "format: number"
    return {int: "whole number", float: "number", str: "word", bool: "true or false"}[kind]


def _bounds(path: str, name: str, kind: typing.Any) -> str:
    if path in CHOICES:
        return " · ".join(CHOICES[path])
    if kind in (int, float):
        return "≥ 0" if name in ZERO_ALLOWED or path in ZERO_ALLOWED else "> 0"
    return " · ".join(RATE_FORMATS) if typing.get_origin(kind) not in (None, tuple) else ""


def _default(item: Field[typing.Any]) -> str:
    if item.default is MISSING:
        return "{}" if item.default_factory is not MISSING else "required"
    return written(item.default)


def table() -> str:
    """The fields as Markdown, a table for each part."""
    parts: dict[str, list[str]] = {}
    for row in rows():
        group, _, name = row.path.rpartition(".")
        default = (
            "" if row.default == '""' else f"`{row.default}`" if row.default != "required" else "*required*"
        )
        parts.setdefault(group, []).append(
            f"| `{name}` | {row.kind} | {row.unit} | {row.meaning} | {row.bounds} | {default} |"
        )
    head = ["| field | type | unit | meaning | bounds | default |", "|---|---|---|---|---|---|"]
    tables = (
        "\n".join([f"### {f'`{group}`' if group else 'The machine'}", "", *head, *lines])
        for group, lines in parts.items()
    )
    return "\n\n".join(tables) + "\n"


# -- YAML --------------------------------------------------------------------------------------------------


def written(value: object) -> str:
    """A value as YAML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return (
            '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
            if _quoted(value)
            else value
        )
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value)


def _quoted(word: str) -> bool:
    """Whether YAML could take a word for something else."""
    return not word.replace("-", "a").replace("_", "a").isalnum() or not word[0].isalpha() or word in _TAKEN


_TAKEN = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")


def export(machine: Machine) -> str:
    """A machine as YAML with every field, its unit and its meaning; `load_machine` reads it back."""
    known = {row.path: row for row in rows()}
    lines = [f"# {machine.name}, with every field. What each may be: docs/machines.md."]
    _write(machine, "", 0, known, lines)
    return "\n".join(lines) + "\n"


def _write(value: object, path: str, depth: int, known: Mapping[str, Row], lines: list[str]) -> None:
    for item in fields(value):  # type: ignore[arg-type]
        inner, here = getattr(value, item.name), f"{path}{item.name}"
        head = f"{'  ' * depth}{item.name}:"
        if is_dataclass(inner):
            lines.append(head)
            _write(inner, here + ".", depth + 1, known, lines)
            continue
        row = known[here]
        text = f"{head} {written(inner)}"
        unit = f"{row.unit}: " if row.unit else ""
        lines.append(f"{text:44}  # {unit}{row.meaning}")
