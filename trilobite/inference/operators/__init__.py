"""ONNX operators, one module per family. `load` fills the table of `registry` once; the many families of
com.microsoft come with the first node of that domain, since most models have none.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from trilobite.inference.operators import registry

FAMILIES = (
    "arithmetic activation comparison reduction shaping indexing creation joining product convolution "
    "pooling normalising conversion quantising attention written_attention recurrent losses spectral "
    "resampling regions alignment suppression sequences strings ml.trees ml.models ml.features training "
    "control"
).split()
MICROSOFT = tuple(
    f"microsoft.{family}"
    for family in (
        "fused attention grouped decoding packed layout weights experts rotary norms recurrence "
        "bias numbers strings quantised"
    ).split()
)
_loaded: set[str] = set()


def load() -> None:
    """Every family of ONNX; those of com.microsoft when `registry.find` is asked for one."""
    _enter(FAMILIES)
    registry.later["com.microsoft"] = lambda: _enter(MICROSOFT)


def load_all() -> None:
    """Every family."""
    load()
    _enter(MICROSOFT)


def _enter(families: Sequence[str]) -> None:
    for family in families:
        if family not in _loaded:
            importlib.import_module(f"{__name__}.{family}")
            _loaded.add(family)
