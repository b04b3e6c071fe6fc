"""Transforms: functions on one item, random ones drawing only from the generator they are given.

In: an array (images are height × width or height × width × channels, any dtype) and a generator. Out: a new
array; the input is never written to. The loader hands each item its own generator, so nothing depends on
workers or timing.

Enters: an item and a generator. Leaves: a new item. May import `base` and `framework.data`. Read `base.py`
first.
"""

from trilobite.framework.data.transforms.base import Compose, Item, Lambda, Transform, apply, apply_to_item
from trilobite.framework.data.transforms.color import ColorJitter
from trilobite.framework.data.transforms.geometry import (
    CenterCrop,
    Cutout,
    HorizontalFlip,
    RandomCrop,
    Resize,
    Rotate,
)
from trilobite.framework.data.transforms.resample import resize, rotate
from trilobite.framework.data.transforms.values import ChannelsFirst, Normalize, OneHot, ToFloat

__all__ = [
    "Transform", "Compose", "Lambda", "Item", "apply", "apply_to_item",
    "ToFloat", "Normalize", "ChannelsFirst", "OneHot",
    "Resize", "CenterCrop", "RandomCrop", "HorizontalFlip", "Rotate", "Cutout", "ColorJitter",
    "resize", "rotate",
]  # fmt: skip
