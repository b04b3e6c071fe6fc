#ifndef LIBRARY_COMMON_H_
#define LIBRARY_COMMON_H_
#include "kernel.h"
#include <algorithm>
#include <type_traits>

template <typename T> __mlu_func__ bool is_half() { return false; }
template <> __mlu_func__ bool is_half<half>() { return true; }

// Whole-number ramp by vector registers, whatever the part.
__mlu_vector__ void ramp(float *dst, float start, uint32_t count) {
  vv_float lanes, step;
  unsigned width = __vv_get_length() / sizeof(float);
  __asm__ volatile("index.vvr.f32 %[dst], %[base], 1;\n\t" : [ dst ] "+r"(lanes) : [ base ] "r"(start));
  __vv_move(step, width);
  for (uint32_t i = 0; i < count; i += width) {
    __vv_store(dst + i, lanes);
    __vv_add(lanes, lanes, step);
  }
}

template <typename T>
__mlu_func__ void to_log(T *dst, T *src, void *aux, int n) {
  const int bits = 0x3f317218;
  const float ln2 = *(const float *)&bits;
  if (sizeof(T) == sizeof(float)) {
    __bang_log2((float *)dst, (float *)src, n);
    __bang_mul_scalar((float *)dst, (float *)dst, ln2, n);
  } else {
    __bang_half2float((float *)aux, (half *)src, n);
    __bang_log2((float *)aux, (float *)aux, n);
    __bang_mul_scalar((float *)aux, (float *)aux, ln2, n);
    __bang_float2half_rn((half *)dst, (float *)aux, n);
  }
}
#endif
