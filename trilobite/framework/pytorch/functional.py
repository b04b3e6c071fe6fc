"""`torch.functional`: functions of the package under the name of the file that PyTorch defines them in."""

from __future__ import annotations

from typing import Any

_NAMES = frozenset(
    "atleast_1d atleast_2d atleast_3d align_tensors broadcast_shapes broadcast_tensors cartesian_prod "
    "block_diag cdist chain_matmul einsum istft lu norm meshgrid pca_lowrank split stft svd_lowrank "
    "tensordot unique unique_consecutive unravel_index".split()
)


def __getattr__(name: str) -> Any:
    import trilobite

    if name in _NAMES and hasattr(trilobite, name):
        return getattr(trilobite, name)
    raise AttributeError(f"trilobite.functional has no {name!r}")
