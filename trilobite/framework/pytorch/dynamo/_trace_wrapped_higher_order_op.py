"""A context of PyTorch's for indexing inside of `vmap`, which needs none here."""

from contextlib import nullcontext


class TransformGetItemToIndex(nullcontext[None]):
    """Indexing by batched tensors works as it stands."""
