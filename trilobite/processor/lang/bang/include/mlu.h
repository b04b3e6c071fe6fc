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
// The C library of the two 16-bit floats, in both namespaces, so that `cos` and `std::cos` mean one function.
// A word of another type beside one of them is as in C++: the wider float, or float beside an integer.
#define __DLP_UNARY(name) \
  __mlu_func__ half name(half x) { return (half)__builtin_##name##f((float)x); } \
  __mlu_func__ bfloat16_t name(bfloat16_t x) { return (bfloat16_t)__builtin_##name##f((float)x); } \
  namespace std { using ::name; }
#define __DLP_BINARY(name) \
  __mlu_func__ half name(half x, half y) { return (half)__builtin_##name##f((float)x, (float)y); } \
  __mlu_func__ bfloat16_t name(bfloat16_t x, bfloat16_t y) { return (bfloat16_t)__builtin_##name##f((float)x, (float)y); } \
  template <typename A, typename B> __mlu_func__ typename __dlp_beside<A, B>::type name(A x, B y) { \
    typedef typename __dlp_beside<A, B>::type T; \
    return sizeof(T) == 8 ? (T)__builtin_##name((double)x, (double)y) : (T)__builtin_##name##f((float)x, (float)y); \
  } \
  namespace std { using ::name; }
#define __DLP_TRUTH(name, value) \
  __mlu_func__ bool name(half x) { return value; } \
  __mlu_func__ bool name(bfloat16_t x) { return value; } \
  namespace std { using ::name; }
template <typename T> struct __dlp_narrow { static constexpr int value = 0; };
template <> struct __dlp_narrow<half> { static constexpr int value = 1; };
template <> struct __dlp_narrow<bfloat16_t> { static constexpr int value = 2; };
template <typename T> struct __dlp_number { static constexpr bool value = false; typedef float type; };
#define __DLP_NUMBER(kind, wide) template <> struct __dlp_number<kind> { static constexpr bool value = true; typedef wide type; };
__DLP_NUMBER(half, float) __DLP_NUMBER(bfloat16_t, float) __DLP_NUMBER(float, float) __DLP_NUMBER(double, double)
__DLP_NUMBER(bool, float) __DLP_NUMBER(char, float) __DLP_NUMBER(signed char, float) __DLP_NUMBER(unsigned char, float)
__DLP_NUMBER(short, float) __DLP_NUMBER(unsigned short, float) __DLP_NUMBER(int, float) __DLP_NUMBER(unsigned int, float)
__DLP_NUMBER(long, float) __DLP_NUMBER(unsigned long, float) __DLP_NUMBER(long long, float)
__DLP_NUMBER(unsigned long long, float)
#undef __DLP_NUMBER
template <bool is, typename T> struct __dlp_if {};
template <typename T> struct __dlp_if<true, T> { typedef T type; };
// One of the two is a 16-bit float, and they are not the same.
template <typename A, typename B> struct __dlp_beside
    : __dlp_if<(__dlp_narrow<A>::value || __dlp_narrow<B>::value) && __dlp_narrow<A>::value != __dlp_narrow<B>::value &&
                   __dlp_number<A>::value && __dlp_number<B>::value,
               decltype((typename __dlp_number<A>::type)0 + (typename __dlp_number<B>::type)0)> {};
__DLP_UNARY(sqrt) __DLP_UNARY(cbrt) __DLP_UNARY(exp) __DLP_UNARY(exp2) __DLP_UNARY(expm1) __DLP_UNARY(log)
__DLP_UNARY(log2) __DLP_UNARY(log10) __DLP_UNARY(log1p) __DLP_UNARY(sin) __DLP_UNARY(cos) __DLP_UNARY(tan)
__DLP_UNARY(asin) __DLP_UNARY(acos) __DLP_UNARY(atan) __DLP_UNARY(sinh) __DLP_UNARY(cosh) __DLP_UNARY(tanh)
__DLP_UNARY(asinh) __DLP_UNARY(acosh) __DLP_UNARY(atanh) __DLP_UNARY(erf) __DLP_UNARY(fabs) __DLP_UNARY(floor)
__DLP_UNARY(ceil) __DLP_UNARY(round) __DLP_UNARY(trunc) __DLP_UNARY(rint) __DLP_UNARY(nearbyint)
__DLP_BINARY(pow) __DLP_BINARY(fmod) __DLP_BINARY(fmax) __DLP_BINARY(fmin) __DLP_BINARY(atan2) __DLP_BINARY(hypot)
__DLP_BINARY(copysign) __DLP_BINARY(fdim) __DLP_BINARY(remainder)
__DLP_TRUTH(isnan, x != x)
__DLP_TRUTH(isinf, (float)x == __builtin_inff() || (float)x == -__builtin_inff())
__DLP_TRUTH(isfinite, x - x == x - x)
__DLP_TRUTH(signbit, __builtin_signbit((float)x))
__mlu_func__ half abs(half x) { return fabs(x); }
__mlu_func__ bfloat16_t abs(bfloat16_t x) { return fabs(x); }
__mlu_func__ half fma(half x, half y, half z) { return (half)__builtin_fma((double)x, (double)y, (double)z); }
__mlu_func__ bfloat16_t fma(bfloat16_t x, bfloat16_t y, bfloat16_t z) {
  return (bfloat16_t)__builtin_fma((double)x, (double)y, (double)z);
}
namespace std { using ::abs; using ::fma; }
#undef __DLP_UNARY
#undef __DLP_BINARY
#undef __DLP_TRUTH

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
