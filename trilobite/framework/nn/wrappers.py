"""Modules around a module: for many devices, of which there is one; and buffers as attributes."""

from __future__ import annotations

from typing import Any

from trilobite.framework.nn.module import Module


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
