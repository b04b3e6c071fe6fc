"""Python kernels in a file, for the command line: `trilobite kernel run kernels.py --kernel softmax`.

Enters: the path of a Python file, which is imported as `python` would do it, the name of a kernel in it, and
values of meta-parameters as words. Leaves: the kernel.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from trilobite.base.errors import ArgumentError, TrilobiteError
from trilobite.processor.lang.python.autotune import Autotuned
from trilobite.processor.lang.python.kernel import Kernel


def kernel_of(path: str, name: str = "", level: int = 2, meta: Sequence[str] = ()) -> Kernel:
    """`name` may be left out where the file has one kernel; `meta` is words such as tile=512."""
    found = {n: k for n, k in vars(_imported(path)).items() if isinstance(k, (Kernel, Autotuned))}
    if name not in found and (name or len(found) != 1):
        raise ArgumentError(
            f"{path} has no kernel {name!r}" if name else f"{path} has {len(found)} kernels",
            expected="one of " + ", ".join(found) if found else "a function decorated with @dlp.kernel",
            remedy="name it with --kernel" if found else "write one",
        )
    chosen = found[name] if name else next(iter(found.values()))
    kernel = chosen.kernel if isinstance(chosen, Autotuned) else chosen
    return kernel.at_level(level).meta(**dict(_value(word) for word in meta))


def _value(word: str) -> tuple[str, Any]:
    name, _, text = word.partition("=")
    try:
        return name.strip(), ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name.strip(), text  # a word stands for itself: mode=fast


def _imported(path: str) -> ModuleType:
    file = Path(path)
    if not file.is_file():
        raise ArgumentError(f"there is no file {path}", expected="a .py file", remedy="check the path")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))  # its neighbours can be imported, as in a script
    try:
        spec.loader.exec_module(module)
    except TrilobiteError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"{path} cannot be imported: {type(error).__name__}: {error}",
            where=_line(error, str(file)),
            expected="a Python file that imports",
            remedy="try it with python first",
        ) from error
    finally:
        sys.path.remove(str(file.resolve().parent))
    return module


def _line(error: Exception, path: str) -> str:
    """The last line of the file itself on the way to the error."""
    if isinstance(error, SyntaxError):
        return f"{path}:{error.lineno}"
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}:{line}"
