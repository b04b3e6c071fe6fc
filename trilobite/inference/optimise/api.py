"""`optimize`: all rewrites, again and again until none finds anything, on a model and the bodies in it.

Enters: a model as a path, a ModelProto, or any other format that is read. Leaves: `Optimised`: the new model,
which passes ONNX's own full check, and how often each rewrite was made.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trilobite.base.errors import FileError, StateError
from trilobite.base.records import dataclass
from trilobite.inference.formats import NETWORKS, to_onnx
from trilobite.inference.optimise.constants import fold_constants
from trilobite.inference.optimise.join import join_layers
from trilobite.inference.optimise.naming import name_groups
from trilobite.inference.optimise.network import Array, Network, Shape, bodies
from trilobite.inference.optimise.redundant import remove_redundant
from trilobite.inference.optimise.sharing import remove_unused, share_constants, share_nodes
from trilobite.inference.reader import onnx_module, read

REWRITES: tuple[tuple[str, Callable[[Network], int]], ...] = (
    ("nodes computed", fold_constants),
    ("redundant nodes left out", remove_redundant),
    ("nodes joined with layers", join_layers),
    ("groups made one node", name_groups),
    ("equal nodes made one", share_nodes),
    ("equal constants made one", share_constants),
    ("unused nodes removed", remove_unused),
)
_ROUNDS = 20
_LISTED = 4  # the version of ONNX's files from which on constants need not be listed as inputs


@dataclass(frozen=True)
class Optimised:
    """The new model, how often each rewrite was made, and how many nodes there were and are. It passes
    ONNX's full check if the old one does.
    """

    model: Any
    counts: Mapping[str, int]
    before: int
    after: int


def optimize(source: Any) -> Optimised:
    """The same network with fewer nodes: shapes and constants computed, nodes that change nothing left out,
    normalisations and biases in their layers, equal nodes made one. Names of inputs and outputs stay.
    """
    onnx = onnx_module()
    proto, folder = _opened(source)
    before, is_sound = nodes_of(proto.graph), _complaint(onnx, proto) is None
    _unlisted(proto)
    opsets = {("" if o.domain == "ai.onnx" else o.domain): int(o.version) for o in proto.opset_import}
    counts: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        types = _types(onnx, proto)
        if not _round(proto.graph, opsets, types, {}, folder, counts):
            break
    _take_in(onnx, proto, folder)
    complaint = _complaint(onnx, proto)
    if is_sound and complaint is not None:
        raise StateError(f"the optimised model does not pass ONNX's check: {complaint}", remedy="report it")
    names = [name for name, _ in REWRITES]
    return Optimised(proto, {n: counts[n] for n in names}, before, nodes_of(proto.graph))


def nodes_of(graph: Any) -> int:
    """Nodes, those of bodies too."""
    return sum(1 + sum(nodes_of(b) for b in bodies(n)) for n in graph.node)


def _opened(source: Any) -> tuple[Any, Path | None]:
    """A copy, with functions in the place of their calls; and where its data lies."""
    onnx = onnx_module()
    read(source)  # refuses what is damaged or hostile
    if isinstance(source, onnx.ModelProto):
        proto, folder = onnx.ModelProto(), None
        proto.CopyFrom(source)
    elif Path(source).suffix.lower() in NETWORKS:
        proto, folder = to_onnx(source), None
    else:
        proto, folder = onnx.load(os.fspath(source), load_external_data=False), Path(source).parent.resolve()
    if proto.functions:
        from onnx import inliner

        proto = inliner.inline_local_functions(proto)
    return proto, folder


def _unlisted(proto: Any) -> None:
    """Old files list every constant as an input, because they had to; from version 4 on it would mean that
    whoever runs the model may give another.
    """
    if proto.ir_version >= _LISTED:
        return
    given = {t.name for t in proto.graph.initializer}
    kept = [i for i in proto.graph.input if i.name not in given]
    copies = [type(i)() for i in kept]
    for copy, i in zip(copies, kept, strict=True):
        copy.CopyFrom(i)
    del proto.graph.input[:]
    proto.graph.input.extend(copies)
    proto.ir_version = _LISTED


def _types(onnx: Any, proto: Any) -> dict[str, tuple[int, Shape | None]]:
    """Dtypes and sizes of all values, as far as ONNX's own inference finds them; those of bodies too."""
    _forget_types(proto.graph)
    with suppress(RuntimeError, ValueError, onnx.shape_inference.InferenceError):
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)  # else it is too large
    found: dict[str, tuple[int, Shape | None]] = {}
    _note_types(proto.graph, found)
    return found


def _forget_types(graph: Any) -> None:
    del graph.value_info[:]
    for node in graph.node:
        for body in bodies(node):
            _forget_types(body)


def _note_types(graph: Any, found: dict[str, tuple[int, Shape | None]]) -> None:
    for v in (*graph.input, *graph.output, *graph.value_info):
        if v.type.HasField("tensor_type"):
            t = v.type.tensor_type
            sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in t.shape.dim)
            found[v.name] = int(t.elem_type), sizes if t.HasField("shape") else None
    for node in graph.node:
        for body in bodies(node):
            _note_types(body, found)


def _round(
    graph: Any,
    opsets: Mapping[str, int],
    types: Mapping[str, tuple[int, Shape | None]],
    outer: Mapping[str, Array],
    folder: Path | None,
    counts: Counter[str],
) -> int:
    """All rewrites once; how many changes they made."""
    network = Network(graph, opsets, types, outer, folder)
    total = 0
    for name, rewrite in REWRITES:
        made = rewrite(network)
        counts[name] += made
        total += made
    seen = network.constants() if any(True for n in graph.node for _ in bodies(n)) else {}
    for node in graph.node:
        for body in bodies(node):
            total += _round(body, opsets, types, seen, folder, counts)
    return total


def _take_in(onnx: Any, proto: Any, folder: Path | None) -> None:
    """Data that lay beside the file: what is read by the same strict rules goes into the model."""
    from trilobite.inference.tensors import to_array

    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            whole = onnx.numpy_helper.from_array(to_array(tensor, folder), tensor.name)
            tensor.CopyFrom(whole)
    if proto.ByteSize() > 2**31 - 1:
        raise FileError(
            "the optimised model has more than 2 GiB", expected="a model that one ONNX file can hold"
        )


def _complaint(onnx: Any, proto: Any) -> str | None:
    """What ONNX's full check says against a model. Data beside the file is not looked at here."""
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        return str(error)
    return None
