"""The CNRT-like host API, kernels with options, arguments by type, and the commands."""

# ruff: noqa: E501 (tables and sources of kernels)
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import KERNELS, needs_clang, written

from trilobite.base.errors import ArgumentError, DeviceError
from trilobite.cli.kernel import kernel
from trilobite.processor.device import Device
from trilobite.processor.lang.bang import cnrt
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options

pytestmark = needs_clang


def test_a_host_program(rng: np.random.Generator) -> None:
    rt = cnrt.Cnrt("mlu370-x4")
    x, out = rng.standard_normal(1000).astype(np.float32), np.zeros(1000, np.float32)
    device_x, device_out = rt.cnrtMalloc(4000), rt.cnrtMalloc(4000)
    rt.cnrtMemcpy(device_x, x, 4000, cnrt.cnrtMemcpyHostToDev)
    queue, start, end = rt.cnrtQueueCreate(), rt.cnrtNotifierCreate(), rt.cnrtNotifierCreate()
    rt.cnrtPlaceNotifier(start, queue)
    relu = BangKernel(KERNELS / "activations.mlu", "relu")
    rt.launch(relu, (4, 1, 1), cnrt.CNRT_FUNC_TYPE_UNION1, queue, [device_x, device_out, 1000])
    rt.cnrtPlaceNotifier(end, queue)
    rt.cnrtQueueSync(queue)
    rt.cnrtMemcpy(out, device_out, 4000, cnrt.cnrtMemcpyDevToHost)
    np.testing.assert_array_equal(out, np.maximum(x, 0))
    assert rt.cnrtNotifierDuration(start, end) == pytest.approx(queue.runs[0].seconds * 1e6)
    half = np.zeros(500, np.float32)
    rt.cnrtMemcpy(half, device_out + 2000, 2000, cnrt.cnrtMemcpyDevToHost)
    np.testing.assert_array_equal(half, out[500:])
    rt.cnrtFree(device_x)
    with pytest.raises(DeviceError, match="was not allocated, or is free already"):
        rt.cnrtFree(device_x)
    rt.cnrtQueueDestroy(queue)
    with pytest.raises(DeviceError, match="the queue was destroyed"):
        rt.cnrtQueueSync(queue)


def test_bounds_of_copies() -> None:
    rt = cnrt.Cnrt("mlu370-x4")
    block = rt.cnrtMalloc(16)
    with pytest.raises(DeviceError, match="lie in no allocated block"):
        rt.cnrtMemset(block, 0, 17)


def test_arguments_follow_the_parameters(tmp_path: Path) -> None:
    source = written(
        "#include <bang.h>\nstruct P { int a; short b; double c; };\n"
        "__mlu_global__ void k(double *out, half h, double d, float f, P p, bool flag, unsigned char byte) {\n"
        "  out[0] = h; out[1] = d; out[2] = f; out[3] = p.a; out[4] = p.b; out[5] = p.c; out[6] = flag ? 2 : 3; out[7] = byte;\n"
        "}\n",
        tmp_path,
    )
    device = Device("mlu370-x4")
    out = device.array(np.zeros(8))
    record = np.array([(-5, 7, 0.3)], np.dtype("i4,i2,f8", align=True))[0]
    for level in (0, 2):
        device.launch(BangKernel(source, "k", Options(level=level)), [out, 0.1, 0.1, 0.1, record, True, 200])
        want = [float(np.float16(0.1)), 0.1, float(np.float32(0.1)), -5, 7, 0.3, 2, 200]
        assert out.numpy().tolist() == want
    with pytest.raises(ArgumentError, match="k takes 8 words, 1 were given"):
        device.launch(BangKernel(source, "k"), [out])
    with pytest.raises(ArgumentError, match=r"has no kernel 'other'"):
        device.load(BangKernel(source, "other"))


def test_device_loads_a_source(rng: np.random.Generator) -> None:
    device = Device("dlp-m")
    x = rng.standard_normal(40).astype(np.float32)
    given = device.array(x)
    module = device.load(KERNELS / "activations.mlu")
    device.launch(module["relu"], [given, given, 40])
    np.testing.assert_array_equal(given.numpy(), np.maximum(x, 0))


def test_the_commands(tmp_path: Path) -> None:
    source = str(KERNELS / "rows.mlu")
    args = ["random:f32:4x50", "empty:f32:4x50", "4", "50"]
    said = kernel("run", source, "softmax", "4,1,1", "union1", arg=args, output=str(tmp_path))
    assert "softmax on dlp-m" in said and "nram: 16448 of 393216 bytes" in said
    np.testing.assert_allclose(np.load(tmp_path / "argument1.npy").sum(1), 1, rtol=1e-5)
    assert "no errors in" in kernel("check", source, "softmax", "4", "union1", arg=args)
    assert "rows.mlu:" in kernel("profile", source, "softmax", "4", "union1", arg=args)
    with pytest.raises(ArgumentError, match="a task grid of 4,a"):
        kernel("run", source, "softmax", "4,a", arg=args)
    with pytest.raises(ArgumentError, match="run or check or profile"):
        kernel("walk", source)


def test_a_duration_needs_both_marks() -> None:
    rt = cnrt.Cnrt("mlu370-x4")
    queue, placed, never = rt.cnrtQueueCreate(), rt.cnrtNotifierCreate(), rt.cnrtNotifierCreate()
    rt.cnrtPlaceNotifier(placed, queue)
    assert rt.cnrtNotifierDuration(placed, placed) == 0.0
    for start, end in ((placed, never), (never, placed), (never, never)):
        with pytest.raises(DeviceError, match="a notifier was never placed"):
            rt.cnrtNotifierDuration(start, end)
