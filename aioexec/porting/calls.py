"""The kinds of the results of calls, and what calls say about the parameters of the functions they call."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any, Protocol

from aioexec.porting import api, kinds
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
    Plain,
    SequenceOf,
    ThreadOf,
    TupleOf,
)
from aioexec.porting.scopes import Class, Module, Scope, Unit

_WITHOUT_SESSIONS = {
    "numpy",
    "scipy",
    "matplotlib",
    "pandas",
    "sklearn",
    "PIL",
    "cv2",
    "six",
    "h5py",
    "yaml",
    "tqdm",
    "gym",
}
"""Libraries whose results are no sessions, tensors or objects that hold one, besides Python's own."""

_SAME = {
    "list",
    "tuple",
    "set",
    "sorted",
    "reversed",
    "iter",
    "tqdm.tqdm",
    "tqdm.trange",
    "copy.copy",
    "copy.deepcopy",
}


THREAD = "threading.Thread"


def thread_target(node: ast.Call) -> ast.expr | None:
    """The function that a thread is made for."""
    named = next((each.value for each in node.keywords if each.arg == "target"), None)
    return named if named is not None or len(node.args) < 2 else node.args[1]


class Known(Protocol):
    """The part of an `Inference` that calls need: see there."""

    returned: dict[Unit, set[Kind]]

    def of(self, node: ast.expr, module: Module) -> Kinds: ...
    def elements(self, held: Kinds) -> Kinds: ...
    def bind(self, target: ast.expr, found: Kinds, module: Module) -> None: ...
    def add_variable(self, scope: Scope, name: str, found: Kinds) -> None: ...
    def add_attribute(self, made: Class, name: str, found: Kinds) -> None: ...
    def bases(self, made: Class) -> Kinds: ...
    def own_bases(self, made: Class) -> list[Class]: ...
    def method(self, made: Class, name: str) -> Unit | None: ...


