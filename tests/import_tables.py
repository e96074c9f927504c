"""The tables of what is imported on first use, made anew: `python -m tests.import_tables` writes them.

Public names are read from the imports that declare them; which module registers which op is seen by importing all.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import textwrap
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = ROOT / "aioexec" / "name_table.py"
OPS = ROOT / "aioexec" / "names" / "op_modules.py"
WRITTEN_BY = "Written by `python -m tests.import_tables`, which a test repeats: change what it is made from, and run it."
Public = dict[str, dict[str, list[str]]]


def path_of(module: str) -> Path | None:
    """The file of a module of the package."""
    stem = ROOT.joinpath(*module.split("."))
    paths = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((path for path in paths if path.exists()), None)


def public() -> Public:
    """For each module that finds its names when they are used: its names by the module that has them."""
    found = {}
    for path in sorted((ROOT / "aioexec").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "public_names(__name__)" in text:
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[module] = by_source(dict(declared(ast.parse(text).body, is_lazy=True)))
    return found


def by_source(sources: dict[str, tuple[str, str]]) -> dict[str, list[str]]:
    """Names by the module they come from, as the table has them."""
    table: dict[str, list[str]] = {}
    for name, (source, attribute) in sorted(sources.items(), key=lambda entry: (entry[1][0], entry[0])):
        table.setdefault(source, []).append(name if name == attribute else f"{name}={attribute}")
    return table


def declared(body: list[ast.stmt], *, is_lazy: bool) -> Iterator[tuple[str, tuple[str, str]]]:
    """The public names that statements import, and where from; of a lazy module those for type checkers."""
    private: dict[str, str] = {}
    for statement in body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from declared(statement.body, is_lazy=False)
        elif isinstance(statement, ast.ImportFrom) and not is_lazy:
            for alias in statement.names:
                name, module = alias.asname or alias.name, f"{statement.module}.{alias.name}"
                if alias.name == "*":
                    path = path_of(str(statement.module))
                    assert path is not None
                    yield from declared(ast.parse(path.read_text(encoding="utf-8")).body, is_lazy=False)
                elif name.startswith("_"):
                    private[name] = module
                elif str(statement.module).split(".")[0] == "aioexec":
                    yield name, (module, "") if path_of(module) else (str(statement.module), alias.name)
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Attribute) and not is_lazy:
            owner, (target,) = statement.value.value, statement.targets
            assert isinstance(owner, ast.Name)
            assert isinstance(target, ast.Name)
            yield target.id, (private[owner.id], statement.value.attr)


def op_modules() -> dict[str, list[str]]:
    """The ops that each module registers. To be called in a process that has not imported the package."""
    modules: dict[str, list[str]] = {}
    seen: set[str] = set()
    execute = SourceFileLoader.exec_module

    def watched(self, module):
        execute(self, module)
        if module.__name__.startswith(
            "aioexec.ops."
        ):  # what it imports has been asked before: those are its own
            fresh = registry_rows() - seen
            seen.update(fresh)
            if fresh:
                modules[module.__name__] = sorted(fresh)

    SourceFileLoader.exec_module = watched  # type: ignore[method-assign]
    try:
        ops = importlib.import_module("aioexec.ops")
        for each in pkgutil.walk_packages(ops.__path__, "aioexec.ops."):
            importlib.import_module(each.name)
    finally:
        SourceFileLoader.exec_module = execute  # type: ignore[method-assign]
    return dict(sorted(modules.items()))


def registry_rows() -> set[str]:
    return set(importlib.import_module("aioexec.graph.registry")._registry.rows)


def lines(table: dict[str, list[str]], indent: str) -> Iterator[str]:
    """The entries of a dictionary of words."""
    for source, words in table.items():
        text = " ".join(words)
        if len(indent) + len(source) + len(text) + 7 <= 110:
            yield f'{indent}"{source}": "{text}",'
            continue
        yield f'{indent}"{source}": ('
        width = 104 - len(indent)
        wrapped = [text] if len(text) <= width else textwrap.wrap(text, width - 1)
        for number, line in enumerate(wrapped):
            yield f'{indent}    "{line}{" " if number + 1 < len(wrapped) else ""}"'
        yield f"{indent}),"


def names_text(table: Public) -> str:
    """The source of `name_table.py`."""
    text = [
        '"""Where public names come from: for each module, names by the module that has them.',
        "",
        "`name=attribute` where they differ; `name=` is the module itself.",
        "",
        WRITTEN_BY,
        '"""',
        "",
        "from typing import Final",
        "",
        "PUBLIC: Final[dict[str, dict[str, str]]] = {",
    ]
    for module, sources in table.items():
        text += [f'    "{module}": {{', *lines(sources, " " * 8), "    },"]
    return "\n".join([*text, "}", ""])


def ops_text(table: dict[str, list[str]]) -> str:
    """The source of `op_modules.py`."""
    text = [
        '"""Which module registers which op: it is imported when the op is first asked for.',
        "",
        WRITTEN_BY,
        '"""',
        "",
        "from typing import Final",
        "",
        "_OPS: Final = {",
        *lines(table, " " * 4),
        "}",
        "",
        "OP_MODULES: Final = {op: module for module, ops in _OPS.items() for op in ops.split()}",
        '"""The module by op."""',
        "",
    ]
    return "\n".join(text)


if __name__ == "__main__":
    NAMES.write_text(names_text(public()), encoding="utf-8")
    OPS.write_text(ops_text(op_modules()), encoding="utf-8")
