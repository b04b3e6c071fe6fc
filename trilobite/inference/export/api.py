"""`tb.inference.export`: a module or a function as an ONNX model.

Enters: what to export, and example inputs. Leaves: a ModelProto, checked by onnx's full checker, and a file
where a path is given. The function is recorded once as `tb.jit` records it: parameters and buffers become
initialisers under their own names, symbolic sizes (`shapes=`) become symbolic dimensions, control flow
becomes If, Scan and Loop. Composites with an operator of their own stay whole.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base import pytree
from trilobite.base.errors import ArgumentError, DeviceError, IRError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.jit import jit
from trilobite.framework.modes import no_grad
from trilobite.framework.recordings import Entry, trace
from trilobite.framework.transforms import is_tensor
from trilobite.ir.transforms import cells

Array = np.ndarray[Any, Any]
_SMALL = 1 << 12
_INLINE = 1 << 30  # weights beyond this stand in a file of their own: a protobuf holds 2 GB


def export(
    function: Callable[..., Any],
    inputs: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    shapes: Sequence[Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset: int = 21,
    check: bool = True,
) -> Any:
    """A module or function as an ONNX ModelProto, written to `path` if one is given.

    `inputs`: example arguments, as a tuple (or a single tensor). `shapes`: symbolic sizes, as for `tb.jit`.
    Weights of more than 1 GB go to `path` + ".data" beside the model.
    """
    onnx = _onnx()
    from trilobite.inference.export.walk import OPSETS, to_model

    if opset not in OPSETS:
        raise ArgumentError(
            f"export to opset {opset}",
            where=user_location(),
            expected=f"one of {', '.join(map(str, OPSETS))}",
        )
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    entry, leaves = _recorded(function, args, shapes)
    names, weights = _names(function, args, entry, leaves, input_names)
    results = sum(s is None for s in entry.out_static)
    made = to_model(entry.recording.graph, names, _output_names(results, output_names), weights, opset)
    if check:
        _check(onnx, made)
    if path is not None:
        _save(onnx, made, os.fspath(path))
    return made


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise DeviceError(
            "the package onnx is not installed",
            where=user_location(),
            expected="onnx, for files of that format",
            remedy='pip install "trilobite[onnx]"',
        ) from error
    return onnx


def _recorded(function: Callable[..., Any], args: Sequence[Any], shapes: Any) -> tuple[Entry, int]:
    jitted = jit(function, shapes=shapes)
    with no_grad():
        call = jitted._take_apart(args, {})
        entry = trace(function, call)
    r = entry.recording
    if r.writes or entry.arg_writes or entry.grads:
        raise StateError(
            f"{_title(function)} writes state when it runs, which a model file cannot",
            where=user_location(),
            expected="a function that only reads its tensors",
            remedy="put the model into eval() mode, and export the forward pass without the optimiser",
        )
    return entry, len(call.tensors)


def _is_module(function: Any) -> bool:
    from trilobite.framework.nn.module import Module  # who only runs models does without

    return isinstance(function, Module)


def _title(function: Any) -> str:
    return type(function).__name__ if _is_module(function) else getattr(function, "__name__", "function")


def _names(
    function: Any, args: Sequence[Any], entry: Entry, leaves: int, given: Sequence[str] | None
) -> tuple[list[str], dict[str, Array]]:
    """A name for each input of the recorded graph, and the arrays of those that are weights."""
    names = list(given) if given is not None else _argument_names(function, args)
    if len(names) != leaves or len(set(names)) != leaves:
        raise ArgumentError(
            f"{len(names)} names {names} for {leaves} inputs",
            where=user_location(),
            expected=f"{leaves} different names",
            remedy="pass input_names=",
        )
    weights: dict[str, Array] = {}
    known = _weight_names(function)
    for i, cell in enumerate(entry.recording.cells):
        name = known.get(cell, f"tensor_{i}")
        while name in weights or name in names:
            name += "_"
        weights[name] = np.asarray(cells.read(cell))
        names.append(name)
    for i, value in enumerate(entry.recording.values):
        weights[f"value_{i}"] = np.asarray(value)
        names.append(f"value_{i}")
    return names, weights


def _weight_names(function: Any) -> dict[Any, str]:
    module = function if _is_module(function) else getattr(function, "__self__", None)
    if module is None or not _is_module(module):
        return {}
    found: dict[Any, str] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        found.setdefault(tensor._cell, name)
    return found


def _argument_names(function: Any, args: Sequence[Any]) -> list[str]:
    """Parameters of the function; an argument with several tensors numbers them."""
    try:
        forward = function.forward if _is_module(function) else function
        parameters = list(inspect.signature(forward).parameters)
    except (TypeError, ValueError):
        parameters = []
    names = []
    for i, arg in enumerate(args):
        base = parameters[i] if i < len(parameters) else f"input_{i}"
        tensors = [x for x in pytree.flatten(arg, is_tensor)[0] if _is_dynamic(x)]
        names += [base] if len(tensors) == 1 else [f"{base}_{k}" for k in range(len(tensors))]
    return names


def _is_dynamic(leaf: Any) -> bool:
    """Does jit take it as an input? Bools, strings and None stand in the recording itself."""
    return not isinstance(leaf, bool | str) and leaf is not None


def _output_names(count: int, given: Sequence[str] | None) -> list[str]:
    names = (
        list(given)
        if given is not None
        else ["output"]
        if count == 1
        else [f"output_{i}" for i in range(count)]
    )
    if len(names) != count or len(set(names)) != count:
        raise ArgumentError(
            f"{len(names)} names {names} for {count} outputs",
            where=user_location(),
            expected=f"{count} different names",
        )
    return names


def _check(onnx: Any, model: Any) -> None:
    """By onnx's full checker. It copies the model several times, so weights stand as inputs there: it looks
    at their types alone."""
    plain = onnx.ModelProto()
    plain.CopyFrom(onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import))
    graph = plain.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    for tensor in model.graph.initializer:
        if tensor.ByteSize() < _SMALL:
            graph.initializer.append(tensor)
        else:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    try:
        onnx.checker.check_model(plain, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise IRError(
            f"onnx's checker refuses the exported {model.graph.name}",
            where=str(error).splitlines()[0],
            expected="operators of ONNX on dtypes that they are defined on",
            remedy="cast to float32 or int64 before that operation",
        ) from error


def _save(onnx: Any, model: Any, path: str) -> None:
    if model.ByteSize() < _INLINE:
        onnx.save_model(model, path)
        return
    beside = os.path.basename(path) + ".data"
    onnx.save_model(model, path, save_as_external_data=True, location=beside, all_tensors_to_one_file=True)
