"""Run scalar graphs natively: a kernel that applies one to arrays, with any number of lanes, on any host."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trilobite.compiler.targets.cpu.emit.scalar import emit_scalars
from trilobite.ir.graph import Graph
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.native.host import SSE2, Host, features
from trilobite.native.llvm.text import Text
from trilobite.native.objects import compile_object, load, symbol

Array = np.ndarray[Any, Any]


def scalar_graph(fn: Callable[..., Sequence[Any]], dtypes: Sequence[Any]) -> Graph:
    return record_graph(fn, [TensorType((), np.dtype(d)) for d in dtypes])


def kernel_text(body: Graph, lanes: int, host: Host) -> str:
    """y[i] = body(x[i]) for i in begin..end, which is a multiple of the lanes."""
    t = Text(host)
    ins = [t.argument(i, "ptr") for i in range(len(body.inputs))]
    outs = [t.argument(len(ins) + i, "ptr") for i in range(len(body.outputs))]
    with t.loop(t.begin, t.end, max(lanes, 1)) as loop:
        at = loop.index
        values = [
            t.load(v.type.dtype, t.address(p, at, v.type.dtype), lanes)
            for v, p in zip(body.inputs, ins, strict=True)
        ]
        for v, p, value in zip(body.outputs, outs, emit_scalars(t, body, values, lanes), strict=True):
            t.store(v.type.dtype, value, t.address(p, at, v.type.dtype))
    return t.module()


def load_entry(text: str, host: Host) -> Callable[..., None]:
    name = symbol(text, 0)
    library = load({name: compile_object(text, 0, host)})
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    fn = call(library[name])

    def entry(words: Sequence[int], begin: int, end: int, scratch: int = 0) -> None:
        args = np.array(words, np.int64)
        fn(args.ctypes.data, begin, end, scratch)
        assert library is not None  # its code lives as long as the function

    return entry


def plain_host() -> Host:
    """A machine without fused multiply-add and float16 whose code runs here."""
    host = features()
    return SSE2 if host.triple == SSE2.triple else replace(host, fma=False, f16c=False)


def run_scalars(body: Graph, arrays: Sequence[Array], lanes: int, host: Host | None = None) -> list[Array]:
    host = host or features()
    n = len(arrays[0])
    padded = -(-n // max(lanes, 1)) * max(lanes, 1)
    ins = [a[np.arange(padded) % n] for a in arrays]
    outs = [np.zeros(padded, v.type.dtype) for v in body.outputs]
    load_entry(kernel_text(body, lanes, host), host)([a.ctypes.data for a in (*ins, *outs)], 0, padded)
    return [o[:n] for o in outs]
