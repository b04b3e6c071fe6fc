"""Transpose, reductions, top-k, embedding gather and scatter-add: kernels that move rather than compute."""

from trilobite import dlp


@dlp.kernel
def transpose(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], rows: int, cols: int, *, block: int = 64):
    """out[cols][rows] = x[rows][cols], block by block; strided copies cut the blocks out."""
    source, target = x.view(rows, cols), out.view(cols, rows)
    across = (cols + block - 1) // block
    down = (rows + block - 1) // block
    for t in dlp.pipeline(dlp.task_id(), across * down, dlp.task_dim()):
        r, c = (t // across) * block, (t % across) * block
        h, w = min(block, rows - r), min(block, cols - c)
        a, b = dlp.nram(block * block, dlp.f32), dlp.nram(block * block, dlp.f32)
        dlp.load(a[: h * w].view(h, w), source[r : r + h, c : c + w])
        dlp.transpose(b[: h * w].view(w, h), a[: h * w].view(h, w))
        dlp.store(target[c : c + w, r : r + h], b[: h * w].view(w, h))


@dlp.kernel
def reduce_rows(
    x: dlp.gm[dlp.f32],
    total: dlp.gm[dlp.f32],
    largest: dlp.gm[dlp.f32],
    rows: int,
    n: int,
    *,
    tile: int = 8192,
):
    """The sum and the maximum of every row; long rows are added up piece by piece, in order."""
    part, one = dlp.nram(tile, dlp.f32), dlp.nram(16, dlp.f32)
    for r in range(dlp.task_id(), rows, dlp.task_dim()):
        added, best = dlp.f32(0.0), x[r * n]
        for i in range(0, n, tile):
            m = min(tile, n - i)
            dlp.copy(part[:m], x[r * n + i : r * n + i + m])
            dlp.sum(one, part[:m])
            added += one[0]
            dlp.max(one, part[:m])
            best = max(best, one[0])
        total[r] = added
        largest[r] = best


@dlp.kernel
def reduce_columns(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], rows: int, cols: int, *, tile: int = 4096):
    """out[c] = sum over r of x[r][c], r ascending; each task owns a band of columns."""
    source = x.view(rows, cols)
    total, row = dlp.nram(tile, dlp.f32), dlp.nram(tile, dlp.f32)
    for c in range(dlp.task_id() * tile, cols, dlp.task_dim() * tile):
        m = min(tile, cols - c)
        dlp.fill(total[:m], 0.0)
        for r in range(rows):
            dlp.copy(row[:m], source[r, c : c + m])
            dlp.add(total[:m], total[:m], row[:m])
        dlp.copy(out[c : c + m], total[:m])


@dlp.kernel
def top_k(
    x: dlp.gm[dlp.f32], values: dlp.gm[dlp.f32], places: dlp.gm[dlp.i32], rows: int, n: int, k: int,
    *, tile: int = 2048, room: int = 4096,
):  # fmt: skip
    """The k largest of every row (k up to room - tile), largest first, equal ones in order of place."""
    keys, where = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.i32)
    sorted_keys, order = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.i32)
    chosen = dlp.nram(room, dlp.i32)
    for r in range(dlp.task_id(), rows, dlp.task_dim()):
        have = 0
        for i in range(0, n, tile):
            m = min(tile, n - i)
            dlp.copy(keys[have : have + m], x[r * n + i : r * n + i + m])
            dlp.iota(where[have : have + m], i, 1)
            both = have + m
            dlp.sort(sorted_keys[:both], order[:both], keys[:both], descending=True)
            dlp.gather(chosen[:both], where[:both], order[:both])
            have = min(k, both)
            dlp.copy(keys[:have], sorted_keys[:have])
            dlp.copy(where[:have], chosen[:have])
        dlp.copy(values[r * k : r * k + have], keys[:have])
        dlp.copy(places[r * k : r * k + have], where[:have])


@dlp.kernel
def embedding(
    table: dlp.gm[dlp.f32], ids: dlp.gm[dlp.i32], out: dlp.gm[dlp.f32], count: int, width: int,
    *, batch: int = 64, room: int = 16384,
):  # fmt: skip
    """out[i] = table[ids[i]]; a batch of rows is fetched with one wait for all of them."""
    names, rows = dlp.nram(batch, dlp.i32), dlp.nram(room, dlp.f32)
    per = min(batch, room // width)
    for i in range(dlp.task_id() * per, count, dlp.task_dim() * per):
        m = min(per, count - i)
        dlp.copy(names[:m], ids[i : i + m])
        for j in range(m):
            row = names[j] * width
            dlp.copy_async(rows[j * width : j * width + width], table[row : row + width])
        dlp.sync("io")
        dlp.copy(out[i * width : i * width + m * width], rows[: m * width])


@dlp.kernel
def embedding_backward(
    grad: dlp.gm[dlp.f32], ids: dlp.gm[dlp.i32], table: dlp.gm[dlp.f32], count: int, width: int, names: int,
    *, room: int = 8192,
):  # fmt: skip
    """table[ids[i]] += grad[i], i ascending; a task owns the rows whose number falls to it."""
    row, update = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
    for i in range(count):
        name = ids[i]
        assert 0 <= name < names, "an id is outside the table"
        if name % dlp.task_dim() == dlp.task_id():
            dlp.copy(row[:width], table[name * width : name * width + width])
            dlp.copy(update[:width], grad[i * width : i * width + width])
            dlp.add(row[:width], row[:width], update[:width])
            dlp.copy(table[name * width : name * width + width], row[:width])
