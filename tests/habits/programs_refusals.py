"""Wrong uses of functions beside the nearest right ones, for `programs.py`: who refuses what."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.habits.programs_nn import IMAGE, X, Y, program, refuses


@program
def refusals(m: Any) -> Any:
    """Beside each wrong use the nearest right one."""
    f, t = m.nn.functional, m.tensor
    x, w = t(IMAGE), t(np.ones((4, 3, 2, 2)))
    line, table = t(np.ones((2, 3, 5))), t(np.ones((6, 3)))
    calls = [
        lambda: f.conv2d(x, w),
        lambda: f.conv2d(x, w[:, :2]),
        lambda: f.conv2d(x, w, groups=2),
        lambda: f.conv2d(x, t(np.ones((3, 1, 2, 2))), groups=3),
        lambda: f.conv2d(x, t(np.ones((4, 1, 2, 2))), groups=3),
        lambda: f.conv2d(x, w, padding="same"),
        lambda: f.conv2d(x, w, padding="same", stride=2),
        lambda: f.conv2d(x, w, padding="some"),
        lambda: f.conv2d(x, w, padding=-1),
        lambda: f.conv2d(x, w, dilation=5),
        lambda: f.conv2d(x, w, dilation=4),
        lambda: f.conv2d(x, w, t(np.ones(4))),
        lambda: f.conv2d(x, w, t(np.ones(3))),
        lambda: f.conv_transpose2d(x, t(np.ones((3, 2, 2, 2))), output_padding=1, stride=2),
        lambda: f.conv_transpose2d(x, t(np.ones((3, 2, 2, 2))), output_padding=2, stride=2),
        lambda: f.conv_transpose2d(x, t(np.ones((2, 2, 2, 2)))),
        lambda: f.max_pool2d(x, 2, padding=1),
        lambda: f.max_pool2d(x, 2, padding=2),
        lambda: f.max_pool2d(x, (7, 5)),
        lambda: f.max_pool2d(x, (6, 5)),
        lambda: f.avg_pool2d(x, 3, padding=1),
        lambda: f.avg_pool2d(x, 3, padding=2),
        lambda: f.pad(x, (1, 1, 5, 0), "reflect"),
        lambda: f.pad(x, (1, 1, 6, 0), "reflect"),
        lambda: f.pad(x, (5, 0, 0, 0), "circular"),
        lambda: f.pad(x, (6, 0, 0, 0), "circular"),
        lambda: f.pad(x, (1, 1, 1)),
        lambda: f.pad(x, (-3, -2)),
        lambda: f.pad(x, (-3, -3)),
        lambda: f.interpolate(x, (3, 3), mode="linear"),
        lambda: f.interpolate(line, 3, mode="linear"),
        lambda: f.interpolate(x),
        lambda: f.interpolate(x, (3, 3), (2.0, 2.0)),
        lambda: f.interpolate(x, (3,)),
        lambda: f.interpolate(x, (3, 3), align_corners=True),
        lambda: f.interpolate(x, 0),
        lambda: f.embedding(t(np.array([5])), table),
        lambda: f.embedding(t(np.array([1])), table, padding_idx=6),
        lambda: f.embedding(t(np.array([1])), table, padding_idx=-6),
        lambda: f.embedding(t(np.array([1.0])), table),
        lambda: f.embedding(t(np.array([1])), table, padding_idx=-7),
        lambda: f.embedding_bag(t(np.array([1, 2])), table, t(np.array([0]))),
        lambda: f.embedding_bag(t(np.array([1, 2])), table),
        lambda: f.embedding_bag(t(np.array([[1, 2]])), table),
        lambda: f.embedding_bag(
            t(np.array([1, 2])), table, t(np.array([0])), mode="max", per_sample_weights=t(np.ones(2))
        ),
        lambda: f.linear(t(X), t(np.ones((2, 4)))),
        lambda: f.linear(t(X), t(np.ones((2, 3)))),
        lambda: f.bilinear(t(X), t(Y), t(np.ones((2, 4, 4)))),
        lambda: f.bilinear(t(X), t(Y), t(np.ones((2, 4, 3)))),
        lambda: f.layer_norm(t(X), (4,)),
        lambda: f.layer_norm(t(X), (3,)),
        lambda: f.layer_norm(t(X), (3, 4)),
        lambda: f.group_norm(x, 3),
        lambda: f.group_norm(x, 2),
        lambda: f.instance_norm(t(np.ones((2, 3, 1)))),
        lambda: f.batch_norm(t(np.ones((1, 3))), None, None, training=True),
        lambda: f.batch_norm(t(np.ones((2, 3))), None, None, training=True),
        lambda: f.batch_norm(t(np.ones((2, 3))), None, None, training=False),
        lambda: f.dropout(t(X), 1.0),
        lambda: f.dropout(t(X), 1.1),
        lambda: f.dropout(t(X), -0.1),
        lambda: f.glu(t(X), 1),
        lambda: f.glu(t(X), 0),
        lambda: f.pixel_shuffle(t(np.ones((1, 8, 2, 2))), 2),
        lambda: f.pixel_shuffle(t(np.ones((1, 9, 2, 2))), 2),
        lambda: f.pixel_unshuffle(t(np.ones((1, 1, 4, 3))), 2),
        lambda: f.pixel_unshuffle(t(np.ones((1, 1, 4, 2))), 2),
        lambda: f.channel_shuffle(x, 3),
        lambda: f.cross_entropy(t(X), t(np.array([0, 1]))),
        lambda: f.cross_entropy(t(X), t(np.array([0, 1, 3]))),
        lambda: f.cross_entropy(t(X), t(Y[:, :3].copy())),
        lambda: f.cross_entropy(t(X), t(Y), label_smoothing=1.0),
        lambda: f.cross_entropy(t(X), t(Y), label_smoothing=1.1),
        lambda: f.smooth_l1_loss(t(X), t(Y), beta=-0.1),
        lambda: f.huber_loss(t(X), t(Y), delta=0.0),
        lambda: f.mse_loss(t(X), t(Y), reduction="average"),
        lambda: f.one_hot(t(np.array([0, 2])), 3),
        lambda: f.one_hot(t(np.array([0, 3])), 3),
        lambda: f.one_hot(t(np.array([-1, 2])), 3),
        lambda: f.fold(t(np.ones((1, 12, 4))), (3, 3), 2),
        lambda: f.fold(t(np.ones((1, 12, 5))), (3, 3), 2),
        lambda: f.fold(t(np.ones((1, 10, 4))), (3, 3), 2),
        lambda: f.unfold(x, 7),
        lambda: f.unfold(x, (6, 5)),
        lambda: f.grid_sample(x, t(np.zeros((2, 1, 1, 2)))),
        lambda: f.grid_sample(x, t(np.zeros((3, 1, 1, 2)))),
        lambda: f.grid_sample(x, t(np.zeros((2, 1, 1, 3)))),
        lambda: f.grid_sample(x, t(np.zeros((2, 1, 1, 2))), "cubic"),
        lambda: f.scaled_dot_product_attention(line, line, line),
        lambda: f.scaled_dot_product_attention(line, line[:, :2], line),
        lambda: f.ctc_loss(
            t(np.zeros((4, 2, 3))), t(np.ones((2, 2), int)), t(np.array([4, 4])), t(np.array([2, 2]))
        ),
        lambda: f.ctc_loss(
            t(np.zeros((4, 2, 3))), t(np.ones((2, 2), int)), t(np.array([4, 5])), t(np.array([2, 2]))
        ),
        lambda: f.normalize(t(X), dim=2),
        lambda: f.gumbel_softmax(t(X), dim=2),
        lambda: f.local_response_norm(t(X), 2),
        lambda: f.hardtanh(t(X), 1.0, -1.0),
        lambda: f.rms_norm(t(X), (4,)),
        lambda: f.rms_norm(t(X), (5,)),
        lambda: f.multilabel_margin_loss(t(X), t(np.zeros((3, 4), int))),
        lambda: f.max_unpool1d(line, line.long(), 2),
    ]
    return [refuses(call) for call in calls]
