"""`tb.fx`: marks for PyTorch's symbolic tracer. `tb.jit` records plain Python and needs none.

Enters: functions and modules with marks. Leaves: the same. May import `framework` and `base`. Read
`graph_module.py` first.
"""

from __future__ import annotations

import sys
from typing import Any

from trilobite.base.errors import StateError
from trilobite.base.locations import user_location
from trilobite.framework.pytorch.compiler import marked
from trilobite.framework.pytorch.fx.graph_module import GraphModule

wrap = marked


class Proxy:
    """A value of PyTorch's tracer: nothing here is one."""


class Node(Proxy):
    """A node of PyTorch's graphs: nothing here is one."""


class Tracer:
    """PyTorch's tracer, which is not here."""

    def trace(self, *args: object, **kwargs: object) -> None:
        symbolic_trace()


def symbolic_trace(*args: object, **kwargs: object) -> None:
    raise StateError(
        "fx.symbolic_trace",
        where=user_location(),
        expected="tb.make_graph(f)(x), the graph that a function records",
        remedy="tb.jit(f).lower(x) shows it with everything that is made of it",
    )


class Graph(Proxy):
    """A graph of PyTorch's tracer: nothing here is one."""


class Interpreter(Proxy):
    """What runs PyTorch's graphs: there are none here."""


Target = Any  # what a node calls

node = graph = proxy = interpreter = sys.modules[__name__]  # PyTorch has a room for each

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "symbolic_trace", "wrap"]
