// Device side of BANG C: qualifiers, types, built-in variables, directions. Memory qualifiers (__nram__ and
// so on) are left alone here: they are rewritten by scope after preprocessing. Intrinsics are declared where
// the pragma stands, those that the source names and no others.
#pragma once
#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
typedef _Float16 half;
typedef __bf16 bfloat16_t;
typedef __bf16 bfloat16;
typedef signed char int8;
typedef signed char fix8;
typedef short int16;
typedef short fix16;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned int uint;
struct int4x2_t { unsigned char bits; };
// A vector register: whatever is aligned so lies in NRAM.
template <typename T> struct alignas(128) __dlp_vv {
  typedef T element;
  static constexpr long count = 256 / sizeof(T);
  T lanes[256 / sizeof(T)];
};
typedef __dlp_vv<float> vv_float;
typedef __dlp_vv<half> vv_half;
typedef __dlp_vv<bfloat16_t> vv_bfloat16;
typedef __dlp_vv<int8_t> vv_int8;
typedef __dlp_vv<uint8_t> vv_uint8;
typedef __dlp_vv<int16_t> vv_int16;
typedef __dlp_vv<uint16_t> vv_uint16;
typedef __dlp_vv<int32_t> vv_int32;
typedef __dlp_vv<uint32_t> vv_uint32;

// Known before the first line; the library's own header gives the same values again.
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define HUGE_VALF __builtin_inff()
#define M_PI 3.14159265358979323846

#define __mlu_entry__ __attribute__((annotate("bang.entry"), used, noinline))
#define __mlu_global__ __mlu_entry__
#define __mlu_func__ __attribute__((always_inline)) inline
#define __mlu_device__ __attribute__((annotate("bang.device")))
#define __mlu_host__
#define __mlu_const__ const
#define __mlu_builtin__
#define __mlu_vector__ __mlu_func__

extern const int taskId __asm__("bang.taskId"), taskIdX __asm__("bang.taskIdX");
extern const int taskIdY __asm__("bang.taskIdY"), taskIdZ __asm__("bang.taskIdZ");
extern const int taskDim __asm__("bang.taskDim"), taskDimX __asm__("bang.taskDimX");
extern const int taskDimY __asm__("bang.taskDimY"), taskDimZ __asm__("bang.taskDimZ");
extern const int clusterId __asm__("bang.clusterId"), clusterDim __asm__("bang.clusterDim");
extern const int coreId __asm__("bang.coreId"), coreDim __asm__("bang.coreDim");

enum mluMemcpyDirection_t {
  GDRAM2NRAM, NRAM2GDRAM, LDRAM2NRAM, NRAM2LDRAM, GDRAM2WRAM, WRAM2GDRAM, LDRAM2WRAM, WRAM2LDRAM, NRAM2NRAM,
  NRAM2WRAM, WRAM2NRAM, GDRAM2SRAM, SRAM2GDRAM, LDRAM2SRAM, SRAM2LDRAM, SRAM2NRAM, NRAM2SRAM, SRAM2WRAM, WRAM2SRAM,
  GDRAM2GDRAM, GDRAM2LDRAM, LDRAM2GDRAM, LDRAM2LDRAM, SRAM2SRAM, WRAM2WRAM
};
enum mluFusionOpCode {
  FUSION_FAA, FUSION_FAS, FUSION_FAM, FUSION_FSA, FUSION_FSS, FUSION_FSM, FUSION_FMA, FUSION_FMS
};
enum mluPoolBPOverlap { OVERLAP_ACC, OVERLAP_COVER };

extern "C" {
int printf(const char *, ...);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
__attribute__((noreturn)) void exit(int);
__attribute__((noreturn)) void abort(void);
int abs(int);
float sqrtf(float); float expf(float); float exp2f(float); float logf(float); float log2f(float);
float log10f(float); float sinf(float); float cosf(float); float tanf(float); float tanhf(float);
float fabsf(float); float floorf(float); float ceilf(float); float roundf(float); float truncf(float);
float rintf(float); float powf(float, float); float fmaxf(float, float); float fminf(float, float);
float fmodf(float, float); float erff(float); float atanf(float); float atan2f(float, float);
float sinhf(float); float coshf(float); float expm1f(float); float log1pf(float); float rsqrtf(float);
}
void __bang_printf(const char *, ...) __asm__("printf");

// A template, because C libraries declare it in two ways.
template <typename L> __attribute__((always_inline)) inline void __assert_fail(const char *, const char *, L, const char *) {
  __builtin_trap();
}
template <typename L> __attribute__((always_inline)) inline void __assert(const char *, const char *, L) { __builtin_trap(); }
template <typename T> struct __dlp_same { typedef T type; };
template <typename A, typename B> __mlu_func__ constexpr auto min(A a, B b) -> decltype(true ? a : b) {
  return b < a ? b : a;
}
template <typename A, typename B> __mlu_func__ constexpr auto max(A a, B b) -> decltype(true ? a : b) {
  return a < b ? b : a;
}
#define __DLP_HALF(name) \
  __mlu_func__ half name(half x) { return (half)__builtin_##name##f((float)x); } \
  __mlu_func__ bfloat16_t name(bfloat16_t x) { return (bfloat16_t)__builtin_##name##f((float)x); }
__DLP_HALF(sqrt) __DLP_HALF(exp) __DLP_HALF(exp2) __DLP_HALF(log) __DLP_HALF(log2) __DLP_HALF(sin)
__DLP_HALF(cos) __DLP_HALF(tanh) __DLP_HALF(fabs) __DLP_HALF(floor) __DLP_HALF(ceil) __DLP_HALF(round)
__DLP_HALF(trunc)
__mlu_func__ half abs(half x) { return x < (half)0 ? -x : x; }
__mlu_func__ half pow(half x, half y) { return (half)__builtin_powf((float)x, (float)y); }
__mlu_func__ bool isnan(half x) { return x != x; }
__mlu_func__ bool isinf(half x) { return x == x && x - x != (half)0; }

// The library's limits know nothing of these types.
#if defined(_LIBCPP_LIMITS) || defined(_GLIBCXX_NUMERIC_LIMITS)
#define __DLP_LIMITS(type, bits, top, low, least, step) \
  namespace std { template <> struct numeric_limits<type> { \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false; \
    static constexpr bool has_infinity = true, has_quiet_NaN = true; \
    static constexpr int digits = bits, radix = 2; \
    static constexpr type min() noexcept { return (type)low; } \
    static constexpr type max() noexcept { return (type)top; } \
    static constexpr type lowest() noexcept { return (type)-top; } \
    static constexpr type epsilon() noexcept { return (type)step; } \
    static constexpr type denorm_min() noexcept { return (type)least; } \
    static constexpr type infinity() noexcept { return (type)__builtin_inff(); } \
    static constexpr type quiet_NaN() noexcept { return (type)__builtin_nanf(""); } \
  }; }
__DLP_LIMITS(_Float16, 11, 65504.0f, 0x1p-14f, 0x1p-24f, 0x1p-10f)
__DLP_LIMITS(__bf16, 8, 0x1.fep127f, 0x1p-126f, 0x1p-133f, 0x1p-7f)
#undef __DLP_LIMITS
#endif

// On these parts 0 times NaN is 0 and a NaN keeps its bits; libraries convert integers by that.
#if __BANG_ARCH__ < 300
#define __bang_cycle_mul __dlp_cycle_mul_2xx
#define __bang_cycle_add __dlp_cycle_add_2xx
#endif

#pragma dlp_intrinsics
