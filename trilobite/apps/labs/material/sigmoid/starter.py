"""Lab sigmoid: a first BANG C kernel. Write the two entries; a .mlu file with them can be checked as well.

trilobite lab sigmoid --check this_file.py
"""

SOURCE = r"""
#include <bang.h>
#define CHUNK 2048

// Write: __mlu_entry__ void sigmoid(const float *x, float *out, int n), out[i] = 1 / (1 + exp(-x[i])).
// Copy a chunk to NRAM, compute it there (__bang_active_sigmoid(dst, src, count)), copy it back.
// The last chunk may be short. Every task takes every taskDim-th chunk.

// Write: __mlu_entry__ void sigmoid_gradient(const float *y, const float *g, float *out, int n),
// out[i] = g[i] * y[i] * (1 - y[i]), where y is what the first gave.
"""
