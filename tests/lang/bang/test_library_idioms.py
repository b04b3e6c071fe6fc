"""Idioms of operator libraries: one assembly statement on a vector, copies that close or open gaps where they lie,
conversions in place, pieces repeated by counts, descriptors that a macro writes, templates nobody instantiates."""

# ruff: noqa: E501 (sources of kernels)
from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from bang_harness import LEVELS, needs_clang, run, written

from trilobite.base.errors import KernelError
from trilobite.processor.device import Device
from trilobite.processor.lang.bang.kernel import BangKernel
from trilobite.processor.lang.bang.source import Options, compile_file
from trilobite.processor.machine import load_machine
from trilobite.processor.tools.findings import CheckFailed

pytestmark = needs_clang
levels = pytest.mark.parametrize("level", LEVELS)

DIVIDED = """#include <bang.h>
template <typename T> __mlu_func__ void over(T *dst, T *src, T by, uint32_t n) {
  if constexpr (sizeof(T) == 2) {
    __asm__ volatile("div.scalar.nram.f16 [%[d]], [%[s]], %[v], %[n];\\n\\t" ::[d] "r"(dst), [s] "r"(src), [v] "r"(by), [n] "r"(n));
  } else {
    __asm__ volatile("div.scalar.nram.f32 [%[d]], [%[s]], %[v], %[n];\\n\\t" ::[d] "r"(dst), [s] "r"(src), [v] "r"(by), [n] "r"(n));
  }
}
template <typename T> __mlu_global__ void divided(T *x, T *under, int n) {
  __nram__ T a[128], b[128];
  __memcpy(a, x, n * sizeof(T), GDRAM2NRAM);
  over(b, a, (T)7, n);
  __memcpy(x, b, n * sizeof(T), NRAM2GDRAM);
  __asm__ volatile("div.scalar.nram.f32 [%[d]], %[v], [%[s]], %[n];\\n\\t" ::[d] "r"(b), [s] "r"(a), [v] "r"(3.0f), [n] "r"(n));
  if (sizeof(T) == 4) __memcpy(under, b, n * sizeof(T), NRAM2GDRAM);
}
template __mlu_global__ void divided<float>(float *, float *, int);
template __mlu_global__ void divided<half>(half *, half *, int);
"""


