"""GGUF files, as llama.cpp writes them: tensors by name, quantised ones as float32 when asked for."""

from trilobite.inference.formats.gguf.container import GGUF

__all__ = ["GGUF"]
