// Parts that the bodies of intrinsics are made of; only what a body names is taken along.
__mlu_func__ double __dlp_away(double x) { return x < 0 ? __builtin_floor(x) : __builtin_ceil(x); }
__mlu_func__ double __dlp_round_rn(double x) { return __builtin_rint(x); }
__mlu_func__ double __dlp_round_ra(double x) { return __builtin_round(x); }
__mlu_func__ double __dlp_round_rz(double x) { return __builtin_trunc(x); }
__mlu_func__ double __dlp_round_rd(double x) { return __builtin_floor(x); }
__mlu_func__ double __dlp_round_ru(double x) { return __builtin_ceil(x); }
__mlu_func__ double __dlp_power(long p) {
  union { unsigned long bits; double value; } u;
  u.bits = (unsigned long)(p + 1023) << 52;
  return u.value;
}
template <typename T> __mlu_func__ T __dlp_whole(double x) {
  const bool is_signed = (T)-1 < (T)0;
  const long top = is_signed ? (long)((1ul << (8 * sizeof(T) - 1)) - 1) : (long)((1ul << (8 * sizeof(T) - 1)) * 2 - 1);
  const long bottom = is_signed ? -top - 1 : 0;
  if (x != x) return 0;
  return x >= (double)top ? (T)top : x <= (double)bottom ? (T)bottom : (T)(long)x;
}
template <typename T> __mlu_func__ T __dlp_add_tz(T a, T b) {
  double exact = (double)a + (double)b;
  T near = (T)exact;
  double size = near < (T)0 ? -(double)near : (double)near, wanted = exact < 0 ? -exact : exact;
  if (size <= wanted) return near;
  if (sizeof(T) == 2) {
    union { T value; unsigned short bits; } u;
    u.value = near;
    u.bits -= 1;
    return u.value;
  }
  union { T value; unsigned int bits; } u;
  u.value = near;
  u.bits -= 1;
  return u.value;
}
template <typename T, typename B> __mlu_func__ void __dlp_first(int op, T *dst, const T *a, B b, long n) {
  __dlp_step(op == FUSION_FMA || op == FUSION_FMS ? 2 : op >= FUSION_FSA && op <= FUSION_FSM ? 1 : 0, dst, a, b, n);
}
template <typename T, typename B> __mlu_func__ void __dlp_second(int op, T *dst, const T *a, B c, long n) {
  __dlp_step(op == FUSION_FAM || op == FUSION_FSM ? 2 : op == FUSION_FAS || op == FUSION_FSS || op == FUSION_FMS ? 1 : 0, dst, a, c, n);
}
template <typename T> __mlu_func__ void __dlp_step(int step, T *dst, const T *a, const T *b, long n) {
  if (step == 2) __bang_mul(dst, a, b, n);
  else if (step == 1) __bang_sub(dst, a, b, n);
  else __bang_add(dst, a, b, n);
}
template <typename T> __mlu_func__ void __dlp_step(int step, T *dst, const T *a, typename __dlp_same<T>::type b, long n) {
  if (step == 2) __bang_mul_scalar(dst, a, b, n);
  else if (step == 1) __bang_sub_scalar(dst, a, b, n);
  else __bang_add_scalar(dst, a, b, n);
}
template <typename T> __mlu_func__ void __dlp_step_cycle(int step, T *dst, const T *a, const T *b, long n, long m) {
  if (step == 2) __bang_cycle_mul(dst, a, b, n, m);
  else if (step == 1) __bang_cycle_sub(dst, a, b, n, m);
  else __bang_cycle_add(dst, a, b, n, m);
}
template <typename T> __mlu_func__ void __dlp_first_cycle(int op, T *dst, const T *a, const T *b, long n, long m) {
  __dlp_step_cycle(op == FUSION_FMA || op == FUSION_FMS ? 2 : op >= FUSION_FSA && op <= FUSION_FSM ? 1 : 0, dst, a, b, n, m);
}
template <typename T> __mlu_func__ void __dlp_second_cycle(int op, T *dst, const T *a, const T *c, long n, long m) {
  __dlp_step_cycle(op == FUSION_FAM || op == FUSION_FSM ? 2 : op == FUSION_FAS || op == FUSION_FSS || op == FUSION_FMS ? 1 : 0, dst, a, c, n, m);
}
__mlu_func__ void *__dlp_in_cluster(void *p, long cluster) {
  return (void *)(((unsigned long)p & ~(0xFFul << 48)) | (unsigned long)(cluster + 1) << 48);
}
template <typename T> __mlu_func__ void __dlp_index(T *dst, long offset, long place, long best) {
  if (sizeof(T) == 2) ((unsigned short *)((char *)dst + offset))[place] = best;
  else ((unsigned int *)((char *)dst + offset))[place] = best;
}
template <typename T> __mlu_func__ bool __dlp_cas_narrow(T *p, T old, T value) {
  union { T value; short bits; } from, to;
  from.value = old;
  to.value = value;
  return __dlp_cas((short *)p, from.bits, to.bits) == from.bits;
}
template <mluMemcpyDirection_t way> __mlu_func__ void __dlp_copy(void *dst, const void *src, long size) { __memcpy(dst, src, size, way); }
template <mluMemcpyDirection_t way> __mlu_func__ void __dlp_copy(void *dst, const void *src, long size, long dst_stride, long src_stride, long count) {
  __memcpy(dst, src, size, way, dst_stride, src_stride, count);
}
template <mluMemcpyDirection_t way> __mlu_func__ void __dlp_copy_async(void *dst, const void *src, long size) { __memcpy_async(dst, src, size, way); }
template <mluMemcpyDirection_t way> __mlu_func__ void __dlp_copy_async(void *dst, const void *src, long size, long dst_stride, long src_stride, long count) {
  __memcpy_async(dst, src, size, way, dst_stride, src_stride, count);
}
template <typename T> __mlu_func__ T __dlp_rem(T a, T b) { return a % b; }
__mlu_func__ float __dlp_rem(float a, float b) { return __builtin_fmodf(a, b); }
__mlu_func__ half __dlp_rem(half a, half b) { return (half)__builtin_fmodf((float)a, (float)b); }
__mlu_func__ bfloat16_t __dlp_rem(bfloat16_t a, bfloat16_t b) { return (bfloat16_t)__builtin_fmodf((float)a, (float)b); }
