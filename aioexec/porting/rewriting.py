"""The edits that make a program's functions coroutine functions: `async`, `await`, and what Python demands besides."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from aioexec.porting.api import Use
from aioexec.porting.coroutines import NEVER_ASYNC, Site, needs_coroutine
from aioexec.porting.findings import Finding
from aioexec.porting.imports import add_import
from aioexec.porting.inference import Inference
from aioexec.porting.module_level import single_call
from aioexec.porting.scopes import Class, FunctionNode, Module, Unit
from aioexec.porting.with_statements import rewrite_with

RENAMED = {
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
    "__next__": "__anext__",
}

NEW = """async def __new__(cls, *args, **kwargs):
    self = super().__new__(cls)
    await self.__init__(*args, **kwargs)
    return self

"""


class Rewriter:
    """Edits one file.

    State: `findings` grows; `awaited` are the sites outside all functions; `_edited` are the lambdas and generator expressions
    that were rewritten, because each is edited once for all awaited expressions in it.
    """

    def __init__(self, module: Module, inference: Inference, sites: Iterable[Site]) -> None:
        self._inference = inference
        self._module = module
        self._source = module.source
        self._all = list(sites)
        self._sites = [site for site in self._all if needs_coroutine(site)]
        self.findings: list[Finding] = []
        self.awaited: list[Site] = []
        self._edited = set[ast.AST]()

    def report(self, node: Any, message: str) -> None:
        self.findings.append(Finding(self._source.path, node.lineno, message))

    def run(self) -> None:
        """Make the edits of the functions and the sites in them; those of the module's own statements are in `awaited`."""
        for unit in self._module.units:
            if unit.is_async and not unit.is_module and not isinstance(unit.node, ast.AsyncFunctionDef):
                self._rewrite_unit(unit)
        for made in self._module.classes:
            self._rewrite_class(made)
        levels: dict[ast.AST, int] = {}
        for statement, items in self._with_statements().items():
            self.findings += rewrite_with(self._source, statement, items, levels)
        self.awaited = [site for site in self._sites if site.unit.is_module]
        only = single_call(self._module, self.awaited)
        if only is not None:
            self._run_by_asyncio(only)
        innermost_first = sorted(self._sites, key=lambda site: -self._depth(site.node))
        done = set[ast.AST]() if only is None else {only.node}
        for site in innermost_first:
            if site.node not in done:
                done.add(site.node)
                self._rewrite_site(site)

    def _run_by_asyncio(self, site: Site) -> None:
        """Run the only call outside of functions that would be awaited."""
        add_import(self._source, "asyncio")
        self._source.edits.wrap(
            self._source.start(site.node), self._source.end(site.node), "asyncio.run(", ")"
        )

    def _depth(self, node: ast.AST) -> int:
        return sum(1 for _ in self._source.ancestors(node))

    # Units

    def _rewrite_unit(self, unit: Unit) -> None:
        if unit.is_lambda:
            return
        node = unit.node
        if unit.owner is not None and unit.name in NEVER_ASYNC:
            self.report(
                node,
                f"{unit.full_name} now has to await, but Python calls it by itself: call a coroutine method instead",
            )
        start = self._source.start(node)
        self._source.edits.insert(start, "async ")
        if unit.owner is not None and unit.name in RENAMED:
            place = self._source.text.index(unit.name, start)
            self._source.edits.replace(place, place + len(unit.name), RENAMED[unit.name])
        for decorator in getattr(node, "decorator_list", ()):
            self._rewrite_decorator(unit, decorator)
        if unit.is_generator:
            self._check_generator(unit)

    def _rewrite_decorator(self, unit: Unit, decorator: ast.expr) -> None:
        text = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
        name = text.rpartition(".")[2]
        if name == "contextmanager":
            end = self._source.end(decorator)
            self._source.edits.replace(end - len(name), end, "asynccontextmanager")
            self._import_manager(text)
        elif name == "cached_property":
            self.report(
                decorator,
                f"{unit.full_name} is now a coroutine, which can be awaited only once: cache its result",
            )
        elif name not in ("property", "staticmethod", "classmethod", "abstractmethod", "wraps"):
            self.report(
                decorator,
                f"{unit.full_name} is now `async`: check that the decorator `{text}` takes coroutine functions",
            )

    def _import_manager(self, text: str) -> None:
        for node in ast.walk(self._source.tree) if "." not in text else ():
            if isinstance(node, ast.ImportFrom) and node.module == "contextlib":
                self._source.edits.insert(self._source.end(node.names[-1]), ", asynccontextmanager")
                return

    def _check_generator(self, unit: Unit) -> None:
        for each in unit.yields:
            if isinstance(each, ast.YieldFrom):
                parent = self._source.parents[each]
                if isinstance(parent, ast.Expr):
                    start, value = self._source.start(each), self._source.start(each.value)
                    keyword = "async for" if self._is_async_iterable(each) else "for"
                    self._source.edits.replace(start, value, f"{keyword} value in ")
                    self._source.edits.insert(self._source.end(parent), ": yield value")
                else:
                    self.report(each, "`yield from` is not possible in an `async` generator: write a loop")
        for node in ast.walk(unit.node):
            if isinstance(node, ast.Return) and node.value and self._module.unit_of.get(node) is unit:
                self.report(node, "an `async` generator cannot return a value: pass it on in another way")

    def _is_async_iterable(self, node: ast.expr) -> bool:
        return any(site.node is node and site.decided() is Use.ITERATE for site in self._all)

    def _rewrite_class(self, made: Class) -> None:
        """Let the construction of objects be awaited, if `__init__` has become a coroutine function."""
        init = made.methods.get("__init__")
        if init is None or not init.is_async or isinstance(init.node, ast.AsyncFunctionDef):
            return
        inherited = [
            each.methods.get("__init__") for each in self._inference.ancestors(made) if each is not made
        ]
        if any(each is not None and each.is_async for each in inherited):
            return
        if "__new__" in made.methods:
            self.report(
                made.methods["__new__"].node,
                f"{made.name}.__init__ is now `async`: let __new__ be `async` too, and await __init__ in it",
            )
            return
        node = init.node
        place = self._source.line_start(self._source.first_line(node))
        indentation = self._source.indentation(node.lineno)
        unit = self._source.unit()
        lines = [indentation + line.replace("    ", unit) if line else "" for line in NEW.splitlines()]
        newline = self._source.newline
        self._source.edits.insert(place, newline.join(lines) + newline, before=True)

    # Sites

    def _with_statements(self) -> dict[Any, set[ast.AST]]:
        """The `with` statements with items that are entered by `async with`."""
        found: dict[Any, set[ast.AST]] = {}
        for site in self._sites:
            if isinstance(site.node, ast.withitem):
                statement: Any = self._source.parents[site.node]
                found.setdefault(statement, set()).add(site.node)
                self._note(site, statement)
        return found

    def _note(self, site: Site, node: Any) -> None:
        """Record a site outside of functions; report one in the body of a class, or one that was guessed."""
        if node in self._module.in_class_body and not isinstance(site.unit.node, FunctionNode | ast.Lambda):
            self.report(node, "the body of a class cannot await: move this into a coroutine function")
        if site.guessed:
            names = ", ".join(sorted({unit.full_name for unit in site.units if unit.is_async}))
            self.report(node, f"`{_shortened(node)}` was taken for {names}, which is now `async`: check it")

    def _rewrite_site(self, site: Site) -> None:
        match site.node:
            case ast.Call() | ast.Attribute():
                self._await(site)
            case ast.For():
                self._source.edits.insert(self._source.start(site.node), "async ")
                self._note(site, site.node)
            case ast.comprehension():
                start = self._comprehension_start(site.node)
                self._source.edits.insert(start, "async ")
                self._close_generator(site.node)
                self._note(site, site.node.iter)

    def _comprehension_start(self, node: ast.comprehension) -> int:
        return self._source.text.rindex("for", 0, self._source.start(node.target))

    def _await(self, site: Site) -> None:
        node, source = site.node, self._source
        self._note(site, node)
        if site.unit.is_lambda and not self._rewrite_lambda(site):
            return
        if isinstance(node, ast.Call) and site.decided() is Use.ITERATE:
            self._consume(node)
            if ast.unparse(node.func) != "next":
                return
        start, end = source.start(node), source.end(node)
        if not source.text[start:end].startswith(ast.unparse(node)[:1]):  # in an f-string, before Python 3.12
            self.report(node, f"await `{_shortened(node)}` inside this f-string")
            return
        parent = source.parents[node]
        is_primary = (
            (isinstance(parent, ast.Attribute | ast.Subscript) and parent.value is node)
            or (isinstance(parent, ast.Call) and parent.func is node)
            or isinstance(parent, ast.Await)
        )
        opening, closing = (
            ("(await ", ")") if is_primary and source.start(parent) == start else ("await ", "")
        )
        source.edits.wrap(start, end, opening, closing)
        self._close_generator(node)

    def _consume(self, node: ast.Call) -> None:
        """Rewrite a call of a builtin that iterates over what is iterated by `async for`."""
        source, name = self._source, ast.unparse(node.func)
        start, end = source.start(node), source.end(node)
        first = node.args[0]
        inner = source.start(first), source.end(first)
        if name == "next":
            source.edits.replace(start, start + len(name), "anext")
        elif name == "list" and len(node.args) == 1 and source.text[inner[1] : end] == ")":
            source.edits.replace(start, inner[0], "[each async for each in ")
            source.edits.replace(inner[1], end, "]")
        elif name == "enumerate":
            parent = source.parents[node]
            if not (isinstance(parent, ast.For | ast.comprehension) and parent.iter is node):
                self.report(node, "`enumerate` does not take an asynchronous iterator: count in a loop")
                return
            begin = ", ".join(
                ast.unparse(each) for each in (*node.args[1:], *(k.value for k in node.keywords))
            )
            counted = f"((next(number), each) for number in [itertools.count({begin})] async for each in "
            source.edits.replace(start, inner[0], counted)
            source.edits.replace(inner[1], end, ")")
            add_import(source, "itertools")
        else:
            source.edits.wrap(*inner, "[each async for each in ", "]")

    def _rewrite_lambda(self, site: Site) -> bool:
        """Whether a call in a lambda is to be awaited there; a lambda that returns an awaitable stays as it is."""
        function = site.unit.node
        if function.body is site.node:
            return False
        statement = self._source.parents[function]
        is_named = (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        )
        if not is_named:
            self.report(
                function, f"a lambda cannot await `{_shortened(site.node)}`: make it an `async def` function"
            )
            return False
        assert isinstance(statement, ast.Assign)
        if function not in self._edited:
            self._edited.add(function)
            source = self._source
            name, parameters = ast.unparse(statement.targets[0]), ast.unparse(function.args)
            indentation = source.indentation(statement.lineno) + source.unit()
            header = f"async def {name}({parameters}):{source.newline}{indentation}return "
            source.edits.replace(source.start(statement), source.start(function.body), header)
            tail = source.text[source.end(function.body) : source.end(statement)]
            if tail.strip():
                self.report(statement, "check the parentheses of this function, which was a lambda")
        return True

    def _close_generator(self, node: ast.AST) -> None:
        """Make a generator expression around an awaited expression a list, as the functions that take it cannot await."""
        for each in self._source.ancestors(node):
            if isinstance(each, ast.stmt | ast.Lambda):
                return
            if isinstance(each, ast.GeneratorExp) and each not in self._edited:
                if self._is_outermost_iterable(node, each):
                    continue
                self._edited.add(each)
                start, end = self._source.start(each), self._source.end(each)
                self._source.edits.wrap(start + 1, end - 1, "[", "]")

    def _is_outermost_iterable(self, node: ast.AST, generator: ast.GeneratorExp) -> bool:
        """Whether a node is evaluated once, before the generator runs."""
        first = generator.generators[0].iter
        return node is first or any(each is first for each in self._source.ancestors(node))


def _shortened(node: Any) -> str:
    text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return f"{text}(…)" if isinstance(node, ast.Call) else text
