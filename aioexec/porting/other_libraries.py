"""Edits where coroutine functions meet other libraries: threads, sleeps, unit tests, absl; what else calls one is reported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from aioexec.porting.calls import THREAD, thread_target
from aioexec.porting.findings import Finding
from aioexec.porting.imports import add_import, add_import_line
from aioexec.porting.inference import Inference
from aioexec.porting.kinds import NONE, External, OwnFunction
from aioexec.porting.scopes import Class, Module, Unit

_AWAITING = {
    "asyncio",
    "builtins.staticmethod",
    "builtins.classmethod",
    "builtins.property",
    "functools",
    "builtins.super",
}
"""Functions, and modules of functions, that take coroutine functions as they are."""

_TEST = "unittest.TestCase"
_FIXTURES = {"setUp": "asyncSetUp", "tearDown": "asyncTearDown"}


class OtherLibraries:
    """Edits one file."""

    def __init__(self, module: Module, inference: Inference) -> None:
        self._module = module
        self._source = module.source
        self._inference = inference

    def run(self) -> list[Finding]:
        """Make the edits; returns what to do about functions that nothing awaits."""
        findings: list[Finding] = []
        for node in self._module.unit_of:
            if isinstance(node, ast.Call):
                findings += self._look_at_call(node)
        for made in self._module.classes:
            self._rewrite_class(made)
        return findings

    def _look_at_call(self, node: ast.Call) -> Iterator[Finding]:
        called = [
            kind.path for kind in self._inference.of(node.func, self._module) if isinstance(kind, External)
        ]
        if THREAD in called:
            self._rewrite_thread(node)
        elif "time.sleep" in called:
            self._rewrite_sleep(node)
        elif "absl.app.run" in called and node.args and self._coroutine_functions(node.args[0]):
            self._source.edits.wrap(
                self._source.start(node.args[0]),
                self._source.end(node.args[0]),
                "lambda argv: asyncio.run(",
                "(argv))",
            )
            add_import(self._source, "asyncio")
        elif called and not any(path in _AWAITING or path.partition(".")[0] in _AWAITING for path in called):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                for unit in self._coroutine_functions(argument):
                    name = "this lambda" if unit.is_lambda else unit.full_name
                    text = f"{name} is now `async`, and `{ast.unparse(node.func)}` does not await it"
                    yield Finding(self._source.path, node.lineno, text)

    def _coroutine_functions(self, node: ast.expr) -> list[Unit]:
        """The functions that an expression may be and that have become coroutine functions."""
        kinds = self._inference.of(node, self._module)
        return [kind.unit for kind in kinds if isinstance(kind, OwnFunction) and kind.unit.is_async]

    def _rewrite_thread(self, node: ast.Call) -> None:
        """Make a thread whose target became a coroutine function a task."""
        target = thread_target(node)
        if target is not None and self._coroutine_functions(target):
            self._use_coroutine_thread(node.func)

    def _use_coroutine_thread(self, node: ast.expr) -> None:
        self._source.edits.replace(self._source.start(node), self._source.end(node), "CoroutineThread")
        add_import_line(self._source, "from aioexec.porting.threads import CoroutineThread")

    def _rewrite_sleep(self, node: ast.Call) -> None:
        """Let a coroutine function sleep without blocking the event loop."""
        unit = self._module.unit_of[node]
        if unit.is_async and not unit.is_module and not unit.is_lambda:
            start, end = self._source.start(node.func), self._source.end(node.func)
            self._source.edits.replace(start, end, "await asyncio.sleep")
            add_import(self._source, "asyncio")

    def _rewrite_class(self, made: Class) -> None:
        """Let threads and cases of unit tests with coroutine functions derive from classes that await them."""
        if not any(unit.is_async for unit in made.methods.values()):
            return
        for base in made.node.bases:
            paths = {
                kind.path for kind in self._inference.of(base, self._module) if isinstance(kind, External)
            }
            if THREAD in paths and "run" in made.methods and made.methods["run"].is_async:
                self._use_coroutine_thread(base)
                self._rewrite_initialization(made)
            elif _TEST in paths:
                text = ast.unparse(base).replace("TestCase", "IsolatedAsyncioTestCase")
                prefix = "" if "." in text else "unittest."
                self._source.edits.replace(self._source.start(base), self._source.end(base), prefix + text)
                if prefix:
                    add_import(self._source, "unittest")
                self._rename_fixtures(made)

    def _rewrite_initialization(self, made: Class) -> None:
        for node in ast.walk(made.node):
            if isinstance(node, ast.Attribute) and node.attr == "__init__":
                kinds = (
                    self._inference.of(node.value, self._module)
                    if not isinstance(node.value, ast.Call)
                    else NONE
                )
                if External(THREAD) in kinds:
                    self._use_coroutine_thread(node.value)

    def _rename_fixtures(self, made: Class) -> None:
        for name, renamed in _FIXTURES.items():
            unit = made.methods.get(name)
            if unit is not None and unit.is_async:
                place = self._source.text.index(name, self._source.start(unit.node))
                self._source.edits.replace(place, place + len(name), renamed)
