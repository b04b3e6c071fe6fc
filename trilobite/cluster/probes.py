"""Messages whose length or sender is known when they come: requests that `mpi.py` waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Probed:
    """A receive of a message whose length only its sender knows."""

    def __init__(self, at: Any, source: int, tag: int) -> None:
        self.at, self.source, self.tag = at, source, tag
        self.request: Any = None
        self.data: Any = None

    def Test(self) -> bool:
        mpi = self.at.mpi
        if self.request is None:
            status = mpi.Status()
            message = self.at.data.Improbe(self.source, self.tag, status)
            if message is None:
                return False
            self.data = np.empty(status.Get_count(mpi.BYTE), np.uint8)
            self.request = message.Irecv([self.data, mpi.BYTE])
        return bool(self.request.Test())


class AnyOf:
    """The first rank among several from whom something has come."""

    def __init__(self, at: Any, sources: Sequence[int], tag: int, found: list[int]) -> None:
        self.at, self.sources, self.tag, self.found = at, sources, tag, found

    def Test(self) -> bool:
        self.found[:] = [r for r in self.sources if self.at.data.Iprobe(r, self.tag)]
        return bool(self.found)
