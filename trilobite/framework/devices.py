"""`tb.device`: where a tensor is. There is one place, the CPU; the others can be named, and are refused when
a tensor should go there.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ArgumentError, DeviceError
from trilobite.base.locations import user_location

KINDS = ("cpu", "cuda", "mps", "xpu", "meta", "hpu", "mtia", "xla", "npu")


class device(str):
    """A place for tensors: `tb.device("cpu")`. It is equal to its name."""

    __slots__ = ()

    def __new__(cls, name: Any = "cpu", index: int | None = None) -> device:
        text = f"cuda:{name}" if isinstance(name, int) else str(name)
        kind, _, number = text.partition(":")
        if kind not in KINDS or (number and not number.isdigit()):
            raise ArgumentError(
                f"a device {text!r}", where=user_location(), expected=f"one of {', '.join(KINDS)}"
            )
        return super().__new__(cls, text if index is None else f"{kind}:{index}")

    @property
    def type(self) -> str:
        return str(self).partition(":")[0]  # a string that has no colon would be this device itself

    @property
    def index(self) -> int | None:  # type: ignore[override]  # PyTorch's name; nobody searches in a device
        number = self.partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device(type={self.type!r})" if self.index is None else f"device({str(self)!r})"

    def __enter__(self) -> device:
        check_device(self)
        return self

    def __exit__(self, *error: object) -> None:
        pass

    __hash__ = str.__hash__


CPU = device("cpu")


def check_device(name: Any) -> None:
    """Only the CPU has memory for tensors."""
    if name in (None, "cpu", "cpu:0"):
        return
    shown = f"cuda:{name}" if type(name) is int else str(name)
    raise DeviceError(
        f"there is no device {shown!r}", where=user_location(), expected="'cpu'",
        remedy="choose where compiled code runs with tb.jit(f, target=...)",
    )  # fmt: skip
