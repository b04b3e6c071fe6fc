"""The same source on several machines and at both levels gives the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import KERNELS, LEVELS, needs_clang, run, written

from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.machine import load_machine

pytestmark = needs_clang
MACHINES = ("mlu370-x4", "mlu290", "mlu270", "dlp-m")


@pytest.mark.parametrize("kernel", ["softmax", "row_sum", "row_min"])
def test_one_result_everywhere(kernel: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((5, 131)).astype(np.float32)
    out = np.zeros(5 if kernel.startswith("row") else (5, 131), np.float32)
    results = [
        run(KERNELS / "rows.mlu", kernel, [x, out, 5, 131], (2, 1, 1), "block", machine, level)[1]
        for machine in MACHINES
        for level in LEVELS
    ]
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert np.any(results[0])


def test_macros_follow_the_machine(tmp_path: Path) -> None:
    source = written(
        "#include <bang.h>\n__mlu_global__ void facts(int *out) {\n"
        "  out[0] = __BANG_ARCH__; out[1] = __MLU_NRAM_SIZE__;\n"
        "  out[2] = __MLU_WRAM_SIZE__; out[3] = __MLU_SRAM_SIZE__;\n}\n",
        tmp_path,
    )
    found = {m: run(source, "facts", [np.zeros(4, np.int32)], machine=m)[0].tolist() for m in MACHINES}
    assert found["mlu370-x4"] == [372, 768, 1024, 4096]
    assert [found[m][0] for m in ("mlu270", "mlu290", "dlp-m")] == [270, 290, 372]


@pytest.mark.bench
def test_a_kernel_of_300_lines_compiles_in_half_a_second(tmp_path: Path) -> None:
    """Warm: clang's output is kept, everything else is done again."""
    from time import perf_counter

    steps = "".join(
        f"    __bang_mul_scalar(a, a, {n}.5f, now);\n    __bang_add(b, a, b, now);\n"
        f"    if (now > {n}) sum += b[{n}];\n"
        for n in range(95)
    )
    source = written(
        "#include <bang.h>\n__mlu_global__ void long_one(float *x, float *out, int n) {\n"
        "  __nram__ float a[512], b[512];\n  float sum = 0;\n  for (int i = 0; i < n; i += 512) {\n"
        "    int now = n - i < 512 ? n - i : 512;\n    __memcpy(a, x + i, now * 4, GDRAM2NRAM);\n"
        f"    __bang_write_zero(b, now);\n{steps}  }}\n  *out = sum;\n}}\n",
        tmp_path,
    )
    machine = load_machine("mlu370-x4")
    times = []
    for _ in range(6):
        start = perf_counter()
        compile_file(source, machine, Options())
        times.append(perf_counter() - start)
    assert min(times) <= 0.5, times