@levels
@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("half", np.float16)])
def test_what_comes_first_is_divided(
    kind: str, dtype: type, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Rounded once, as a division is and a product with a reciprocal is not."""
    x = rng.uniform(1, 9, 77).astype(dtype)
    got, under = run(
        written(DIVIDED, tmp_path), f"divided<{kind}>", [x, np.zeros_like(x), 77], level=level, checks=False
    )
    np.testing.assert_array_equal(got, x / dtype(7))
    if kind == "float":
        np.testing.assert_array_equal(under, np.float32(3) / x)


GATHERED = """#include <bang.h>
__mlu_global__ void gathered(TYPE *y, const TYPE *x, const int *offsets, int n, int m) {
  __nram__ TYPE a[128], b[128];
  __nram__ int where[128];
  __memcpy(a, x, m * sizeof(TYPE), GDRAM2NRAM);
  __memcpy(where, offsets, 128 * sizeof(int), GDRAM2NRAM);
  __asm__ volatile("gather.clean.nram.nram.nram.BITS.u32 [%[d]], [%[s]], [%[o]], %[n];\\n\\t" ::[d] "r"(b), [s] "r"(a), [o] "r"(where), [n] "r"(n));
  __memcpy(y, b, n * sizeof(TYPE), NRAM2GDRAM);
}
"""


@levels
@pytest.mark.parametrize(
    ("kind", "bits", "dtype"), [("float", "b32", "f4"), ("half", "b16", "f2"), ("char", "b8", "i1")]
)
@pytest.mark.parametrize("n", [0, 1, 77])
def test_elements_by_their_offsets(
    kind: str, bits: str, dtype: str, n: int, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.integers(-100, 100, 50).astype(dtype)
    at = rng.integers(0, 50, 128)
    text = GATHERED.replace("TYPE", kind).replace("BITS", bits)
    y = np.full(77, 5, dtype)
    args = [y, x, (at * y.itemsize).astype(np.int32), n, 50]
    got, *_ = run(written(text, tmp_path), "gathered", args, level=level)
    np.testing.assert_array_equal(got, np.r_[x[at[:n]], y[n:]])


GAPS = """#include <bang.h>
__nram__ float a[512];
// Rows come in one piece, the end of it at the end of their padded place, and are set apart where they lie.
__mlu_global__ void opened(float *y, float *x, int rows, int cols, int pad) {
  float *dense = a + (pad - cols) * rows;
  __memcpy(dense, x, rows * cols * sizeof(float), GDRAM2NRAM);
  __memcpy(a, dense, cols * sizeof(float), NRAM2NRAM, pad * sizeof(float), cols * sizeof(float), rows - 1);
  for (int i = 0; i < rows; ++i) __memcpy(y + i * cols, a + i * pad, cols * sizeof(float), NRAM2GDRAM);
}
__mlu_global__ void closed(float *y, float *x, int rows, int cols, int pad) {
  for (int i = 0; i < rows; ++i) __memcpy(a + i * pad, x + i * cols, cols * sizeof(float), GDRAM2NRAM);
  __memcpy(a, a, cols * sizeof(float), NRAM2NRAM, cols * sizeof(float), pad * sizeof(float), rows - 1);
  __memcpy(y, a, rows * cols * sizeof(float), NRAM2GDRAM);
}
__mlu_global__ void wrong(float *y, float *x, int rows, int cols, int pad) {
  __memcpy(a, x, rows * cols * sizeof(float), GDRAM2NRAM);
  __memcpy(a, a, cols * sizeof(float), NRAM2NRAM, pad * sizeof(float), cols * sizeof(float), rows - 1);
  __memcpy(y, a, rows * cols * sizeof(float), NRAM2GDRAM);
}
"""


@levels
@pytest.mark.parametrize(("rows", "cols", "pad"), [(6, 10, 16), (1, 3, 32), (9, 32, 33), (2, 1, 2)])
def test_gaps_are_opened_and_closed_where_they_lie(
    rows: int, cols: int, pad: int, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((rows, cols)).astype(np.float32)
    for kernel in ("opened", "closed"):
        args = [np.zeros_like(x), x, rows, cols, pad]
        np.testing.assert_array_equal(run(written(GAPS, tmp_path), kernel, args, level=level)[0], x)


def test_pieces_that_are_overwritten_before_they_are_read(tmp_path: Path) -> None:
    x = np.ones((6, 10), np.float32)
    with pytest.raises(CheckFailed, match="__memcpy: source and result overlap"):
        run(written(GAPS, tmp_path), "wrong", [np.zeros_like(x), x, 6, 10, 16])


WIDENED = """#include <bang.h>
__nram__ char room[4096];
__mlu_global__ void widened(float *y, half *h, bfloat16_t *b, signed char *c, int n) {
  __memcpy(room, h, n * sizeof(half), GDRAM2NRAM);
  __bang_half2float((float *)room, (half *)room, n);
  __memcpy(y, room, n * sizeof(float), NRAM2GDRAM);
  __memcpy(room, b, n * sizeof(half), GDRAM2NRAM);
  __bang_bfloat162float((float *)room, (bfloat16_t *)room, n);
  __memcpy(y + n, room, n * sizeof(float), NRAM2GDRAM);
  __memcpy(room, c, n, GDRAM2NRAM);
  __bang_int82float((float *)room, (signed char *)room, n, 0);
  __memcpy(y + 2 * n, room, n * sizeof(float), NRAM2GDRAM);
}
"""


@levels
@pytest.mark.parametrize("n", [1, 101, 1024])
def test_a_wider_type_in_place(n: int, level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal(n) * 50
    half, brain, whole = x.astype(np.float16), x.astype(ml_dtypes.bfloat16), x.astype(np.int8)
    args = [np.zeros((3, n), np.float32), half, brain.view(np.uint16), whole, n]
    got, *_ = run(written(WIDENED, tmp_path), "widened", args, level=level)
    np.testing.assert_array_equal(got, np.array([v.astype(np.float32) for v in (half, brain, whole)]))


REPEATED = """#include <bang.h>
__mlu_global__ void repeated(half *y, half *x, unsigned char *times, int n) {
  __nram__ half a[64], b[640];
  __nram__ unsigned char t[64];
  __memcpy(a, x, n * sizeof(half), GDRAM2NRAM);
  __memcpy(t, times, n, GDRAM2NRAM);
  __bang_write_value(b, 640, (half)-1);
  __extension(b, a, t, sizeof(half), NRAM2NRAM, n);
  __memcpy(y, b, 640 * sizeof(half), NRAM2GDRAM);
}
"""


@levels
@pytest.mark.parametrize("n", [0, 1, 63])
def test_pieces_are_repeated_by_counts(n: int, level: int, tmp_path: Path, rng: np.random.Generator) -> None:
    x, times = np.arange(n).astype(np.float16), rng.integers(0, 10, n).astype(np.uint8)
    given = [np.zeros(640, np.float16), np.r_[x, 0].astype(np.float16), np.r_[times, 0].astype(np.uint8), n]
    got, *_ = run(written(REPEATED, tmp_path), "repeated", given, level=level)
    want = np.repeat(x, times)
    np.testing.assert_array_equal(got, np.r_[want, np.full(640 - want.size, -1, np.float16)])


DESCRIBED = """
#include "lib/descriptor.h"
#include <memory>
#define DESCRIBED(SPACE) namespace op::scale::SPACE { class Described final : public LibBase { struct Opaque; Opaque *_opaque; \\
  Described(Opaque *opaque, libDevice_t type) : LibBase{type, 0}, _opaque(opaque) {} public: ~Described(); \\
  static libStatus_t create(libHandle_t handle, Described **made); }; }
