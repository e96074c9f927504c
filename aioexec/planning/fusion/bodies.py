"""Concatenates several kernel bodies to one, with a unique name for each value.

Names are numbered in order, operands x0, x1, … and values v0, v1, …, so that equal structures have equal texts, and one kernel.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.jit import syntax
from aioexec.graph.kernels.kernel import ElementwiseKernel

_NUMBERS = frozenset({"inf", "nan"})


@dataclass(frozen=True, slots=True)
class _Statement:
    """`target = value`; the value is a format string with a field for each name. A literal has no dtype of its own."""

    target: str
    value: str
    is_literal: bool


class JoinedBody:
    """A body under construction.

    Attributes:
        inputs: (name, dtype) of each operand it reads.
        statements: of all bodies so far.
    """

    def __init__(self) -> None:
        self.inputs: list[tuple[str, str]] = []
        self.statements: list[str] = []

    def read(self, dtype: str) -> str:
        """Add an operand; returns its name."""
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, dtype))
        return name

    def reinterpret(self, name: str, dtype: str) -> str:
        """Reinterpret the bits of a value as another dtype of the same size."""
        return self._assign(f'bitcast({name}, "{dtype}")')

    def append(self, kernel: ElementwiseKernel, arguments: Sequence[str]) -> list[str]:
        """Append the statements of a kernel with these values as inputs; returns the names of its outputs."""
        names = dict(zip((name for name, _ in kernel.inputs), arguments, strict=True))
        dtypes = dict(kernel.outputs)
        for statement in statements_of(kernel.body):
            value = statement.value.format_map(names)
            if statement.is_literal:
                value = f'cast({value}, "{dtypes[statement.target]}")'
            names[statement.target] = self._assign(value)
        return [names[name] for name, _ in kernel.outputs]

    def _assign(self, value: str) -> str:
        name = f"v{len(self.statements)}"
        self.statements.append(f"{name} = {value}")
        return name

    @property
    def text(self) -> str:
        return "; ".join(self.statements)


@functools.lru_cache(maxsize=4096)
def statements_of(body: str) -> tuple[_Statement, ...]:
    """The statements of a body, which is in the expression language."""
    found = []
    for statement in syntax.parse(body).body:
        assert isinstance(statement, ast.Assign), body
        (target,) = statement.targets
        assert isinstance(target, ast.Name), body
        fields = _Fields()
        value = ast.unparse(fields.visit(statement.value))
        found.append(_Statement(target.id, value, not fields.count))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def is_plain(body: str) -> bool:
    """Whether no literal is so small or large that constant folding by LLVM in a joined body could yield a denormal where the
    processor flushes to 0."""
    return all(_is_moderate(statement) for statement in statements_of(body) if statement.is_literal)


def _is_moderate(statement: _Statement) -> bool:
    try:
        number = abs(float(statement.value))
    except ValueError:
        return statement.value in ("True", "False")
    return number == 0 or 1e-6 < number < 1e6


class _Fields(ast.NodeTransformer):
    """Replaces each name of a value by a field of a format string."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Call(self, node: ast.Call) -> ast.Call:
        node.args = [self.visit(argument) for argument in node.args]
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in _NUMBERS:
            return node
        self.count += 1
        return ast.Name(f"{{{node.id}}}", node.ctx)
