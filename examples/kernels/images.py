"""Pooling, convolution, depthwise convolution: images [h][w][c], one band of output rows per step.

A band needs the rows above and below that its windows reach; rows outside the image are the border, which the
matrix unit adds by itself and pooling leaves out.
"""

from trilobite import dlp


@dlp.kernel
def max_pool(
    x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], h: int, w: int, c: int,
    *, kernel: int = 2, stride: int = 2, room: int = 16384,
):  # fmt: skip
    """out[p][q][c] = the largest of x over a window; without border."""
    p, q = (h - kernel) // stride + 1, (w - kernel) // stride + 1
    for row in dlp.pipeline(dlp.task_id(), p, dlp.task_dim()):
        band, result = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
        dlp.load(band[: kernel * w * c], x[row * stride * w * c : row * stride * w * c + kernel * w * c])
        image = band[: kernel * w * c].view(kernel, w, c)
        dlp.pool(result[: q * c], image, (kernel, kernel), (stride, stride), op="max")
        dlp.store(out[row * q * c : row * q * c + q * c], result[: q * c])


@dlp.kernel
def average_pool(
    x: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], h: int, w: int, c: int,
    *, kernel: int = 2, stride: int = 2, room: int = 16384,
):  # fmt: skip
    """out[p][q][c] = the mean of x over a window; without border."""
    p, q = (h - kernel) // stride + 1, (w - kernel) // stride + 1
    for row in dlp.pipeline(dlp.task_id(), p, dlp.task_dim()):
        band, result = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
        dlp.load(band[: kernel * w * c], x[row * stride * w * c : row * stride * w * c + kernel * w * c])
        image = band[: kernel * w * c].view(kernel, w, c)
        dlp.pool(result[: q * c], image, (kernel, kernel), (stride, stride), op="avg")
        dlp.store(out[row * q * c : row * q * c + q * c], result[: q * c])


@dlp.kernel
def convolution(
    x: dlp.gm[dlp.f32], weights: dlp.gm[dlp.f32], bias: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32],
    images: int, h: int, w: int, ci: int, co: int,
    *, kernel: int = 3, stride: int = 1, border: int = 1, groups: int = 1, rows: int = 2,
    room: int = 16384, filters: int = 65536, activation: str = "",
):  # fmt: skip
    """out[b][p][q][co] = x[b][h][w][ci] convolved with weights[co][kernel][kernel][ci / groups], plus bias.

    The weights stay in WRAM; bands of `rows` output rows are dealt to the tasks, over all images.
    """
    p, q = (h + 2 * border - kernel) // stride + 1, (w + 2 * border - kernel) // stride + 1
    size = co * kernel * kernel * (ci // groups)
    held, added = dlp.wram(filters, dlp.f32), dlp.nram(4096, dlp.f32)
    dlp.copy(held[:size], weights[:size])
    dlp.copy(added[:co], bias[:co])
    taps = held[:size].view(co, kernel, kernel, ci // groups)
    bands = (p + rows - 1) // rows
    for band in dlp.pipeline(dlp.task_id(), images * bands, dlp.task_dim()):
        image, first = band // bands, band % bands * rows
        lines = min(rows, p - first)
        top = first * stride - border
        begin = max(top, 0)
        end = min(top + (lines - 1) * stride + kernel, h)
        a, result = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
        count = (end - begin) * w * ci
        start = (image * h + begin) * w * ci
        dlp.load(a[:count], x[start : start + count])
        above, below = begin - top, top + (lines - 1) * stride + kernel - end
        dlp.conv(
            result[: lines * q * co],
            a[:count].view(end - begin, w, ci),
            taps,
            stride=(stride, stride),
            border=(above, below, border, border),
            groups=groups,
            bias=added[:co],
            activation=activation,
        )
        place = (image * p + first) * q * co
        dlp.store(out[place : place + lines * q * co], result[: lines * q * co])


@dlp.kernel
def depthwise(
    x: dlp.gm[dlp.f32], weights: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], h: int, w: int, c: int,
    *, kernel: int = 3, room: int = 16384,
):  # fmt: skip
    """out[p][q][c] = sum over the taps of x * weights[kernel][kernel][c], stride 1, no border.

    One channel per filter leaves a matrix unit idle, so the vector unit does it: tap by tap, a whole row of
    pixels at once, the tap's weights repeating along the channels.
    """
    p, q = h - kernel + 1, w - kernel + 1
    held, product = dlp.nram(4096, dlp.f32), dlp.nram(room, dlp.f32)
    dlp.copy(held[: kernel * kernel * c], weights[: kernel * kernel * c])
    for row in dlp.pipeline(dlp.task_id(), p, dlp.task_dim()):
        band, total = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
        dlp.load(band[: kernel * w * c], x[row * w * c : row * w * c + kernel * w * c])
        m = q * c
        dlp.fill(total[:m], 0.0)
        for r in dlp.static_range(kernel):
            for s in dlp.static_range(kernel):
                start, tap = (r * w + s) * c, (r * kernel + s) * c
                pixels = band[start : start + m].view(q, c)
                dlp.mul(product[:m].view(q, c), pixels, held[tap : tap + c])
                dlp.add(total[:m], total[:m], product[:m])
        dlp.store(out[row * m : row * m + m], total[:m])
