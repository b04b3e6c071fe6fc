"""What is refused, and how: by name, with the line, all at once; broken sources never crash."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bang_harness import KERNELS, needs_clang, run, written

from trilobite.base.errors import KernelError
from trilobite.processor.lang.bang import clang
from trilobite.processor.lang.bang.columns import original
from trilobite.processor.lang.bang.source import compile_file
from trilobite.processor.machine import load_machine

pytestmark = needs_clang
MACHINE = load_machine("mlu370-x4")


def refused(text: str, folder: Path) -> str:
    path = folder / "wrong.mlu"
    path.write_text("#include <bang.h>\n" + text, encoding="utf-8")
    with pytest.raises(KernelError) as caught:
        compile_file(path, MACHINE)
    return str(caught.value)


def test_every_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    said = refused(
        "__mlu_global__ void k(float *x, int n) {\n"
        "  __bang_foo(x, x, n);\n"
        "  __bang_add(x, x, n);\n"
        "  undeclared = 3;\n"
        "}\n",
        tmp_path,
    )
    assert "wrong.mlu:3:3: use of undeclared identifier '__bang_foo'" in said
    assert "wrong.mlu:4:3: no matching function for call to '__bang_add'" in said
    assert "wrong.mlu:5:3: use of undeclared identifier 'undeclared'" in said
    assert "docs/bang.md" in said


def test_intrinsics_that_are_not_known_say_what_is_near(tmp_path: Path) -> None:
    said = refused(
        "__mlu_global__ void k(float *x, int n) {\n"
        "  __bang_tiling_2d(x, x, n);\n"
        "  __bang_maximun(x, x, x, n);\n"
        "  __trc_add(x, x, n);\n"
        "}\n",
        tmp_path,
    )
    assert "'__bang_tiling_2d': no public text says what it means; near it: __bang_tiling_2d_b" in said
    assert "'__bang_maximun': no such intrinsic is known; near it: __bang_maximum" in said
    assert "'__trc_add': no public text says what it means" in said


def test_what_the_processor_lacks_is_named_with_its_line(tmp_path: Path) -> None:
    said = refused(
        'extern "C" int elsewhere(int);\n'
        "__mlu_device__ int counter; __mlu_device__ int *place = &counter;\n"
        "__mlu_global__ void k(int *x, int n) {\n"
        "  x[0] = elsewhere(n);\n"
        "  place += n;\n"
        '  __asm__ volatile("strange.thing;");\n'
        "}\n",
        tmp_path,
    )
    assert "wrong.mlu:5:10: the function elsewhere has no body here and is no intrinsic" in said
    assert "wrong.mlu:6:9: the variable place is written and begins with addresses" in said
    assert "wrong.mlu:7:3: the inline assembly 'strange.thing'" in said


def test_a_direction_that_contradicts_the_memories(tmp_path: Path) -> None:
    said = refused(
        "__mlu_global__ void k(float *x) {\n  __nram__ float a[64];\n  __memcpy(a, x, 256, NRAM2GDRAM);\n}\n",
        tmp_path,
    )
    assert "wrong.mlu:4:3: __memcpy with NRAM2GDRAM: src lies in gdram, the direction says nram" in said


def test_operands_in_the_wrong_memory(tmp_path: Path) -> None:
    said = refused(
        "__mlu_global__ void k(float *x, int n) {\n"
        "  __nram__ float a[64], b[4096];\n"
        "  __bang_add(a, x, a, n);\n"
        "  __bang_write_value(x, n, 1.0f);\n"
        "  __bang_matmul(a, a + 32, b, 1, 64, 64);\n"
        "}\n",
        tmp_path,
    )
    assert "wrong.mlu:4:3: __bang_add: a lies in gdram, it must lie in nram" in said
    assert "wrong.mlu:5:3: __bang_write_value: dst lies in gdram, it must lie in nram" in said
    assert "wrong.mlu:6:3: __bang_matmul: right lies in nram, it must lie in wram" in said


def test_types_that_the_processor_lacks(tmp_path: Path) -> None:
    said = refused(
        "__mlu_global__ void k(float *x, int n) {\n"
        "  long double wide = n;\n"
        "  x[0] = (float)(wide * 0.1L);\n"
        "}\n",
        tmp_path,
    )
    assert "wrong.mlu:3:22: the type long double does not exist on the processor" in said


def test_scratchpads_that_overflow_say_by_how_much(tmp_path: Path) -> None:
    said = refused(
        "__mlu_global__ void k(float *x) {\n"
        "  __nram__ float a[200000];\n"
        "  __memcpy(a, x, 256, GDRAM2NRAM);\n  __memcpy(x, a, 256, NRAM2GDRAM);\n}\n",
        tmp_path,
    )
    assert "wrong.mlu:3" in said and "13568" in said.replace(" ", "")


def test_a_source_without_a_kernel(tmp_path: Path) -> None:
    assert "the source has no kernel" in refused("int f() { return 3; }\n", tmp_path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="there is no file"):
        compile_file(tmp_path / "none.mlu", MACHINE)


def test_without_a_clang_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(clang, "find_clang", lambda: None)
    with pytest.raises(KernelError, match=r"pip install 'trilobite\[bang\]'"):
        compile_file(KERNELS / "power_difference.mlu", MACHINE)


def test_host_code_and_its_headers_are_left_out(tmp_path: Path, rng: np.random.Generator) -> None:
    path = written(
        '#include "vendor/library.h"\n#include <bang.h>\n'
        "template <typename T> __mlu_global__ void twice(T *x, int n) {\n"
        "  __nram__ T a[64];\n  __memcpy(a, x, n * sizeof(T), GDRAM2NRAM);\n"
        "  __bang_add(a, a, a, n);\n  __memcpy(x, a, n * sizeof(T), NRAM2GDRAM);\n}\n"
        "vendorStatus_t host(vendorHandle_t handle, cnrtDim3_t dim, void *x, int n) {\n"
        '  LOG(INFO) << "kernel <<<" << dim.x << ">>>";\n'
        "  twice<float><<<dim, CNRT_FUNC_TYPE_BLOCK, handle->queue>>>((float *)x, n);\n"
        "  return VENDOR_SUCCESS;\n}\n",
        tmp_path,
    )
    x = rng.standard_normal(50).astype(np.float32)
    np.testing.assert_array_equal(run(path, "twice<float>", [x, 50])[0], x + x)


def test_columns_are_those_of_the_source(tmp_path: Path) -> None:
    """Qualifiers and macros are longer for clang than in the source."""
    said = refused(
        "#define TWICE(x) ((x) + (x))\n"
        "__mlu_func__ void f(float *x) { int a = 1; a = other + other; }\n"
        "__mlu_global__ void k(float *x, int n) { __nram__ float b[4]; b[TWICE(n)] = missing; }\n"
        "__nram__ float wrong[4] = absent;\n",
        tmp_path,
    )
    assert "wrong.mlu:3:48: use of undeclared identifier 'other'" in said
    assert "wrong.mlu:4:77: use of undeclared identifier 'missing'" in said
    assert "wrong.mlu:5:27: use of undeclared identifier 'absent'" in said
    said = refused(
        '__mlu_global__ void k(float *x, int n) { __nram__ float b[4]; __asm__("odd;"); x[0] = b[n]; }\n',
        tmp_path,
    )
    assert "  wrong.mlu:2:63: the inline assembly 'odd'" in said


def test_names_of_files_do_not_depend_on_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '__mlu_global__ void k(float *x) { __asm__("odd;"); }\n'
    for folder in (tmp_path, tmp_path.parent, Path("/")):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("TRILOBITE_CACHE", str(tmp_path / folder.name))
        assert "  wrong.mlu:2:35: the inline assembly 'odd'" in refused(text, tmp_path)


@pytest.mark.parametrize(
    ("read", "line", "column", "want"),
    [
        ("int a = x + x;", "int a = x + x;", 13, 13), ("int a = x + x;", "int a = x + x;", 9, 9),
        ("__attribute__((section(\"n\"))) float b = x * b;", "NRAM float b = x * b;", 45, 20),
        ("f(f(f(1)))", "  f(f(f(1)))", 5, 7), ("y = ((n) + (n));", "  y = TWICE(n);", 13, 13),
        ("z = made;", "   z = MACRO;", 5, 4), ("", "  a;", 1, 3),
    ],
)  # fmt: skip
def test_the_same_word_of_a_line_the_same_time(read: str, line: str, column: int, want: int) -> None:
    assert original(read, line, column) == want
