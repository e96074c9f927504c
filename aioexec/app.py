"""`run`, the entry point of programs, under the name of `tf.app`; `flags` is there too, as in TensorFlow 1.x."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from aioexec import flags as flags


def run(main: Callable[..., Any] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Parse the flags, call `main(argv)` with what is left of the command line, and exit with its result.

    `main` may be a coroutine function: it runs in an event loop of its own (`asyncio.run`). Unknown flags are left in `argv`.
    A wrong value of a flag ends the program with a message and status 1, and `--help` shows the flags, by absl; a program that
    has defined no flags needs no absl.

    Args:
        main: a function or coroutine function of one argument; by default `main` of the module `__main__`.
        argv: the command line with the name of the program; by default `sys.argv`.

    Raises:
        SystemExit: always; with the result of `main` as its code.
    """
    function = main or sys.modules["__main__"].main
    given = list(sys.argv if argv is None else argv)

    def call(rest: list[str]) -> Any:
        result = function(rest)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    if "absl.flags" not in sys.modules:  # no flags can have been defined
        sys.exit(call(given))
    importlib.import_module("absl.app").run(call, argv=given, flags_parser=_parse)
    raise AssertionError("absl.app.run has returned")


def _parse(argv: list[str]) -> list[str]:
    """Parse the known flags; return the program's name and what is left."""
    return list(flags.FLAGS(argv, known_only=True))
