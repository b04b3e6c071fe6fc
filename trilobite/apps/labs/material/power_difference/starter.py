"""Lab power-difference: (x - y)^p, first on the CPU, then in BANG C. Fill in what is missing.

trilobite lab power-difference --check this_file.py
"""

import numpy as np

import trilobite as tb


def forward(x, y, p):
    """(x - y)^p of float32 arrays, for a whole p of at least 0."""
    raise NotImplementedError


@tb.custom_op
def power_difference(x, y, *, p):
    return forward(x, y, p)


@power_difference.defvjp
def _(inputs, result, cotangent, *, p):
    """The gradients of x and y, written with tensors; p = 0 has slope 0."""
    raise NotImplementedError


SOURCE = r"""
#include <bang.h>
#define CHUNK 512

// out[i] = (x[i] - y[i])^power for i from 0 to n - 1, for any number of tasks (taskId, taskDim).
// Write: __mlu_entry__ void power_difference(const float *x, const float *y, float *out,
//                                            int n, int power)
"""
