"""The functions, classes and scopes of a file, and to which of them each node of its tree belongs.

A *unit* is what becomes a coroutine function as a whole: a function, a lambda, or the statements of the module.
"""

from __future__ import annotations

import ast
from typing import Any

from aioexec.porting.source import Source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Scope:
    """A namespace: `names` are bound in it, `globals_` are declared global or nonlocal in it. Classes have one too."""

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.names: set[str] = set()
        self.globals_: set[str] = set()

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    def defining(self, name: str) -> Scope | None:
        """The scope that a name in this one refers to; None for builtins."""
        scope: Scope | None = self
        while scope is not None:
            is_visible = not scope.is_class or scope is self
            if is_visible and name in scope.names and name not in scope.globals_:
                return scope
            scope = scope.parent
        return None


class Unit:
    """A function, a lambda or a module; `owner` is the class of a method.

    State: `is_async` is set when the port decides that it becomes a coroutine function; it is never reset.
    """

    def __init__(self, module: Module, node: Any, scope: Scope, owner: Class | None = None) -> None:
        self.module = module
        self.node = node
        self.scope = scope
        self.owner = owner
        self.is_async = isinstance(node, ast.AsyncFunctionDef)
        self.yields: list[ast.Yield | ast.YieldFrom] = []

    @property
    def name(self) -> str:
        if isinstance(self.node, ast.Module):
            return "the module"
        return getattr(self.node, "name", "lambda")

    @property
    def full_name(self) -> str:
        return f"{self.owner.name}.{self.name}" if self.owner else self.name

    @property
    def is_module(self) -> bool:
        return isinstance(self.node, ast.Module)

    @property
    def is_lambda(self) -> bool:
        return isinstance(self.node, ast.Lambda)

    @property
    def is_generator(self) -> bool:
        return bool(self.yields)

    def decorators(self) -> list[str]:
        """The names of the decorators, without arguments."""
        return [
            ast.unparse(each.func if isinstance(each, ast.Call) else each)
            for each in getattr(self.node, "decorator_list", ())
        ]

    def is_decorated(self, *names: str) -> bool:
        return any(decorator.rpartition(".")[2] in names for decorator in self.decorators())

    @property
    def is_property(self) -> bool:
        return self.is_decorated("property", "cached_property")

    @property
    def is_context_manager(self) -> bool:
        return self.is_decorated("contextmanager")


class Class:
    """A class of a file: `methods` are its functions by name."""

    def __init__(self, module: Module, node: ast.ClassDef, scope: Scope) -> None:
        self.module = module
        self.node = node
        self.scope = scope
        self.methods: dict[str, Unit] = {}

    @property
    def name(self) -> str:
        return self.node.name


class Module:
    """A file with its units, classes and scopes; `unit_of` and `scope_of` have an entry for every node."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.scope = Scope(source.tree, None)
        self.unit = Unit(self, source.tree, self.scope)
        self.units: list[Unit] = [self.unit]
        self.classes: list[Class] = []
        self.by_node: dict[ast.AST, Unit | Class] = {}
        self.unit_of: dict[ast.AST, Unit] = {}
        self.scope_of: dict[ast.AST, Scope] = {}
        self.in_class_body: set[ast.AST] = set()
        for statement in source.tree.body:
            self._visit(statement, self.unit, self.scope, None)

    def _visit(self, node: ast.AST, unit: Unit, scope: Scope, owner: Class | None) -> None:
        self.unit_of[node] = unit
        self.scope_of[node] = scope
        if owner is not None:
            self.in_class_body.add(node)
        _bind(node, scope)
        if isinstance(node, FunctionNode | ast.Lambda):
            self._visit_function(node, unit, scope, owner)
        elif isinstance(node, ast.ClassDef):
            self._visit_class(node, unit, scope)
        else:
            if isinstance(node, ast.Yield | ast.YieldFrom):
                unit.yields.append(node)
            for child in ast.iter_child_nodes(node):
                self._visit(child, unit, scope, owner)

    def _visit_function(
        self, node: FunctionNode | ast.Lambda, unit: Unit, scope: Scope, owner: Class | None
    ) -> None:
        inner = Unit(self, node, Scope(node, scope), owner)
        self.units.append(inner)
        self.by_node[node] = inner
        if owner is not None and not inner.is_lambda:
            owner.methods.setdefault(inner.name, inner)
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        for argument in _arguments(node.args):
            inner.scope.names.add(argument.arg)
        for child in ast.iter_child_nodes(node):
            if child not in body:  # defaults, decorators and annotations belong to the scope outside
                self._visit(child, unit, scope, owner)
        for statement in body:
            self._visit(statement, inner, inner.scope, None)

    def _visit_class(self, node: ast.ClassDef, unit: Unit, scope: Scope) -> None:
        made = Class(self, node, Scope(node, scope))
        self.classes.append(made)
        self.by_node[node] = made
        for child in ast.iter_child_nodes(node):
            if child in node.body:
                self._visit(child, unit, made.scope, made)
            else:
                self._visit(child, unit, scope, None)


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    found = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return found + [each for each in (arguments.vararg, arguments.kwarg) if each is not None]


def _bind(node: ast.AST, scope: Scope) -> None:
    """Add the names that a node binds to its scope."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        scope.names.add(node.id)
    elif isinstance(node, FunctionNode | ast.ClassDef):
        scope.names.add(node.name)
    elif isinstance(node, ast.alias):
        scope.names.add(node.asname or node.name.partition(".")[0])
    elif isinstance(node, ast.ExceptHandler) and node.name:
        scope.names.add(node.name)
    elif isinstance(node, ast.Global | ast.Nonlocal):
        scope.globals_.update(node.names)
