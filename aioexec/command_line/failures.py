"""The exit status of a subcommand: 0 for success, 1 for a failure, which is one line on the standard error output.

`--debug` shows the traceback instead. A usage error is argparse's: status 2. An interrupt is 130, as shells have it.
"""

import os
import sys
from collections.abc import Callable

from aioexec.errors import OpError

FAILED = 1
INTERRUPTED = 130


def exit_status(command: str, run: Callable[[], int], *, debug: bool = False) -> int:
    """Call `run` and return its status; for an exception print one line, and return 1.

    Args:
        command: the subcommand's name, for the line.
        debug: let exceptions pass.
    """
    try:
        status = run()
        sys.stdout.flush()  # a failure to write is then one of the command's
        return status
    except KeyboardInterrupt:
        if debug:
            raise
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it at exit
        return FAILED
    except Exception as error:
        if debug:
            raise
        print(f"aioexec {command}: {one_line(error)}", file=sys.stderr)
        return FAILED


def one_line(error: Exception) -> str:
    """The text of an error in one line; for one that is not about the input, with the option that shows its traceback."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = error.message if isinstance(error, OpError) else str(error)
    line = "; ".join(part.strip() for part in text.splitlines() if part.strip())
    hint = "" if isinstance(error, OpError) else " (--debug shows where)"
    return f"{type(error).__name__}: {line}{hint}"
