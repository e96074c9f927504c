"""Rewrites imports of TensorFlow, and finds the names of TensorFlow that aioexec does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from aioexec.porting import api
from aioexec.porting.findings import Finding
from aioexec.porting.import_paths import holds_modules, own_path
from aioexec.porting.inference import Inference
from aioexec.porting.kinds import Api
from aioexec.porting.scopes import Module
from aioexec.porting.source import Source

V0 = "aioexec.compat.v0"
_SWITCHES = {
    "disable_v2_behavior",
    "disable_eager_execution",
    "disable_v2_tensorshape",
    "disable_resource_variables",
}
"""Functions without a meaning here, as there is no other behaviour."""


def rewrite_imports(source: Source, module: Module, inference: Inference) -> list[Finding]:
    """Make the edits; returns what aioexec does not have."""
    root = V0 if _uses_v0(module, inference) else "aioexec"
    findings = list(_remove_switches(source, module, inference))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            findings += _rewrite_import(source, node, root)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            findings += _rewrite_import_from(source, node, root)
    return findings


def imports_tensorflow(source: Source) -> bool:
    """Whether a file imports TensorFlow."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import) and any(own_path(alias.name) for alias in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and not node.level and own_path(node.module or ""):
            return True
    return False


def used_names(module: Module, inference: Inference) -> Iterator[tuple[ast.Attribute, str]]:
    """The longest dotted names of TensorFlow in a file, and their paths in aioexec."""
    for node in module.unit_of:
        if not isinstance(node, ast.Attribute):
            continue
        parent = module.source.parents[node]
        for kind in inference.of(node, module):
            if isinstance(kind, Api) and (
                not isinstance(parent, ast.Attribute) or _leaves(module, inference, parent)
            ):
                yield node, kind.path


def _leaves(module: Module, inference: Inference, node: ast.Attribute) -> bool:
    """Whether an attribute is no name of a module any more: a method of a class, say."""
    return not any(isinstance(kind, Api) for kind in inference.of(node, module))


def missing_names(module: Module, inference: Inference) -> list[Finding]:
    """The names of TensorFlow in a file that aioexec does not have."""
    found: dict[tuple[int, str], Finding] = {}
    for node, path in used_names(module, inference):
        name = path.removeprefix("aioexec.")
        is_known = any(api.lookup(each) is not api.MISSING for each in (path, f"{V0}.{name}"))
        if _is_attempt(module.source, node):
            continue
        if not is_known and name.rpartition(".")[2] not in _SWITCHES and not _is_member(path):
            finding = Finding(module.source.path, node.lineno, f"aioexec has no `{name}`")
            found.setdefault((node.lineno, name), finding)
    return list(found.values())


def _is_attempt(source: Source, node: ast.AST) -> bool:
    """Whether a node is in a `try` statement that catches the error of a missing name."""
    return any(
        isinstance(each, ast.Try)
        and any(
            handler.type is None
            or "AttributeError" in ast.unparse(handler.type)
            or "ImportError" in ast.unparse(handler.type)
            for handler in each.handlers
        )
        for each in source.ancestors(node)
    )


def _is_member(path: str) -> bool:
    """Whether a name is an attribute of a class or another object: those exist only on instances."""
    return any(
        (owner := api.lookup(parent)) is not api.MISSING and not _is_module(owner)
        for parent in list(api.modules_of(path))[1:]
    )


def _is_module(value: Any) -> bool:
    return hasattr(value, "__spec__") or hasattr(value, "__path__")


def _uses_v0(module: Module, inference: Inference) -> bool:
    """Whether a file uses names of TensorFlow before 1.0."""
    if api.lookup(V0) is api.MISSING:
        return False
    return any(
        api.lookup(path) is api.MISSING
        and api.lookup(path.replace("aioexec", V0, 1)) is not api.MISSING
        and not path.startswith(V0)
        for _, path in used_names(module, inference)
    )


