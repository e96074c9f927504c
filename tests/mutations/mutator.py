"""Finds the places of a source where a small change should fail a test, and makes the change in the text.

Excluded is code that tests cannot or need not check: docstrings and the texts of errors, annotations, code for type checkers
only, asserts, decorators, logging, and functions that only display.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
SHOWING = frozenset({"__repr__", "__str__", "__del__", "check_invariants", "explain", "describe"})
LOGGERS = frozenset({"logger", "logging", "warnings"})


@dataclass(frozen=True)
class Mutation:
    """One change: the text between two places (line, and column in bytes) becomes another."""

    start: tuple[int, int]
    end: tuple[int, int]
    before: str
    after: str

    @property
    def line(self) -> int:
        return self.start[0]

    def apply(self, source: str) -> str:
        """The source with the change; its lines keep their numbers."""
        lines = source.encode().splitlines(keepends=True)
        (first, begin), (last, end) = self.start, self.end
        head, tail = lines[first - 1][:begin], lines[last - 1][end:]
        after, gone = self.after.encode(), b"\n" * (last - first)
        after = after[:-1] + gone + b")" if after.startswith(b"(") else after + gone
        return b"".join([*lines[: first - 1], head + after + tail, *lines[last:]]).decode()

    def __str__(self) -> str:
        return f"{_one_line(self.before)}  ->  {_one_line(self.after)}"


def mutations(source: str) -> list[Mutation]:
    """All changes of a module, in the order of its text."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda each: (each.start, each.end, each.after))


class _Finder(ast.NodeVisitor):
    """Walks a module and collects changes in `found`."""

    def __init__(self, source: str) -> None:
        self.found: list[Mutation] = []
        self._lines = source.encode().splitlines(keepends=True)

    def _add(self, node: ast.expr | ast.stmt, after: str) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        lines = self._lines[start[0] - 1 : end[0]]
        lines[-1] = lines[-1][: end[1]]  # first: it may be the same line
        lines[0] = lines[0][start[1] :]
        self.found.append(Mutation(start, end, b"".join(lines).decode(), after))

    def _replace(self, node: ast.expr, by: ast.expr) -> None:
        self._add(node, f"({ast.unparse(by)})")

    # Excluded code

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if not any("Protocol" in ast.unparse(base) for base in node.bases):
            self._visit_all(node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name not in SHOWING and not any("overload" in ast.unparse(d) for d in node.decorator_list):
            self._visit_all([*node.args.defaults, *(each for each in node.args.kw_defaults if each)])
            self._visit_all(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._remove_assignment(node, node.target)
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Module(self, node: ast.Module) -> None:
        """Constants of a module are measured or agreed, not derived; the rest of its top level is imports and types."""
        inside = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        self._visit_all([each for each in node.body if isinstance(each, inside)])

    def _visit_all(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    # Statements

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        """Where no other change does the same."""
        if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            self._add(test, f"(not {ast.unparse(test)})")

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Call):
            if not isinstance(node.value, ast.Constant):
                self.generic_visit(node)
            return
        if ast.unparse(node.value.func).split(".")[0] in LOGGERS:
            return
        self._add(node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__slots__":
            return
        self._remove_assignment(node, node.targets[0])
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        other = ARITHMETIC.get(type(node.op))
        if other is not None:
            self._add(node, ast.unparse(ast.AugAssign(node.target, other(), node.value)))
        self._add(node, "pass")
        self.visit(node.value)

    def _remove_assignment(self, node: ast.Assign | ast.AnnAssign, target: ast.expr) -> None:
        """Of what outlives the function; without a name of its own nothing would run at all."""
        awaits = any(isinstance(each, ast.Await) for each in ast.walk(node))
        if isinstance(target, ast.Attribute | ast.Subscript) and not awaits:
            self._add(node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add(node, "return None")
            self.visit(node.value)

    # Expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            changed = COMPARISONS[type(node.ops[0])]()
            self._replace(node, ast.Compare(node.left, [changed], node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        changed = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._replace(node, ast.BoolOp(changed, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        changed = ARITHMETIC.get(type(node.op))
        if changed is not None and not any(map(_is_text, (node.left, node.right))):
            self._replace(node, ast.BinOp(node.left, changed(), node.right))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func) in ("cast", "TypeVar"):
            return
        places = node.args[:2]
        if (
            len(places) == 2
            and not any(isinstance(each, ast.Starred) for each in places)
            and ast.dump(places[0]) != ast.dump(places[1])
        ):
            swapped = [*reversed(places), *node.args[2:]]
            self._replace(node, ast.Call(node.func, swapped, node.keywords))
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # of zip: an assertion
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _one_line(text: str) -> str:
    return " ".join(text.split())
