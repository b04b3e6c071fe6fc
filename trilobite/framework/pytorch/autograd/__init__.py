"""`tb.autograd`: derivatives of tensors that were computed already, over the tape of `backward()`.

Enters: outputs and what they were computed from. Leaves: gradients. May import `framework`, `ir` and `base`.
Read `graph.py` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from trilobite.base.errors import ArgumentError, GradientError
from trilobite.base.locations import user_location
from trilobite.base.rooms import inner_room
from trilobite.framework.function_class import Function
from trilobite.framework.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from trilobite.framework.ops.registry import operators
from trilobite.framework.pytorch.autograd import function, functional, graph
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.backward import backward as walk
from trilobite.ir.transforms.tape import Taped

__all__ = [
    "Function", "Variable", "backward", "detect_anomaly", "enable_grad", "function", "functional", "grad",
    "graph", "inference_mode", "no_grad", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The derivatives of the outputs, summed, by each of the inputs. Nobody's `.grad` changes."""
    outs, ins = _listed(outputs), _listed(inputs)
    if is_grads_batched:
        return _of_each(outs, ins, grad_outputs, create_graph, bool(allow_unused), materialize_grads)
    seeds = [None] * len(outs) if grad_outputs is None else list(_listed(grad_outputs))
    found: list[list[Any]] = [[] for _ in ins]
    stops = [_heard(x, row) for x, row in zip(ins, found, strict=True)]
    try:
        _walk(outs, seeds, retain_graph, create_graph)
    finally:
        for stop in stops:
            stop()
    loose = bool(allow_unused) or materialize_grads
    return tuple(_only(x, row, loose, materialize_grads) for x, row in zip(ins, found, strict=True))


def _of_each(
    outs: list[Tensor], ins: list[Tensor], grad_outputs: Any, again: bool, unused: bool, zeros: bool
) -> tuple[Any, ...]:
    """A batch of cotangents, along their first axis: one derivative for each."""
    if grad_outputs is None:
        raise ArgumentError(
            "autograd.grad with is_grads_batched=True and no grad_outputs",
            where=user_location(),
            expected="grad_outputs with one axis more than the outputs",
        )
    seeds = _listed(grad_outputs)
    rows = [
        grad(
            outs, ins, [seed[i] for seed in seeds], True, again, allow_unused=unused, materialize_grads=zeros
        )
        for i in range(seeds[0].shape[0])
    ]
    stack = operators["stack"].public
    return tuple(None if each[0] is None else stack(list(each)) for each in zip(*rows, strict=True))


def _listed(x: Any) -> list[Any]:
    return [x] if isinstance(x, Tensor) else list(x)


def _heard(x: Tensor, row: list[Any]) -> Any:
    if not x.requires_grad:
        raise GradientError(
            "autograd.grad by a tensor that requires no gradient",
            where=user_location(),
            expected="inputs with requires_grad=True, from which the outputs were computed",
            remedy="x.requires_grad_() before the forward pass",
        )
    with enable_grad():  # as a constant, a leaf has no place on the tape
        return x.register_hook(row.append)


def _walk(outs: list[Tensor], seeds: list[Any], retain: bool | None, again: bool) -> None:
    from trilobite.framework.leaves import not_tracked, seed_of

    ctx = entry.threads.context
    starts = []
    for out, seed in zip(outs, seeds, strict=True):
        value = out._read()
        if not (type(value) is Taped and value.interpreter is ctx.ambient):
            raise not_tracked(value)
        starts.append((value, seed_of(value, seed._read() if isinstance(seed, Tensor) else seed)))
    walk(ctx.ambient, starts, retain=again if retain is None else retain, again=again)


def _only(x: Tensor, row: list[Any], loose: bool, zeros: bool) -> Any:
    if row:
        total = row[0]
        for more in row[1:]:
            total = total + more
        return total
    if not loose:
        raise GradientError(
            "autograd.grad by a tensor that the outputs do not depend on",
            where=user_location(),
            expected="inputs that were used",
            remedy="allow_unused=True gives None for it, materialize_grads=True zeros",
        )
    return (x.detach() * 0) if zeros else None


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the derivatives of all the tensors into the leaves' `.grad`."""
    outs = _listed(tensors)
    seeds = [None] * len(outs) if grad_tensors is None else list(_listed(grad_tensors))
    for i, (out, seed) in enumerate(zip(outs, seeds, strict=True)):
        keep = True if i + 1 < len(outs) else retain_graph
        out.backward(seed, keep, create_graph, None if inputs is None else _listed(inputs))


def Variable(data: Any, requires_grad: bool = False, volatile: bool = False) -> Tensor:
    """A tensor: since PyTorch 0.4 they are one."""
    x: Tensor = data if isinstance(data, Tensor) else wrap(data)
    return x.requires_grad_() if requires_grad else x


def set_detect_anomaly(mode: bool, check_nan: bool = True) -> Any:
    """A context that looks for NaN, or one that does not: `with set_detect_anomaly(True):`."""
    return detect_anomaly() if mode else nullcontext()


def detect_anomaly(check_nan: bool = True) -> Any:
    """Look for NaN in results and gradients, and name the operation: `tb.debug.detect_anomaly`."""
    from trilobite.framework import debug

    return debug.detect_anomaly()


def __getattr__(name: str) -> object:
    return inner_room("autograd", name)
