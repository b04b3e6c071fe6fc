"""Modules around a module: for many devices, of which there is one; and buffers as attributes."""

from __future__ import annotations

from typing import Any

from trilobite.framework.nn.module import Module
from trilobite.framework.ops.registry import operators
from trilobite.framework.tensor import Tensor


class DataParallel(Module):
    """A module on all GPUs: with none, it calls the module."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        self.module, self.dim = module, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(DataParallel):
    """A module in many processes: with one, it calls the module."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, **settings: Any
    ) -> None:
        super().__init__(module)


def Buffer(data: Any = None, persistent: bool = True) -> Tensor:
    """A tensor for register_buffer; a plain attribute is state that is not saved."""
    x: Tensor = data if isinstance(data, Tensor) else operators["asarray"].public(data)
    return x.detach()
