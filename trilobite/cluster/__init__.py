"""Many processes: collectives of tensors, meshes, and strategies that train as one process would.

Enters: a script that every rank runs. Leaves: the same losses and parameters as one process. It may import
the framework and what is below. Read first: `groups.py` and `collectives.py`, then a strategy. Ranks inside
one process: `in_process.py`; between processes: `mpi.py`.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "groups": "Group rank size world parts part_of traffic",
    "collectives": (
        "all_reduce share all_gather reduce_scatter part all_to_all broadcast permute rotate index send "
        "receive barrier own_rows"
    ),
    "mpi_reductions": "any_order",
    "in_process": "lockstep",
    "meshes": "Mesh mesh",
    "randomness": "one_randomness",
    "gradients": "DataParallel same_start reduce_gradients clip_grad_norm_",
    "batch_norm": "BatchNorm over_all_ranks",
    "zero": "Zero",
    "tensor_parallel": "ColumnLinear RowLinear VocabularyEmbedding vocabulary_cross_entropy",
    "checkpoints": "save load whole_state load_whole_state",
    "splits": "Split",
    "sampling": "BatchSampler",
    "survival": "survive Copies",
    "timelines": "timeline",
    "dimensions": "SummaLinear CubeLinear",
    "pipelines": "Pipeline",
    "experts": "Experts",
    "server": "ParameterServer",
    "sharding.tensors": "shard unshard whole local from_local is_split",
    "sharding.function": "sharded",
    "planning.search": "Task Plan plans",
    "planning.machines": "Machine described measure",
    "planning.measurement": "measured",
    "sequence": "SequenceColumnLinear SequenceRowLinear share_parameters ring_attention",
}
_ROOMS = {name: room for room, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_ROOMS)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"trilobite.cluster has no {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_ROOMS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
