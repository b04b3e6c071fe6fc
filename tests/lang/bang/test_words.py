"""Words of BANG C that are no intrinsics: directions, builtin variables, macros, types, scalar functions,
assembly. Each means something, or is refused by its name."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import pytest
from bang_harness import needs_clang, written

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.machine import load_machine

pytestmark = needs_clang
DIRECTIONS = [f"{a}2{b}" for a in ("GDRAM", "NRAM", "SRAM", "WRAM", "LDRAM") for b in ("GDRAM", "NRAM", "SRAM", "WRAM", "LDRAM")
              if f"{a}2{b}" not in ("WRAM2WRAM", "LDRAM2LDRAM")]  # fmt: skip
VALUES = """FUSION_FMA FUSION_FMS FUSION_FAM FUSION_FSM FUSION_FAA FUSION_FAS FUSION_FSS FUSION_FSA OVERLAP_ACC OVERLAP_COVER taskId taskIdX
taskIdY taskIdZ taskDim taskDimX taskDimY taskDimZ clusterId clusterDim coreId coreDim __BANG__ __BANG_ARCH__ __MLU_NRAM_SIZE__
__MLU_WRAM_SIZE__ __MLU_SRAM_SIZE__""".split()
FUNCTIONS = ["powf(v, 2.0f)", "sqrtf(v)", "fabs(v)", "floorf(v)", "ceilf(v)", "expf(v)", "logf(v)", "log2f(v)", "sinf(v)", "cosf(v)", "tanhf(v)",
             "roundf(v)", "fmaxf(v, 1.0f)", "fminf(v, 1.0f)", "isnan(v)", "isinf(v)", "min(v, 1.0f)", "max(v, 1.0f)", "abs((int)v)",
             "std::min(v, 1.0f)", "std::max(v, 1.0f)", "std::numeric_limits<float>::max()", "std::isnan(v)", "std::cos(v)",
             "(std::is_same<float, half>::value ? v : 1.0f)", "(float)(std::conditional<true, half, float>::type)v"]  # fmt: skip
TYPES = ["half", "bfloat16_t", "int8_t", "uint16_t", "int64_t"]


def compiles(body: str, folder: Path, head: str = "") -> None:
    text = f"#include <bang.h>\n#include <algorithm>\n#include <limits>\n#include <type_traits>\n{head}\n__nram__ float a[1024];\n__nram__ float b[1024];\n__mlu_global__ void k(float *x, int n) {{ float v = x[0];\n{body}\n x[1] = v; }}\n"
    for level in (0, 2):
        compile_file(written(text, folder), load_machine("mlu370-x4"), Options(level=level))


def test_values_and_directions(tmp_path: Path) -> None:
    lines = [f"v += (float)(int)({name});" for name in (*VALUES, *DIRECTIONS)]
    assert len(lines) == 50
    compiles("\n".join(lines), tmp_path)


def test_functions_and_types(tmp_path: Path) -> None:
    compiles(
        "\n".join([*(f"v += {call};" for call in FUNCTIONS), *(f"v += (float)({kind})v;" for kind in TYPES)]),
        tmp_path,
    )


STATEMENTS = {
    "sync": 'v += 1; __asm__ volatile("sync;\\n\\t");',
    "barrier.sync.local": '__asm__ volatile("barrier.sync.local 8, %0;\\n\\t" ::"r"(coreDim));',
    "barrier.sync.global": '__asm__ volatile("barrier.sync.global 9, %0;\\n\\t" ::"r"(taskDim));',
    "fuse.nram": '__asm__ volatile("fuse.nram.f32 [%0], %1, [%2], .mul(%3), .add(%4);\\n\\t" ::"r"(a), "r"(64), "r"(b), "r"(v), "r"(v));',
    "div.scalar": '__asm__ volatile("div.scalar.nram.f32 [%0], [%1], %2, %3;\\n\\t" ::"r"(a), "r"(b), "r"(v), "r"(64));',
    "cos.gpr": '__asm__ volatile("cos.gpr.f32 %0, %1;\\n\\t" : "=r"(v) : "r"(v));',
    "sqrt.gpr": '__asm__ volatile("sqrt.gpr.f32 %0, %1;\\n\\t" : "=r"(v) : "r"(v));',
    "findlast1": 'int u = 5; __asm__ volatile("findlast1.gpr.b32 %0, %1;\\n\\t" : "=r"(u) : "r"(n)); v += u;',
    "exit": '__asm__ volatile("exit;\\n\\t");',
    "readperf": '__asm__ volatile("readperf.begin;\\n\\t");',
    "pv.p": '__asm__ volatile("pv.p.dma0_sync.dma1_sync;\\n\\t");',
    "mv.sreg": 'int u = 0; __asm__ volatile("mv.sreg.gpr %%perf_read, %0;\\n\\t" ::"r"(u));',
    "made.up": '__asm__ volatile("made.up.nram [%0];\\n\\t" ::"r"(a));',
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_assembly_compiles_or_is_refused_by_name(name: str, tmp_path: Path) -> None:
    try:
        compiles(STATEMENTS[name], tmp_path)
    except KernelError as error:
        said = str(error)
        assert name.split(".")[0] in said and ".mlu:" in said, said
        assert "malformed" not in said and "front end" not in said
    else:
        assert name != "made.up"
