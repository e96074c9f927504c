"""Which expressions of a program are sessions, savers, tensors, functions and objects of the program.

The analysis ignores the order of statements: the kinds of a name are those of all values that are assigned to it anywhere, of
a parameter those of all arguments, of an attribute those of all assignments to it in any object of the class. Rounds over all
files add kinds until nothing changes; nothing is ever removed, and the depth of kinds is bounded, so rounds end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aioexec.porting import api, kinds
from aioexec.porting.calls import THREAD, CallResults
from aioexec.porting.import_paths import find_file, holds_modules, own_path
from aioexec.porting.kinds import (
    NONE,
    PLAIN,
    Api,
    ApiInstance,
    ApiMethod,
    ApiValue,
    External,
    GeneratorOf,
    Kind,
    Kinds,
    OwnClass,
    OwnFunction,
    OwnInstance,
    OwnModule,
    Plain,
    SequenceOf,
    ThreadOf,
    TupleOf,
)
from aioexec.porting.scopes import Class, FunctionNode, Module, Scope, Unit

_MOST_ROUNDS = 12


class Inference:
    """The kinds of all expressions of the files of a program.

    State: `variables` by scope and name, `attributes` by class and name, `returned` and `yielded` by function; `_changed` is
    whether the present round added anything.
    """

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.variables: dict[tuple[Scope, str], set[Kind]] = {}
        self.attributes: dict[tuple[Class, str], set[Kind]] = {}
        self.returned: dict[Unit, set[Kind]] = {}
        self.yielded: dict[Unit, set[Kind]] = {}
        self.subclasses: dict[Class, set[Class]] = {}
        self._changed = False
        self._calls = CallResults(self)

    def run(self) -> None:
        """Find the kinds."""
        for _ in range(_MOST_ROUNDS):
            self._changed = False
            for module in self.modules.values():
                for node in module.unit_of:
                    self._learn(node, module)
            if not self._changed:
                return

    # Statements

    def _learn(self, node: ast.AST, module: Module) -> None:
        scope = module.scope_of[node]
        match node:
            case ast.Import() | ast.ImportFrom():
                self._learn_import(node, module, scope)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._learn_function(module.by_node[node], module, scope)
            case ast.ClassDef():
                self._learn_class(module.by_node[node], module, scope)
            case ast.Call():
                self._calls.learn(node, module)
            case ast.Return(value=ast.expr() as value):
                self._add(self.returned, module.unit_of[node], self.of(value, module))
            case ast.Yield(value=ast.expr() as value):
                self._add(self.yielded, module.unit_of[node], self.of(value, module))
            case ast.YieldFrom():
                self._add(self.yielded, module.unit_of[node], self.elements(self.of(node.value, module)))
            case _:
                self._learn_binding(node, module)

    def _learn_binding(self, node: ast.AST, module: Module) -> None:
        match node:
            case ast.Assign():
                for target in node.targets:
                    self.bind(target, self.of(node.value, module), module)
            case (
                ast.AnnAssign(value=ast.expr() as value)
                | ast.NamedExpr(value=value)
                | ast.AugAssign(value=value)
            ):
                self.bind(node.target, self.of(value, module), module)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self.bind(node.target, self.elements(self.of(node.iter, module)), module)
            case ast.withitem(optional_vars=ast.expr() as target):
                self.bind(target, self.entered(self.of(node.context_expr, module)), module)

    def _learn_import(self, node: ast.Import | ast.ImportFrom, module: Module, scope: Scope) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                path = alias.name if alias.asname else alias.name.partition(".")[0]
                found = self._imported(module, path, None, 0)
                if not alias.asname and not found:
                    found = frozenset([External(path)])
            else:
                found = self._imported(module, node.module or "", alias.name, node.level)
            name = alias.asname or alias.name.partition(".")[0]
            if alias.name == "*":
                self._learn_star(module, node, scope)
            else:
                self._add(self.variables, (scope, name), found)

    def _learn_star(self, module: Module, node: Any, scope: Scope) -> None:
        path = find_file(self.modules, module.source.path, node.module or "", node.level)
        if path is not None:
            other = self.modules[path]
            for name in other.scope.names:
                scope.names.add(name)
                self._add(self.variables, (scope, name), self.variable(other.scope, name))

    def _imported(self, module: Module, path: str, name: str | None, level: int) -> Kinds:
        """The kinds of an imported module, or of a name in it."""
        own = None if level else own_path(path)
        if own is None and not level and path.partition(".")[0] == "aioexec":
            own = path
        if own is not None:
            if name is not None and holds_modules(path):
                own = own_path(f"{path}.{name}")
                return frozenset([Api(own or "aioexec")])
            return frozenset([Api(own if name is None else f"{own}.{name}")])
        if name is not None:
            file = find_file(self.modules, module.source.path, f"{path}.{name}" if path else name, level)
            if file is not None:
                return frozenset([OwnModule(self.modules[file])])
        file = find_file(self.modules, module.source.path, path, level)
        if file is not None and file != module.source.path:
            found = self.modules[file]
            return frozenset([OwnModule(found)]) if name is None else self.variable(found.scope, name)
        return frozenset([External(path if name is None else f"{path}.{name}")])

    def _learn_function(self, unit: Any, module: Module, scope: Scope) -> None:
        node = unit.node
        if isinstance(node, FunctionNode):
            self._add(self.variables, (scope, node.name), frozenset([OwnFunction(unit)]))
        else:
            self._add(self.returned, unit, self.of(node.body, module))
        arguments = [*node.args.posonlyargs, *node.args.args]
        if unit.owner is not None and arguments and not unit.is_decorated("staticmethod"):
            is_class = unit.is_decorated("classmethod") or unit.name == "__new__"
            first: Kind = OwnClass(unit.owner) if is_class else OwnInstance(unit.owner)
            self._add(self.variables, (unit.scope, arguments[0].arg), frozenset([first]))
            self._learn_overridden(unit, [argument.arg for argument in arguments])
        defaults = zip(reversed(arguments), reversed(node.args.defaults), strict=False)
        for argument, default in [*defaults, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]:
            if default is not None:
                self._add(self.variables, (unit.scope, argument.arg), self.of(default, module))
        for argument in [*arguments, *node.args.kwonlyargs]:
            if argument.annotation is not None:
                self._add(self.variables, (unit.scope, argument.arg), self._annotated(argument, module))

    def _learn_overridden(self, unit: Unit, names: list[str]) -> None:
        """The parameters of a method that overrides one of aioexec, of a hook say, by the annotations of the latter."""
        assert unit.owner is not None
        for base in self.api_bases(unit.owner):
            for name, kind in zip(names, api.parameter_classes(base, unit.name), strict=False):
                if kind is not None:
                    self._add(self.variables, (unit.scope, name), [ApiInstance(kind)])

    def _annotated(self, argument: ast.arg, module: Module) -> Kinds:
        assert argument.annotation is not None
        found: set[Kind] = set()
        for kind in self.of(argument.annotation, module):
            if isinstance(kind, OwnClass):
                found.add(OwnInstance(kind.made))
            elif isinstance(kind, Api) and api.is_class(api.lookup(kind.path)):
                found.add(ApiInstance(api.lookup(kind.path)))
        return frozenset(found)

    def _learn_class(self, made: Any, module: Module, scope: Scope) -> None:
        self._add(self.variables, (scope, made.name), frozenset([OwnClass(made)]))
        for base in self.own_bases(made):
            self.subclasses.setdefault(base, set()).add(made)

    def _add(self, table: dict[Any, set[Kind]], key: Any, found: Iterable[Kind]) -> None:
        known = table.setdefault(key, set())
        before = len(known)
        known.update(found)
        self._changed |= len(known) > before

    def add_variable(self, scope: Scope, name: str, found: Kinds) -> None:
        self._add(self.variables, (scope, name), found)

    def add_attribute(self, made: Class, name: str, found: Kinds) -> None:
        self._add(self.attributes, (made, name), found)

    def bind(self, target: ast.expr, found: Kinds, module: Module) -> None:
        """Add kinds to what a target of an assignment stands for."""
        if not found:
            return
        match target:
            case ast.Name():
                scope = module.scope_of[target]
                self._add(self.variables, (scope.defining(target.id) or scope, target.id), found)
            case ast.Attribute():
                for owner in self.of(target.value, module):
                    if isinstance(owner, OwnInstance | OwnClass):
                        self._add(self.attributes, (owner.made, target.attr), found)
                    elif isinstance(owner, OwnModule):
                        self._add(self.variables, (owner.module.scope, target.attr), found)
            case ast.Subscript():
                self.bind(target.value, kinds.sequences(found), module)
            case ast.Starred():
                self.bind(target.value, found, module)
            case ast.Tuple() | ast.List():
                for place, each in enumerate(target.elts):
                    self.bind(each, self.item(found, place, len(target.elts)), module)

    # Expressions

    def of(self, node: ast.expr, module: Module) -> Kinds:
        """The kinds of an expression."""
        match node:
            case ast.Name():
                return self._of_name(node, module)
            case ast.Attribute():
                return self._union(self.attribute(kind, node.attr) for kind in self.of(node.value, module))
            case ast.Call():
                return self._calls.result(node, module)
            case ast.Await() | ast.Starred() | ast.NamedExpr():
                return self.of(node.value, module)
            case ast.IfExp():
                return self.of(node.body, module) | self.of(node.orelse, module)
            case ast.BoolOp():
                return self._union(self.of(value, module) for value in node.values)
            case ast.Lambda():
                unit = module.by_node[node]
                assert isinstance(unit, Unit)
                return frozenset([OwnFunction(unit)])
            case ast.BinOp():
                return self._of_operands(self.of(node.left, module), self.of(node.right, module))
            case ast.UnaryOp():
                return self.of(node.operand, module)
            case ast.Subscript():
                return self._of_subscript(node, module)
            case _:
                return self._of_display(node, module)

    def _of_display(self, node: ast.expr, module: Module) -> Kinds:
        match node:
            case ast.Constant():
                return NONE if node.value is None else PLAIN
            case ast.Compare() | ast.JoinedStr():
                return PLAIN
            case ast.Tuple():
                return kinds.tuple_of(*(self.of(each, module) for each in node.elts))
            case ast.List() | ast.Set():
                return kinds.sequences(self._union(self.of(each, module) for each in node.elts)) or PLAIN
            case ast.Dict():
                return kinds.sequences(self._union(self.of(each, module) for each in node.values)) or PLAIN
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
                return kinds.sequences(self.of(node.elt, module))
            case ast.DictComp():
                return kinds.sequences(self.of(node.value, module))
        return NONE

    def _of_name(self, node: ast.Name, module: Module) -> Kinds:
        scope = module.scope_of[node].defining(node.id)
        if scope is None:
            return frozenset([External(f"builtins.{node.id}")])
        return self.variable(scope, node.id)

    def variable(self, scope: Scope, name: str) -> Kinds:
        return frozenset(self.variables.get((scope, name), ()))

    @staticmethod
    def _of_operands(left: Kinds, right: Kinds) -> Kinds:
        if any(isinstance(kind, ApiInstance | ApiValue) for kind in left | right):
            return frozenset([ApiValue()])
        return frozenset(kind for kind in left | right if isinstance(kind, SequenceOf | TupleOf | Plain))

    def _of_subscript(self, node: ast.Subscript, module: Module) -> Kinds:
        held = self.of(node.value, module)
        if isinstance(node.slice, ast.Slice):
            return held
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int):
            return self.item(held, node.slice.value, None)
        return self.elements(held)

    def item(self, held: Kinds, place: int, count: int | None) -> Kinds:
        """The kinds of one element; `count`: how many there are, if that is known."""
        found: set[Kind] = set()
        for kind in held:
            if isinstance(kind, TupleOf):
                fits = count in (None, len(kind.elements)) and place < len(kind.elements)
                found |= kind.elements[place] if fits else NONE
            else:
                found |= self.elements(frozenset([kind]))
        return frozenset(found)

    def elements(self, held: Kinds) -> Kinds:
        """The kinds of the elements of an iterable."""
        found: set[Kind] = set()
        for kind in held:
            match kind:
                case SequenceOf():
                    found.add(kind.element)
                case TupleOf():
                    found |= self._union(kind.elements)
                case GeneratorOf():
                    found |= self.yielded.get(kind.unit, set())
                case ApiValue() | Plain():
                    found.add(kind)
                case ApiInstance():
                    found.add(ApiValue())
                case OwnInstance():
                    iterator = self.method(kind.made, "__iter__") or self.method(kind.made, "__next__")
                    if iterator is not None:
                        found |= self.yielded.get(iterator, set())
        return frozenset(found)

    def entered(self, managers: Kinds) -> Kinds:
        """The kinds of what a `with` statement binds."""
        found: set[Kind] = set()
        for kind in managers:
            match kind:
                case ApiInstance():
                    found.add(kind)
                case OwnInstance():
                    enter = self.method(kind.made, "__enter__") or self.method(kind.made, "__aenter__")
                    found |= set() if enter is None else self.returned.get(enter, set())
                case GeneratorOf():
                    found |= self.yielded.get(kind.unit, set())
                case ApiValue() | Plain():
                    found.add(kind)
        return frozenset(found)

    @staticmethod
    def _union(found: Iterable[Iterable[Kind]]) -> Kinds:
        return frozenset(kind for each in found for kind in each)

    # Members

    def attribute(self, owner: Kind, name: str) -> Kinds:
        """The kinds of an attribute."""
        match owner:
            case Api():
                return frozenset([Api(f"{owner.path}.{name}")])
            case ApiInstance():
                return self._api_member(owner.owner, name)
            case ApiValue() | Plain():
                return frozenset([owner])
            case External():
                return frozenset([External(f"{owner.path}.{name}")])
            case OwnModule():
                return self.variable(owner.module.scope, name)
            case ThreadOf():  # if the function is awaited, so is the end of the thread
                return frozenset([OwnFunction(owner.unit, True)]) if name == "join" else PLAIN
            case OwnClass() | OwnInstance():
                return self._own_member(owner, name)
        return NONE

    @staticmethod
    def _api_member(owner: type, name: str) -> Kinds:
        member = api.method_of(owner, name)
        if member is api.MISSING or not (callable(member) or hasattr(member, "__func__")):
            found = None if member is api.MISSING else api.result_class(member)
            return frozenset([ApiValue() if found is None else ApiInstance(found)])
        return frozenset([ApiMethod(owner, name)])

    def _own_member(self, owner: OwnClass | OwnInstance, name: str) -> Kinds:
        found: set[Kind] = set()
        for made in self.ancestors(owner.made):
            found |= self.attributes.get((made, name), set())
            if name in made.methods:
                unit = made.methods[name]
                if unit.is_property and isinstance(owner, OwnInstance):
                    found |= self.returned.get(unit, set())
                else:
                    bound = isinstance(owner, OwnInstance) or unit.is_decorated("classmethod")
                    found.add(OwnFunction(unit, bound and not unit.is_decorated("staticmethod")))
                break
            found |= self.variables.get((made.scope, name), set())
            if found:
                break
        else:
            if name == "join" and self._is_thread(owner.made) and (body := self.method(owner.made, "run")):
                return frozenset([OwnFunction(body, True)])  # as for ThreadOf
            for base in self.api_bases(owner.made):
                if api.method_of(base, name) is not api.MISSING:
                    found |= self._api_member(base, name)
        return frozenset(found)

    def _is_thread(self, made: Class) -> bool:
        return any(External(THREAD) in self.bases(each) for each in self.ancestors(made))

    def bases(self, made: Class) -> Kinds:
        """The kinds of the base classes."""
        return self._union(self.of(base, made.module) for base in made.node.bases)

    def own_bases(self, made: Class) -> list[Class]:
        return [kind.made for kind in self.bases(made) if isinstance(kind, OwnClass)]

    def ancestors(self, made: Class) -> Iterator[Class]:
        """A class and those of the program that it derives from, the nearest first."""
        waiting, seen = [made], set[Class]()
        while waiting:
            each = waiting.pop(0)
            if each not in seen:
                seen.add(each)
                yield each
                waiting += self.own_bases(each)

    def descendants(self, made: Class) -> set[Class]:
        """The classes of the program that derive from a class."""
        found: set[Class] = set()
        waiting = [made]
        while waiting:
            for each in self.subclasses.get(waiting.pop(), ()):
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return found

    def api_bases(self, made: Class) -> list[type]:
        """The classes of aioexec that a class derives from."""
        found = [
            api.lookup(kind.path)
            for each in self.ancestors(made)
            for kind in self.bases(each)
            if isinstance(kind, Api)
        ]
        return [each for each in found if api.is_class(each)]

    def method(self, made: Class, name: str) -> Unit | None:
        """A method of a class, its own or inherited from a class of the program."""
        return next((each.methods[name] for each in self.ancestors(made) if name in each.methods), None)
