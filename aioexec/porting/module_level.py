"""Statements outside of functions that await: they move into a coroutine function, which `asyncio.run` runs.

There are three cases:

1. One call of a function of the program is awaited, in no loop: `main()` becomes `asyncio.run(main())`.
2. All such statements are in the block of `if __name__ == "__main__":`: that block becomes the body of `async def main()`.
3. Otherwise the statements from the first of them to the end of the file become its body.

Names that are assigned in a moved part stay global where something outside of it refers to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from aioexec.porting.coroutines import Site
from aioexec.porting.findings import Finding
from aioexec.porting.imports import add_import
from aioexec.porting.scopes import FunctionNode, Module
from aioexec.porting.source import Source

_LOOPS = ast.For | ast.While | ast.comprehension


def rewrite_module_level(
    text: str, path: str, imported: set[str], *, is_imported: bool
) -> tuple[str, list[Finding]]:
    """Move what awaits outside of functions into one; returns the text, and what has to be done by hand.

    Args:
        text: a file in which everything else was ported, so that `await` and the like may stand outside of functions.
        imported: names that other files import from this one.
        is_imported: whether other files import this one.
    """
    module = Module(Source(path, text))
    body = module.source.tree.body
    places = sorted({body.index(_top_statement(module, node)) for node in _awaiting(module)})
    if not places:
        return text, []
    first = body[places[0]]
    if len(places) == 1 and is_main_block(first):
        findings = _move_block(module, first, imported)
    else:
        findings = _move_rest(module, places[0], imported)
        if is_imported:
            message = "this runs when another file imports the module, perhaps in a running event loop: await it there instead"
            findings.append(Finding(path, first.lineno, message))
    add_import(module.source, "asyncio")
    return module.source.edits.apply(), findings


def _awaiting(module: Module) -> Iterator[ast.AST]:
    for node, unit in module.unit_of.items():
        awaits = isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor)
        if unit.is_module and (awaits or (isinstance(node, ast.comprehension) and node.is_async)):
            yield node


def single_call(module: Module, awaited: Sequence[Site]) -> Site | None:
    """The site of case 1, if the file is one."""
    if len(awaited) != 1:
        return None
    site = awaited[0]
    is_call = isinstance(site.node, ast.Call) and bool(site.units) and not site.guessed
    in_loop = any(isinstance(each, _LOOPS) for each in module.source.ancestors(site.node))
    return site if is_call and not in_loop else None


def is_main_block(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":` with a block on lines of its own."""
    return (
        isinstance(statement, ast.If)
        and ast.unparse(statement.test) in ("__name__ == '__main__'", "'__main__' == __name__")
        and not statement.orelse
        and statement.body[0].lineno > statement.lineno
    )


def _top_statement(module: Module, node: ast.AST) -> ast.stmt:
    found: Any = node
    while module.source.parents[found] is not module.source.tree:
        found = module.source.parents[found]
    assert isinstance(found, ast.stmt)
    return found


def _move_block(module: Module, block: ast.stmt, imported: set[str]) -> list[Finding]:
    """Case 2: the block is indented already as the body of a function is."""
    source, newline = module.source, module.source.newline
    assert isinstance(block, ast.If)
    name = _free_name(module)
    start = source.start(block)
    end = source.line_end(block.lineno)
    comment = source.text[source.text.index(":", source.end(block.test)) + 1 : end]
    indentation = source.indentation(block.body[0].lineno)
    header = f"async def {name}():{comment}{_declaration(module, block.body, imported, indentation)}"
    source.edits.replace(start, end, header)
    unit = source.unit()
    call = f"{newline}{newline}if {ast.unparse(block.test)}:{newline}{unit}asyncio.run({name}()){newline}"
    _insert_line(module, source.block_end(block), call.replace("'", '"'))
    return []


def _move_rest(module: Module, place: int, imported: set[str]) -> list[Finding]:
    """Case 3."""
    source, newline = module.source, module.source.newline
    moved = source.tree.body[place:]
    name = _free_name(module)
    first = source.first_line(moved[0])
    declaration = _declaration(module, moved, imported, source.unit())
    gap = newline * (2 - min(2, _blank_lines_before(module, first)))
    header = f"{gap}async def {name}():{newline}{declaration}"
    source.edits.insert(source.line_start(first), header, before=True)
    source.indent(first, source.lines)
    _insert_line(module, source.lines, f"{newline}{newline}asyncio.run({name}()){newline}")
    return [
        Finding(
            source.path, node.lineno, "move `import *` out of the function: Python has it at the top only"
        )
        for statement in moved
        for node in ast.walk(statement)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
    ]


def _blank_lines_before(module: Module, line: int) -> int:
    source, count = module.source, 0
    while line - count > 1:
        start = source.line_start(line - count - 1)
        if source.text[start : source.line_start(line - count)].strip():
            return count
        count += 1
    return 2


def _insert_line(module: Module, line: int, text: str) -> None:
    source = module.source
    end = source.line_end(line)
    missing = "" if source.text[:end].endswith(("\n", "\r")) else source.newline
    source.edits.insert(end, missing + text)


def _free_name(module: Module) -> str:
    names = module.scope.names
    return next(
        name for name in ("main", "run_main", "run_program", "_main", "_run_main") if name not in names
    )


def _declaration(module: Module, moved: Sequence[ast.stmt], imported: set[str], indentation: str) -> str:
    """The `global` statement of a moved part, as a line; "" if it needs none."""
    bound = set(_bound(module, moved))
    inside = {node for statement in moved for node in ast.walk(statement)}
    needed = bound & imported
    for node, scope in module.scope_of.items():
        if isinstance(node, ast.Name) and node.id in bound and node not in inside:
            is_global = scope.defining(node.id) is module.scope
            is_earlier_binding = scope is module.scope and not isinstance(node.ctx, ast.Load)
            if is_global and (scope is not module.scope or is_earlier_binding):
                needed.add(node.id)
        elif isinstance(node, ast.Global):
            needed |= bound & set(node.names)
    return f"{indentation}global {', '.join(sorted(needed))}{module.source.newline}" if needed else ""


def _bound(module: Module, moved: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that the moved statements bind in the module's scope."""
    for statement in moved:
        for node in ast.walk(statement):
            if module.scope_of.get(node) is not module.scope:
                continue
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id
            elif isinstance(node, FunctionNode | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.alias):
                yield node.asname or node.name.partition(".")[0]