def _remove_switches(source: Source, module: Module, inference: Inference) -> Iterator[Finding]:
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        for kind in inference.of(node.value.func, module):
            name = kind.path.rpartition(".")[2] if isinstance(kind, Api) else ""
            if name in _SWITCHES and api.lookup(f"aioexec.{name}") is api.MISSING:
                parent: Any = source.parents[node]
                if any(node is each for each in parent.body) and len(parent.body) > 1:
                    source.edits.replace(source.line_start(node.lineno), source.line_end(node.lineno), "")
                else:
                    source.edits.replace(source.start(node), source.end(node), "pass")
            elif name == "enable_eager_execution":
                yield Finding(
                    source.path, node.lineno, "eager programs have no session: there is nothing to port"
                )


def _rewrite_import(source: Source, node: ast.Import, root: str) -> Iterator[Finding]:
    if not any(own_path(alias.name) for alias in node.names):
        return
    indentation = source.newline + source.indentation(node.lineno)
    lines = []
    for alias in node.names:
        path = own_path(alias.name)
        if path is None:
            lines.append(f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else ""))
            continue
        yield from _check(source, node, alias.name, path)
        lines.append(_import_line(path, alias, root))
    source.edits.replace(source.start(node), source.end(node), indentation.join(lines))


def _import_line(path: str, alias: ast.alias, root: str) -> str:
    if alias.asname is None:
        first = f"import {root} as tensorflow"
        if path == "aioexec":
            return first
        return f"{first}; import {path}" if _is_importable(path) else first
    if path == "aioexec":
        return f"import {root} as {alias.asname}"
    if _is_importable(path):
        return f"import {path} as {alias.asname}"
    parent, _, name = path.rpartition(".")
    return f"from {parent} import {name}" + (f" as {alias.asname}" if alias.asname != name else "")


def _is_importable(path: str) -> bool:
    try:
        return find_spec(path) is not None
    except ModuleNotFoundError:
        return False


def _rewrite_import_from(source: Source, node: ast.ImportFrom, root: str) -> Iterator[Finding]:
    module = node.module or ""
    path = own_path(module)
    if path is None:
        return
    if module.startswith("tensorflow.examples") and api.lookup(path) is api.MISSING:
        yield Finding(
            source.path, node.lineno, f"`{module}` is no part of aioexec: read the data in another way"
        )
        return
    if not holds_modules(module):
        whole = root if path == "aioexec" else path
        yield from _check(source, node, module, path)
        for alias in node.names:
            if alias.name != "*" and api.lookup(path) is not api.MISSING:
                yield from _check(source, node, f"{module}.{alias.name}", f"{path}.{alias.name}")
        start = source.text.index(module, source.start(node))
        source.edits.replace(start, start + len(module), whole)
        return
    lines = []
    for alias in node.names:
        found = own_path(f"{module}.{alias.name}") or "aioexec"
        yield from _check(source, node, f"{module}.{alias.name}", found)
        lines.append(_import_line(found, ast.alias(alias.name, alias.asname or alias.name), root))
    joined = (source.newline + source.indentation(node.lineno)).join(lines)
    source.edits.replace(source.start(node), source.end(node), joined)


def _check(source: Source, node: ast.stmt, name: str, path: str) -> Iterator[Finding]:
    if api.lookup(path) is api.MISSING:
        name = name.removeprefix("tensorflow.")
        yield Finding(source.path, node.lineno, f"aioexec has no `{name}`")


def add_import(source: Source, name: str) -> None:
    """Import a module of Python before the first import of the file, if it is not imported yet."""
    imported = {
        alias.name
        for node in source.tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None
    }
    if name not in imported:
        add_import_line(source, f"import {name}")


def add_import_line(source: Source, line: str) -> None:
    """Add a line before the first import of the file, once."""
    for node in source.tree.body:
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if isinstance(node, ast.Import | ast.ImportFrom) and not is_future:
            place, text = source.line_start(node.lineno), line + source.newline
            if not source.edits.has(place, text):
                source.edits.insert(place, text, before=True)
            return
