"""Parses Python text, in one thread at a time.

CPython counts the depth of a syntax tree that it makes in a variable of the interpreter, not of the thread: if another thread
parses meanwhile, either may fail with "SystemError: AST constructor recursion depth mismatch" (seen in 3.11.7, about once in
5,000 runs of three threads that collect garbage all the time). Planner and workers translate kernels at the same time.
"""

from __future__ import annotations

import ast
import threading

_parsing = threading.Lock()


def parse(text: str) -> ast.Module:
    """`ast.parse`, for any thread.

    Raises:
        SyntaxError: it is no Python.
    """
    with _parsing:
        return ast.parse(text)
