"""PowerDifference: an operator of the framework on the CPU, and a kernel of the processor."""

import numpy as np

import trilobite as tb


def forward(x, y, p):
    result = np.ones_like(x)
    for _ in range(p):
        result = result * (x - y)
    return result


@tb.custom_op
def power_difference(x, y, *, p):
    return forward(x, y, p)


@power_difference.defvjp
def _(inputs, result, cotangent, *, p):
    x, y = inputs
    slope = cotangent * p * power_difference(x, y, p=p - 1) if p else cotangent * 0
    return slope, -slope


SOURCE = r"""
#include <bang.h>
#define CHUNK 512

__mlu_entry__ void power_difference(const float *x, const float *y, float *out, int n, int power) {
  __nram__ float a[CHUNK];
  __nram__ float b[CHUNK];
  if (__is_mpu()) return;
  for (int i = taskId * CHUNK; i < n; i += taskDim * CHUNK) {
    int now = n - i < CHUNK ? n - i : CHUNK;
    __memcpy(a, x + i, now * sizeof(float), GDRAM2NRAM);
    __memcpy(b, y + i, now * sizeof(float), GDRAM2NRAM);
    __bang_sub(a, a, b, now);
    __bang_write_value(b, now, 1.0f);
    for (int k = 0; k < power; k++) __bang_mul(b, b, a, now);
    __memcpy(out + i, b, now * sizeof(float), NRAM2GDRAM);
  }
}
"""
