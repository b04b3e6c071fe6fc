// Chains of elementwise operations on one vector: fusor<float>(dst, src, n).mul(a).sqrt().add(b).
#pragma once
#include "mlu.h"
namespace bang { namespace experimental {
template <typename T> struct fusor {
  T *dst;
  const T *now;
  long n;
  __mlu_func__ fusor(T *d, const T *s, long count) : dst(d), now(s), n(count) {}
#define __DLP_CHAIN(name, vector, scalar) \
  __mlu_func__ fusor &name(const T *x) { vector(dst, now, x, n); now = dst; return *this; } \
  __mlu_func__ fusor &name(T x) { scalar(dst, now, x, n); now = dst; return *this; }
  __DLP_CHAIN(add, __bang_add, __bang_add_scalar)
  __DLP_CHAIN(sub, __bang_sub, __bang_sub_scalar)
  __DLP_CHAIN(mul, __bang_mul, __bang_mul_scalar)
  __DLP_CHAIN(div, __bang_div, __bang_div)
  __DLP_CHAIN(max, __bang_maxequal, __bang_maxeq_scalar)
  __DLP_CHAIN(min, __bang_minequal, __bang_mineq_scalar)
#undef __DLP_CHAIN
#define __DLP_CHAIN(name, vector) __mlu_func__ fusor &name() { vector(dst, now, n); now = dst; return *this; }
  __DLP_CHAIN(sqrt, __bang_sqrt)
  __DLP_CHAIN(abs, __bang_abs)
  __DLP_CHAIN(recip, __bang_recip)
  __DLP_CHAIN(relu, __bang_relu)
  __DLP_CHAIN(square, __bang_square)
  __DLP_CHAIN(neg, __bang_neg)
#undef __DLP_CHAIN
};
} }
