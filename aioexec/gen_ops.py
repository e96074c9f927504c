"""Every op under the names of `tensorflow.python.ops.gen_*_ops`: `gen_ops.add_v2(1, 2)` makes one node.

Arguments are the inputs of the op, then its attributes: those that must be given, those with a default, and `name`. Names begin
with an underscore or not, as both were in use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from inspect import Parameter, Signature
from typing import Any

from aioexec import raw_ops
from aioexec.graph import registry


@cache
def _ops() -> dict[str, str]:
    """The ops by their names in lower case."""
    return {row.name.lower(): row.name for row in registry.registered() if not row.name.startswith("_")}


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function that makes a node of an op.

    Raises:
        AttributeError: there is no such op.
    """
    op = _ops().get(name.replace("_", "")) if not name.startswith("__") and name.islower() else None
    if op is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: there is no such op")
    make: Callable[..., Any] = getattr(raw_ops, op)
    signature = Signature(list(_parameters(op)))

    def make_node(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        return make(**{key: value for key, value in bound.arguments.items() if value is not None})

    made: Any = make_node
    made.__name__ = made.__qualname__ = name
    made.__doc__ = make.__doc__
    made.__signature__ = signature
    globals()[name] = made
    return make_node


def _parameters(op: str) -> Iterator[Parameter]:
    definition = registry.lookup(op).definition
    public = {own: renamed for renamed, own in raw_ops.renamed_arguments(op).items()}
    for argument in definition.inputs:
        yield Parameter(public.get(argument.name, argument.name), Parameter.POSITIONAL_OR_KEYWORD)
    attrs = [each for each in definition.attrs if each.name not in definition.inferred_attrs]
    for attr in sorted(attrs, key=lambda each: not each.required):
        default = inspect.Parameter.empty if attr.required else attr.default
        yield Parameter(public.get(attr.name, attr.name), Parameter.POSITIONAL_OR_KEYWORD, default=default)
    yield Parameter("name", Parameter.POSITIONAL_OR_KEYWORD, default=None)
