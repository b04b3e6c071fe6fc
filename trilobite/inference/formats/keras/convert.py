"""A Keras network, `.h5` or `.keras`, as an ONNX model.

Enters: a path. Leaves: a ModelProto. Sequential and functional networks, nested ones too; layers stand in the
table of `layers`. Layers of one's own are refused by name: their code is not in the file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.errors import FileError
from trilobite.framework.checkpoint.refusal import corrupt, shown
from trilobite.inference.formats.assembly import Assembly
from trilobite.inference.formats.channels_last import Layers, Tensor
from trilobite.inference.formats.hdf5 import Group
from trilobite.inference.formats.keras.archive import Saved, Stored, read, snake_case
from trilobite.inference.formats.mapped import Array, outside
from trilobite.inference.formats.tensor_ops import Unknown

Rule = Callable[["Call"], Tensor]
_NETWORKS = ("Functional", "Model", "Sequential")
_DEEPEST = 8


class Call:
    """One layer applied: its settings, its weights, and what it is applied to."""

    def __init__(
        self, layers: Layers, kind: str, config: dict[str, Any], weights: list[Array], xs: list[Tensor]
    ):
        self.layers, self.kind, self.config, self.weights, self.xs = layers, kind, config, weights, xs

    @property
    def x(self) -> Tensor:
        if not self.xs:
            raise Unknown(f"{self.kind} without an input")
        return self.xs[0]

    def weight(self, k: int) -> Array:
        if k >= len(self.weights):
            raise Unknown(f"{self.kind} {shown(str(self.config.get('name')))} without its weight {k}")
        return self.weights[k]

    def get(self, name: str, default: Any = None) -> Any:
        return self.config.get(name, default)

    def numbers(self, name: str, count: int, default: int = 1) -> list[int]:
        found = self.config.get(name, default)
        out = (
            [found] * count
            if isinstance(found, int)
            else list(found if found is not None else [default] * count)
        )
        if len(out) != count or not all(isinstance(n, int) and 0 < n < 1 << 20 for n in out):
            raise Unknown(f"{self.kind} with {name} {found}")
        return out

    def word(self, name: str, default: str) -> str:
        """The name of an activation or such, which may be written as an object."""
        found = self.config.get(name, default)
        if isinstance(found, dict):
            config = found.get("config")  # of a function its name alone
            own = config.get("name") if isinstance(config, dict) else config
            found = own or found.get("class_name")
        return default if found is None else str(found)


class Network:
    """One network's layers on their way; nested networks are networks of their own."""

    def __init__(self, layers: Layers, rules: dict[str, Rule], where: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise corrupt(f"networks are nested more than {_DEEPEST} deep", where, "fewer")
        self.layers, self.rules, self.where, self.depth = layers, rules, where, depth

    def apply(
        self, kind: str, config: dict[str, Any], source: Source, xs: list[Tensor]
    ) -> Tensor | list[Tensor]:
        if kind in _NETWORKS:
            inner = Network(self.layers, self.rules, self.where, self.depth + 1)
            return inner.run(kind, config, source, xs)
        if kind not in self.rules:
            raise Unknown(kind)
        return self.rules[kind](Call(self.layers, kind, config, source.arrays(), xs))

    def run(self, kind: str, config: Any, source: Source, xs: list[Tensor] | None) -> Tensor | list[Tensor]:
        rows = config["layers"] if isinstance(config, dict) else config
        if kind == "Sequential":
            found: Tensor | list[Tensor] = self._sequential(rows, source, xs)
        else:
            found = self._functional(config, rows, source, xs)
        return found

    def _noted(self, kind: str, config: dict[str, Any], source: Source, xs: list[Tensor]) -> Any:
        try:
            return self.apply(kind, config, source, xs)
        except Unknown as why:
            self.layers.a.refuse(str(why))
            return self.layers.made("missing", None)

    def _sequential(self, rows: list[Any], source: Source, xs: list[Tensor] | None) -> Any:
        now: Any = xs[0] if xs else None
        below = source.children(rows)
        for row, inner in zip(rows, below, strict=True):
            kind, config = row["class_name"], row.get("config", {})
            shape = config.get("batch_shape") or config.get("batch_input_shape")
            if now is None and shape is not None:
                now = self._input(config, shape)
            if kind == "InputLayer":
                continue
            if now is None:
                raise Unknown("a Sequential network that does not say what it takes")
            now = self._noted(kind, config, inner, [now])
        return now

    def _input(self, config: dict[str, Any], shape: list[Any]) -> Tensor:
        dtype = config.get("dtype") or "float32"
        dtype = dtype if isinstance(dtype, str) else "float32"
        sizes = [None if d is None else int(d) for d in shape]
        name = self.layers.a.add_input(str(config.get("name", "input")), np.dtype(dtype), sizes)
        return self.layers.made(name, len(sizes))

    def _functional(
        self, config: dict[str, Any], rows: list[Any], source: Source, xs: list[Tensor] | None
    ) -> Any:
        made: dict[tuple[str, int, int], Tensor] = {}
        wanted = [str(t[0]) for t in _references(config["input_layers"])]
        given = dict(zip(wanted, xs, strict=True)) if xs is not None else {}
        below = source.children(rows)
        pending = [
            (row, inner, i) for row, inner in zip(rows, below, strict=True) for i in range(_calls(row))
        ]
        for _ in range(len(pending) + 1):
            left = []
            for row, inner, i in pending:
                if not self._step(row, inner, i, made, given):
                    left.append((row, inner, i))
            if not left:
                break
            if len(left) == len(pending):
                raise corrupt("layers wait for each other", self.where, "a network without circles")
            pending = left
        outputs = [made[ref] for ref in _references(config["output_layers"])]
        return outputs[0] if len(outputs) == 1 else outputs

    def _step(
        self, row: Any, inner: Source, i: int, made: dict[Any, Tensor], given: dict[str, Tensor]
    ) -> bool:
        """Applies a layer once; False if what it is applied to is not there yet."""
        name, kind, config = str(row["name"]), row["class_name"], row.get("config", {})
        if kind == "InputLayer":
            shape = config.get("batch_shape") or config.get("batch_input_shape") or []
            made[name, 0, 0] = given[name] if name in given else self._input(config, shape)
            return True
        references = _references(row["inbound_nodes"][i])
        if any(ref not in made for ref in references):
            return False
        out = self._noted(kind, config, inner, [made[ref] for ref in references])
        for k, t in enumerate(out if isinstance(out, list) else [out]):
            made[name, i, k] = t
        return True


def _calls(row: Any) -> int:
    return max(len(row.get("inbound_nodes", [])), 1) if row["class_name"] != "InputLayer" else 1


def _references(value: Any) -> list[tuple[str, int, int]]:
    """Layer, application and result of each tensor that a description mentions, in order."""
    out: list[tuple[str, int, int]] = []
    todo = [value]
    while todo:
        v = todo.pop(0)
        if isinstance(v, dict):
            if v.get("class_name") == "__keras_tensor__":
                todo.insert(0, v["config"]["keras_history"])
            else:
                todo[:0] = list(v.get("args", [])) + list((v.get("kwargs") or {}).values())
        elif isinstance(v, list | tuple):
            if len(v) >= 3 and isinstance(v[0], str) and isinstance(v[1], int) and isinstance(v[2], int):
                out.append((v[0], v[1], v[2]))
            else:
                todo[:0] = list(v)
        if len(out) > 1 << 16:
            break
    return out


class Source:
    """Where a layer's weights are: by its name in older files, by its place among its kind in newer ones."""

    def __init__(self, saved: Saved, group: Group | None, named: dict[str, Stored] | None = None) -> None:
        self._saved, self._group, self._named = saved, group, named

    def arrays(self) -> list[Array]:
        if self._named is not None:
            return [g.array() for g in self._named.values()]
        return self._of(self._group) if self._group is not None else []

    def _of(self, group: Group) -> list[Array]:
        """A layer's own weights, then those of what it holds (a cell, the two ways of a Bidirectional)."""
        out: list[Array] = []
        if "vars" in group:
            members = group["vars"].members()
            out = [group["vars"][name].array() for name in sorted(members, key=lambda n: (len(n), n))]
        for part in ("cell", "forward_layer", "backward_layer", "layer"):
            if part in group:
                out += self._of(group[part])
        return out

    def children(self, rows: list[Any]) -> list[Source]:
        if self._saved.by_layer is not None:
            return [self._by_name(str(row["config"].get("name", row.get("name", "")))) for row in rows]
        seen: dict[str, int] = {}
        out = []
        layers = self._group["layers"] if self._group is not None and "layers" in self._group else None
        members = layers.members() if layers is not None else {}
        for row in rows:
            name = snake_case(str(row["class_name"]))
            number = seen.get(name, -1) + 1
            seen[name] = number
            path = f"{name}_{number}" if number else name
            out.append(Source(self._saved, layers[path] if layers is not None and path in members else None))
        return out

    def _by_name(self, name: str) -> Source:
        assert self._saved.by_layer is not None
        if self._named is None:
            return Source(self._saved, None, self._saved.by_layer.get(name, {}))
        inside = {n: g for n, g in self._named.items() if f"/{name}/" in f"/{n}"}  # of a network in a network
        return Source(self._saved, None, inside)


def convert(path: Any) -> Any:
    """A Keras model as an ONNX ModelProto."""
    return from_saved(read(path), "Keras")


def from_saved(saved: Saved, format_: str) -> Any:
    """The network of a file that was read."""
    from trilobite.inference.formats.keras.layers import RULES

    if saved.config is None:
        raise outside(
            "the file holds weights alone, and no network", saved.where,
            "read them with trilobite.inference.formats.weights, or save the whole model",
        )  # fmt: skip
    a = Assembly("network")
    layers = Layers(a)
    network = Network(layers, RULES, saved.where, 0)
    try:
        kind, config = saved.config["class_name"], saved.config["config"]
        if kind not in _NETWORKS:
            raise Unknown(f"a network of the class {kind}")
        made = network.run(kind, config, Source(saved, saved.root), None)
        if not a.refusals:
            for i, t in enumerate(made if isinstance(made, list) else [made]):
                sizes = None if t.rank is None else [None] * t.rank
                a.add_output("output" if i == 0 else f"output_{i}", layers.last(t), np.float32, sizes)
    except Unknown as why:
        a.refuse(str(why))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, ZeroDivisionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"the network does not fit together: {type(error).__name__} {shown(str(error))}",
            where=saved.where,
            expected="a model that Keras saved",
            remedy="save it again; or its layers are newer than this reader",
        ) from error
    return a.model(saved.where, f"trilobite from {format_}")
