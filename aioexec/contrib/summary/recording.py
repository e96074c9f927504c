"""When summaries are recorded: never, unless a block says so. The choice belongs to the running context, a task or a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final

from aioexec import dtypes
from aioexec.graph.convert import constant
from aioexec.graph.graph import get_default_graph
from aioexec.ops.math.arithmetic import mod
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal
from aioexec.train.global_steps import get_or_create_global_step

_should_record: Final[ContextVar[Callable[[], Any]]] = ContextVar("should_record", default=lambda: False)
"""Returns a bool or a boolean scalar tensor."""


def should_record_summaries() -> Any:
    """Return whether summaries are recorded here: a bool or a boolean scalar tensor."""
    return _should_record.get()()


@contextlib.contextmanager
def _recorded(condition: Callable[[], Any]) -> Iterator[None]:
    token = _should_record.set(condition)
    try:
        yield
    finally:
        _should_record.reset(token)


def always_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Record the summaries that are made in a block, in each step."""
    return _recorded(lambda: True)


def never_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Do not record the summaries that are made in a block."""
    return _recorded(lambda: False)


def record_summaries_every_n_global_steps(
    n: int, global_step: Any = None
) -> contextlib.AbstractContextManager[None]:
    """Record the summaries that are made in a block, in the steps whose number is a multiple of `n`."""
    step = get_or_create_global_step() if global_step is None else global_step

    def condition() -> Any:
        with get_default_graph().device("cpu:0"):
            return equal(mod(cast(step, dtypes.int64), constant(n, dtypes.int64)), 0)

    return _recorded(condition)
