"""Debug metadata: where an instruction came from, and what variables and functions are called."""

from __future__ import annotations

import re

from trilobite.processor.lang.ir import NOWHERE, Location, Member

GENERATED = "intrinsics"  # the file that bodies of intrinsics claim to be from
LIBRARY = ("/libcxx/include/", "/include/c++/", "/lib/include/")  # in the paths of a compiler's own headers
OWN_FILES = (GENERATED, "/lang/bang/include/mlu.h", "/lang/bang/include/bang_fusor.h")
_FIELD = re.compile(r'(\w+): ("(?:[^"\\]|\\.)*"|[^,()]+(?:\([^)]*\))?)')
_KIND = re.compile(r"(?:distinct )?!(\w+)\(")


def is_ours(file: str) -> bool:
    """Whether a line is none of the user's: an intrinsic's body, or a header of the library."""
    return file.endswith(OWN_FILES) or any(part in file for part in LIBRARY)


class Debug:
    """Metadata nodes by number; each is parsed when it is first asked for."""

    def __init__(self, nodes: dict[int, str]) -> None:
        self._nodes = nodes
        self._fields: dict[int, dict[str, str]] = {}
        self._places: dict[int, Location] = {}
        self._kinds: dict[int, str] = {}
        self.members: dict[int, tuple[Member, ...]] = {}  # of types, as far as they were asked for
        self._files: dict[int | None, str] = {}
        self._functions: dict[int | None, str] = {}

    def fields(self, number: int) -> dict[str, str]:
        """The fields of a node, as text; strings without quotes."""
        if number not in self._fields:
            text = self._nodes.get(number, "")
            self._fields[number] = {name: value.strip().strip('"') for name, value in _FIELD.findall(text)}
        return self._fields[number]

    def text(self, number: int) -> str:
        return self._nodes.get(number, "")

    def kind(self, number: int) -> str:
        if number not in self._kinds:
            found = _KIND.match(self._nodes.get(number, ""))
            self._kinds[number] = found[1] if found else ""
        return self._kinds[number]

    def reference(self, number: int, field: str) -> int | None:
        text = self.fields(number).get(field, "")
        return int(text[1:]) if text.startswith("!") and text[1:].isdigit() else None

    def location(self, number: int | None) -> Location:
        """The place that a DILocation names: where inlined code was written, where an intrinsic is called."""
        if number is None:
            return NOWHERE
        if number not in self._places:
            fields = self.fields(number)
            scope = self.reference(number, "scope")
            line, column = int(fields.get("line", "0")), int(fields.get("column", "0"))
            found = Location(self._file(scope), line, column)
            outer = self.reference(number, "inlinedAt")
            is_inlined = outer is not None and is_ours(found.file)
            self._places[number] = self.location(outer) if is_inlined else found
        return self._places[number]

    def intrinsic(self, number: int | None) -> str:
        """The intrinsic whose body a DILocation lies in, as the user called it; "" in code of the user's."""
        name = ""
        while number is not None and self._file(self.reference(number, "scope")).endswith(GENERATED):
            found = self.scope_name(number)
            name = found if not found.startswith("__dlp_") else name
            number = self.reference(number, "inlinedAt")
        return name

    def declared_at(self, number: int | None) -> Location:
        """Where a function or a variable was declared."""
        if number is None:
            return NOWHERE
        if self.kind(number) == "DIGlobalVariableExpression":
            number = self.reference(number, "var") or number
        line = int(self.fields(number).get("line", "0"))
        return Location(self._file(number), line)

    def name(self, number: int | None) -> str:
        if number is None:
            return ""
        if self.kind(number) == "DIGlobalVariableExpression":
            number = self.reference(number, "var") or number
        return self.fields(number).get("name", "")

    def member_name(self, number: int | None) -> str:
        """The name, of a class's function behind that of the class."""
        name, owner = self.name(number), ""
        declared = self.reference(number, "declaration") if number is not None else None
        scope = self.reference(declared or number, "scope") if number is not None else None
        if scope is not None and self.kind(scope) == "DICompositeType":
            owner = self.name(scope)
        return f"{owner}::{name}" if owner else name

    def scope_name(self, number: int) -> str:
        """The function that a scope, or a variable's scope, belongs to."""
        first = scope = self.reference(number, "scope")
        if first not in self._functions:
            while scope is not None and self.kind(scope) != "DISubprogram":
                scope = self.reference(scope, "scope")
            self._functions[first] = self.name(scope)
        return self._functions[first]

    def _file(self, scope: int | None) -> str:
        if scope not in self._files:
            self._files[scope] = self._searched_file(scope)
        return self._files[scope]

    def _searched_file(self, scope: int | None) -> str:
        while scope is not None:
            if self.kind(scope) == "DIFile":
                return self.fields(scope).get("filename", "<none>")
            file = self.reference(scope, "file")
            scope = file if file is not None else self.reference(scope, "scope")
        return "<none>"

    def parameters(self, number: int | None) -> list[str]:
        """Names of a function's parameters, in order, as far as they were kept."""
        if number is None:
            return []
        retained = self.reference(number, "retainedNodes")
        text = self._nodes.get(retained, "") if retained is not None else ""
        found: dict[int, str] = {}
        for node in re.findall(r"!(\d+)", text.replace("!{", "")):
            fields = self.fields(int(node))
            if "arg" in fields:
                found[int(fields["arg"])] = fields.get("name", "")
        return [found.get(place, "") for place in range(1, max(found, default=0) + 1)]
