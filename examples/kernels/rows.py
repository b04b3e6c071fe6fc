"""Softmax and layer normalisation over the rows of a matrix, of any length.

Rows that fit into a tile are taken several at a time: statistics per row are one reduction, and a row's value
reaches all its elements as an outer product with ones. Longer rows are read in pieces: once or twice for the
statistics, once more for the result.
"""

from trilobite import dlp


@dlp.device
def spread(dst, values, ones, count, n):
    """dst[i][j] = values[i]: every element of a row gets the row's value."""
    dlp.outer(dst.view(count, n), values[:count], ones[:n])


@dlp.kernel
def softmax(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], rows: int, n: int, *, tile: int = 8192):
    """out[r] = exp(x[r] - max) / sum, for rows of n elements."""
    ones = dlp.nram(tile, dlp.f32)
    dlp.fill(ones, 1.0)
    if n <= tile:
        softmax_short(x, out, rows, n, ones, tile)
    else:
        softmax_long(x, out, rows, n, tile)


@dlp.device
def softmax_short(x, out, rows, n, ones, tile):
    per = tile // n
    statistic = dlp.nram(tile, dlp.f32)
    wide = dlp.nram(tile, dlp.f32)
    for r in dlp.pipeline(dlp.task_id() * per, rows, dlp.task_dim() * per):
        count = min(per, rows - r)
        m = count * n
        a, y = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
        dlp.load(a[:m], x[r * n : r * n + m])
        dlp.max(statistic[:count], a[:m].view(count, n), axis=1)
        spread(wide[:m], statistic, ones, count, n)
        dlp.sub(a[:m], a[:m], wide[:m])
        dlp.exp(a[:m], a[:m])
        dlp.sum(statistic[:count], a[:m].view(count, n), axis=1)
        spread(wide[:m], statistic, ones, count, n)
        dlp.div(y[:m], a[:m], wide[:m])
        dlp.store(out[r * n : r * n + m], y[:m])


@dlp.device
def softmax_long(x, out, rows, n, tile):
    part = dlp.nram(tile, dlp.f32)
    one = dlp.nram(16, dlp.f32)
    for r in range(dlp.task_id(), rows, dlp.task_dim()):
        largest = dlp.f32(-3.4028235e38)
        for i in range(0, n, tile):
            m = min(tile, n - i)
            dlp.copy(part[:m], x[r * n + i : r * n + i + m])
            dlp.max(one, part[:m])
            largest = max(largest, one[0])
        total = dlp.f32(0.0)
        for i in range(0, n, tile):
            m = min(tile, n - i)
            dlp.copy(part[:m], x[r * n + i : r * n + i + m])
            dlp.sub(part[:m], part[:m], largest)
            dlp.exp(part[:m], part[:m])
            dlp.sum(one, part[:m])
            total += one[0]
            dlp.copy(out[r * n + i : r * n + i + m], part[:m])
        for i in dlp.pipeline(0, n, tile):
            m = min(tile, n - i)
            a = dlp.nram(tile, dlp.f32)
            dlp.load(a[:m], out[r * n + i : r * n + i + m])
            dlp.div(a[:m], a[:m], total)
            dlp.store(out[r * n + i : r * n + i + m], a[:m])


@dlp.kernel
def layer_norm(
    x: dlp.gm[dlp.f32], gamma: dlp.gm[dlp.f32], beta: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32],
    rows: int, n: int, eps: float, *, tile: int = 8192,
):  # fmt: skip
    """out[r] = (x[r] - mean) / sqrt(variance + eps) * gamma + beta, for rows of up to `tile` elements."""
    assert n <= tile, "a row is longer than a tile"
    scale, shift = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
    ones, wide = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
    statistic = dlp.nram(tile, dlp.f32)
    dlp.copy(scale[:n], gamma[:n])
    dlp.copy(shift[:n], beta[:n])
    dlp.fill(ones, 1.0)
    per = tile // n
    inverse = 1.0 / dlp.f32(n)
    for r in dlp.pipeline(dlp.task_id() * per, rows, dlp.task_dim() * per):
        count = min(per, rows - r)
        m = count * n
        a, y = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
        dlp.load(a[:m], x[r * n : r * n + m])
        dlp.sum(statistic[:count], a[:m].view(count, n), axis=1)
        dlp.mul(statistic[:count], statistic[:count], inverse)
        spread(wide[:m], statistic, ones, count, n)
        dlp.sub(a[:m], a[:m], wide[:m])
        dlp.mul(wide[:m], a[:m], a[:m])
        dlp.sum(statistic[:count], wide[:m].view(count, n), axis=1)
        dlp.mul(statistic[:count], statistic[:count], inverse)
        dlp.add(statistic[:count], statistic[:count], eps)
        dlp.rsqrt(statistic[:count], statistic[:count])
        spread(wide[:m], statistic, ones, count, n)
        dlp.mul(a[:m], a[:m], wide[:m])
        dlp.mul(a[:m].view(count, n), a[:m].view(count, n), scale[:n])
        dlp.add(y[:m].view(count, n), a[:m].view(count, n), shift[:n])
        dlp.store(out[r * n : r * n + m], y[:m])
