"""Which calls of a program are awaited, and which of its functions become coroutine functions.

Sites are the places that may need it: calls, attributes that are properties, `with` items, and iterations. What aioexec itself
makes awaitable is certain from the start. A function with such a site becomes `async`, and then the sites that call it need
`await` too; this is repeated until nothing changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, TypeGuard

from aioexec.data_classes import dataclass
from aioexec.porting import api
from aioexec.porting.api import Use
from aioexec.porting.guesses import guess_use, is_session_like, may_be_own
from aioexec.porting.inference import Inference
from aioexec.porting.kinds import (
    NONE,
    Api,
    ApiInstance,
    ApiMethod,
    ApiValue,
    GeneratorOf,
    Kind,
    Kinds,
    OwnClass,
    OwnFunction,
    OwnInstance,
)
from aioexec.porting.scopes import Module, Unit

NEVER_ASYNC = {
    "__del__", "__len__", "__bool__", "__str__", "__repr__", "__getitem__", "__setitem__", "__contains__", "__getattr__",
    "__setattr__", "__eq__", "__hash__", "__lt__", "__add__", "__new__", "__getstate__", "__setstate__", "__init_subclass__",
}  # fmt: skip
"""Methods that Python calls by itself and does not await."""


@dataclass(slots=True, frozen=True)
class Site:
    """A place that may need `await`, `async with` or `async for`.

    `use`: what aioexec makes it; PLAIN if that depends on `units`, the functions it may call. `guessed`: those were found by
    the name of the method alone.
    """

    node: Any
    unit: Unit
    use: Use
    units: tuple[Unit, ...] = ()
    guessed: bool = False

    @property
    def module(self) -> Module:
        return self.unit.module

    def decided(self) -> Use:
        """What it needs as far as is known now."""
        if self.use is not Use.PLAIN:
            return self.use
        for unit in self.units:
            if unit.is_async:
                if unit.is_context_manager:
                    return Use.ENTER
                return Use.ITERATE if unit.is_generator else Use.AWAIT
        return Use.PLAIN


class Sites:
    """All sites of the files of a program, by the kinds that were found."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference
        self._by_name: dict[str, list[Unit]] = {}
        for module in inference.modules.values():
            for made in module.classes:
                for name, unit in made.methods.items():
                    self._by_name.setdefault(name, []).append(unit)

    def find(self) -> Iterator[Site]:
        """The sites, in the order of the files' text."""
        for module in self._inference.modules.values():
            for node, unit in module.unit_of.items():
                yield from self._of_node(node, unit, module)

    def _of_node(self, node: ast.AST, unit: Unit, module: Module) -> Iterator[Site]:
        match node:
            case ast.Call():
                yield from self._of_call(node, unit, module)
            case ast.Attribute(ctx=ast.Load()):
                yield from self._of_attribute(node, unit, module)
            case ast.With():
                for item in node.items:
                    yield from self._of_item(item, unit, module)
            case ast.For() | ast.comprehension():
                yield from self._of_iteration(node, unit, module)
            case ast.YieldFrom():
                yield from self._of_iterated(node, node.value, unit, module)

    # Calls

    def _of_call(self, node: ast.Call, unit: Unit, module: Module) -> Iterator[Site]:
        parent = module.source.parents[node]
        if isinstance(parent, ast.Await) or self._is_entered(node, parent, module):
            return
        found = self._inference.of(node.func, module)
        use = self._use_of_call(node, module)
        units = tuple(each for kind in found for each in self._units_of_kind(kind))
        owners = self._inference.of(node.func.value, module) if isinstance(node.func, ast.Attribute) else NONE
        if use is not Use.PLAIN or units:
            yield Site(node, unit, use, units)
        elif isinstance(node.func, ast.Attribute) and (ApiValue() in owners or not (owners or found)):
            yield from self._of_unknown(node, unit, module)
        elif is_consumer(node) and node.args:
            yield from self._of_iterated(node, node.args[0], unit, module)

    def _of_iterated(self, node: Any, iterated: ast.expr, unit: Unit, module: Module) -> Iterator[Site]:
        """What iterates over the results of an expression: a generator of the program, or what aioexec iterates."""
        if isinstance(iterated, ast.Call) and self._use_of_call(iterated, module) is Use.ITERATE:
            yield Site(node, unit, Use.ITERATE)
        for kind in self._inference.of(iterated, module):
            if isinstance(kind, GeneratorOf):
                yield Site(node, unit, Use.PLAIN, (kind.unit,))
            elif isinstance(kind, ApiInstance) and api.is_iterated(kind.owner):
                yield Site(node, unit, Use.ITERATE)
            elif isinstance(kind, OwnInstance):
                names = ("__iter__", "__next__", "__aiter__", "__anext__")
                found = [self._inference.method(kind.made, name) for name in names]
                yield Site(node, unit, Use.PLAIN, tuple(each for each in found if each is not None))

    def _is_entered(self, node: ast.Call, parent: ast.AST, module: Module) -> bool:
        """Whether a call makes what a `with` statement enters: `async with` awaits it."""
        if not (isinstance(parent, ast.withitem) and parent.context_expr is node):
            return False
        made = self._inference.of(node, module)
        return any(isinstance(kind, ApiInstance) and api.is_entered(kind.owner) for kind in made) and (
            self._use_of_call(node, module) is not Use.ENTER
        )

    def _use_of_call(self, node: ast.Call, module: Module) -> Use:
        uses = [self._use_of_kind(kind) for kind in self._inference.of(node.func, module)]
        return next((use for use in uses if use is not Use.PLAIN), Use.PLAIN)

    @staticmethod
    def _use_of_kind(kind: Kind) -> Use:
        match kind:
            case Api():
                found = api.lookup(kind.path)
                return Use.PLAIN if found is api.MISSING else api.use_of_call(found)
            case ApiMethod():
                return api.use_of_method(kind.owner, kind.name)
            case ApiInstance():
                return api.use_of_method(kind.owner, "__call__")
        return Use.PLAIN

    def _units_of_kind(self, kind: Kind) -> Iterator[Unit]:
        match kind:
            case OwnFunction():
                yield from self._overriding(kind.unit)
            case OwnClass():
                made = self._inference.method(kind.made, "__init__")
                if made is not None:
                    yield made
            case OwnInstance():
                called = self._inference.method(kind.made, "__call__")
                if called is not None:
                    yield from self._overriding(called)

    def _overriding(self, unit: Unit) -> Iterator[Unit]:
        yield unit
        if unit.owner is not None and unit.name != "__init__":
            for each in self._inference.descendants(unit.owner):
                if unit.name in each.methods:
                    yield each.methods[unit.name]

    def _of_unknown(self, node: ast.Call, unit: Unit, module: Module) -> Iterator[Site]:
        """A call of a method of an object of which nothing is known: by the names of method and object."""
        assert isinstance(node.func, ast.Attribute)
        found = self._by_name.get(node.func.attr, ())
        own = tuple(each for each in found if each.owner and may_be_own(node.func, each.owner.name))
        takes_session = bool(node.args) and self._is_session(node.args[0], module)
        if {each.arg for each in node.keywords} & {"feed_dict", "session"} and node.func.attr in (
            "eval",
            "run",
        ):
            own = ()
        use = guess_use(node.func, has_own=bool(own), takes_session=takes_session)
        if use is not Use.PLAIN:
            yield Site(node, unit, use)
        elif own:
            yield Site(node, unit, Use.PLAIN, own, guessed=True)

    def _is_session(self, node: ast.expr, module: Module) -> bool:
        found = self._inference.of(node, module)
        known = any(isinstance(kind, ApiInstance) and hasattr(kind.owner, "run") for kind in found)
        return known or (not found and is_session_like(node))

    # Properties, context managers, iterations

    def _of_attribute(self, node: ast.Attribute, unit: Unit, module: Module) -> Iterator[Site]:
        owners = self._inference.of(node.value, module)
        units: list[Unit] = []
        for owner in owners:
            found = self._inference.method(owner.made, node.attr) if isinstance(owner, OwnInstance) else None
            if found is not None and found.is_property:
                units += self._overriding(found)
        if not owners:
            units = [each for each in self._by_name.get(node.attr, ()) if each.is_property]
        if units:
            yield Site(node, unit, Use.PLAIN, tuple(units), guessed=not owners)

    def _of_item(self, item: ast.withitem, unit: Unit, module: Module) -> Iterator[Site]:
        managers = self._inference.of(item.context_expr, module)
        if any(isinstance(kind, ApiInstance) and api.is_entered(kind.owner) for kind in managers):
            is_call_of_as_default = ast.unparse(item.context_expr).endswith(".as_default()")
            if not is_call_of_as_default:
                yield Site(item, unit, Use.ENTER)
                return
        if not managers and isinstance(item.context_expr, ast.Name | ast.Attribute):
            if is_session_like(item.context_expr):
                yield Site(item, unit, Use.ENTER)
            return
        yield from self._own_item(item, unit, managers)

    def _own_item(self, item: ast.withitem, unit: Unit, managers: Kinds) -> Iterator[Site]:
        for kind in managers:
            if isinstance(kind, OwnInstance):
                methods = (
                    self._inference.method(kind.made, name)
                    for name in ("__enter__", "__exit__", "__aenter__", "__aexit__")
                )
                found = tuple(each for each in methods if each is not None)
                if found:
                    yield Site(item, unit, Use.PLAIN, found)
            elif isinstance(kind, GeneratorOf) and kind.unit.is_context_manager:
                yield Site(item, unit, Use.PLAIN, (kind.unit,))

    def _of_iteration(self, node: ast.For | ast.comprehension, unit: Unit, module: Module) -> Iterator[Site]:
        iterated = node.iter
        if is_enumeration(iterated):
            iterated = iterated.args[0]
        yield from self._of_iterated(node, iterated, unit, module)


