"""Products and convolutions of 8-bit integers.

Matrices of int8 with int32 sums, and convolutions of ResNet-50 that end in int8 again: the sum times one
scale, rounded and held in range. Weights have 7 bits, for some of the peers' kernels saturate on 8, and are
known beforehand. Peers whose kernels want unsigned activations get them moved by 128. A convolution may
differ by one step of the result, which is an error of 8e-03.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import ours
from benchmarks.row import Job, Row, both_thread_counts
from benchmarks.rows_conv import SHAPES, Shape

SIZES = (512, 1024)
STEP = 64.0  # of the result, in units of the sum


def activations(*shape: int) -> Any:
    return np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)


def kernels(*shape: int) -> Any:
    return np.random.default_rng(4).integers(-63, 64, shape).astype(np.int8)


def moved(x: Any) -> Any:
    """int8 as uint8 with the zero at 128."""
    return (x.astype(np.int16) + 128).astype(np.uint8)


# -- products ------------------------------------------------------------------------------------------------


def product_on_trilobite(n: int) -> Job:
    import trilobite as tb
    from trilobite.framework.nn.functional.calling import run
    from trilobite.ir.primitives import table

    w = tb.tensor(kernels(n, n))

    def dot(x: Any, w: Any) -> Any:
        return table["dot"](x, w, contract=((1,), (0,)), batch=((), ()), dtype=np.dtype(np.int32))

    return ours.job(lambda x: run(dot, x, w), activations(n, n))


def product_on_torch(n: int) -> Job:
    import torch

    from benchmarks.peers import on_torch

    return on_torch.job(torch._int_mm, *map(torch.from_numpy, (activations(n, n), kernels(n, n))))


def product_on_onnxruntime(n: int) -> Job:
    from benchmarks.peers import on_onnxruntime

    def build(ops: Any, given: Any) -> Any:
        return ops.node("MatMulInteger", given[0], ops.constant(kernels(n, n)), ops.constant(np.uint8(128)))

    return on_onnxruntime.job(build, {"x": moved(activations(n, n))})


def product_on_jax(n: int) -> Job:
    import jax.numpy as jnp

    from benchmarks.peers import on_jax

    x, w = activations(n, n), kernels(n, n)
    return on_jax.job(lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32), x, w)


def product_row(n: int) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(product_on_trilobite, n),
        "torch": partial(product_on_torch, n),
        "onnxruntime": partial(product_on_onnxruntime, n),
        "jax": partial(product_on_jax, n),
    }
    return Row(f"int8 matmul {n}×{n}×{n}", systems, unit="ms", flops=2 * n**3, aim_ratio=1.0, quick=n == 512)


# -- convolutions --------------------------------------------------------------------------------------------


def arrays(s: Shape) -> tuple[Any, Any]:
    return activations(1, s.inputs, s.size, s.size), kernels(s.outputs, s.inputs, s.kernel, s.kernel)


def scale(s: Shape) -> float:
    """So that results fill the range of int8."""
    return float(STEP * (s.inputs * s.kernel**2) ** 0.5)


def conv_on_trilobite(s: Shape) -> Job:
    import trilobite as tb
    from trilobite.framework.nn.functional.calling import run
    from trilobite.ir.primitives import table

    x, w = arrays(s)
    kernel, pad = tb.tensor(w), s.kernel // 2
    settings = {
        "stride": (s.stride,) * 2, "low": (pad,) * 2, "high": (pad,) * 2, "x_dilation": (1, 1),
        "w_dilation": (1, 1), "groups": 1, "dtype": np.dtype(np.int32),
    }  # fmt: skip

    def conv(x: Any, w: Any) -> Any:
        sums = table["cast"](table["conv"](x, w, **settings), dtype=np.dtype(np.float32))
        step, zero = np.asarray(scale(s), np.float32), np.asarray(0, np.int8)
        return table["quantise"](sums, step, zero, axis=None, dtype=np.dtype(np.int8))

    return ours.job(lambda x: run(conv, x, kernel), x)


def conv_on_torch(s: Shape) -> Job:
    import warnings

    import torch

    from benchmarks.peers import on_torch

    warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
    x, w = arrays(s)
    q = torch._make_per_tensor_quantized_tensor(torch.from_numpy(moved(x)), 1.0, 128)
    kernel = torch._make_per_tensor_quantized_tensor(torch.from_numpy(w), 1.0, 0)
    pads = [s.kernel // 2] * 2
    packed = torch.ops.quantized.conv2d_prepack(kernel, None, [s.stride] * 2, pads, [1, 1], 1)

    def run(q: Any) -> Any:
        return torch.ops.quantized.conv2d(q, packed, scale(s), 128)

    work = on_torch.job(run, q).work
    return Job(work, lambda: [run(q).int_repr().numpy().astype(np.int16) - 128])


def conv_on_onnxruntime(s: Shape) -> Job:
    from benchmarks.peers import on_onnxruntime

    x, w = arrays(s)

    def build(ops: Any, given: Any) -> Any:
        one, zero = ops.constant(np.float32(1)), ops.constant(np.uint8(128))
        kernel = (ops.constant(w), one, ops.constant(np.int8(0)))
        out = (ops.constant(np.float32(scale(s))), zero)
        pads, strides = [s.kernel // 2] * 4, [s.stride] * 2
        return ops.node("QLinearConv", given[0], one, zero, *kernel, *out, pads=pads, strides=strides)

    return on_onnxruntime.job(build, {"x": moved(x)})


def conv_row(s: Shape) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(conv_on_trilobite, s),
        "torch": partial(conv_on_torch, s),
        "onnxruntime": partial(conv_on_onnxruntime, s),
    }
    return Row(f"int8 conv {s.name}", systems, unit="ms", flops=s.flops, aim_ratio=1.0)


ROWS = both_thread_counts([*map(product_row, SIZES), *(conv_row(SHAPES[i]) for i in (2, 3, 7))])
