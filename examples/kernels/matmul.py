"""c = a b in six steps, from scalar loops to five stages through SRAM, and with int8 and int4 operands.

a is [m][k], b is [k][n], c is [m][n]. Steps 1 to 3 run on one core, 4 and 5 on all of them, step 6 on whole
clusters with their memory cores. `docs/kernels.md` shows what bounds each step.
"""

from trilobite import dlp


@dlp.kernel
def step1(a: dlp.gm[dlp.f32], b: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int):
    """Scalar loops on GDRAM: two loads from DRAM for every multiplication."""
    for i in range(m):
        for j in range(n):
            total = dlp.f32(0.0)
            for p in range(k):
                total += a[i * k + p] * b[p * n + j]
            c[i * n + j] = total


@dlp.kernel
def step2(
    a: dlp.gm[dlp.f32], b: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int, *, room: int = 32768
):
    """The same loops on NRAM: one copy in, one copy out."""
    left, right, out = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32), dlp.nram(room // 2, dlp.f32)
    dlp.copy(left[: m * k], a[: m * k])
    dlp.copy(right[: k * n], b[: k * n])
    for i in range(m):
        for j in range(n):
            total = dlp.f32(0.0)
            for p in range(k):
                total += left[i * k + p] * right[p * n + j]
            out[i * n + j] = total
    dlp.copy(c[: m * n], out[: m * n])


@dlp.kernel
def step3(
    a: dlp.gm[dlp.f32], b: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int, *, room: int = 32768
):
    """The matrix instruction: one core, everything at once."""
    left, out = dlp.nram(room, dlp.f32), dlp.nram(room // 2, dlp.f32)
    right = dlp.wram(room, dlp.f32)
    dlp.copy(left[: m * k], a[: m * k])
    dlp.copy(right[: k * n], b[: k * n])
    dlp.matmul(out[: m * n].view(m, n), left[: m * k].view(m, k), right[: k * n].view(k, n))
    dlp.copy(c[: m * n], out[: m * n])


@dlp.kernel
def step4(
    a: dlp.gm[dlp.f32], b: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int,
    *, rows: int = 128, room: int = 32768,
):  # fmt: skip
    """All cores: each takes blocks of rows, one after the other."""
    left, out = dlp.nram(room, dlp.f32), dlp.nram(room // 2, dlp.f32)
    right = dlp.wram(room, dlp.f32)
    dlp.copy(right[: k * n], b[: k * n])
    for i in range(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        r = min(rows, m - i)
        dlp.copy(left[: r * k], a[i * k : i * k + r * k])
        dlp.matmul(out[: r * n].view(r, n), left[: r * k].view(r, k), right[: k * n].view(k, n))
        dlp.copy(c[i * n : i * n + r * n], out[: r * n])


@dlp.kernel
def step5(
    a: dlp.gm[dlp.f32], b: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int,
    *, rows: int = 128, room: int = 32768,
):  # fmt: skip
    """Three stages: the next block is loaded and the last one stored while this one is multiplied."""
    right = dlp.wram(room, dlp.f32)
    dlp.copy(right[: k * n], b[: k * n])
    for i in dlp.pipeline(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        r = min(rows, m - i)
        left, out = dlp.nram(room, dlp.f32), dlp.nram(room // 2, dlp.f32)
        dlp.load(left[: r * k], a[i * k : i * k + r * k])
        dlp.matmul(out[: r * n].view(r, n), left[: r * k].view(r, k), right[: k * n].view(k, n))
        dlp.store(c[i * n : i * n + r * n], out[: r * n])


@dlp.kernel
def step6(
    a: dlp.gm[dlp.f32], b: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int,
    *, rows: int = 128, room: int = 32768, cores: int = 4,
):  # fmt: skip
    """Five stages through SRAM (union tasks): the memory core loads blocks for its cluster and stores them.

    In step t it loads block t and stores block t - 4; a core takes its part of block t - 1, multiplies t - 2
    and puts back t - 3. A block is `rows` rows for each of the cluster's cores.
    """
    left, out = dlp.nram((2, room), dlp.f32), dlp.nram((2, room // 2), dlp.f32)
    right = dlp.wram(room, dlp.f32)
    shared_a, shared_c = dlp.sram((2, cores * room), dlp.f32), dlp.sram((2, cores * room // 2), dlp.f32)
    clusters = dlp.task_dim() // dlp.core_dim()
    mine = dlp.task_id() // dlp.core_dim()
    band = rows * dlp.core_dim()
    blocks = (m + band - 1) // band
    steps = (blocks - mine + clusters - 1) // clusters
    memory = dlp.is_memory_core()
    if not memory:
        dlp.copy(right[: k * n], b[: k * n])
    for t in range(steps + 4):
        if memory:
            if t < steps:
                first = (mine + t * clusters) * band
                count = min(band, m - first)
                dlp.copy_async(shared_a[t % 2, : count * k], a[first * k : first * k + count * k])
            if t >= 4:
                first = (mine + (t - 4) * clusters) * band
                count = min(band, m - first)
                dlp.copy_async(c[first * n : first * n + count * n], shared_c[t % 2, : count * n])
        else:
            five_stages(t, steps, mine, clusters, band, rows, m, k, n, left, out, right, shared_a, shared_c)
        dlp.sync_cluster()


@dlp.device
def five_stages(t, steps, mine, clusters, band, rows, m, k, n, left, out, right, shared_a, shared_c):
    core = dlp.core_id() * rows
    if t >= 1 and t - 1 < steps:
        count = part_of(mine + (t - 1) * clusters, band, core, rows, m)
        if count > 0:
            place = core * k
            dlp.copy_async(left[(t - 1) % 2, : count * k], shared_a[(t - 1) % 2, place : place + count * k])
    if t >= 2 and t - 2 < steps:
        count = part_of(mine + (t - 2) * clusters, band, core, rows, m)
        if count > 0:
            dlp.matmul(
                out[t % 2, : count * n].view(count, n),
                left[t % 2, : count * k].view(count, k),
                right[: k * n].view(k, n),
            )
    if t >= 3 and t - 3 < steps:
        count = part_of(mine + (t - 3) * clusters, band, core, rows, m)
        if count > 0:
            place = core * n
            dlp.copy_async(shared_c[(t - 3) % 2, place : place + count * n], out[(t - 3) % 2, : count * n])


@dlp.device
def part_of(block, band, core, rows, m):
    """Rows of a block that fall to a core; none or less if the matrix ends before."""
    return min(rows, m - block * band - core)


@dlp.kernel
def matmul_fp16(
    a: dlp.gm[dlp.f16], b: dlp.gm[dlp.f16], c: dlp.gm[dlp.f16], m: int, k: int, n: int,
    *, rows: int = 128, room: int = 32768,
):  # fmt: skip
    """As step 5, of fp16 operands; sums are fp32 until they leave the unit."""
    right = dlp.wram(2 * room, dlp.f16)
    dlp.copy(right[: k * n], b[: k * n])
    for i in dlp.pipeline(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        r = min(rows, m - i)
        left, out = dlp.nram(room, dlp.f16), dlp.nram(room, dlp.f16)
        dlp.load(left[: r * k], a[i * k : i * k + r * k])
        dlp.matmul(out[: r * n].view(r, n), left[: r * k].view(r, k), right[: k * n].view(k, n))
        dlp.store(c[i * n : i * n + r * n], out[: r * n])


@dlp.kernel
def matmul_int8(
    a: dlp.gm[dlp.i8], b: dlp.gm[dlp.i8], scale: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int,
    *, rows: int = 128, room: int = 32768, cols: int = 512,
):  # fmt: skip
    """c = (a b) * scale[n] in fp32, of int8 operands; the scale is applied as the sums leave the unit."""
    right, factors = dlp.wram(2 * room, dlp.i8), dlp.nram(cols, dlp.f32)
    dlp.copy(right[: k * n], b[: k * n])
    dlp.copy(factors[:n], scale[:n])
    for i in dlp.pipeline(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        r = min(rows, m - i)
        left, out = dlp.nram(room, dlp.i8), dlp.nram(room // 2, dlp.f32)
        dlp.load(left[: r * k], a[i * k : i * k + r * k])
        dlp.matmul(
            out[: r * n].view(r, n), left[: r * k].view(r, k), right[: k * n].view(k, n), scale=factors[:n]
        )
        dlp.store(c[i * n : i * n + r * n], out[: r * n])


@dlp.kernel
def matmul_int4(
    a: dlp.gm[dlp.i4], b: dlp.gm[dlp.i4], scale: dlp.gm[dlp.f32], c: dlp.gm[dlp.f32], m: int, k: int, n: int,
    *, rows: int = 128, room: int = 65536, cols: int = 512,
):  # fmt: skip
    """As matmul_int8 of int4 operands, two in a byte, the lower nibble first; k and n are even."""
    right, factors = dlp.wram(2 * room, dlp.i4), dlp.nram(cols, dlp.f32)
    dlp.copy(right[: k * n], b[: k * n])
    dlp.copy(factors[:n], scale[:n])
    for i in dlp.pipeline(dlp.task_id() * rows, m, dlp.task_dim() * rows):
        r = min(rows, m - i)
        left, out = dlp.nram(room, dlp.i4), dlp.nram(room // 4, dlp.f32)
        dlp.load(left[: r * k], a[i * k : i * k + r * k])
        dlp.matmul(
            out[: r * n].view(r, n), left[: r * k].view(r, k), right[: k * n].view(k, n), scale=factors[:n]
        )
        dlp.store(c[i * n : i * n + r * n], out[: r * n])
