"""PowerDifference, and sigmoid with its derivative: one stream in, one stream out, as fast as memory allows.

Every task takes every task_dim-th tile; a pipelined loop loads the next tile while this one is computed and
the last one is stored.
"""

from trilobite import dlp


@dlp.kernel
def power_difference(
    x: dlp.gm[dlp.f32], y: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int, p: int, *, tile: int = 8192
):
    """out[i] = (x[i] - y[i]) ** p for a whole p of at least 0."""
    for i in dlp.pipeline(dlp.task_id() * tile, n, dlp.task_dim() * tile):
        m = min(tile, n - i)
        a, b = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
        result = dlp.nram(tile, dlp.f32)
        dlp.load(a[:m], x[i : i + m])
        dlp.load(b[:m], y[i : i + m])
        dlp.sub(a[:m], a[:m], b[:m])
        dlp.fill(result[:m], 1.0)
        for _ in range(p):
            dlp.mul(result[:m], result[:m], a[:m])
        dlp.store(out[i : i + m], result[:m])


@dlp.kernel
def sigmoid(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int, *, tile: int = 8192):
    """out[i] = 1 / (1 + exp(-x[i]))"""
    for i in dlp.pipeline(dlp.task_id() * tile, n, dlp.task_dim() * tile):
        m = min(tile, n - i)
        a, y = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
        dlp.load(a[:m], x[i : i + m])
        dlp.sigmoid(y[:m], a[:m])
        dlp.store(out[i : i + m], y[:m])


@dlp.kernel
def sigmoid_backward(
    y: dlp.gm[dlp.f32], dy: dlp.gm[dlp.f32], dx: dlp.gm[dlp.f32], n: int, *, tile: int = 8192
):
    """dx[i] = dy[i] * y[i] * (1 - y[i]), from the forward result y."""
    for i in dlp.pipeline(dlp.task_id() * tile, n, dlp.task_dim() * tile):
        m = min(tile, n - i)
        a, g, d = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
        dlp.load(a[:m], y[i : i + m])
        dlp.load(g[:m], dy[i : i + m])
        dlp.rsub(d[:m], a[:m], 1.0)
        dlp.mul(d[:m], d[:m], a[:m])
        dlp.mul(d[:m], d[:m], g[:m])
        dlp.store(dx[i : i + m], d[:m])
