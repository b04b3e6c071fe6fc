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
    *, width: int = 128, rows: int = 192, cols: int = 64, causal: bool = False,
):  # fmt: skip
    """out[h] = softmax(q[h] k[h]^T * scale) v[h] without ever holding all scores: q [heads][queries][width].

    A block of queries stays in WRAM, blocks of keys and values pass by. Everything lies as [...][query], so
    that what belongs to a query repeats along the rows. While the vector unit turns the scores of one block
    into weights, the matrix unit multiplies the next block, and the one after that comes from memory.
    """
    factor = dlp.nram(rows, dlp.f32)
    dlp.fill(factor, scale)
    blocks = (queries + rows - 1) // rows
    for t in range(dlp.task_id(), heads * blocks, dlp.task_dim()):
        head, first = t // blocks, (t % blocks) * rows
        m = min(rows, queries - first)
        mine = (head * queries + first) * width
        last = min(keys, first + m) if causal else keys
        result = attend(q + mine, k + head * keys * width, v + head * keys * width, m, first, last,
                        factor, width, rows, cols, causal)  # fmt: skip
        turned = dlp.nram(rows * width, dlp.f32)
        dlp.transpose(turned[: m * width].view(m, width), result[: m * width].view(width, m))
        dlp.copy(out[mine : mine + m * width], turned[: m * width])


@dlp.device
def attend(q, k, v, m, first, last, factor, width, rows, cols, causal):
    """[width][query] of one block of queries over the keys up to `last`."""
    held, result = dlp.wram(rows * width, dlp.f32), dlp.nram(rows * width, dlp.f32)
    largest, total, before = dlp.nram(rows, dlp.f32), dlp.nram(rows, dlp.f32), dlp.nram(rows, dlp.f32)
    k0, k1 = dlp.nram(cols * width, dlp.f32), dlp.nram(cols * width, dlp.f32)
    v0, v1 = dlp.nram(cols * width, dlp.f32), dlp.nram(cols * width, dlp.f32)
    s0, s1 = dlp.nram(cols * rows, dlp.f32), dlp.nram(cols * rows, dlp.f32)
    p0, p1 = dlp.wram(cols * rows, dlp.f32), dlp.wram(cols * rows, dlp.f32)
    dlp.copy(held[: m * width], q[: m * width])
    dlp.fill(result[: m * width], 0.0)
    dlp.fill(largest[:m], -1e30)
    dlp.fill(total[:m], 0.0)
    n = min(cols, last)
    dlp.copy(k0[: n * width], k[: n * width])
    score(s0, k0, held, factor, m, n, width)
    fetch(k1, k, cols, last, cols, width)
    turned = result[: m * width].view(width, m)
    weigh(0, s0, s1, p0, k0, k1, v0, k, v, held, largest, total, before, m, first, last,
          factor, width, rows, cols, causal)  # fmt: skip
    for j in range(cols, last, 2 * cols):
        dlp.sync("io")
        add_values(turned, v0, p0, before, m, cols, width)
        weigh(j, s1, s0, p1, k1, k0, v1, k, v, held, largest, total, before, m, first, last,
              factor, width, rows, cols, causal)  # fmt: skip
        if j + cols < last:
            dlp.sync("io")
            add_values(turned, v1, p1, before, m, cols, width)
            weigh(j + cols, s0, s1, p0, k0, k1, v0, k, v, held, largest, total, before, m, first, last,
                  factor, width, rows, cols, causal)  # fmt: skip
    dlp.sync("io")
    steps = (last + cols - 1) // cols
    n = last - (steps - 1) * cols
    if steps % 2 == 1:
        add_values(turned, v0, p0, before, m, n, width)
    else:
        add_values(turned, v1, p1, before, m, n, width)
    dlp.recip(total[:m], total[:m])
    dlp.mul(turned, turned, total[:m])
    return result


@dlp.device
def score(s, keys, held, factor, m, n, width):
    """s[n][m] = keys[n] . queries[m] * scale"""
    left, right = keys[: n * width].view(n, width), held[: m * width].view(m, width)
    dlp.matmul(s[: n * m].view(n, m), left, right, scale=factor[:m], transpose_b=True)


@dlp.device
def fetch(buffer, source, at, last, cols, width):
    """Starts the copy of a block, if there is one."""
    if at < last:
        n = min(cols, last - at)
        dlp.copy_async(buffer[: n * width], source[at * width : at * width + n * width])


@dlp.device
def add_values(turned, values, weights, before, m, n, width):
    """What was added so far is scaled to the new maximum, and the weighted values of a block are added."""
    dlp.mul(turned, turned, before[:m])
    left, right = values[: n * width].view(n, width), weights[: n * m].view(n, m)
    dlp.matmul(turned, left, right, accumulate=True, transpose_a=True)


@dlp.device
def weigh(j, s, s_next, p, kb, kb_next, vb, k, v, held, largest, total, before, m, first, last,
          factor, width, rows, cols, causal):  # fmt: skip
    """Scores of block j in s become weights in p, while block j + 1 is multiplied and further ones come."""
    n = min(cols, last - j)
    sums = dlp.nram(rows, dlp.f32)
    dlp.sync("io")
    if j + cols < last:
        score(s_next, kb_next, held, factor, m, min(cols, last - j - cols), width)
    fetch(kb, k, j + 2 * cols, last, cols, width)
    fetch(vb, v, j, last, cols, width)
    block = s[: n * m].view(n, m)
    if causal:
        for row in range(n):
            hidden = max(0, min(m, j + row - first))
            dlp.fill(s[row * m : row * m + hidden], -1e30)
    dlp.max(sums[:m], block, axis=0)
    dlp.maximum(sums[:m], sums[:m], largest[:m])
    dlp.sub(before[:m], largest[:m], sums[:m])
    dlp.exp(before[:m], before[:m])
    dlp.maximum(largest[:m], largest[:m], sums[:m])
    dlp.sub(block, block, largest[:m])
    dlp.exp(s[: n * m], s[: n * m])
    dlp.copy(p[: n * m], s[: n * m])
    dlp.sum(sums[:m], block, axis=0)
    dlp.fma(total[:m], total[:m], before[:m], sums[:m])
