"""Lab sigmoid: a first BANG C kernel. Write the two entries; a .mlu file with them can be checked as well.

    trilobite lab sigmoid --check this_file.py
"""

SOURCE = r"""
#include <bang.h>
#define CHUNK 2048

// out[i] = 1 / (1 + exp(-x[i])): __mlu_entry__ void NAME(const float *x, float *out, int n), as the lab names it.
// Copy a chunk to NRAM, compute it there (__bang_active_sigmoid(dst, src, count)), copy it back. The last chunk
// may be short. Every task takes every taskDim-th chunk.

// out[i] = g[i] * y[i] * (1 - y[i]), with y the result of the first: (const float *y, const float *g, float *out, int n)
"""
