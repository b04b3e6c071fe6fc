"""Text to object code, for this machine and for others; objects into this process."""

from __future__ import annotations

import ctypes
import gc
import struct

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.native.kernels import AFFINE, loop
from trilobite.base.errors import IRError
from trilobite.native import runtime
from trilobite.native.host import AARCH64, SSE2, Host, features
from trilobite.native.objects import (
    assembly,
    compile_object,
    load,
    load_by_engine,
    symbol,
    undefined,
)

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)

FMA = loop(
    """  %xp = getelementptr <8 x float>, ptr %a0, i64 %i
  %x = load <8 x float>, ptr %xp, align 4
  %y = call <8 x float> @llvm.fma.v8f32(<8 x float> %x, <8 x float> %x, <8 x float> %x)
  store <8 x float> %y, ptr %xp, align 4""",
    1,
)


def _run(address: int, *arrays: np.ndarray, units: int) -> None:
    args = np.array([array.ctypes.data for array in arrays], np.int64)
    ENTRY(address)(args.ctypes.data, 0, units, None)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_computes_the_same(level: int) -> None:
    x = np.random.default_rng(level).normal(0, 1e3, 1003).astype(np.float32)
    y = np.zeros_like(x)
    name = symbol(AFFINE, level)
    library = load({name: compile_object(AFFINE, level, features())})
    _run(library[name], x, y, units=len(x) - 1)
    np.testing.assert_array_equal(y[:-1], np.float32(2) * x[:-1] + np.float32(1))
    assert y[-1] == 0


def test_many_kernels_called_entry_live_in_one_library() -> None:
    texts = [AFFINE.replace("2.0", f"{i}.0") for i in range(3, 30)]
    library = load({symbol(t, 0): compile_object(t, 0, features()) for t in texts})
    x = np.array([-1.5, 2.25], np.float32)
    for i, text in enumerate(texts, 3):
        y = np.zeros_like(x)
        _run(library[symbol(text, 0)], x, y, units=2)
        np.testing.assert_array_equal(y, i * x + 1)


def test_code_lives_as_long_as_its_library() -> None:
    library = load({symbol(AFFINE, 0): compile_object(AFFINE, 0, features())})
    other = load({symbol(AFFINE, 0): compile_object(AFFINE, 0, features())})
    assert library[symbol(AFFINE, 0)] != other[symbol(AFFINE, 0)]
    del other
    gc.collect()
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    _run(library[symbol(AFFINE, 0)], x, y, units=1)
    assert y[0] == 3


def test_a_symbol_stands_for_text_and_level() -> None:
    names = {symbol(AFFINE, 0), symbol(AFFINE, 1), symbol(AFFINE + " ", 0)}
    assert len(names) == 3 and symbol(AFFINE, 0) in names


def test_the_light_level_cleans_up() -> None:
    twice = loop(
        "  %p = alloca i64\n  store i64 %i, ptr %p\n  %v = load i64, ptr %p\n  store i64 %v, ptr %a0", 1
    )
    assert "rsp" in assembly(twice, 0, SSE2) and "rsp" not in assembly(twice, 1, SSE2)


@pytest.mark.parametrize(("host", "machine"), [(SSE2, 0x3E), (AARCH64, 0xB7)])
def test_other_machines_get_objects_of_their_own(host: Host, machine: int) -> None:
    code = compile_object(AFFINE, 2, host)
    assert code[:4] == b"\x7fELF" and struct.unpack_from("<H", code, 18) == (machine,)
    assert undefined(code) == []


def test_features_decide_which_instructions_are_used() -> None:
    assert "fmla" in assembly(FMA, 0, AARCH64)
    assert "ymm" not in assembly(FMA, 0, SSE2) and "fmaf" in assembly(FMA, 0, SSE2)
    if features().fma:
        assert "vfmadd" in assembly(FMA, 0, features())


def test_what_an_object_expects_from_elsewhere_is_known() -> None:
    assert undefined(compile_object(FMA, 0, SSE2)) == ["fmaf"]
    zero = loop("  call void @llvm.memset.p0.i64(ptr %a0, i8 0, i64 %i, i1 false)", 1)
    text = zero + "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    assert undefined(compile_object(text, 0, features())) == ["memset"]
    x = np.ones(5, np.uint8)
    library = load({symbol(text, 0): compile_object(text, 0, features())})
    _run(library[symbol(text, 0)], x, units=4)
    assert x.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("host", [SSE2, AARCH64])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_pool_and_driver_compile_for_other_machines(host: Host, system: str) -> None:
    machine = "arm" if host is AARCH64 else "x86"
    text, names = runtime.source(machine, system)
    expected = {"clock_gettime", "sched_getcpu", "syscall"} if system == "linux" else {"clock_gettime"}
    assert set(undefined(compile_object(text, 1, host))) == expected
    assert ("sleep" in names) == (system == "linux")


def test_malformed_text_is_refused_with_the_place() -> None:
    with pytest.raises(IRError) as caught:
        compile_object(AFFINE.replace("fmul float", "fmul flot"), 0, features())
    text = str(caught.value)
    assert text.startswith("LLVM refuses the text of a kernel") and "flot" in text
    assert "expected: text that LLVM" in text and "remedy:" in text


def test_a_kernel_without_entry_is_refused() -> None:
    for text in (AFFINE.replace("@entry", "@other"), "declare void @entry(ptr, i64, i64, ptr)"):
        with pytest.raises(IRError, match="a kernel defines no function `entry`"):
            compile_object(text, 0, features())


def test_a_call_into_nowhere_is_refused_before_it_ends_the_process() -> None:
    text = loop("  call void @nowhere_at_all()", 0) + "declare void @nowhere_at_all()\n"
    with pytest.raises(IRError, match="what this process does not have: nowhere_at_all"):
        compile_object(text, 0, features())
    with pytest.raises(IRError, match="there is no level 4"):
        compile_object(AFFINE, 4, features())


def test_an_engine_in_a_cycle_goes_before_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector finalises what it finds in the order of its age: here the context is the oldest."""
    gone = []
    for kind in (llvm.ContextRef, llvm.ExecutionEngine):
        dispose = kind._dispose
        monkeypatch.setattr(kind, "_dispose", lambda self, d=dispose: gone.append(type(self)) or d(self))
    objects = {symbol(AFFINE, 0): compile_object(AFFINE, 0, features())}
    gc.collect()
    gone.clear()
    older = [llvm.create_context()]
    monkeypatch.setattr(llvm, "create_context", older.pop)
    library = load_by_engine(objects)
    library.addresses["self"] = library  # type: ignore[assignment]
    del library
    gc.collect()
    assert gone == [llvm.ExecutionEngine, llvm.ContextRef]


def test_the_generator_gives_the_bytes_that_llvmlite_gives() -> None:
    import llvmlite.binding as llvm

    from trilobite.native.generator import generate
    from trilobite.native.objects import parse, target_machine

    machine, host = target_machine(features()), features()
    module = parse(AFFINE, host, machine, llvm.create_context())
    module.get_function("entry").name = "renamed"
    made = generate(AFFINE, ("entry", "renamed"), host.triple, str(machine.target_data), machine)
    assert made == machine.emit_object(module)
