"""Errors of Python's that a wrong argument ends in, as errors of the house.

Enters: an error that was raised inside a public function, and what the function was called with. Leaves: the
error that the user gets: which argument cannot be what it is, and what came of it. It is also of the kind
that Python raised, so whoever catches that still does. Errors from code of the user's (a callback, a class
beside ours) stay as they are, and so do Python's own sentences on missing and unknown arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from trilobite.base.errors import ArgumentError, TrilobiteError
from trilobite.base.locations import user_location

F = TypeVar("F", bound=Callable[..., Any])
RAW = (AttributeError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError, AssertionError)
_SIGNATURE = ("positional argument", "keyword argument", "required keyword", "multiple values for argument")
_LIBRARIES = Path(np.__file__).parents[1]
_OWN = (str(Path(__file__).parents[1]), *(str(_LIBRARIES / n) for n in ("numpy", "PIL", "ml_dtypes")), "<")
_PYTHON = str(Path(inspect.__file__).parent)


def explained(
    error: Exception, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], called: str
) -> Exception:
    """What the user gets instead of an error inside `fn(*args, **kwargs)`, perhaps itself."""
    if isinstance(error, (TrilobiteError, Warning, NotImplementedError)) or not _is_ours(error):
        return error
    if isinstance(error, TypeError) and any(words in str(error) for words in _SIGNATURE):
        return error
    which = _suspect(fn, args, kwargs)
    what = f"{called}: {which}" if which else f"{called} with these arguments: {error}"
    kind: Any = type(error)
    return _kind(kind)(
        what,
        where=user_location(),
        expected=_expected(fn, called),
        remedy=f"inside, it ended in {type(error).__name__}: {error}" if which else None,
    )


@lru_cache(maxsize=64)
def _kind(raised: Any) -> type[TrilobiteError]:
    if issubclass(raised, ValueError):
        return ArgumentError
    names = {"__doc__": "An argument of a kind that has no meaning.", "__str__": Exception.__str__}
    return type("WrongArgument", (ArgumentError, raised), names)  # NumPy's kinds tell of what they hold


def _is_ours(error: Exception) -> bool:
    """Was it raised in this package, or in what it called, with no code of others between?"""
    frame = error.__traceback__
    while frame is not None:
        path = frame.tb_frame.f_code.co_filename
        pythons = path.startswith(_PYTHON) and "site-packages" not in path
        if not pythons and not path.startswith(_OWN):
            return False
        frame = frame.tb_next
    return True


def raise_explained(
    error: Exception, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], called: str
) -> NoReturn:
    """Go on with what the user gets; an error that stays keeps its cause."""
    found = explained(error, fn, args, kwargs, called)
    if found is error:
        raise error
    raise found from error


def _suspect(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The first argument that is None without None being its default, or else is a strange one."""
    try:
        signature = inspect.signature(fn)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return ""
    defaults = {name: p.default for name, p in signature.parameters.items()}
    for name, value in given.items():
        if value is None and defaults[name] is not None:
            return f"{name} is None"
    for name, value in given.items():
        if type(value) is not type(defaults[name]) and _is_strange(value):
            return f"{name} is of type {type(value).__name__}"
    return ""


def _is_strange(value: Any) -> bool:
    """Is it no number, list, array, function, nor anything of this package?"""
    known = isinstance(value, (int, float, complex, list, tuple)) or callable(value)
    ours = hasattr(value, "__array__") or type(value).__module__.startswith("trilobite.")
    return value is not None and not known and not ours


def _expected(fn: Any, called: str) -> str:
    try:
        return f"{called}{inspect.signature(fn)}"
    except (TypeError, ValueError):
        return f"what help({called}) says"


def explains(fn: F) -> F:
    """A function or constructor whose wrong use is told in errors of the house."""
    called = fn.__qualname__.removesuffix(".__init__") if fn.__name__ == "__init__" else fn.__name__

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except RAW as error:
            raise_explained(error, fn, args, kwargs, called)

    return call  # type: ignore[return-value]


def explain_room(names: dict[str, Any], but: Sequence[str] = ()) -> None:
    """Give the public functions and constructors that a module defines (its `globals()`) such errors."""
    room = names["__name__"]
    told: dict[Any, Any] = {}  # a function of two names stays one
    for name, value in list(names.items()):
        if name.startswith("_") or name in but or getattr(value, "__module__", None) != room:
            continue
        if inspect.isfunction(value) and not inspect.isgeneratorfunction(value):
            names[name] = told[value] = told.get(value) or explains(value)
        elif inspect.isclass(value) and inspect.isfunction(value.__dict__.get("__init__")):
            setattr(value, "__init__", explains(value.__dict__["__init__"]))  # noqa: B010
