"""Rows of whole numbers that replace loops: do they number every iteration once?"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from trilobite.compiler.targets.cpu.loops.index import Index


def is_unimodular(rows: Mapping[str, Index], names: list[str]) -> bool:
    """Do rows number the points of the loops of these names, each once?"""
    matrix = [[row.coefficient(v) for v in names] for row in rows.values()]
    plain = all(isinstance(atom, str) for row in rows.values() for atom, _ in row.terms)
    fixed = all(isinstance(n, int) for line in matrix for n in line)
    fixed = fixed and all(isinstance(row.constant, int) for row in rows.values())
    if not plain or not fixed or not names or len(matrix) != len(names):
        return False
    return abs(_determinant([[Fraction(str(n)) for n in line] for line in matrix])) == 1


def _determinant(matrix: list[list[Fraction]]) -> Fraction:
    if not matrix:
        return Fraction(1)
    at = next((k for k, line in enumerate(matrix) if line[0]), None)
    if at is None:
        return Fraction(0)
    head, rest = matrix[at], matrix[:at] + matrix[at + 1 :]
    smaller = [[x - line[0] / head[0] * y for x, y in zip(line[1:], head[1:], strict=True)] for line in rest]
    sign = -1 if at % 2 else 1
    return sign * head[0] * _determinant(smaller)
