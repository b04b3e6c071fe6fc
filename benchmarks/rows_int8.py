"""Products and convolutions of 8-bit integers.

Matrices of int8 with int32 sums, and convolutions of ResNet-50 that end in int8 again: the sum times one
scale, rounded and held in range. Weights are known beforehand. Most rows have weights of 7 bits, in rows that
say so they have all 8: without VNNI the peers' quick kernels add two products in 16 bits, which saturate then
(ONNX Runtime's documentation advises 7 bits for such processors). Our kernel for 7 bits uses the same
instruction where the packed weights prove it exact, else one for 16-bit numbers, which is bound to 0.80 of
its speed here. Convolutions of 3x3 run by tiles of 4x4 results in 16-bit numbers, exact for 8 bits as well.
Peers whose kernels want unsigned activations get them moved by 128. A convolution may differ by one step of
the result, which is an error of 8e-03.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import ours
from benchmarks.row import Job, Row, both_thread_counts
from benchmarks.rows_conv import SHAPES, Shape

SIZES = (512, 1024)
STEP = 64.0  # of the result, in units of the sum


def activations(*shape: int) -> Any:
    return np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)


def kernels(bits: int, *shape: int) -> Any:
    most = 2 ** (bits - 1) - 1
    return np.random.default_rng(4).integers(-most, most + 1, shape).astype(np.int8)


def moved(x: Any) -> Any:
    """int8 as uint8 with the zero at 128."""
    return (x.astype(np.int16) + 128).astype(np.uint8)


def title(name: str, bits: int) -> str:
    return name if bits == 7 else f"{name}, weights of {bits} bits"


# -- products ------------------------------------------------------------------------------------------------


class Product(NamedTuple):
    n: int
    bits: int

    @property
    def arrays(self) -> tuple[Any, Any]:
        return activations(self.n, self.n), kernels(self.bits, self.n, self.n)


def product_on_trilobite(p: Product) -> Job:
    import trilobite as tb
    from trilobite.framework.nn.functional.calling import run
    from trilobite.ir.primitives import table

    x, weight = p.arrays
    w = tb.tensor(weight)

    def dot(x: Any, w: Any) -> Any:
        return table["dot"](x, w, contract=((1,), (0,)), batch=((), ()), dtype=np.dtype(np.int32))

    return ours.job(lambda x: run(dot, x, w), x)


def product_on_torch(p: Product) -> Job:
    import torch

    from benchmarks.peers import on_torch

    return on_torch.job(torch._int_mm, *map(torch.from_numpy, p.arrays))


def product_on_onnxruntime(p: Product) -> Job:
    from benchmarks.peers import on_onnxruntime

    x, w = p.arrays

    def build(ops: Any, given: Any) -> Any:
        return ops.node("MatMulInteger", given[0], ops.constant(w), ops.constant(np.uint8(128)))

    return on_onnxruntime.job(build, {"x": moved(x)})


def product_on_jax(p: Product) -> Job:
    import jax.numpy as jnp

    from benchmarks.peers import on_jax

    x, w = p.arrays
    return on_jax.job(lambda a, b: jnp.matmul(a, b, preferred_element_type=jnp.int32), x, w)


def exact_product(p: Product) -> list[Any]:
    x, w = p.arrays
    return [x.astype(np.float64) @ w.astype(np.float64)]


def product_row(n: int, bits: int = 7) -> Row:
    p = Product(n, bits)
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(product_on_trilobite, p),
        "torch": partial(product_on_torch, p),
        "onnxruntime": partial(product_on_onnxruntime, p),
        "jax": partial(product_on_jax, p),
    }
    name, quick = title(f"int8 matmul {n}×{n}×{n}", bits), n == 512 and bits == 7
    truth = partial(exact_product, p)
    return Row(name, systems, unit="ms", flops=2 * n**3, aim_ratio=1.0, truth=truth, quick=quick)


# -- convolutions --------------------------------------------------------------------------------------------


def arrays(s: Shape, bits: int) -> tuple[Any, Any]:
    return activations(1, s.inputs, s.size, s.size), kernels(bits, s.outputs, s.inputs, s.kernel, s.kernel)


def scale(s: Shape, bits: int) -> float:
    """So that results fill the range of int8."""
    return float(2.0 ** (bits - 7) * STEP * (s.inputs * s.kernel**2) ** 0.5)


def conv_on_trilobite(s: Shape, bits: int = 7) -> Job:
    import trilobite as tb
    from trilobite.framework.nn.functional.calling import run
    from trilobite.ir.primitives import table

    x, w = arrays(s, bits)
    kernel, pad = tb.tensor(w), s.kernel // 2
    settings = {
        "stride": (s.stride,) * 2, "low": (pad,) * 2, "high": (pad,) * 2, "x_dilation": (1, 1),
        "w_dilation": (1, 1), "groups": 1, "dtype": np.dtype(np.int32),
    }  # fmt: skip

    def conv(x: Any, w: Any) -> Any:
        sums = table["cast"](table["conv"](x, w, **settings), dtype=np.dtype(np.float32))
        step, zero = np.asarray(scale(s, bits), np.float32), np.asarray(0, np.int8)
        return table["quantise"](sums, step, zero, axis=None, dtype=np.dtype(np.int8))

    return ours.job(lambda x: run(conv, x, kernel), x)


def conv_on_torch(s: Shape, bits: int = 7) -> Job:
    import warnings

    import torch

    from benchmarks.peers import on_torch

    warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
    x, w = arrays(s, bits)
    q = torch._make_per_tensor_quantized_tensor(torch.from_numpy(moved(x)), 1.0, 128)
    kernel = torch._make_per_tensor_quantized_tensor(torch.from_numpy(w), 1.0, 0)
    pads = [s.kernel // 2] * 2
    packed = torch.ops.quantized.conv2d_prepack(kernel, None, [s.stride] * 2, pads, [1, 1], 1)

    def run(q: Any) -> Any:
        return torch.ops.quantized.conv2d(q, packed, scale(s, bits), 128)

    work = on_torch.job(run, q).work
    return Job(work, lambda: [run(q).int_repr().numpy().astype(np.int16) - 128])


def conv_on_onnxruntime(s: Shape, bits: int = 7) -> Job:
    from benchmarks.peers import on_onnxruntime

    x, w = arrays(s, bits)

    def build(ops: Any, given: Any) -> Any:
        one, zero = ops.constant(np.float32(1)), ops.constant(np.uint8(128))
        kernel = (ops.constant(w), one, ops.constant(np.int8(0)))
        out = (ops.constant(np.float32(scale(s, bits))), zero)
        pads, strides = [s.kernel // 2] * 4, [s.stride] * 2
        return ops.node("QLinearConv", given[0], one, zero, *kernel, *out, pads=pads, strides=strides)

    job = on_onnxruntime.job(build, {"x": moved(x)})
    return Job(job.work, lambda: [y.astype(np.int16) - 128 for y in job.outputs()])


def exact_conv(s: Shape, bits: int) -> list[Any]:
    """In float64, which holds every sum; the rest as our primitives say it."""
    x, w = (a.astype(np.float64) for a in arrays(s, bits))
    pad = s.kernel // 2
    around = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (s.kernel, s.kernel), axis=(2, 3))
    sums = np.einsum("nchwij,kcij->nkhw", windows[:, :, :: s.stride, :: s.stride], w, optimize=True)
    steps = np.rint(sums.astype(np.float32) / np.float32(scale(s, bits)))
    return [np.clip(steps, -128, 127)]


def conv_row(s: Shape, bits: int = 7) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(conv_on_trilobite, s, bits),
        "torch": partial(conv_on_torch, s, bits),
        "onnxruntime": partial(conv_on_onnxruntime, s, bits),
    }
    name, truth = title(f"int8 conv {s.name}", bits), partial(exact_conv, s, bits)
    return Row(name, systems, unit="ms", flops=s.flops, aim_ratio=1.0, truth=truth)


ROWS = both_thread_counts(
    [
        *map(product_row, SIZES), product_row(1024, 8),
        *(conv_row(SHAPES[i]) for i in (2, 3, 7)), conv_row(SHAPES[7], 8),
    ]
)  # fmt: skip
