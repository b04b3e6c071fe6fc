"""`equal`, which the array API standard means element by element and PyTorch as one answer: a tensor that is
also the answer.

`tb.equal(x, y)` is the standard's tensor. Asked for its truth (`if tb.equal(x, y)`), it says whether the two
have the same shape and elements, as PyTorch's function does; a single element is its own truth, as for every
tensor. Shapes that do not meet have no such tensor: the answer is false, and whoever wants more of it hears
of the shapes.
"""

from __future__ import annotations

from typing import Any, NoReturn

from trilobite.base.errors import ShapeError
from trilobite.framework.ops.registry import methods, operators
from trilobite.framework.tensor import Tensor


class Unequal:
    """Of two tensors whose shapes do not meet: false, and nothing else."""

    __slots__ = ("_error",)
    __array_priority__ = 1000

    def __init__(self, error: ShapeError) -> None:
        self._error = error

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "False"

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise self._error

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    __iter__ = __len__ = __getitem__ = __invert__ = __and__ = __or__ = __rand__ = __ror__ = _refuse
    __array__ = __int__ = __float__ = __index__ = _refuse


def install() -> None:
    """Give the function both meanings; `==` and `x.eq(y)` stay as they are, `x.equal(y)` is PyTorch's."""
    elements, row = operators["eq"].public, operators["equal"]

    def equal(x1: Any = None, x2: Any = None, /, **settings: Any) -> Any:
        """X1 == x2, element by element; its truth is that all are equal, and the shapes too."""
        try:
            found = elements(x1, x2, **settings)
        except ShapeError as error:
            return Unequal(error)
        if isinstance(x1, Tensor) and isinstance(x2, Tensor) and isinstance(found, Tensor):
            found._note("whole", tuple(x1.shape) == tuple(x2.shape))
        return found

    operators["equal"] = row._replace(public=equal, methods=())
    operators["eq"] = operators["eq"]._replace(methods=row.methods)
    methods["equal"] = same


def same(x: Tensor, other: Any) -> bool:
    """Have the two the same shape and elements? A Python bool: PyTorch's x.equal(y)."""
    return bool(operators["array_equal"].public(x, other))
