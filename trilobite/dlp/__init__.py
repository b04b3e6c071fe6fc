"""Kernels for the deep-learning processor, written in Python. `from trilobite import dlp`.

    @dlp.kernel
    def scale(x: dlp.gm[dlp.f32], n: int, s: float, *, tile: int = 4096):
        for i in dlp.pipeline(dlp.task_id() * tile, n, dlp.task_dim() * tile):
            m = min(tile, n - i)
            buf = dlp.nram(tile, dlp.f32)
            dlp.load(buf[:m], x[i : i + m])
            dlp.mul(buf[:m], buf[:m], s)
            dlp.store(x[i : i + m], buf[:m])

    dev.launch(scale, [x, n, 0.5], dim=(16, 1, 1))

Everything here re-exports `trilobite.processor.lang.python`. The framework is not loaded, except by an
operation that `dlp.operation` made when it is called.
"""

from __future__ import annotations

from typing import Any

from trilobite.dlp.operation import Launcher, operation
from trilobite.processor.lang.python.arrangement import (
    avg_unpool,
    col2im,
    compress,
    gather,
    im2col,
    max_pool_index,
    max_unpool,
    mirror,
    pad,
    pool,
    reshape_filter,
    scatter,
    sort,
    transpose,
)
from trilobite.processor.lang.python.autotune import Autotuned, autotune
from trilobite.processor.lang.python.copies import (
    BUILT_INS,
    acc,
    atomic,
    broadcast,
    clock,
    compare_and_swap,
    copy,
    copy_async,
    instruction,
    ldram,
    load,
    machine,
    nram,
    printf,
    select,
    sram,
    store,
    sync,
    sync_all,
    sync_all_compute,
    sync_cluster,
    trap,
    wram,
)
from trilobite.processor.lang.python.dtypes import NAMED, DType, gm
from trilobite.processor.lang.python.kernel import Kernel, device, kernel
from trilobite.processor.lang.python.loops import pipeline, static_range
from trilobite.processor.lang.python.matrix import (
    conv,
    conv_filter_gradient,
    conv_input_gradient,
    matmul,
    matmul_top,
    matvec,
    outer,
    softmax_weights,
    vecmat,
)
from trilobite.processor.lang.python.operations import (
    TABLE,
    convert,
    dot,
    fill,
    fma,
    iota,
    random,
    scan,
    where,
)

_TABLES: dict[str, Any] = {**NAMED, **TABLE, **BUILT_INS}


def __getattr__(name: str) -> Any:
    """Element types, and the operations that come from the tables of the ISA."""
    if name in _TABLES:
        return _TABLES[name]
    from difflib import get_close_matches

    near = get_close_matches(name, __dir__(), 3, 0.7)
    raise AttributeError(f"trilobite.dlp has no {name!r}" + (f"; it has {', '.join(near)}" if near else ""))


def __dir__() -> list[str]:
    return sorted({*__all__, *_TABLES})


__all__ = [
    "kernel", "device", "Kernel", "autotune", "Autotuned", "operation", "Launcher",
    "DType", "gm", "pipeline", "static_range",
    "nram", "wram", "sram", "ldram", "acc", "copy", "copy_async", "load", "store", "broadcast",
    "sync", "sync_cluster", "sync_all", "sync_all_compute", "clock", "atomic", "compare_and_swap", "select",
    "printf", "trap", "machine", "instruction",
    "fma", "where", "fill", "iota", "random", "convert", "dot", "scan",
    "sort", "gather", "scatter", "compress", "transpose", "pad", "mirror", "reshape_filter", "pool",
    "max_pool_index", "max_unpool", "avg_unpool", "im2col", "col2im",
    "matmul", "matmul_top", "softmax_weights", "matvec", "vecmat", "outer", "conv", "conv_input_gradient",
    "conv_filter_gradient",
]  # fmt: skip
