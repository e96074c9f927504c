"""Functions that have become `async` and are passed to what does not await them."""

from __future__ import annotations

import ast

from aioexec.porting.calls import THREAD, thread_target
from aioexec.porting.findings import Finding
from aioexec.porting.imports import add_import_line
from aioexec.porting.inference import Inference
from aioexec.porting.kinds import NONE, External, OwnFunction
from aioexec.porting.scopes import Module, Unit

_AWAITING = {
    "asyncio",
    "builtins.staticmethod",
    "builtins.classmethod",
    "builtins.property",
    "functools",
    "builtins.super",
}


def rewrite_callbacks(module: Module, inference: Inference) -> list[Finding]:
    """Make threads of such functions tasks; returns what to do about functions that are passed to other libraries."""
    findings = []
    for node in module.unit_of:
        if not isinstance(node, ast.Call):
            continue
        called = [kind for kind in inference.of(node.func, module) if isinstance(kind, External)]
        if not called or any(
            kind.path in _AWAITING or kind.path.partition(".")[0] in _AWAITING for kind in called
        ):
            continue
        if called[0].path == THREAD:
            _rewrite_thread(module, inference, node)
            continue
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for kind in inference.of(argument, module):
                if isinstance(kind, OwnFunction) and kind.unit.is_async:
                    text = _advice(kind.unit, ast.unparse(node.func))
                    findings.append(Finding(module.source.path, node.lineno, text))
    return findings


def _rewrite_thread(module: Module, inference: Inference, node: ast.Call) -> None:
    """Make a thread whose target became a coroutine function a task."""
    target = thread_target(node)
    kinds = inference.of(target, module) if target is not None else NONE
    if any(isinstance(kind, OwnFunction) and kind.unit.is_async for kind in kinds):
        source = module.source
        source.edits.replace(source.start(node.func), source.end(node.func), "CoroutineThread")
        add_import_line(source, "from aioexec.porting.threads import CoroutineThread")


def _advice(unit: Unit, function: str) -> str:
    name = "this lambda" if unit.is_lambda else unit.full_name
    return f"{name} is now `async`, and `{function}` does not await it"
