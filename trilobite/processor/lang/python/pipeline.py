"""Pipelined loops: a body is split into what loads, what computes and what stores.

    for i in dlp.pipeline(n):
        x = dlp.nram(1024, dlp.f32)            # buffers of the body are doubled where two parts share them
        dlp.load(x, src[i * 1024 : i * 1024 + 1024])
        dlp.exp(x, x)
        dlp.store(dst[i * 1024 : i * 1024 + 1024], x)

becomes a loop in which iteration i loads while i - 1 computes and i - 2 stores, with one `sync` at its end.
Every part keeps the assignments that it needs. Enters: the statements of a body. Leaves: the statements of
each part, and how many copies of each buffer there must be.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeGuard

from trilobite.base.errors import KernelError

PARTS = ("load", "compute", "store")
# What a call in an assignment may be without making it part of the computation.
PLAIN = frozenset(
    "nram wram sram ldram acc task_id task_dim task_id_x task_id_y task_id_z task_dim_x task_dim_y "
    "task_dim_z cluster_id cluster_dim core_id core_dim is_memory_core select machine min max abs int len "
    "view reshape cast i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 slice tuple".split()
)  # fmt: skip
ALLOCATIONS = frozenset("nram wram sram ldram acc".split())
Refuse = Callable[[ast.AST, str, str], KernelError]


def call_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def names_read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def names_written(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _is_loop(statement: ast.stmt) -> TypeGuard[ast.For | ast.While]:
    return isinstance(statement, (ast.For, ast.While))


def is_pipeline(statement: ast.stmt) -> bool:
    """A pipelined loop: its loads and stores are its own, not those of a loop around it."""
    over = statement.iter if isinstance(statement, ast.For) else None
    return isinstance(over, ast.Call) and call_name(over) == "pipeline"


def is_whole(statement: ast.stmt) -> bool:
    """A loop that is one piece of computation: pipelined itself, or left by what it computes."""
    if not _is_loop(statement):
        return False
    left = any(isinstance(node, (ast.Break, ast.Continue)) for node in ast.walk(statement))
    return left or is_pipeline(statement)


def is_split(statement: ast.stmt) -> TypeGuard[ast.If | ast.For | ast.While]:
    """Whether each part takes what is its own from inside of a statement."""
    return isinstance(statement, (ast.If, ast.For, ast.While)) and not is_whole(statement)


class Split:
    """The parts of one body."""

    def __init__(self, body: Sequence[ast.stmt], refuse: Refuse) -> None:
        self.refuse = refuse
        for statement in body:
            self._check(statement)
        alone = one_by_one(list(body))
        self.parts = {part: self._part(alone, part) for part in PARTS}
        self.slots = self._slots()

    @property
    def used(self) -> list[str]:
        """Parts that do something."""
        return [
            part
            for part in PARTS
            if any(self.part_of(s) == part for p in self.parts.values() for s in _leaves(p))
        ]

    def _check(self, statement: ast.stmt, inside: bool = False) -> None:
        """Nothing leaves the loop; `inside` is a loop in its body, which may be left."""
        leaves = (ast.Return,) if inside else (ast.Return, ast.Break, ast.Continue)
        if isinstance(statement, leaves):
            raise self.refuse(statement, "a pipelined loop is left early", "every iteration to its end")
        if _is_loop(statement) and is_whole(statement) and not is_pipeline(statement):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and call_name(node) in ("load", "store"):
                    what = f"a loop that may be left early has a {call_name(node)} of the pipelined loop"
                    raise self.refuse(node, what, "loads and stores that every iteration does")
        for inner in (*getattr(statement, "body", ()), *getattr(statement, "orelse", ())):
            self._check(inner, inside or _is_loop(statement))

    def part_of(self, statement: ast.stmt) -> str:
        """`load`, `store` or `compute`; empty for an assignment that any part may repeat."""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            name = call_name(statement.value)
            return name if name in ("load", "store") else "compute"
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            plain = all(_is_plain_target(target) for target in targets)
            calls = [n for n in ast.walk(statement.value) if isinstance(n, ast.Call)]
            carried = names_written(statement) & names_read(statement.value)
            if plain and not carried and all(call_name(call) in PLAIN for call in calls):
                return ""
            return "compute"
        if isinstance(statement, (ast.Pass, ast.Expr)):
            return ""
        return "compute"

    def _part(self, body: list[ast.stmt], part: str) -> list[ast.stmt]:
        needed: set[str] = set()
        while True:
            kept = self._filter(body, part, needed)
            wanted = {name for statement in kept for name in names_read(statement)}
            if wanted <= needed:
                break
            needed |= wanted
        if part != "compute":
            computed = {n for s in _leaves(body) if self.part_of(s) == "compute" for n in names_written(s)}
            for statement in kept:
                wrong = names_read(statement) & computed
                if wrong:
                    what = (
                        f"the {part} part of a pipelined loop needs {min(wrong)!r}, which the loop computes"
                    )
                    raise self.refuse(statement, what, "places that do not depend on what the loop computes")
        return kept

    def _filter(self, body: list[ast.stmt], part: str, needed: set[str]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        for statement in body:
            if is_split(statement):
                inner = self._filter(statement.body, part, needed)
                other = self._filter(statement.orelse, part, needed)
                if inner or other:
                    kept.append(_with_body(statement, inner, other))
                continue
            mine = self.part_of(statement)
            if mine == part or (mine == "" and names_written(statement) & needed):
                kept.append(statement)
        return kept

    def _slots(self) -> dict[object, int]:
        """How many copies each allocation needs: one more than the parts that lie between its uses."""
        found: dict[object, list[int]] = {}
        for place, part in enumerate(PARTS):
            for statement in self.parts[part]:
                for node in ast.walk(statement):
                    if isinstance(node, ast.Call) and call_name(node) in ALLOCATIONS:
                        found.setdefault(node, []).append(place)
        return {node: max(places) - min(places) + 1 for node, places in found.items()}


def one_by_one(body: list[ast.stmt]) -> list[ast.stmt]:
    """`a, b = x, y` as two assignments where neither reads what the other writes."""
    found: list[ast.stmt] = []
    for statement in body:
        if is_split(statement):
            inner, other = one_by_one(statement.body), one_by_one(statement.orelse)
            found.append(_with_body(statement, inner, other))
            continue
        pairs = _pairs(statement)
        found += [ast.copy_location(ast.Assign([t], v), statement) for t, v in pairs] or [statement]
    return found


def _pairs(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return []
    if len(target.elts) != len(value.elts) or names_written(target) & names_read(value):
        return []
    return list(zip(target.elts, value.elts, strict=True))


def _is_plain_target(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple):
        return all(_is_plain_target(element) for element in target.elts)
    return isinstance(target, ast.Name)


def _leaves(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for statement in body:
        if is_split(statement):
            found += _leaves(statement.body) + _leaves(statement.orelse)
        else:
            found.append(statement)
    return found


def _with_body(statement: ast.stmt, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.stmt:
    """A copy of a compound statement with other statements inside."""
    fields = dict(ast.iter_fields(statement))
    fields["body"] = body or [ast.copy_location(ast.Pass(), statement)]
    fields["orelse"] = orelse
    return ast.copy_location(type(statement)(**fields), statement)
