"""Sigmoid in BANG C: chunks through NRAM; the next one is loaded while this one is computed."""

SOURCE = r"""
#include <bang.h>
#define CHUNK 2048

__mlu_entry__ void sigmoid(const float *x, float *out, int n) {
  __nram__ float in[2][CHUNK];
  __nram__ float result[2][CHUNK];
  if (__is_mpu()) return;
  int chunks = (n + CHUNK - 1) / CHUNK;
  int mine = taskId < chunks ? (chunks - taskId + taskDim - 1) / taskDim : 0;
  for (int i = 0; i < mine + 2; i++) {  // load chunk i, compute chunk i - 1, store chunk i - 2
    if (i >= 2) {
      int at = ((i - 2) * taskDim + taskId) * CHUNK;
      __memcpy_async(out + at, result[i % 2], min(CHUNK, n - at) * sizeof(float), NRAM2GDRAM);
    }
    if (i < mine) {
      int at = (i * taskDim + taskId) * CHUNK;
      __memcpy_async(in[i % 2], x + at, min(CHUNK, n - at) * sizeof(float), GDRAM2NRAM);
    }
    if (i >= 1 && i <= mine) {
      int at = ((i - 1) * taskDim + taskId) * CHUNK;
      __bang_active_sigmoid(result[(i - 1) % 2], in[(i - 1) % 2], min(CHUNK, n - at));
    }
    __sync();
  }
}

__mlu_entry__ void sigmoid_gradient(const float *y, const float *g, float *out, int n) {
  __nram__ float a[CHUNK];
  __nram__ float b[CHUNK];
  if (__is_mpu()) return;
  for (int i = taskId * CHUNK; i < n; i += taskDim * CHUNK) {
    int now = min(CHUNK, n - i);
    __memcpy(a, y + i, now * sizeof(float), GDRAM2NRAM);
    __memcpy(b, g + i, now * sizeof(float), GDRAM2NRAM);
    __bang_mul(b, b, a, now);               // g y
    __bang_mul_scalar(a, a, -1.0f, now);
    __bang_add_scalar(a, a, 1.0f, now);     // 1 - y
    __bang_mul(a, a, b, now);
    __memcpy(out + i, a, now * sizeof(float), NRAM2GDRAM);
  }
}
"""
