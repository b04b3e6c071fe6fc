"""Kernels whose order is their author's: asynchronous copies, waits, meetings. Each is correct as it stands.

`test_mistakes` takes single lines out, or changes them, and asks the checkers what is wrong. A line marked
`# needed` may not be left out; what follows an arrow is what a mistaken author would have written.
"""

from trilobite import dlp


@dlp.kernel
def double_buffer(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram((2, 64), dlp.f32), dlp.nram((2, 64), dlp.f32)
    blocks = n // 64
    dlp.copy_async(a[0], x[:64])
    for i in range(blocks):
        dlp.sync()  # needed
        if i + 1 < blocks:
            dlp.copy_async(a[(i + 1) % 2], x[i * 64 + 64 : i * 64 + 128])
        dlp.exp(b[i % 2], a[i % 2])
        dlp.sync("vector")
        dlp.copy_async(out[i * 64 : i * 64 + 64], b[i % 2])


@dlp.kernel
def load_compute_store(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram(256, dlp.f32), dlp.nram(256, dlp.f32)
    dlp.copy_async(a[:n], x[:n])
    dlp.sync("io")  # needed
    dlp.mul(b[:n], a[:n], 2.0)
    dlp.copy_async(a[:n], x[n : 2 * n])
    dlp.sync()  # needed
    dlp.add(b[:n], b[:n], a[:n])
    dlp.copy(out[:n], b[:n])


@dlp.kernel
def weights_first(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, w, c = dlp.nram((8, 16), dlp.f32), dlp.wram((16, 8), dlp.f32), dlp.nram((8, 8), dlp.f32)
    dlp.copy_async(w.view(128), x[:128])
    dlp.copy_async(a.view(128), x[128:256])
    dlp.sync("io")  # needed
    dlp.matmul(c, a, w)
    dlp.copy_async(w.view(128), x[:128])
    dlp.sync()  # needed
    dlp.matmul(c, a, w, accumulate=True)
    dlp.copy(out[:64], c.view(64))


@dlp.kernel
def on_chip(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram(128, dlp.f32), dlp.nram(128, dlp.f32)
    dlp.copy(a, x[:128])
    dlp.copy_async(b, a)
    dlp.sync("move")  # needed
    dlp.neg(b, b)
    dlp.copy(out[:128], b)


@dlp.kernel
def scalar_reads(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(64, dlp.f32)
    dlp.copy_async(a, x[:64])
    dlp.sync("io")  # needed
    out[0] = a[0] + a[63]


@dlp.kernel
def through_sram(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    box, mine = dlp.sram(256, dlp.f32), dlp.nram(64, dlp.f32)
    if dlp.is_memory_core():
        dlp.copy_async(box, x[:256])
    dlp.sync_cluster()  # needed
    if not dlp.is_memory_core():
        first = dlp.core_id() * 64
        dlp.copy(mine, box[first : first + 64])
        dlp.mul(mine, mine, 3.0)
        dlp.copy(box[first : first + 64], mine)
    dlp.sync_cluster()  # needed
    if dlp.is_memory_core():
        dlp.copy(out[:256], box)


@dlp.kernel
def neighbours(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    box, mine, theirs = dlp.sram((4, 32), dlp.f32), dlp.nram(32, dlp.f32), dlp.nram(32, dlp.f32)
    if not dlp.is_memory_core():
        core = dlp.core_id()
        dlp.copy(mine, x[core * 32 : core * 32 + 32])
        dlp.copy(box[core], mine)
    dlp.sync_cluster()  # needed
    if not dlp.is_memory_core():
        dlp.copy(theirs, box[(core + 1) % 4])
        dlp.add(mine, mine, theirs)
        dlp.copy(out[core * 32 : core * 32 + 32], mine)  # -> dlp.copy(out[core * 31 : core * 31 + 32], mine)


@dlp.kernel
def own_rows(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(64, dlp.f32)
    i = dlp.task_id()
    dlp.copy(a, x[i * 64 : i * 64 + 64])
    dlp.relu(a, a)
    dlp.copy(out[i * 64 : i * 64 + 64], a)  # -> dlp.copy(out[i * 63 : i * 63 + 64], a)


@dlp.kernel
def bounds(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(64, dlp.f32)
    for i in range(0, n, 64):
        dlp.copy(a[: n - i], x[i:n])
        dlp.sigmoid(a[: n - i], a[: n - i])
        dlp.copy(out[i:n], a[: n - i])  # -> dlp.copy(out[i + 300 : n + 300], a[: n - i])


@dlp.kernel
def bytes_again(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    raw = dlp.nram(1024, dlp.u8)
    a = raw[64:320].cast(dlp.f32)  # -> a = raw[66:322].cast(dlp.f32)
    dlp.copy(a, x[:64])
    dlp.abs(a, a)
    dlp.copy(out[:64], a)


@dlp.kernel
def unwritten(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(128, dlp.f32)
    dlp.copy(a[:64], x[:64])
    dlp.fill(a[64:], 0.0)  # needed
    dlp.add(a, a, 1.0)
    dlp.copy(out[:128], a)


@dlp.kernel
def last_block(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram(64, dlp.f32), dlp.nram(64, dlp.f32)
    for i in range(0, 256, 64):
        dlp.copy_async(a, x[i : i + 64])
        dlp.sync()  # needed
        dlp.tanh(b, a)
        dlp.sync("vector")
        dlp.copy_async(out[i : i + 64], b)


@dlp.kernel
def fetched_rows(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    rows, total = dlp.nram((8, 32), dlp.f32), dlp.nram(32, dlp.f32)
    for i in range(8):
        dlp.copy_async(rows[i], x[i * 32 : i * 32 + 32])
    dlp.sync("io")  # needed
    dlp.sum(total, rows, axis=0)
    dlp.copy(out[:32], total)


@dlp.kernel
def stored_late(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(128, dlp.f32)
    dlp.copy(a, x[:128])
    dlp.add(a, a, 1.0)
    dlp.copy_async(out[:128], a)
    dlp.sync("io")  # needed
    dlp.fill(a, 0.0)
    dlp.copy(out[128:192], a[:64])


@dlp.kernel
def private_dram(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, kept = dlp.nram(128, dlp.f32), dlp.ldram(128, dlp.f32)
    dlp.copy_async(kept, x[:128])
    dlp.copy_async(a, kept)
    dlp.sync("io")  # needed
    dlp.mul(a, a, a)
    dlp.copy(out[:128], a)


@dlp.kernel
def ring(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    box, mine = dlp.sram((4, 16), dlp.f32), dlp.nram(16, dlp.f32)
    if not dlp.is_memory_core():
        core = dlp.core_id()
        dlp.copy(mine, x[core * 16 : core * 16 + 16])
    for _ in range(3):
        if not dlp.is_memory_core():
            dlp.copy(box[core], mine)
        dlp.sync_cluster()  # needed
        if not dlp.is_memory_core():
            dlp.copy(mine, box[(core + 1) % 4])
        dlp.sync_cluster()  # needed
    if not dlp.is_memory_core():
        dlp.copy(out[core * 16 : core * 16 + 16], mine)


@dlp.kernel
def taken_in_turn(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram(64, dlp.f32), dlp.nram(64, dlp.f32)
    dlp.copy_async(a, x[:64])
    dlp.copy_async(b, x[64:128])
    dlp.sync("io")  # -> dlp.sync("move")
    dlp.sub(a, a, b)
    dlp.copy(out[:64], a)


@dlp.kernel
def filters(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    image, w = dlp.nram((6, 6, 4), dlp.f32), dlp.wram((2, 3, 3, 4), dlp.f32)
    result = dlp.nram((4, 4, 2), dlp.f32)
    dlp.copy(image.view(144), x[72:216])
    dlp.relu(image, image)
    dlp.copy_async(w.view(72), x[:72])
    dlp.sync("io")  # needed
    dlp.conv(result, image, w)
    dlp.copy_async(image.view(144), x[:144])
    dlp.sync()  # needed
    dlp.conv(result, image, w, accumulate=True)
    dlp.copy(out[:32], result.view(32))


@dlp.kernel
def whole_grid(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(32, dlp.f32)
    task = dlp.task_id()
    if not dlp.is_memory_core():
        dlp.copy(a, x[task * 32 : task * 32 + 32])
        dlp.copy(out[task * 32 : task * 32 + 32], a)
    dlp.sync_all()  # needed
    if not dlp.is_memory_core():
        other = (task + 1) % dlp.task_dim()
        dlp.copy(a, out[other * 32 : other * 32 + 32])
        dlp.copy(out[128 + task * 32 : 160 + task * 32], a)


@dlp.kernel
def one_counter(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    for _ in range(4):
        dlp.atomic("add", out, 1.0)  # -> out[0] = out[0] + 1.0


@dlp.kernel
def two_columns(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram((16, 8), dlp.f32), dlp.nram((8, 16), dlp.f32)
    source = x[:256].view(16, 16)
    for half in range(2):
        dlp.copy_async(a, source[:, half * 8 : half * 8 + 8])
        dlp.sync("io")  # needed
        dlp.transpose(b, a)
        dlp.copy_async(out[half * 128 : half * 128 + 128], b.view(128))


@dlp.kernel
def tiles_of_a_row(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, b = dlp.nram(128, dlp.f32), dlp.nram(128, dlp.f32)
    for i in range(2):
        dlp.copy(a, x[i * 128 : i * 128 + 128])
        dlp.gelu(b, a)
        dlp.copy(out[i * 128 : i * 128 + 128], b)  # -> dlp.copy(out[i * 193 : i * 193 + 128], b)


@dlp.kernel
def halves_of_a_buffer(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(128, dlp.f32)
    dlp.copy(a[:64], x[:64])
    dlp.copy_async(a[64:], x[64:128])  # -> dlp.copy_async(a[60:124], x[64:128])
    dlp.neg(a[:64], a[:64])
    dlp.sync("io")
    dlp.copy(out[:128], a)


@dlp.kernel
def sorted_blocks(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    keys, order, best = dlp.nram(64, dlp.f32), dlp.nram(64, dlp.i32), dlp.nram(64, dlp.f32)
    dlp.copy_async(keys, x[:64])
    dlp.sync("io")  # -> dlp.sync("vector")
    dlp.sort(best, order, keys, descending=True)
    dlp.copy(out[:64], best)


@dlp.kernel
def pooled_later(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    image, best = dlp.nram((8, 8, 4), dlp.f32), dlp.nram(64, dlp.f32)
    dlp.copy_async(image.view(256), x[:256])
    dlp.sync()  # needed
    dlp.pool(best, image, (2, 2), (2, 2), op="max")
    dlp.copy(out[:64], best)


@dlp.kernel
def statistics_of_all(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    box, mine, one = dlp.sram(64, dlp.f32), dlp.nram(64, dlp.f32), dlp.nram(16, dlp.f32)
    if not dlp.is_memory_core():
        core = dlp.core_id()
        dlp.copy(mine, x[core * 64 : core * 64 + 64])
        dlp.fill(one, 0.0)
        dlp.sum(one, mine)
        dlp.copy(box[core * 16 : core * 16 + 16], one)  # -> dlp.copy(box[core * 12 : core * 12 + 16], one)
    dlp.sync_cluster()  # needed
    if dlp.is_memory_core():
        dlp.copy(out[:64], box)


@dlp.kernel
def words_in_bytes(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    raw = dlp.nram(2048, dlp.u8)
    dlp.copy(raw[:256].cast(dlp.f32), x[:64])
    b = raw[512:768].cast(dlp.f32)  # -> b = raw[513:769].cast(dlp.f32)
    dlp.mul(b, raw[:256].cast(dlp.f32), 3.0)
    dlp.copy(out[:64], b)


@dlp.kernel
def rows_apart(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram((2, 32), dlp.f32)
    rows = x[:256].view(8, 32)
    first = dlp.task_id() * 64  # -> first = dlp.task_id() * 56
    dlp.copy(a, rows[dlp.task_id() * 2 : dlp.task_id() * 2 + 2])
    dlp.exp(a, a)
    dlp.copy(out[first : first + 64], a.view(64))


@dlp.kernel
def handed_over(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(64, dlp.f32)
    task = dlp.task_id()
    if not dlp.is_memory_core():
        dlp.fill(a, 1.0)
        dlp.copy(out[task * 64 : task * 64 + 64], a)
        dlp.sync_all_compute()  # needed
    if not dlp.is_memory_core() and task == 0:
        for other in range(4):
            dlp.copy(a, out[other * 64 : other * 64 + 64])
            dlp.copy(out[256:320], a)


@dlp.kernel
def accumulated(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a, w, c = dlp.nram((4, 16), dlp.f32), dlp.wram((16, 4), dlp.f32), dlp.nram((4, 4), dlp.f32)
    dlp.fill(c, 0.0)
    for i in range(3):
        dlp.copy_async(w.view(64), x[i * 64 : i * 64 + 64])
        dlp.copy_async(a.view(64), x[i * 64 + 64 : i * 64 + 128])
        dlp.sync()  # needed
        dlp.matmul(c, a, w, accumulate=True)
    dlp.copy(out[:16], c.view(16))


@dlp.kernel
def whole_buffer(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(320, dlp.f32)
    dlp.copy(a, x[:320])  # -> dlp.copy(a[:300], x[:300])
    dlp.sqrt(a, a)
    dlp.copy(out[:320], a)


@dlp.kernel
def past_the_end(x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], n: int):
    a = dlp.nram(64, dlp.f32)
    for i in range(5):
        dlp.copy(a, x[i * 64 : i * 64 + 64])  # -> dlp.copy(a, x[i * 65 : i * 65 + 64])
        dlp.floor(a, a)
        dlp.copy(out[i * 64 : i * 64 + 64], a)
