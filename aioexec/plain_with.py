"""The error of a `with` statement around an object that `async with` enters, which programs of TensorFlow 1.x have."""

from __future__ import annotations

import ast
import linecache
import os.path
import sys
from typing import NoReturn

from aioexec.errors import GraphTypeError


def refuse_plain_with(manager: object) -> NoReturn:
    """Raise the error for the `with` statement that called `__enter__` of `manager`, which calls this.

    Raises:
        GraphTypeError: always; it names the line, and what has to be written there.
    """
    frame = sys._getframe(2)
    file, line = frame.f_code.co_filename, frame.f_lineno
    written = linecache.getline(file, line, frame.f_globals).strip()
    name = type(manager).__name__
    change = _change(written)
    program = f"`aioexec port {os.path.basename(file)}`" if os.path.isfile(file) else "`aioexec port`"
    raise GraphTypeError(
        f"{name}: it is entered by `async with`. At {file}:{line} {change}, in an `async def` function that asyncio.run runs, "
        f"and await its methods. {program} rewrites a whole program so; code that cannot await has aioexec.blocking"
    )


def _change(written: str) -> str:
    """What to write instead of a line that begins a `with` statement."""
    try:
        (statement,) = ast.parse(written + " pass" if written.endswith(":") else written).body
    except (SyntaxError, ValueError):
        return (
            "write `async with` for `with`"  # the statement is on several lines, or the source is not there
        )
    if not isinstance(statement, ast.With):
        return "write `async with` for `with`"
    if len(statement.items) > 1:
        return f"give it an `async with` statement of its own, inside or around `{written}`"
    return f"write `async {written}` for `{written}`"
