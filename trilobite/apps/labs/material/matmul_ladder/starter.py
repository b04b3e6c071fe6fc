"""Lab matmul-ladder: c[m][n] = a[m][k] b[n][k] in five steps; k and n are at most 128. The first is given.

    trilobite lab matmul-ladder --check this_file.py

A .mlu file with the entries can be checked as well. Every entry takes (float *c, float *a, float *b,
int m, int n, int k).
"""

SOURCE = r"""
#include <bang.h>

// 1. step1: scalar arithmetic on GDRAM: every operand comes from off-chip memory.
__mlu_entry__ void step1(float *c, float *a, float *b, int m, int n, int k) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int t = 0; t < k; t++) sum += a[i * k + t] * b[j * k + t];
      c[i * n + j] = sum;
    }
}

// 2. step2: the same loops on NRAM; __memcpy(dst, src, bytes, GDRAM2NRAM).
// 3. step3: the matrix instruction; __bang_matmul(result, rows, weights, m, k, n), weights in WRAM.
// 4. step4: all cores; taskId and taskDim share the rows of a.
// 5. step5: three stages beside each other; __memcpy_async, two buffers of each kind, __sync() a round.
"""
