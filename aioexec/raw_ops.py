"""Every op under the names of `tf.raw_ops`: `raw_ops.AddV2(x=1, y=2)` makes one node; inputs and attributes are keywords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.errors import GraphTypeError
from aioexec.graph import registry
from aioexec.graph.apply import apply_any_op

_REDUCTIONS: Final = ("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
_RENAMED: Final = {
    **{op: {"axis": "reduction_indices"} for op in _REDUCTIONS},
    "ExpandDims": {"axis": "dim"},
    "Select": {"x": "t", "y": "e"},
    "Split": {"axis": "split_dim"},
    "SplitV": {"axis": "split_dim"},
    "Squeeze": {"axis": "squeeze_dims"},
    "Where": {"condition": "input"},
}
"""Arguments that TensorFlow's Python interface renames, by op: the name there, and that in the op's definition."""


def renamed_arguments(op: str) -> dict[str, str]:
    """The arguments of an op that have another name here: the name here, and that in the op's definition."""
    return _RENAMED.get(op, {})


def __dir__() -> list[str]:
    return sorted(row.name for row in registry.registered() if not row.name.startswith("_"))


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function that makes a node of an op.

    Raises:
        AttributeError: there is no such op.
    """
    if name.startswith("_") or not registry.is_registered(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: there is no such op")
    renamed = renamed_arguments(name)
    inputs = [each.name for each in registry.lookup(name).definition.inputs]

    def make(**given: Any) -> Any:
        own = {renamed.get(argument, argument): value for argument, value in given.items()}
        missing = [each for each in inputs if each not in own]
        if missing:
            raise GraphTypeError(f"{name}: missing inputs {missing}")
        operands = [own.pop(each) for each in inputs]
        return apply_any_op(name, *operands, **own)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Make a node of {name} and return its outputs. Inputs: {', '.join(inputs) or 'none'}."
    globals()[name] = make
    return make
