"""`tb.distributed`: one process, and this says so."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location

__path__: list[str] = []  # `import trilobite.distributed.tensor` looks for rooms under it


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


is_torchelastic_launched = is_nccl_available = is_gloo_available = is_mpi_available = is_initialized


def get_rank(group: Any = None) -> int:
    return 0


def get_world_size(group: Any = None) -> int:
    return 1


def barrier(*args: Any, **kwargs: Any) -> None:
    """One process waits for nobody."""


def _alone(*args: Any, **kwargs: Any) -> Any:
    raise StateError(
        "a collective operation between processes",
        where=user_location(),
        expected="tb.distributed.is_initialized(), which is False: there is one process",
        remedy="guard it with is_initialized(), as PyTorch code for one machine does",
    )


init_process_group = all_reduce = all_gather = broadcast = reduce = gather = scatter = reduce_scatter = _alone
all_gather_object = broadcast_object_list = new_group = destroy_process_group = all_to_all = _alone


class _Calls:
    """`tb.distributed.rpc`: calls of functions in other processes, of which there are none."""

    is_available = staticmethod(is_available)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "_require_initialized":  # a decorator of functions that need others
            return lambda fn: _alone
        return _alone if name != "api" else self


rpc = _Calls()


class ReduceOp:
    """Names of reductions between processes."""

    SUM, PRODUCT, MIN, MAX, AVG = "sum", "product", "min", "max", "avg"


class ProcessGroup:
    """Several processes: there is one."""


class _Missing:
    """A class of PyTorch's for many processes: nothing here is one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _alone()


class DeviceMesh(_Missing):
    """Devices in a grid."""


class DTensor(_Missing):
    """A tensor in parts on several devices."""


class _Rooms:
    """`distributed.tensor`, `distributed.device_mesh`, ...: names of classes that nothing is of."""

    DTensor, DeviceMesh, init_device_mesh = DTensor, DeviceMesh, staticmethod(_alone)

    class group:
        WORLD = None


group = _Rooms.group
tensor = device_mesh = nn = distributed_c10d = _functional_collectives = algorithms = _Rooms
P2POp, isend, irecv, batch_isend_irecv, all_gather_into_tensor = _Missing, _alone, _alone, _alone, _alone
reduce_scatter_tensor = all_to_all_single = gather_object = scatter_object_list = send = recv = _alone
is_xccl_available = is_ucc_available = is_initialized


def get_backend(group: Any = None) -> str:
    return "none"
