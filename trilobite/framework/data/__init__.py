"""Data: datasets, transforms, samplers, a loader with resumable state, and k-fold cross-validation.

Everything here works on NumPy arrays and on whatever has `__array__`, `__len__` and `__getitem__`; nothing
here knows tensors. Pillow, scikit-learn and multiprocessing are imported when they are first needed.

Enters: items. Leaves: batches, in an order that a seed decides. May import `base` alone. Read `dataset.py`
first, then `loader.py`.
"""

from trilobite.framework.data import idx, transforms
from trilobite.framework.data.collate import PadCollate, collate
from trilobite.framework.data.dataset import (
    ArrayDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    random_split,
)
from trilobite.framework.data.digits import MNIST, digits
from trilobite.framework.data.folds import kfold
from trilobite.framework.data.images import ImageFolder, read_image
from trilobite.framework.data.loader import Loader
from trilobite.framework.data.samplers import (
    BatchSampler,
    BucketSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedSampler,
)
from trilobite.framework.data.text import TextDataset, Vocabulary

__all__ = [
    "Dataset", "IterableDataset", "ArrayDataset", "Subset", "ConcatDataset", "random_split",
    "MNIST", "digits", "idx", "ImageFolder", "read_image", "TextDataset", "Vocabulary",
    "transforms", "collate", "PadCollate",
    "Sampler", "SequentialSampler", "RandomSampler", "WeightedSampler", "DistributedSampler",
    "BatchSampler", "BucketSampler",
    "Loader", "kfold",
]  # fmt: skip
