"""Functions that have become `async` and are passed to what does not await them."""

from __future__ import annotations

import ast

from aioexec.porting.findings import Finding
from aioexec.porting.inference import Inference
from aioexec.porting.kinds import External, OwnFunction
from aioexec.porting.scopes import Module, Unit

_AWAITING = {
    "asyncio",
    "builtins.staticmethod",
    "builtins.classmethod",
    "builtins.property",
    "functools",
    "builtins.super",
}


def check_callbacks(module: Module, inference: Inference) -> list[Finding]:
    """What to do about functions that became `async` and are passed to other libraries."""
    findings = []
    for node in module.unit_of:
        if not isinstance(node, ast.Call):
            continue
        called = [kind for kind in inference.of(node.func, module) if isinstance(kind, External)]
        if not called or any(
            kind.path in _AWAITING or kind.path.partition(".")[0] in _AWAITING for kind in called
        ):
            continue
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            for kind in inference.of(argument, module):
                if isinstance(kind, OwnFunction) and kind.unit.is_async:
                    text = _advice(called[0].path, kind.unit, ast.unparse(node.func))
                    findings.append(Finding(module.source.path, node.lineno, text))
    return findings


def _advice(path: str, unit: Unit, function: str) -> str:
    name = "this lambda" if unit.is_lambda else unit.full_name
    if path.endswith(".Thread"):
        return (
            f"{name} is now `async`, and a thread does not await it: "
            f"start it by `asyncio.create_task({unit.name}(…))`, and await the task instead of joining the thread"
        )
    return f"{name} is now `async`, and `{function}` does not await it"