class CallResults:
    """What calls return; reads and extends the kinds of an `Inference`."""

    def __init__(self, inference: Known) -> None:
        self._inference = inference

    def result(self, node: ast.Call, module: Module) -> Kinds:
        """The kinds of a call's result."""
        found: set[Kind] = set()
        if isinstance(node.func, ast.Attribute):
            for held in self._inference.of(node.func.value, module):
                if isinstance(held, SequenceOf):
                    found |= self._of_container(held, node.func.attr)
        for function in self._inference.of(node.func, module):
            found |= self._of_function(function, node, module)
        return frozenset(found)

    @staticmethod
    def _of_container(held: SequenceOf, method: str) -> set[Kind]:
        if method in ("get", "pop", "popleft", "setdefault"):
            return {held.element}
        if method == "items":
            return {SequenceOf(TupleOf((PLAIN, frozenset([held.element]))))}
        return {held} if method in ("values", "copy") else set()

    def _of_function(self, function: Kind, node: ast.Call, module: Module) -> Kinds | set[Kind]:
        match function:
            case Api():
                return self._of_api(api.lookup(function.path))
            case ApiMethod():
                member = api.method_of(function.owner, function.name)
                if inspect.iscoroutinefunction(member) and api.result_class(member) is None:
                    return PLAIN  # fetched values
                return self._of_api(member)
            case ApiInstance() | ApiValue():
                return frozenset([ApiValue()])
            case OwnClass():
                return frozenset([OwnInstance(function.made)])
            case OwnFunction():
                return self._of_unit(function.unit)
            case OwnInstance():
                called = self._inference.method(function.made, "__call__")
                return NONE if called is None else self._of_unit(called)
            case External():
                return self._of_external(function.path, node, module)
            case Plain():
                return PLAIN
        return NONE

    def _of_unit(self, unit: Unit) -> Kinds:
        if unit.is_generator:
            return frozenset([GeneratorOf(unit)])
        return frozenset(self._inference.returned.get(unit, ()))

    @staticmethod
    def _of_api(function: Any) -> Kinds:
        if function is api.MISSING:
            return frozenset([ApiValue()])
        if api.is_class(function):
            return frozenset([ApiInstance(function)])
        element = api.element_class(function)
        if element is not None:
            return frozenset([SequenceOf(ApiInstance(element))])
        found = api.result_class(function)
        return frozenset([ApiValue() if found is None else ApiInstance(found)])

    def _of_external(self, path: str, node: ast.Call, module: Module) -> Kinds | set[Kind]:
        arguments = [self._inference.of(each, module) for each in node.args]
        name = path.removeprefix("builtins.")
        if name == "super":
            return self._of_super(node, module)
        if name == "zip":
            return kinds.sequences(kinds.tuple_of(*map(self._inference.elements, arguments)))
        if name == "enumerate" and arguments:
            return kinds.sequences(kinds.tuple_of(PLAIN, self._inference.elements(arguments[0])))
        if name in _SAME or name in ("next", "max", "min", "random.choice", "map", "filter"):
            return self._of_iterable(name, arguments)
        if name in ("functools.partial", "partial") and arguments:
            return arguments[0]
        if name == THREAD:
            targets = self._inference.of(target, module) if (target := thread_target(node)) else NONE
            return frozenset(ThreadOf(kind.unit) for kind in targets if isinstance(kind, OwnFunction))
        library = path.partition(".")[0]
        return PLAIN if library in sys.stdlib_module_names or library in _WITHOUT_SESSIONS else NONE

    def _of_iterable(self, name: str, arguments: list[Kinds]) -> Kinds:
        if not arguments:
            return PLAIN
        if name in ("next", "max", "min", "random.choice"):
            return self._inference.elements(arguments[0])
        if name == "map":
            called = {kind for kind in arguments[0] if isinstance(kind, OwnFunction)}
            return kinds.sequences(
                frozenset(kind for each in called for kind in self._inference.returned.get(each.unit, ()))
            )
        return kinds.sequences(self._inference.elements(arguments[-1 if name == "filter" else 0]))

    def _of_super(self, node: ast.Call, module: Module) -> Kinds:
        unit: Unit | None = module.unit_of[node]
        while unit is not None and unit.owner is None:
            unit = None if unit.is_module else module.unit_of[unit.node]
        if unit is None or unit.owner is None:
            return NONE
        found: set[Kind] = {OwnInstance(each) for each in self._inference.own_bases(unit.owner)}
        found |= {
            ApiInstance(each)
            for base in self._inference.bases(unit.owner)
            if isinstance(base, Api) and api.is_class(each := api.lookup(base.path))
        }
        if len(found) < max(len(unit.owner.node.bases), 1):
            found.add(Plain())  # of another library, or `object`
        return frozenset(found)

    # Parameters

    def learn(self, node: ast.Call, module: Module) -> None:
        """Add the kinds of a call's arguments to the parameters of the functions it may call; elements to containers."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in (
            "append",
            "add",
            "appendleft",
            "insert",
        ):
            for each in node.args[-1:]:
                self._inference.bind(
                    node.func.value, kinds.sequences(self._inference.of(each, module)), module
                )
        for function in self._inference.of(node.func, module):
            match function:
                case External(path="threading.Thread"):
                    self._learn_thread(node, module)
                case OwnFunction():
                    self._learn_parameters(function.unit, function.bound, node, module)
                case OwnClass():
                    made = self._inference.method(function.made, "__init__")
                    if made is not None:
                        self._learn_parameters(made, True, node, module)
                    else:
                        self._learn_fields(function.made, node, module)
                case OwnInstance():
                    called = self._inference.method(function.made, "__call__")
                    if called is not None:
                        self._learn_parameters(called, True, node, module)

    def _learn_fields(self, made: Class, node: ast.Call, module: Module) -> None:
        """Add the kinds of the arguments of a named tuple to its attributes."""
        for each in node.keywords:
            if each.arg is not None:
                self._inference.add_attribute(made, each.arg, self._inference.of(each.value, module))

    def _learn_thread(self, node: ast.Call, module: Module) -> None:
        """Add the kinds of a thread's arguments to the parameters of its target."""
        target = thread_target(node)
        arguments = next((each.value for each in node.keywords if each.arg == "args"), None)
        if target is not None and isinstance(arguments, ast.Tuple | ast.List):
            called = ast.Call(target, arguments.elts, [])
            for kind in self._inference.of(target, module):
                if isinstance(kind, OwnFunction):
                    self._learn_parameters(kind.unit, kind.bound, called, module)

    def _learn_parameters(self, unit: Unit, bound: bool, node: ast.Call, module: Module) -> None:
        arguments = unit.node.args
        places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1 if bound else 0 :]
        names = {*places, *(each.arg for each in arguments.kwonlyargs)}
        for place, value in enumerate(node.args):
            if isinstance(value, ast.Starred):
                break
            if place < len(places):
                self._inference.add_variable(unit.scope, places[place], self._inference.of(value, module))
        for keyword in node.keywords:
            if keyword.arg in names:
                assert keyword.arg is not None
                self._inference.add_variable(
                    unit.scope, keyword.arg, self._inference.of(keyword.value, module)
                )
