"""ONNX operators, one module per family. `load` fills the table of `registry` once; the many families of
com.microsoft come with the first node of that domain, since most models have none.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from trilobite.inference.operators import registry

FAMILIES = (
    "arithmetic activation comparison reduction shaping indexing making joining product convolution pooling "
    "normalising conversion quantising attention written_attention recurrent losses spectral resampling "
    "regions alignment suppression sequences strings ml_trees ml_models ml_features training control"
).split()
MICROSOFT = (
    "ms_fused ms_attention ms_grouped ms_decoding ms_packed ms_layout ms_weights ms_experts ms_rotary "
    "ms_norms ms_recurrence ms_bias ms_numbers ms_strings ms_quantised"
).split()
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
