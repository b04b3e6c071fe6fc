"""Functions that kernels share are compiled once, and what is linked of the parts computes the same."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from trilobite.native import parallel
from trilobite.native.host import features
from trilobite.native.objects import compile_object, load, prepare, symbol
from trilobite.native.parallel import Makers, compile_all
from trilobite.native.parts import split

PADDING = "".join(f"%a.{i} = fadd double %a.{i - 1}, {i}.5\n" for i in range(1, 120))
FUNCTION = f"""define internal double @NAME(double %p.0, i1 %p.1) #1 {{
start:
br i1 %p.1, label %yes, label %no
yes:
%r.1 = call double @llvm.sqrt.f64(double %p.0)
br label %no
no:
%a.0 = phi double [ %r.1, %yes ], [ 3.25, %start ]
{PADDING}ret double %a.119
}}
"""
KERNEL = """target triple = "x86_64-unknown-linux-gnu"
@table.0 = internal unnamed_addr constant [2 x double] [double 7.0, double FACTOR], align 64
define void @entry(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {
%at = load ptr, ptr %args
%x = load double, ptr %at
%f = load double, ptr getelementptr (i8, ptr @table.0, i64 8)
%y = call double @tile1(double %x, i1 true)
%z = call double @tile2(double %x, i1 false)
%s = call double @small(double %y)
%t = fmul double %s, %f
%u = fadd double %t, %z
store double %u, ptr %at
ret void
}
""" + FUNCTION.replace("NAME", "tile1") + FUNCTION.replace("NAME", "tile2").replace("3.25", "4.5") + """\
define internal double @small(double %p.0) #1 {
%t = load double, ptr @table.0
%r = fadd double %p.0, %t
ret double %r
}
declare double @llvm.sqrt.f64(double)
attributes #0 = { nounwind }
attributes #1 = { nounwind noinline }
!0 = !{}
"""  # fmt: skip
KERNELS = [(KERNEL.replace("FACTOR", f"{n}.5"), 0) for n in range(3)]

linked_here = pytest.mark.skipif(
    not parallel._is_linked_here(features()), reason="objects of this machine are not linked here"
)


def _called(codes: dict[str, bytes], name: str, x: float) -> float:
    value = np.array([x])
    args = np.array([value.ctypes.data], np.int64)
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    library = load(codes)
    ctypes.CFUNCTYPE(None, pointer, integer, integer, pointer)(library[name])(args.ctypes.data, 0, 1, None)
    return float(value[0])


def test_equal_functions_are_one_part() -> None:
    parts = [split(*one) for one in KERNELS]
    names = {tuple(p.functions) for p in parts}
    assert len(names) == 1
    assert len(parts[0].functions) == 2
    rest = parts[0].rest
    assert "@tile1" not in rest
    assert "define internal double @small" in rest  # it reads a table of the kernel's own
    for name, module in parts[0].functions.items():
        assert name == symbol(module, 0)
        assert f"declare double @{name}(double, i1) #1" in rest
        compile_object(module, 0, features())


@linked_here
def test_linked_parts_compute_what_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_makers", Makers())
    made = compile_all(KERNELS)
    for x in (2.0, 81.0, 1e300):
        for text, level in KERNELS:
            name = symbol(text, level)
            whole = {name: prepare(compile_object(text, level, features()), name)}
            assert _called(made, name, x) == _called(whole, name, x)


@linked_here
def test_a_shared_function_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def noted(text: str, *one: object) -> bytes:
        compiled.append(text)
        return compile_object(text, *one)  # type: ignore[arg-type]

    monkeypatch.setattr(parallel, "_makers", Makers())
    monkeypatch.setattr(parallel, "compile_object", noted)
    compile_all(KERNELS[:2])
    compile_all(KERNELS[2:])
    assert len(compiled) == len(KERNELS) + 2


@pytest.mark.parametrize("level", [1, 2, 3])
def test_where_passes_look_at_whole_modules_the_text_stays_whole(level: int) -> None:
    assert split(KERNEL, level).rest == KERNEL


@pytest.mark.parametrize(
    "text",
    [
        KERNEL.replace("noinline", "alwaysinline"),
        KERNEL.replace("declare double @llvm.sqrt.f64(double)", ""),
        KERNEL.replace("llvm.sqrt.f64", "sqrt"),
        KERNEL.replace("\n}\ndefine internal", "\n} define internal"),
    ],
)
def test_functions_that_need_more_than_themselves_stay(text: str) -> None:
    found = split(text, 0)
    assert not found.functions
    assert sorted(found.rest) == sorted(text)
