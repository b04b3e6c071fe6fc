"""RoI align and non-maximum suppression: kernels whose addresses depend on their data."""

from trilobite import dlp


@dlp.kernel
def roi_align(
    x: dlp.gm[dlp.f32], boxes: dlp.gm[dlp.f32], out: dlp.gm[dlp.f32], h: int, w: int, c: int, count: int,
    scale: float, *, bins: int = 7, samples: int = 2, room: int = 2048,
):  # fmt: skip
    """out[i][bins][bins][c] = means of bilinear samples of x[h][w][c] in box i (x1 y1 x2 y2, times scale).

    A sample more than a pixel outside the image counts as 0, others outside are drawn to its edge.
    """
    total, corner = dlp.nram(room, dlp.f32), dlp.nram(4 * room, dlp.f32)
    for task in range(dlp.task_id(), count * bins * bins, dlp.task_dim()):
        box = task // (bins * bins)
        py, px = task % (bins * bins) // bins, task % bins
        x1, y1 = boxes[box * 4] * scale, boxes[box * 4 + 1] * scale
        high = max(boxes[box * 4 + 3] * scale - y1, dlp.f32(1.0)) / float(bins)
        wide = max(boxes[box * 4 + 2] * scale - x1, dlp.f32(1.0)) / float(bins)
        dlp.fill(total[:c], 0.0)
        for s in range(samples * samples):
            part = 1.0 / float(samples)
            sy = y1 + (dlp.f32(py) + (dlp.f32(s // samples) + 0.5) * part) * high
            sx = x1 + (dlp.f32(px) + (dlp.f32(s % samples) + 0.5) * part) * wide
            if sy > -1.0 and sy < dlp.f32(h) and sx > -1.0 and sx < dlp.f32(w):
                add_sample(total, corner, x, sy, sx, h, w, c, room)
        dlp.mul(total[:c], total[:c], 1.0 / float(samples * samples))
        dlp.copy(out[task * c : task * c + c], total[:c])


@dlp.device
def add_sample(total, corner, x, sy, sx, h, w, c, room):
    """total += the value of x at (sy, sx) between its four neighbours."""
    sy, sx = max(sy, dlp.f32(0.0)), max(sx, dlp.f32(0.0))
    top, left = min(dlp.i64(sy), h - 1), min(dlp.i64(sx), w - 1)
    below, right = min(top + 1, h - 1), min(left + 1, w - 1)
    fy = dlp.f32(0.0) if top == below else sy - dlp.f32(top)
    fx = dlp.f32(0.0) if left == right else sx - dlp.f32(left)
    places = ((top, left), (top, right), (below, left), (below, right))
    weights = ((1.0 - fy) * (1.0 - fx), (1.0 - fy) * fx, fy * (1.0 - fx), fy * fx)
    for k in dlp.static_range(4):
        at = (places[k][0] * w + places[k][1]) * c
        dlp.copy(corner[k * room : k * room + c], x[at : at + c])
    for k in dlp.static_range(4):
        piece = corner[k * room : k * room + c]
        dlp.mul(piece, piece, weights[k])
        dlp.add(total[:c], total[:c], piece)


@dlp.kernel
def nms(
    boxes: dlp.gm[dlp.f32], scores: dlp.gm[dlp.f32], kept: dlp.gm[dlp.i32], found: dlp.gm[dlp.i32],
    n: int, limit: float, *, room: int = 2048,
):  # fmt: skip
    """Places of the boxes that stay, best first: a box goes if a better one covers more than `limit` of both.

    boxes is [4][n] (x1 y1 x2 y2), so that one coordinate of all boxes is one vector. One task does it all.
    """
    assert n <= room, "more boxes than fit"
    if dlp.task_id() == 0:
        suppress(boxes, scores, kept, found, n, limit, room)


@dlp.device
def suppress(boxes, scores, kept, found, n, limit, room):
    x1, y1, x2, y2 = (dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32),
                      dlp.nram(room, dlp.f32))  # fmt: skip
    area, score = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
    w, h, mask = dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32), dlp.nram(room, dlp.f32)
    low = dlp.nram(room, dlp.f32)
    best, place = dlp.nram(16, dlp.f32), dlp.nram(16, dlp.i32)
    dlp.copy(x1[:n], boxes[:n])
    dlp.copy(y1[:n], boxes[n : n + n])
    dlp.copy(x2[:n], boxes[2 * n : 2 * n + n])
    dlp.copy(y2[:n], boxes[3 * n : 3 * n + n])
    dlp.copy(score[:n], scores[:n])
    dlp.sub(w[:n], x2[:n], x1[:n])
    dlp.sub(h[:n], y2[:n], y1[:n])
    dlp.mul(area[:n], w[:n], h[:n])
    dlp.fill(low[:n], -3.4028235e38)
    count = 0
    while count < n:
        dlp.max(best, score[:n])
        if best[0] <= -3.4028235e38:
            break
        dlp.argmax(place, score[:n])
        i = place[0]
        kept[count] = i
        count += 1
        dlp.maximum(w[:n], x1[:n], x1[i])
        dlp.minimum(h[:n], x2[:n], x2[i])
        dlp.sub(w[:n], h[:n], w[:n])
        dlp.maximum(w[:n], w[:n], 0.0)
        dlp.maximum(h[:n], y1[:n], y1[i])
        dlp.minimum(mask[:n], y2[:n], y2[i])
        dlp.sub(h[:n], mask[:n], h[:n])
        dlp.maximum(h[:n], h[:n], 0.0)
        dlp.mul(w[:n], w[:n], h[:n])
        dlp.add(h[:n], area[:n], area[i])
        dlp.sub(h[:n], h[:n], w[:n])
        dlp.mul(h[:n], h[:n], limit)
        dlp.greater(mask[:n], w[:n], h[:n])
        dlp.where(score[:n], mask[:n], low[:n], score[:n])
        score[i] = -3.4028235e38
    found[0] = count
