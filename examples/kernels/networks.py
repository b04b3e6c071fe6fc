"""An LSTM cell and flash attention: matrix products with what stands between them kept on chip."""

from trilobite import dlp


@dlp.kernel
def lstm_cell(
    x: dlp.gm[dlp.f32], h: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], w: dlp.gm[dlp.f32], u: dlp.gm[dlp.f32],
    bias: dlp.gm[dlp.f32], h_out: dlp.gm[dlp.f32], c_out: dlp.gm[dlp.f32],
    batch: int, inputs: int, hidden: int,
    *, rows: int = 16, room: int = 4096, filters: int = 16384, wide: int = 4096,
):  # fmt: skip
    """One step: gates i f g o = x w + h u + bias, w [inputs][4 hidden], u [hidden][4 hidden]."""
    weights, recurrent = dlp.wram(filters, dlp.f32), dlp.wram(filters, dlp.f32)
    added, gates = dlp.nram(wide, dlp.f32), dlp.nram(4 * room, dlp.f32)
    old, cell, kept = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
    four = 4 * hidden
    dlp.copy(weights[: inputs * four], w[: inputs * four])
    dlp.copy(recurrent[: hidden * four], u[: hidden * four])
    dlp.copy(added[:four], bias[:four])
    for first in range(dlp.task_id() * rows, batch, dlp.task_dim() * rows):
        m = min(rows, batch - first)
        a = dlp.nram(room, dlp.f32)
        total = gates[: m * four].view(m, four)
        dlp.copy(a[: m * inputs], x[first * inputs : first * inputs + m * inputs])
        dlp.matmul(total, a[: m * inputs].view(m, inputs), weights[: inputs * four].view(inputs, four))
        dlp.copy(old[: m * hidden], h[first * hidden : first * hidden + m * hidden])
        dlp.matmul(
            total, old[: m * hidden].view(m, hidden), recurrent[: hidden * four].view(hidden, four),
            accumulate=True, bias=added[:four],
        )  # fmt: skip
        dlp.copy(cell[: m * hidden], c[first * hidden : first * hidden + m * hidden])
        part = dlp.nram(4 * room, dlp.f32)
        split = part.view(4, room)
        for k in dlp.static_range(4):
            dlp.copy(split[k, : m * hidden].view(m, hidden), total[:, k * hidden : k * hidden + hidden])
        size = m * hidden
        i, f, g, o = (split[0, :size], split[1, :size], split[2, :size], split[3, :size])
        dlp.sigmoid(i, i)
        dlp.sigmoid(f, f)
        dlp.tanh(g, g)
        dlp.sigmoid(o, o)
        dlp.mul(f, f, cell[:size])
        dlp.fma(f, i, g, f)
        dlp.tanh(kept[:size], f)
        dlp.mul(kept[:size], kept[:size], o)
        dlp.copy(c_out[first * hidden : first * hidden + size], f)
        dlp.copy(h_out[first * hidden : first * hidden + size], kept[:size])


@dlp.kernel
def flash_attention(
    q: dlp.gm[dlp.f32], k: dlp.gm[dlp.f32], v: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32],
    heads: int, queries: int, keys: int, scale: float,
    *, width: int = 64, rows: int = 64, cols: int = 64, causal: bool = False,
):  # fmt: skip
    """out[h] = softmax(q[h] k[h]^T * scale) v[h] without ever holding the scores: q [heads][queries][width].

    A block of queries stays on chip; blocks of keys pass by. The running maximum and sum of each row stay,
    and what was added before is scaled when the maximum grows.
    """
    ones = dlp.nram(max(cols, width), dlp.f32)
    dlp.fill(ones, 1.0)
    blocks = (queries + rows - 1) // rows
    for t in range(dlp.task_id(), heads * blocks, dlp.task_dim()):
        head, first = t // blocks, (t % blocks) * rows
        attend(q, k, v, out, head, first, queries, keys, scale, ones, width, rows, cols, causal)


@dlp.device
def attend(q, k, v, out, head, first, queries, keys, scale, ones, width, rows, cols, causal):
    m = min(rows, queries - first)
    mine = (head * queries + first) * width
    block, result = dlp.nram(rows * width, dlp.f32), dlp.nram(rows * width, dlp.f32)
    scores, spread = dlp.nram(rows * cols, dlp.f32), dlp.nram(rows * max(cols, width), dlp.f32)
    product = dlp.nram(rows * width, dlp.f32)
    largest, before, total, sums = (dlp.nram(rows, dlp.f32), dlp.nram(rows, dlp.f32), dlp.nram(rows, dlp.f32),
                                    dlp.nram(rows, dlp.f32))  # fmt: skip
    dlp.copy(block[: m * width], q[mine : mine + m * width])
    dlp.mul(block[: m * width], block[: m * width], scale)
    dlp.fill(result[: m * width], 0.0)
    dlp.fill(largest[:m], -1e30)
    dlp.fill(total[:m], 0.0)
    last = min(keys, first + m) if causal else keys
    for j in dlp.pipeline(0, last, cols):
        n = min(cols, keys - j)
        theirs = (head * keys + j) * width
        kb, vb = dlp.wram(cols * width, dlp.f32), dlp.wram(cols * width, dlp.f32)
        dlp.load(kb[: n * width], k[theirs : theirs + n * width])
        dlp.load(vb[: n * width], v[theirs : theirs + n * width])
        s = scores[: m * n].view(m, n)
        dlp.matmul(s, block[: m * width].view(m, width), kb[: n * width].view(n, width), transpose_b=True)
        if causal:
            for row in range(m):
                seen = max(0, min(n, first + row + 1 - j))
                dlp.fill(scores[row * n + seen : row * n + n], -1e30)
        dlp.copy(before[:m], largest[:m])
        dlp.max(sums[:m], s, axis=1)
        dlp.maximum(largest[:m], largest[:m], sums[:m])
        dlp.outer(spread[: m * n].view(m, n), largest[:m], ones[:n])
        dlp.sub(scores[: m * n], scores[: m * n], spread[: m * n])
        dlp.exp(scores[: m * n], scores[: m * n])
        dlp.sub(before[:m], before[:m], largest[:m])
        dlp.exp(before[:m], before[:m])
        dlp.sum(sums[:m], s, axis=1)
        dlp.fma(total[:m], total[:m], before[:m], sums[:m])
        dlp.matmul(product[: m * width].view(m, width), s, vb[: n * width].view(n, width))
        dlp.outer(spread[: m * width].view(m, width), before[:m], ones[:width])
        dlp.fma(result[: m * width], result[: m * width], spread[: m * width], product[: m * width])
    dlp.recip(total[:m], total[:m])
    dlp.outer(spread[: m * width].view(m, width), total[:m], ones[:width])
    dlp.mul(result[: m * width], result[: m * width], spread[: m * width])
    dlp.copy(out[mine : mine + m * width], result[: m * width])
