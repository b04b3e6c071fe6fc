"""Lab stencil: a schedule for a blur in two stages. Change how it runs, not what it computes.

    trilobite lab stencil --check this_file.py

The nest, as it is given:

    for j in width + 2                          t[i, j] = x[i, j] + x[i + 1, j] + x[i + 2, j]
      for i in height
    for c in width                              out[r, c] = t[r, c] + t[r, c + 1] + t[r, c + 2]
      for r in height

s has split, tile, fuse, reorder, vectorise, parallelise, unroll, compute_at, pack; each returns s
again, and one that would break a dependence says which. print(s.nest) shows where you are.
"""


def schedule(s):
    return s
