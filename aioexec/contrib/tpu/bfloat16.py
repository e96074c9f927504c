"""Variables of float32 in a model that computes in bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aioexec import dtypes
from aioexec.ops.math.cast import cast
from aioexec.ops.state.variable_scope import VariableScope, variable_scope


@contextmanager
def bfloat16_scope(name: str = "") -> Iterator[VariableScope]:
    """Open a variable scope in which variables asked for as bfloat16 are kept as float32, and read as bfloat16.

    Args:
        name: of the scope; by default the names of variables stay as they are.
    """
    with variable_scope(name, custom_getter=_as_float32) as scope:
        yield scope


def _as_float32(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if kwargs["dtype"] != dtypes.bfloat16:
        return getter(*args, **kwargs)
    kwargs["dtype"] = dtypes.float32
    return cast(getter(*args, **kwargs), dtypes.bfloat16)
