"""Detection: a pyramid, anchors, matching by overlap, focal and box losses, and non-maximum suppression."""

import math
from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = {
    "x": ("normal", (1, 3, 32, 32)),
    "corner": ("uniform", (3, 2)),
    "extent": ("uniform", (3, 2)),
    "labels": ("int", 3, (3,)),
}


def box_area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    lt = torch.max(boxes1[:, None, :2], boxes2[:, :2])
    rb = torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    return inter / (box_area(boxes1)[:, None] + box_area(boxes2) - inter)


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    order = scores.sort(0, descending=True)[1]
    keep = []
    while order.numel() > 0:
        i = order[0]
        keep.append(i)
        if order.numel() == 1:
            break
        iou = box_iou(boxes[i].unsqueeze(0), boxes[order[1:]]).squeeze(0)
        inds = torch.nonzero(iou <= threshold).squeeze(1)
        order = order[inds + 1]
    return torch.stack(keep)


class AnchorGenerator(nn.Module):
    def __init__(self, sizes=((6.0,), (12.0,)), aspect_ratios=(0.5, 1.0)):
        super().__init__()
        self.cell_anchors = [self.generate(s, aspect_ratios) for s in sizes]

    def generate(
        self,
        scales,
        aspect_ratios,
        dtype: torch.dtype = torch.float64,
        device: torch.device = torch.device("cpu"),
    ):
        scales = torch.as_tensor(scales, dtype=dtype, device=device)
        aspect_ratios = torch.as_tensor(aspect_ratios, dtype=dtype, device=device)
        h_ratios = torch.sqrt(aspect_ratios)
        w_ratios = 1 / h_ratios
        ws = (w_ratios[:, None] * scales[None, :]).view(-1)
        hs = (h_ratios[:, None] * scales[None, :]).view(-1)
        return (torch.stack([-ws, -hs, ws, hs], dim=1) / 2).round()

    def forward(self, features: List[Tensor], image_size: int) -> Tensor:
        anchors = []
        for base, feature in zip(self.cell_anchors, features):
            grid_height, grid_width = feature.shape[-2:]
            stride = torch.empty((), dtype=torch.int64).fill_(image_size // grid_height)
            shifts_x = torch.arange(0, grid_width, dtype=torch.int32) * stride
            shifts_y = torch.arange(0, grid_height, dtype=torch.int32) * stride
            shift_y, shift_x = torch.meshgrid(shifts_y, shifts_x, indexing="ij")
            shifts = torch.stack(
                (shift_x.reshape(-1), shift_y.reshape(-1), shift_x.reshape(-1), shift_y.reshape(-1)), dim=1
            )
            anchors.append((shifts.view(-1, 1, 4) + base.view(1, -1, 4)).reshape(-1, 4))
        return torch.cat(anchors).to(features[0].dtype)


class Head(nn.Module):
    def __init__(self, channels=8, anchors=2, classes=3):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1), nn.ReLU())
        self.cls_logits = nn.Conv2d(channels, anchors * classes, 3, 1, 1)
        self.bbox_reg = nn.Conv2d(channels, anchors * 4, 3, 1, 1)
        torch.nn.init.constant_(self.cls_logits.bias, -math.log((1 - 0.01) / 0.01))
        self.classes = classes

    def permute(self, x: Tensor, K: int) -> Tensor:
        N, _, H, W = x.shape
        return x.view(N, -1, K, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, K)

    def forward(self, features: List[Tensor]) -> Dict[str, Tensor]:
        cls, box = [], []
        for f in features:
            h = self.conv(f)
            cls.append(self.permute(self.cls_logits(h), self.classes))
            box.append(self.permute(self.bbox_reg(h), 4))
        return {"cls": torch.cat(cls, dim=1), "box": torch.cat(box, dim=1)}


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Sequential(nn.Conv2d(3, 8, 3, 4, 1), nn.ReLU())
        self.c2 = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.lateral = nn.ModuleList([nn.Conv2d(8, 8, 1) for _ in range(2)])
        self.anchors, self.head = AnchorGenerator(), Head()

    def forward(self, x):
        c1 = self.c1(x)
        c2 = self.c2(c1)
        p2 = self.lateral[1](c2)
        p1 = self.lateral[0](c1) + F.interpolate(p2, size=c1.shape[-2:], mode="nearest")
        return self.anchors([p1, p2], x.shape[-1]), self.head([p1, p2])


def encode(reference: Tensor, proposals: Tensor) -> Tensor:
    ex, ey, ew, eh = (
        (proposals[:, 0] + proposals[:, 2]) / 2,
        (proposals[:, 1] + proposals[:, 3]) / 2,
        proposals[:, 2] - proposals[:, 0],
        proposals[:, 3] - proposals[:, 1],
    )
    gx, gy, gw, gh = (
        (reference[:, 0] + reference[:, 2]) / 2,
        (reference[:, 1] + reference[:, 3]) / 2,
        reference[:, 2] - reference[:, 0],
        reference[:, 3] - reference[:, 1],
    )
    return torch.stack(((gx - ex) / ew, (gy - ey) / eh, torch.log(gw / ew), torch.log(gh / eh)), dim=1)


def make():
    return Detector()


def sigmoid_focal_loss(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2) -> Tensor:
    p = torch.sigmoid(inputs)
    ce_loss = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    loss = ce_loss * ((1 - p_t) ** gamma)
    return (alpha * targets + (1 - alpha) * (1 - targets)) * loss


def loss(model, batch):
    anchors, out = model(batch["x"])
    corner = batch["corner"] * 16
    boxes = torch.cat([corner, corner + 4 + batch["extent"] * 12], dim=1)
    quality = box_iou(boxes, anchors)
    matched_vals, matches = quality.max(dim=0)
    below = matched_vals < 0.2
    matches[below] = -1
    best = quality.max(dim=1).indices
    matches[best] = torch.arange(len(boxes))
    foreground = torch.where(matches >= 0)[0]
    target = torch.zeros_like(out["cls"][0])
    target[foreground, batch["labels"][matches[foreground]]] = 1.0
    num = max(1, foreground.numel())
    cls = sigmoid_focal_loss(out["cls"][0], target).sum() / num
    reg = (
        F.smooth_l1_loss(
            out["box"][0][foreground],
            encode(boxes[matches[foreground]], anchors[foreground]),
            reduction="sum",
            beta=0.1,
        )
        / num
    )
    scores, labels = out["cls"][0].sigmoid().max(-1)
    kept = nms(anchors, scores.detach(), 0.5)
    top_scores, top = scores.topk(min(5, len(kept)))
    return cls + reg + top_scores.sum() * 0.01
