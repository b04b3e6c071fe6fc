"""The compiler's own names of intrinsics, as older sources call them beside the public ones.

Enters: a word of a source. Leaves: the table's name for it, or the word. `__mlvm_stream_add_f16` is
`__bang_add`, whose operands carry the type; a copy that names its two memories becomes a template of the
direction.
"""

from __future__ import annotations

import re
from functools import lru_cache

from trilobite.processor.lang.bang.table import FORMS

_TYPE = r"(?:bf16|fp?16|fp?32|[su](?:4|8|16|32|64)|fix(?:4|8|16)|int(?:4|8|16|31|32)|tf32)"
_STREAM = re.compile(rf"__mlvm_stream_(\w+?)((?:_{_TYPE})*)")
_SET = re.compile(rf"__mlvm_memset_(nram|sram|gdram|ldram)(?:_stream)?_{_TYPE}")
_COPY = re.compile(r"__mlvm_memcpy_(?:stride_|1D_)?([nwsgl]d?ram)_to_([nwsgl]d?ram)(_async)?")
_DEFINED = re.compile(r"\bvoid\s+(__mlvm_\w+)\s*\(")
PREFIX = "__mlvm_"


def defined(text: str) -> frozenset[str]:
    """Names of this kind that a source defines itself, in a form of its own."""
    return frozenset(_DEFINED.findall(text)) if PREFIX in text else frozenset()


def overloads(names: frozenset[str]) -> str:
    """The plain form of the copies among the names, beside the source's own."""
    made = ""
    for name in sorted(names):
        if found := _COPY.fullmatch(name):
            way = f"{found[1]}2{found[2]}".upper()
            made += (
                f"static inline void {name}(void *d, const void *s, long n) {{ __memcpy(d, s, n, {way}); }}\n"
            )
    return made


@lru_cache(maxsize=512)
def spelled(word: str) -> str:
    """The table's spelling of a word that begins with the prefix."""
    if word == "__mlvm_sync":
        return "__sync"
    if found := _SET.fullmatch(word):
        return f"__{found[1]}set"
    if found := _COPY.fullmatch(word):
        return f"__dlp_copy{found[3] or ''}<{found[1].upper()}2{found[2].upper()}>"
    if found := _STREAM.fullmatch(word):
        for name in (f"__bang_{found[1]}", f"__bang_active_{found[1]}"):
            if name in FORMS:
                return name
    return word
