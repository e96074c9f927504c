"""Rewrites `with` statements; those that mix both kinds of context managers are split into nested ones."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Set

from aioexec.porting.findings import Finding
from aioexec.porting.source import Source

_BETWEEN = re.compile(r"(\s*\)*)\s*,\s*(?:\\\s*)?(\(*)")


def rewrite_with(
    source: Source, statement: ast.With, entered: Set[ast.AST], levels_of: dict[ast.AST, int]
) -> list[Finding]:
    """Make those items of a statement asynchronous that have to be; returns what has to be done by hand.

    Args:
        levels_of: the levels by which the bodies of statements are indented further; those around this one are in it, and it is
            added if it is split.
    """
    items = statement.items
    start = source.start(statement)
    if all(item in entered for item in items):
        source.edits.insert(start, "async ")
        return []
    places = [
        (source.end(before.optional_vars or before.context_expr), source.start(after.context_expr))
        for before, after in itertools.pairwise(items)
    ]
    between = [_BETWEEN.fullmatch(source.text[end:begin]) for end, begin in places]
    if not all(between) or source.text[start + 4 : source.start(items[0].context_expr)].strip():
        message = "split this statement: `async with` for what is awaited, `with` for the rest"
        return [Finding(source.path, statement.lineno, message)]
    outer = sum(levels_of.get(each, 0) for each in source.ancestors(statement))
    indentation, levels = source.indentation(statement.lineno) + source.unit() * outer, 0
    if items[0] in entered:
        source.edits.insert(start, "async ")
    for number, (end, begin) in enumerate(places):
        was, now = items[number] in entered, items[number + 1] in entered
        found = between[number]
        if was is not now and found is not None:
            levels += 1
            indent = source.newline + indentation + source.unit() * levels
            keyword = "async with" if now else "with"
            source.edits.replace(end, begin, f"{found.group(1).rstrip()}:{indent}{keyword} {found.group(2)}")
    levels_of[statement] = levels
    if statement.body[0].lineno > statement.lineno:
        for _ in range(levels):
            source.indent(_first_line(source, statement), source.block_end(statement))
    return []


def _first_line(source: Source, statement: ast.With) -> int:
    """The line behind the header; comments may come before the first statement."""
    last = statement.items[-1]
    end = source.end(last.optional_vars or last.context_expr)
    return source.line_of(source.text.index(":", end)) + 1
