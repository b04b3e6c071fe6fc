"""A source with a host program, as C++ for this computer: kernels become calls of the simulator.

Enters: the preprocessed text of a source whose host part is to run. Leaves: C++ in which the body of every
kernel packs its parameters and starts it on the simulated device, `k<<<dim, kind, queue>>>(...)` notes the
launch's shape before it calls that, and other device code is gone.
"""

from __future__ import annotations

import re

from trilobite.processor.lang.bang.headers import INCLUDE
from trilobite.processor.lang.bang.host_items import TEMPLATE, Item, closing, items, name_of, plain
from trilobite.processor.lang.bang.launches import ENTRY, parameters_of
from trilobite.processor.lang.bang.rewrite import TOKEN, behind_launch, chunks, rewrite

RUNTIME = (INCLUDE / "host" / "runtime.h", INCLUDE / "host" / "runtime_family.h")
PRINTS = INCLUDE / "host" / "prints.h"
BEYOND_HEADERS = INCLUDE / "host" / "beyond_headers.h"
MAIN = "__dlp_main"
_NAME = re.compile(r"((?:[A-Za-z_]\w*\s*(?:<[^;(){}]*>)?\s*::\s*)*[A-Za-z_]\w*\s*(?:<[^;(){}]*>)?)\s*$")
_LINES = re.compile(r"[^\n]+")
_PARAMETER = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$")
_START = (
    "template <typename D, typename K, typename Q> static inline void __dlp_shape(D dim, K kind, Q queue) {"
    " __dlp_dim[0] = dim.x; __dlp_dim[1] = dim.y; __dlp_dim[2] = dim.z; __dlp_kind = (int)kind;"
    " __dlp_queue = (void *)queue; }\n"
)
_DECLARED = (
    '# 1 "runtime" 3\nextern "C" { extern int __dlp_dim[3], __dlp_kind; extern void *__dlp_queue;\n'
    "void __dlp_start(const void *, const void **, const unsigned long *, int); }\n" + _START
)


def has_main(text: str) -> bool:
    """Whether a source is a whole program."""
    return re.search(r"\bint\s+main\s*\(", text) is not None


def host_text(preprocessed: str) -> str:
    """C++ of the host, behind it the runtime that it calls."""
    text = rewrite(
        "".join(
            _ending_throws(_launching(chunk)) if is_user else chunk for chunk, is_user in chunks(preprocessed)
        )
    )
    for item in reversed(items(text)):
        if item.is_device:
            text = text[: item.start] + _standing_for(text, item) + text[item.end :]
    prints = f'# 1 "runtime" 3\n{PRINTS.read_text(encoding="utf-8")}'
    runtime = "".join(path.read_text(encoding="utf-8") for path in RUNTIME)
    return f'{_DECLARED}{prints}{text}\n# 1 "runtime" 3\n{runtime}{_beyond_headers(text)}'


def _beyond_headers(text: str) -> str:
    """Definitions that the C++ library has in its binary, as far as the text names them."""
    parts = BEYOND_HEADERS.read_text(encoding="utf-8").split("//: ")[1:]
    chosen = ((part.partition("\n")) for part in parts)
    return "".join(f'# 1 "library" 3\n{body}' for word, _, body in chosen if word in text)


def _ending_throws(text: str) -> str:
    """`throw X;` as a call that ends the program with what X says: nothing is ever caught."""
    made, at = "", 0
    tokens = list(TOKEN.finditer(text))
    for place, token in enumerate(tokens):
        following = text[token.end() :].lstrip()[:2]
        if token[0] != "throw" or token.start() < at or following == "()":
            continue
        end = next((t.start() for t in tokens[place:] if t[0] == ";"), len(text))
        made += f"{text[at : token.start()]}__dlp_thrown({text[token.end() : end].strip()})"
        at = end
    return made + text[at:]


def _launching(text: str) -> str:
    """Launches as calls behind a note of their shape."""
    at = 0
    while True:
        found = next((token for token in TOKEN.finditer(text, at) if token["launch"]), None)
        if found is None:
            return text
        name = _NAME.search(text[: found.start()])
        end = behind_launch(text, found.end())
        opening = text.find("(", end)
        if name is None or opening < 0 or text[end:opening].strip():
            at = found.end()
            continue
        last = closing(text, opening + 1, "(", ")")
        shape = text[found.end() : end - 3]
        call = f"(__dlp_shape({shape}), {name[1]}{text[end:last]})"
        text = text[: name.start(1)] + call + text[last:]
        at = name.start(1) + len("(__dlp_shape(")


def _standing_for(text: str, item: Item) -> str:
    """A kernel's body that starts it; nothing for other device code; declarations as they are."""
    whole = text[item.start : item.end]
    head = text[item.start : item.body] if item.is_function else whole
    if ENTRY not in head and "__mlu_host__" not in head:
        return _LINES.sub("", whole) if "\n# " not in whole else _blank(whole)
    if not item.is_function or ENTRY not in head:
        return whole
    names = [found[1] for p in parameters_of(head) if (found := _PARAMETER.search(p))]
    template = TEMPLATE.match(plain(head))
    mine = name_of(head) + (f"<{_arguments(template[1])}>" if template else "")
    values = ", ".join(f"(const void *)&{name}" for name in names) or "nullptr"
    sizes = ", ".join(f"sizeof({name})" for name in names) or "0"
    body = (
        f"{{ const void *__values[] = {{{values}}}; const unsigned long __sizes[] = {{{sizes}}}; "
        f"__dlp_start((const void *)&{mine}, __values, __sizes, {len(names)}); }}"
    )
    return head + body + "\n" * whole[len(head) :].count("\n")


def _blank(text: str) -> str:
    return re.sub(r"^(?!# )[^\n]+", "", text, flags=re.MULTILINE)


def _arguments(template: str) -> str:
    """What a template's parameters are called: `typename T, int N, typename... P` is `T, N, P...`."""
    inside = template[template.index("<") + 1 : template.rindex(">")]
    made = []
    for part in inside.split(","):
        first = part.partition("=")[0].strip()
        made.append(re.findall(r"\w+", first)[-1] + ("..." if "..." in first else ""))
    return ", ".join(made)
