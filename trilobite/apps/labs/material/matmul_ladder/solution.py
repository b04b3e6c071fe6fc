"""The matmul ladder in BANG C: c[m][n] = a[m][k] b[n][k], k and n up to 128."""

SOURCE = r"""
#include <bang.h>
#define MOST 128
#define ROWS 16

__mlu_entry__ void step1(float *c, float *a, float *b, int m, int n, int k) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int t = 0; t < k; t++) sum += a[i * k + t] * b[j * k + t];
      c[i * n + j] = sum;
    }
}

__mlu_entry__ void step2(float *c, float *a, float *b, int m, int n, int k) {
  __nram__ float row[MOST];
  __nram__ float columns[MOST * MOST];
  __nram__ float result[MOST];
  __memcpy(columns, b, n * k * sizeof(float), GDRAM2NRAM);
  for (int i = 0; i < m; i++) {
    __memcpy(row, a + i * k, k * sizeof(float), GDRAM2NRAM);
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int t = 0; t < k; t++) sum += row[t] * columns[j * k + t];
      result[j] = sum;
    }
    __memcpy(c + i * n, result, n * sizeof(float), NRAM2GDRAM);
  }
}

__nram__ float rows[2][ROWS * MOST];
__nram__ float results[2][ROWS * MOST];
__wram__ float weights[MOST * MOST];

// Row r of b goes to lane r % 64 of WRAM where there are more than 64 of them.
__mlu_func__ void load_weights(float *b, int n, int k) {
  int slots = n % 64 == 0 ? n / 64 : 1, lanes = n / slots, row = k * sizeof(float);
  for (int s = 0; s < slots; s++)
    __memcpy(weights + s * k, b + s * lanes * k, row, GDRAM2WRAM, slots * row, row, lanes - 1);
}

__mlu_func__ void some_rows(float *c, float *a, int first, int step, int m, int n, int k) {
  for (int i = first; i < m; i += step) {
    int now = min(ROWS, m - i);
    __memcpy(rows[0], a + i * k, now * k * sizeof(float), GDRAM2NRAM);
    __bang_matmul(results[0], rows[0], weights, now, k, n);
    __memcpy(c + i * n, results[0], now * n * sizeof(float), NRAM2GDRAM);
  }
}

__mlu_entry__ void step3(float *c, float *a, float *b, int m, int n, int k) {
  load_weights(b, n, k);
  some_rows(c, a, 0, ROWS, m, n, k);
}

__mlu_entry__ void step4(float *c, float *a, float *b, int m, int n, int k) {
  if (__is_mpu()) return;
  load_weights(b, n, k);
  some_rows(c, a, taskId * ROWS, taskDim * ROWS, m, n, k);
}

__mlu_entry__ void step5(float *c, float *a, float *b, int m, int n, int k) {
  if (__is_mpu()) return;
  load_weights(b, n, k);
  int tiles = (m + ROWS - 1) / ROWS;
  int mine = taskId < tiles ? (tiles - taskId + taskDim - 1) / taskDim : 0;
  for (int i = 0; i < mine + 2; i++) {
    if (i >= 2) {
      int row = ((i - 2) * taskDim + taskId) * ROWS;
      __memcpy_async(c + row * n, results[i % 2], min(ROWS, m - row) * n * sizeof(float), NRAM2GDRAM);
    }
    if (i < mine) {
      int row = (i * taskDim + taskId) * ROWS;
      __memcpy_async(rows[i % 2], a + row * k, min(ROWS, m - row) * k * sizeof(float), GDRAM2NRAM);
    }
    if (i >= 1 && i <= mine) {
      int row = ((i - 1) * taskDim + taskId) * ROWS;
      __bang_matmul(results[(i - 1) % 2], rows[(i - 1) % 2], weights, min(ROWS, m - row), k, n);
    }
    __sync();
  }
}
"""
