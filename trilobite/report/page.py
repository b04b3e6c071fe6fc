"""Subjects as one HTML file: data, style and script inside, nothing from elsewhere, a strict policy.

Enters: a title and subjects. Leaves: a file. The script and the style are our own, from `assets/`; the policy
names their hashes, so nothing else runs. Data travel as JSON that cannot end its element.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from trilobite.base.errors import FileError
from trilobite.compiler.targets.profiles import Profile
from trilobite.report.subjects import Kept, Subject

SCRIPTS = (
    "data.js",
    "elements.js",
    "tables.js",
    "charts.js",
    "kernels.js",
    "compare.js",
    "lanes.js",
    "timeline.js",
    "roofline.js",
    "memory.js",
    "nested.js",
    "graph.js",
    "main.js",
)
BEGIN = "begin.js"
_DATA = '<script type="application/json" id="data">'


Shown = Subject | Kept


def write_page(path: str | Path, title: str, subjects: Sequence[Shown]) -> Path:
    """The page's path."""
    try:
        Path(path).write_text(page_text(title, subjects), encoding="utf-8")
    except OSError as error:
        raise FileError(f"the page cannot be written: {error}", where=path) from error
    return Path(path)


def page_text(title: str, subjects: Sequence[Shown]) -> str:
    """The whole page."""
    data = {"title": title, "subjects": [subject.as_data() for subject in subjects]}
    style, script = asset("page.css"), script_text()
    policy = f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; img-src data:"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title><style>{style}</style></head>
<body><div id="page">
<noscript>This page draws its figures with its own script, which is switched off.</noscript>
</div>
{_DATA}{_embedded(data)}</script>
<script>{script}</script></body></html>
"""


def kept_subjects(path: str | Path) -> list[Kept]:
    """What a page that was written before shows, for another page beside it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"the page cannot be read: {error}", where=path) from error
    _, found, rest = text.partition(_DATA)
    try:
        subjects = json.loads(rest.partition("</script>")[0])["subjects"] if found else None
        wanted = Subject("", "", "", "", 0.0, []).as_data().keys()
        if not isinstance(subjects, list) or any(wanted - row.keys() for row in subjects):
            raise ValueError("it holds no runs of this version")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FileError(
            f"the page holds nothing to compare with: {error}",
            where=path,
            expected="a page that `trilobite profile -o` wrote",
        ) from error
    return [Kept({**row, "name": f"{row['name']} ({Path(path).name})"}) for row in subjects]


def write_traces(page: Path, target: str, profile: Profile) -> list[Path]:
    """Timelines for ui.perfetto.dev beside a page, one a target: binary of a launch, JSON of a CPU."""
    written = []
    for number, part in enumerate(profile.each):
        timeline = part.timeline()
        if timeline is not None:
            which = f".{number}" if len(profile.each) > 1 else ""
            stem = f"{page.stem}.{target.replace(':', '-').replace('/', '-')}{which}"
            written.append(page.with_name(f"{stem}{timeline.ending}"))
            written[-1].write_bytes(timeline.content)
    return written


def script_text() -> str:
    """The page's script: its parts one behind the other, in a scope of their own."""
    parts = "\n".join(asset(name) for name in (*SCRIPTS, BEGIN))
    return f'(function () {{\n"use strict";\n{parts}\n}})();\n'


def asset(name: str) -> str:
    return files("trilobite.report").joinpath("assets", name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: object) -> str:
    """JSON in which no `</script>` or `<!--` can stand. Infinite numbers become null."""
    text = json.dumps(_finite(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _finite(data: object) -> object:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    if isinstance(data, float) and data - data != 0:
        return None
    return data