DESCRIBED(bang)
namespace op::scale::bang {
struct Described::Opaque { std::shared_ptr<Described> kept; };
Described::~Described() { delete _opaque; }
__mlu_global__ void scale(float *x, int n) { for (int i = 0; i < n; ++i) x[i] *= FACTOR; }
libStatus_t Described::create(libHandle_t handle, Described **made) { *made = nullptr; return LIB_FINE; }
}
"""


def test_a_class_that_a_macro_writes_in_one_line_with_its_namespace(tmp_path: Path) -> None:
    """Its base is of a header that is nowhere; another header lies in the `include` of a folder above."""
    (tmp_path / "include" / "lib").mkdir(parents=True)
    (tmp_path / "include" / "lib" / "descriptor.h").write_text('#include "lib/nowhere.h"\n#define FACTOR 3\n')
    folder = tmp_path / "src" / "ops"
    folder.mkdir(parents=True)
    (got,) = run(written(DESCRIBED, folder), "scale", [np.ones(3, np.float32), 3])
    assert got.tolist() == [3, 3, 3]


TEMPLATES = """#include <bang.h>
template <typename Tval, typename Tidx> __mlu_global__ void pick(Tval *y, const Tval *x, const Tidx *at, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[at[i]];
}
template <class A, class B> __mlu_global__ void choose(A *y, const A *x, const B *at, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[at[i]];
}
template <class A> __mlu_global__ void toggle(A *x, int n) { for (int i = 0; i < n; ++i) x[i] ^= 5; }
"""


def test_instances_are_guessed_where_nobody_names_them(tmp_path: Path) -> None:
    program = compile_file(written(TEMPLATES, tmp_path), load_machine("mlu370-x4"), Options())
    entries = {name for name, place in program.symbols.items() if place.is_entry}
    assert entries == {"pick<float, int>", "choose<float, int>", "toggle<int>"}


def test_a_template_that_fits_no_type_is_told_at_its_line(tmp_path: Path) -> None:
    text = "#include <bang.h>\ntemplate <class A> __mlu_global__ void k(A *x) {\n  x[0] = x[0].nothing;\n}\n"
    with pytest.raises(KernelError, match=r":3:14: member reference base type 'float' is not a structure"):
        compile_file(written(text, tmp_path), load_machine("mlu370-x4"), Options())


MEMBERS = """#include "lib/base.h"
#include <array>
#include <tuple>
#include <bang.h>
namespace lib {
template <int most> struct Blocks { std::array<void *, most> place; int sizes[most]; int count; };
template <typename T> using Step = void (*)(T *data, float *sum, const int &n);
template <typename T> inline __mlu_func__ void squared(T *data, float *sum, const int &n) {
  for (int i = 0; i < n; ++i) *sum += (float)data[i] * (float)data[i];
}
template <typename List, typename F, std::size_t... I, typename... Args>
inline __mlu_func__ void applied(F f, void **at, std::index_sequence<I...>, Args... args) {
  f(reinterpret_cast<std::tuple_element_t<I, List> *>(at[I])..., args...);
}
template <typename List, int most> struct Norm {
  __mlu_global__ static void call(const Blocks<most> blocks, float *out) {
    using T = std::tuple_element_t<0, List>;
    __nram__ T room[256];
    float total = 0;
    Step<T> step = &squared<T>;
    for (int i = taskId; i < blocks.count; i += taskDim) {
      void *at[1] = {(void *)room};
      __memcpy(room, blocks.place[i], blocks.sizes[i] * sizeof(T), GDRAM2NRAM);
      applied<List>(step, at, std::make_index_sequence<1>{}, &total, blocks.sizes[i]);
    }
    out[taskId] = total;
  }
};
void launched(cnrtDim3_t dim, cnrtFunctionType_t kind, cnrtQueue_t queue, Blocks<5> blocks, float *out) {
  KERNEL_CHECK(Norm<std::tuple<float>, 5>::call<<<dim, kind, queue>>>(blocks, out););
  KERNEL_CHECK((Norm<std::tuple<half>, 5>::call<<<dim, kind, queue>>>(blocks, out)));
}
}
"""


@levels
@pytest.mark.parametrize(("kind", "dtype"), [("float", "f4"), ("half", "f2"), ("int16_t", "i2")])
def test_kernels_of_class_templates(
    kind: str, dtype: str, level: int, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Two that the host launches and one that nobody does; each is called as C++ calls it."""
    device, sizes = Device("mlu370-x4"), [100, 1, 256, 77, 3]
    blocks = [(rng.standard_normal(n) * 9).astype(dtype) for n in sizes]
    given = np.zeros((), np.dtype([("place", "u8", 5), ("size", "i4", 5), ("count", "i4")], align=True))
    held = [device.array(block) for block in blocks]
    given["place"], given["size"], given["count"] = [h.address for h in held], sizes, 5
    out = device.array(np.zeros(4, np.float32))
    name = f"Norm<std::tuple<{kind}>, 5>::call"
    kernel = BangKernel(written(MEMBERS, tmp_path), name, Options(level=level, contracts=True))
    device.launch(kernel, [given.tobytes(), out], (4, 1, 1), "union1", checks=True, traced=False)
    want = [sum((blocks[i].astype(float) ** 2).sum() for i in range(task, 5, 4)) for task in range(4)]
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5)