def decide(inference: Inference) -> list[Site]:
    """Mark the units that become `async`; returns the sites."""
    sites = list(Sites(inference).find())
    changed = True
    while changed:
        changed = False
        for site in sites:
            if needs_coroutine(site) and not site.unit.is_async:
                site.unit.is_async = changed = True
        for unit in _related(inference):
            unit.is_async = changed = True
    return sites


def needs_coroutine(site: Site) -> bool:
    """Whether the unit of a site must become a coroutine function."""
    use = site.decided()
    if isinstance(site.node, ast.Call) and use is not Use.AWAIT:
        return use is Use.ITERATE and is_consumer(site.node)
    return use is not Use.PLAIN


CONSUMERS = {
    "next", "enumerate", "list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "max", "min", "any", "all",
}  # fmt: skip
"""Builtins that iterate over their first argument."""


def is_consumer(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in CONSUMERS


def is_enumeration(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is a call of `enumerate`, of an iterable and possibly a number to begin with."""
    return isinstance(node, ast.Call) and is_consumer(node) and ast.unparse(node.func) == "enumerate"


_TOGETHER = {"__enter__": "__exit__", "__exit__": "__enter__"}


def _related(inference: Inference) -> list[Unit]:
    """The methods that must become `async` because one that they override, that overrides them, or belongs to them has."""
    found: list[Unit] = []
    for module in inference.modules.values():
        for made in module.classes:
            for name, unit in made.methods.items():
                if unit.is_async:
                    classes = inference.descendants(made)
                    if name != "__init__":
                        classes |= set(inference.ancestors(made))
                    found += [each.methods[name] for each in classes if name in each.methods]
                    if name in _TOGETHER and _TOGETHER[name] in made.methods:
                        found.append(made.methods[_TOGETHER[name]])
    return [unit for unit in found if not unit.is_async]
