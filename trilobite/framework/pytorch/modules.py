"""Small rooms of PyTorch's that hold a name or two each: overrides, onnx, hub, version."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location


class Room:
    """A name with names under it."""

    def __init__(self, doc: str, **names: Any) -> None:
        self.__doc__ = doc
        self.__dict__.update(names)


def _never(*args: Any, **kwargs: Any) -> bool:
    return False


def _no_network(url: str = "", *args: Any, **kwargs: Any) -> Any:
    raise ArgumentError(
        f"weights from {url!r}",
        where=user_location(),
        expected="a file: nothing is downloaded",
        remedy="fetch it yourself, then tb.load(path)",
    )


overrides = Room(
    "Subclasses that take over functions: there are none.", has_torch_function=_never,
    has_torch_function_unary=_never, has_torch_function_variadic=_never, is_tensor_like=_never,
)  # fmt: skip
onnx = Room("Export through PyTorch's own tracer.", is_in_onnx_export=_never)


def _cache_directory() -> str:
    import os

    return os.path.join(os.path.expanduser("~"), ".cache", "trilobite", "hub")


hub = Room(
    "Downloads: refused.", load_state_dict_from_url=_no_network, load=_no_network, get_dir=_cache_directory,
    _get_torch_home=_cache_directory, download_url_to_file=_no_network, HASH_REGEX=None, urlparse=urlparse,
)  # fmt: skip
version = Room("What PyTorch was built with.", cuda=None, hip=None, git_version=None, debug=False)


def _noted(*args: Any) -> None:
    """Nobody counts who uses what."""


_C = Room("PyTorch's native part, which is not here.", _log_api_usage_once=_noted, _get_tracing_state=_noted)
