"""What the older dialect allows and C++ does not.

Enters: rewritten text, and where clang found no function for a call. Leaves: the text with `&array` of a
scratchpad in those calls as `array`: older sources pass it where a pointer to the elements is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trilobite.processor.lang.bang.host_items import lines

NO_MATCH = "no matching function for call"
_DECLARATION = re.compile(r'section\("\w+"\), used\)\)([^;(){}=]*)')
_ARRAY = re.compile(r"\b([A-Za-z_]\w*)\s*\[")


def with_elements(text: str, faults: Iterable[tuple[str, int, int, str]]) -> str:
    """The text, changed where a call that found no function passes the address of a scratchpad array."""
    refused = {(file, line) for file, line, _, message in faults if NO_MATCH in message}
    if not refused:
        return text
    arrays = {name for words in _DECLARATION.findall(text) for name in _ARRAY.findall(words)}
    if not arrays:
        return text
    address = re.compile(rf"(?<=[(,])(\s*)&(\s*(?:{'|'.join(sorted(arrays))})\s*(?=[,)]))")
    calls = [offset for offset, file, line in lines(text) if (file, line) in refused]
    for start in reversed(calls):
        end = text.find(";", start)
        text = text[:start] + address.sub(r"\1 \2", text[start:end]) + text[end:]
    return text
