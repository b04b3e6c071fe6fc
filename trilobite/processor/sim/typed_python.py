"""Typed Python functions as machine code: one readable source for loops that Python is too slow for.

Enters: a module whose functions use a small part of Python: `int` (64 bits), `bool` and `float` locals,
`Ints` and `Floats` (arrays), one class of annotated fields that stands for the state, while, for over a
`range`, if, break, return, calls among themselves and of `int`, `float`, `ceil`, `min`, `max` and `invoke`.
Leaves: LLVM text, and the state as a ctypes structure. The same functions run as plain Python on lists, which
is what they mean. Whole numbers wrap; `//`, `%` and `>>` want numbers of at least 0.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from trilobite.base.errors import IRError
from trilobite.native.host import features
from trilobite.native.llvm.arithmetic import Arithmetic
from trilobite.native.llvm.types import Value, constant

Ints = list[int]
Floats = list[float]
SCALARS = {"int": "i64", "bool": "i64", "float": "double", "None": "void"}
ELEMENTS = {"Ints": "i64", "Floats": "double"}
WHOLE = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem",
         ast.LShift: "shl", ast.RShift: "ashr", ast.BitAnd: "and_", ast.BitOr: "or_",
         ast.BitXor: "xor"}  # fmt: skip
REAL = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}


def invoke(code: int, *words: int) -> int:
    """Calls machine code by its address, and gives what it gives. Plain Python cannot."""
    raise NotImplementedError(f"the code at {code:#x} is called by compiled functions only")


def structure_of(state: type) -> type[ctypes.Structure]:
    """The state class as a C structure: numbers as they are, arrays as addresses."""
    kinds = {"int": ctypes.c_int64, "float": ctypes.c_double}
    fields = [(name, kinds.get(str(kind), ctypes.c_void_p)) for name, kind in state.__annotations__.items()]
    return type(state.__name__, (ctypes.Structure,), {"_fields_": fields})


def module_text(modules: Sequence[ModuleType], state: type, exported: Sequence[str]) -> str:
    """LLVM text of every function of some modules; the exported ones can be called from outside."""
    bodies = [(module, ast.parse(inspect.getsource(module)).body) for module in modules]
    functions = {
        node.name: (node, vars(module)) for module, body in bodies for node in body
        if isinstance(node, ast.FunctionDef)
    }  # fmt: skip
    signatures = {name: _signature(node) for name, (node, _) in functions.items()}
    fields = {name: (at, str(kind)) for at, (name, kind) in enumerate(state.__annotations__.items())}
    types = ", ".join(SCALARS.get(kind, "ptr") for _, kind in fields.values())
    parts: list[str] = [f"%state = type {{ {types} }}", "!0 = !{}"]
    declared: dict[str, str] = {}
    for name, (node, names) in functions.items():
        linkage = "" if name in exported else "internal "
        function = _Function(node, linkage, signatures, fields, names)
        parts.append(function.text)
        declared |= function.t.declared
    return "\n".join([*parts, *declared.values()]) + "\n"


def _signature(node: ast.FunctionDef) -> tuple[str, list[tuple[str, str]]]:
    arguments = []
    for argument in node.args.args:
        assert argument.annotation is not None
        kind = SCALARS.get(ast.unparse(argument.annotation), "ptr")
        arguments.append((argument.arg, kind))
    assert node.returns is not None
    return SCALARS[ast.unparse(node.returns)], arguments


class _Function:
    """The text of one function. Every local stands in memory; LLVM makes registers of them."""

    def __init__(
        self,
        node: ast.FunctionDef,
        linkage: str,
        signatures: Mapping[str, tuple[str, list[tuple[str, str]]]],
        fields: Mapping[str, tuple[int, str]],
        names: Mapping[str, Any],
    ) -> None:
        self.signatures, self.fields, self.names = signatures, fields, names
        self.t = Arithmetic(features())
        self.lines = self.t.lines
        self.locals: dict[str, str] = {}
        self.loops: list[tuple[str, str]] = []  # where continue and break go
        self.name = node.name
        self.result, arguments = signatures[node.name]
        self.state = next((name for name, kind in arguments if kind == "ptr"), "")
        for name, kind in arguments:
            if kind != "ptr":
                self.locals[name] = kind
                self.t.line(f"store {kind} %{name}, ptr %l.{name}")
        self._statements(node.body)
        if not self._ended():
            self.t.line("ret void" if self.result == "void" else f"  ret {self.result} 0")
        slots = [f"  %l.{name} = alloca {kind}" for name, kind in self.locals.items()]
        given = ", ".join(f"{kind} %{name}" for name, kind in arguments)
        head = f"define {linkage}{self.result} @{node.name}({given}) {{"
        self.text = "\n".join([head, "entry:", *slots, *self.lines, "}"])

    def _label(self) -> str:
        return self.t.fresh("b")

    def _ended(self) -> bool:
        return bool(self.lines) and self.lines[-1].lstrip().startswith(("br ", "ret "))

    def _place(self, label: str) -> None:
        if not self._ended():
            self.t.line(f"br label %{label}")
        self.lines.append(f"{label}:")

    def _refuse(self, node: ast.AST) -> IRError:
        return IRError(
            f"typed Python has no {type(node).__name__}: {ast.unparse(node)}",
            where=f"function {self.name}",
            expected="the small part of Python that typed_python names",
        )

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            getattr(self, f"_do_{type(statement).__name__}", self._do_other)(statement)

    def _do_other(self, node: ast.stmt) -> None:
        raise self._refuse(node)

    def _do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # else it is the docstring
            self._value(node.value)

    def _do_Pass(self, node: ast.Pass) -> None:
        """Nothing."""

    def _do_Assign(self, node: ast.Assign) -> None:
        self._store(node.targets[0], self._value(node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        loaded = ast.copy_location(ast.parse(ast.unparse(node.target), mode="eval").body, node)
        self._store(node.target, self._binary(node.op, self._value(loaded), self._value(node.value), node))

    def _do_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self.t.line("ret void")
        else:
            self.t.line(f"ret {self._value(node.value).typed}")

    def _do_If(self, node: ast.If) -> None:
        then, otherwise, after = self._label(), self._label(), self._label()
        self._branch(node.test, then, otherwise)
        self._place(then)
        self._statements(node.body)
        if not self._ended():
            self.t.line(f"br label %{after}")
        self._place(otherwise)
        self._statements(node.orelse)
        self._place(after)

    def _do_While(self, node: ast.While) -> None:
        head, body, after = self._label(), self._label(), self._label()
        self._place(head)
        self._branch(node.test, body, after)
        self._place(body)
        self.loops.append((head, after))
        self._statements(node.body)
        self.loops.pop()
        if not self._ended():
            self.t.line(f"br label %{head}")
        self._place(after)

    def _do_For(self, node: ast.For) -> None:
        """Over a range, whose ends are computed once."""
        start, stop, step = self._range(node)
        head, body, again, after = (self._label() for _ in range(4))
        counter = self.t.fresh("c")
        self._set(counter, start, node)
        self._place(head)
        index = self._get(counter)
        goes_on = self.t.icmp("slt" if step > 0 else "sgt", index, stop)
        self.t.line(f"br i1 {goes_on}, label %{body}, label %{after}")
        self._place(body)
        self._store(node.target, index)
        self.loops.append((again, after))
        self._statements(node.body)
        self.loops.pop()
        self._place(again)
        self._set(counter, self.t.add(index, step), node)
        self.t.line(f"br label %{head}")
        self._place(after)

    def _range(self, node: ast.For) -> tuple[Value, Value, int]:
        call = node.iter
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "range") or node.orelse:
            raise self._refuse(node)
        ends = [self._value(argument) for argument in call.args]
        step = ends[2].number if len(ends) == 3 else 1
        if not isinstance(step, int) or step == 0 or any(end.type != "i64" for end in ends):
            raise self._refuse(node)
        return (constant("i64", 0), ends[0], step) if len(ends) == 1 else (ends[0], ends[1], step)

    def _do_Break(self, node: ast.Break) -> None:
        self.t.line(f"br label %{self.loops[-1][1]}")

    def _do_Continue(self, node: ast.Continue) -> None:
        self.t.line(f"br label %{self.loops[-1][0]}")

    def _store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._set(target.id, value, target)
        else:
            element, place = self._address(target)
            if element != value.type:
                raise self._refuse(target)
            self.t.line(f"store {value.typed}, ptr {place}")

    def _set(self, local: str, value: Value, node: ast.AST) -> None:
        if self.locals.setdefault(local, value.type) != value.type:
            raise self._refuse(node)
        self.t.line(f"store {value.typed}, ptr %l.{local}")

    def _get(self, local: str) -> Value:
        kind = self.locals[local]
        return self.t.define(kind, f"load {kind}, ptr %l.{local}")

    def _field(self, node: ast.expr) -> tuple[str, Value]:
        """Annotation and address of a field of the state."""
        if not (isinstance(node, ast.Attribute) and node.attr in self.fields):
            raise self._refuse(node)
        at, kind = self.fields[node.attr]
        return kind, self.t.define("ptr", f"getelementptr %state, ptr %{self.state}, i32 0, i32 {at}")

    def _address(self, node: ast.expr) -> tuple[str, Value]:
        """Element type and address of something that can be stored to."""
        if isinstance(node, ast.Attribute):
            kind, place = self._field(node)
            return SCALARS[kind], place
        if not isinstance(node, ast.Subscript):
            raise self._refuse(node)
        kind, place = self._field(node.value)
        element = ELEMENTS[kind]
        base = self._fixed(place)
        at = f"getelementptr {element}, ptr {base}, i64 {self._value(node.slice)}"
        return element, self.t.define("ptr", at)

    def _fixed(self, place: Value) -> Value:
        """An address in the state: its arrays and functions never move."""
        return self.t.define("ptr", f"load ptr, ptr {place}, !invariant.load !0")

    def _value(self, node: ast.expr) -> Value:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise self._refuse(node)
        found: Value = method(node)
        return found

    def _of_Constant(self, node: ast.Constant) -> Value:
        return self._constant(node.value, node)

    def _constant(self, value: object, node: ast.expr) -> Value:
        if not isinstance(value, int | float):
            raise self._refuse(node)
        return constant("i64" if isinstance(value, int) else "double", value)

    def _of_Name(self, node: ast.Name) -> Value:
        if node.id in self.locals:
            return self._get(node.id)
        return self._constant(self.names.get(node.id), node)

    def _of_Attribute(self, node: ast.Attribute | ast.Subscript) -> Value:
        kind, place = self._address(node)
        return self.t.define(kind, f"load {kind}, ptr {place}")

    _of_Subscript = _of_Attribute

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self._constant(-node.operand.value, node)  # type: ignore[operator]
        if isinstance(node.op, ast.Not):
            return self._truth(node)
        value = self._value(node.operand)
        if not isinstance(node.op, ast.USub) or value.type != "i64":
            raise self._refuse(node)
        return self.t.sub(0, value)

    def _of_IfExp(self, node: ast.IfExp) -> Value:
        yes, no, after = (self._label() for _ in range(3))
        chosen = self.t.fresh("c")
        self._branch(node.test, yes, no)
        for label, part in ((yes, node.body), (no, node.orelse)):
            self._place(label)
            self._set(chosen, self._value(part), part)
            self.t.line(f"br label %{after}")
        self._place(after)
        return self._get(chosen)

    def _truth(self, node: ast.expr) -> Value:
        """A condition as 1 or 0."""
        return self._of_IfExp(ast.IfExp(node, ast.Constant(1), ast.Constant(0)))

    _of_Compare = _of_BoolOp = _truth

    def _of_BinOp(self, node: ast.BinOp) -> Value:
        return self._binary(node.op, self._value(node.left), self._value(node.right), node)

    def _binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        name = (WHOLE if left.type == "i64" else REAL).get(type(op))
        if name is None or right.type != left.type:
            raise self._refuse(node)
        found: Value = getattr(self.t, name)(left, right)
        return found

    def _of_Call(self, node: ast.Call) -> Value:
        values = [self._value(argument) for argument in node.args if not self._is_state(argument)]
        if isinstance(node.func, ast.Attribute):  # a function outside, called through the state
            return self._called(self._fixed(self._field(node.func)[1]), values)
        assert isinstance(node.func, ast.Name)
        if node.func.id == "invoke":
            return self._called(self.t.define("ptr", f"inttoptr {values[0].typed} to ptr"), values[1:])
        if node.func.id not in self.signatures:
            return self._builtin(node.func.id, values, node)
        result, arguments = self.signatures[node.func.id]
        given_values = iter(values)
        words = [f"ptr %{self.state}" if kind == "ptr" else next(given_values).typed for _, kind in arguments]
        call = f"call {result} @{node.func.id}({', '.join(words)})"
        if result == "void":
            self.t.line(call)
            return Value("", "void")
        return self.t.define(result, call)

    def _called(self, code: Value, values: Sequence[Value]) -> Value:
        return self.t.define("i64", f"call i64 {code}({', '.join(value.typed for value in values)})")

    def _is_state(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.state

    def _builtin(self, name: str, values: Sequence[Value], node: ast.Call) -> Value:
        value, kind = values[0], values[0].type
        if name in ("min", "max") and [each.type for each in values] == [kind, kind]:
            is_other = self._compared("lt" if name == "min" else "gt", values[1], value)
            return self.t.select(is_other, values[1], value)
        if name == "float" and kind == "i64":
            return self.t.convert("sitofp", value, "double")
        if name in ("int", "ceil") and kind == "double":
            up = self.t.intrinsic("ceil", "double", value) if name == "ceil" else value
            return self.t.convert("fptosi", up, "i64")
        raise self._refuse(node)

    def _branch(self, test: ast.expr, yes: str, no: str) -> None:
        """Goes to one of two labels; `and` and `or` look no further than Python does."""
        if isinstance(test, ast.BoolOp):
            for part in test.values[:-1]:
                between = self._label()
                if isinstance(test.op, ast.And):
                    self._branch(part, between, no)
                else:
                    self._branch(part, yes, between)
                self.lines.append(f"{between}:")
            self._branch(test.values[-1], yes, no)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self._branch(test.operand, no, yes)
        elif isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Tuple):
            self._branch(self._among(test), yes, no)
        else:
            self.t.line(f"br i1 {self._test(test)}, label %{yes}, label %{no}")

    def _among(self, test: ast.Compare) -> ast.BoolOp:
        """`x in (a, b)` as what it means."""
        (values,) = test.comparators
        if not isinstance(values, ast.Tuple) or not isinstance(test.ops[0], ast.In):
            raise self._refuse(test)
        return ast.BoolOp(ast.Or(), [ast.Compare(test.left, [ast.Eq()], [value]) for value in values.elts])

    def _test(self, test: ast.expr) -> Value:
        if not isinstance(test, ast.Compare):
            value = self._value(test)
            if value.type != "i64":
                raise self._refuse(test)
            return self.t.icmp("ne", value, 0)
        left, right = self._value(test.left), self._value(test.comparators[0])
        name = COMPARE.get(type(test.ops[0]))
        if len(test.ops) != 1 or left.type != right.type or name is None:
            raise self._refuse(test)
        return self._compared(name, left, right)

    def _compared(self, name: str, left: Value, right: Value) -> Value:
        if left.type == "i64":
            return self.t.icmp(name if name in ("eq", "ne") else f"s{name}", left, right)
        return self.t.fcmp("une" if name == "ne" else f"o{name}", left, right)