def test_half_to_bytes_with_room_to_work_in(tmp_path: Path, rng: np.random.Generator) -> None:
    text = """#include <bang.h>
__mlu_global__ void k(uint8_t *y, half *x, int n) {
  __nram__ half a[256];
  __nram__ uint8_t b[128];
  __memcpy(a, x, n * sizeof(half), GDRAM2NRAM);
  __bang_half2uchar_dn(b, a, a + n, n);
  __memcpy(y, b, n, NRAM2GDRAM);
}
"""
    x = rng.uniform(0, 255, 77).astype(np.float16)
    got, _ = run(written(text, tmp_path), "k", [np.zeros(77, np.uint8), x, 77])
    np.testing.assert_array_equal(got, np.floor(x))


WRAPPED = """#include "lib/handles.h"
#include <memory>
#include <bang.h>
namespace dev { class Handle { public: class Internal; }; }
class dev::Handle::Internal { libHandle_t held; public: int cores() const; };
struct Doubled {
  static constexpr size_t inputs = 1;
  template <typename T> __mlu_device__ void operator()(T *y, const T *x, size_t n) const { __bang_add(y, x, x, n); }
};
template <size_t N, typename Op, typename T, typename... Args>
__mlu_global__ void each(size_t n, const ptrdiff_t *strides, T *out, const void *const *inputs, Args... args) {
  static_assert(N == Op::inputs, "inputs");
  __nram__ T a[64], b[64];
  const T *x = (const T *)inputs[0];
  for (size_t i = taskId; i < n; i += taskDim) {
    __memcpy(a, x + i * strides[0], 64 * sizeof(T), GDRAM2NRAM);
    Op()(b, a, 64);
    __memcpy(out + i * 64, b, 64 * sizeof(T), NRAM2GDRAM);
  }
}
template <size_t N, typename Op, typename T, typename... Args>
void wrapper(size_t n, const ptrdiff_t *strides, T *out, const void *const *inputs, cnrtQueue_t queue,
             const std::shared_ptr<dev::Handle::Internal> &internal, Args... args) {
  cnrtDim3_t dim;
  dim.x = internal->cores();
  each<N, Op, T><<<dim, CNRT_FUNC_TYPE_BLOCK, queue>>>(n, strides, out, inputs, args...);
}
template <typename T, typename... Args>
void launchDoubled(size_t n, const void *strides, void *out, const void *const *inputs, cnrtQueue_t queue,
                   const std::shared_ptr<dev::Handle::Internal> &internal, Args... args) {
  wrapper<Doubled::inputs, Doubled, T>(n, reinterpret_cast<const ptrdiff_t *>(strides), reinterpret_cast<T *>(out), inputs,
                                       queue, internal, args...);
}
template void launchDoubled<half>(size_t, const void *, void *, const void *const *, cnrtQueue_t, const std::shared_ptr<dev::Handle::Internal> &);
template void launchDoubled<float>(size_t, const void *, void *, const void *const *, cnrtQueue_t, const std::shared_ptr<dev::Handle::Internal> &);
"""


