"""ONNX operators, one module per family. `load` fills the table of `registry` once."""

from __future__ import annotations

import importlib

FAMILIES = (
    "arithmetic activation comparison reduction shaping indexing making joining product convolution pooling "
    "normalising conversion quantising attention written_attention recurrent losses spectral resampling "
    "regions alignment suppression sequences strings ml_trees ml_models ml_features training control "
    "ms_fused ms_attention ms_quantised"
).split()
_loaded: list[str] = []


def load() -> None:
    """Import every family."""
    if not _loaded:
        for family in FAMILIES:
            importlib.import_module(f"{__name__}.{family}")
        _loaded.extend(FAMILIES)