@pytest.mark.parametrize(("kind", "dtype"), [("half", np.float16), ("float", np.float32)])
def test_a_launch_behind_two_host_templates(
    kind: str, dtype: type, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The inner one needs a class that cannot be compiled; the pointers among its parameters stay pointers."""
    device = Device("mlu370-x4")
    x = rng.standard_normal((5, 80)).astype(dtype)
    held, out = device.array(x), device.array(np.zeros((5, 64), dtype))
    inputs = device.array(np.array([held.address], np.uint64))
    kernel = BangKernel(written(WRAPPED, tmp_path), f"each<1, Doubled, {kind}>", Options(contracts=True))
    device.launch(
        kernel, [5, device.array(np.array([80])), out, inputs], (4, 1, 1), checks=True, traced=False
    )
    np.testing.assert_array_equal(out.numpy(), x[:, :64] * 2)


FINITE = """#include <bang.h>
template <typename T> __mlu_global__ void found(T *x, int *first, int n) {
  __nram__ T a[128], t[128];
  __memcpy(a, x, n * sizeof(T), GDRAM2NRAM);
  if (sizeof(T) == sizeof(half)) {
    __bang_band_scalar(t, a, (half)INFINITY, n);
    __bang_eq_scalar(t, t, (half)INFINITY, n);
  } else {
    __bang_band_scalar(t, a, (float)INFINITY, n);
    __bang_eq_scalar(t, t, (float)INFINITY, n);
  }
  first[0] = __bang_findfirst1(t, n);
}
template __mlu_global__ void found<half>(half *, int *, int);
template __mlu_global__ void found<float>(float *, int *, int);
"""


@pytest.mark.parametrize(("kind", "dtype"), [("half", np.float16), ("float", np.float32)])
@pytest.mark.parametrize("bad", [0.5, np.inf, -np.inf, np.nan])
def test_bits_of_floats(kind: str, dtype: type, bad: float, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.standard_normal(77).astype(dtype)
    x[40] = bad
    _, first = run(written(FINITE, tmp_path), f"found<{kind}>", [x, np.zeros(1, np.int32), 77])
    assert first[0] == (-1 if np.isfinite(bad) else 40)
