"""The scopes of the default graph, as functions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from aioexec.graph.apply import graph_of
from aioexec.graph.graph import get_default_graph


@contextlib.contextmanager
def name_scope(
    name: str | None, default_name: str | None = None, values: Sequence[Any] | None = None
) -> Iterator[str]:
    """Put new nodes under `name`, or `default_name` if it is None; in the graph of `values`, or the default graph."""
    chosen = default_name if name is None else name
    with graph_of(values or ()).as_default() as graph, graph.name_scope(chosen) as scope:
        yield scope


@contextlib.contextmanager
def op_scope(values: Sequence[Any], name: str | None, default_name: str | None = None) -> Iterator[str]:
    """`name_scope` with TensorFlow's older order of arguments."""
    with name_scope(name, default_name, values) as scope:
        yield scope


def device(device_name_or_function: Any) -> contextlib.AbstractContextManager[None]:
    """Set the device of new nodes of the default graph."""
    return get_default_graph().device(device_name_or_function)


def colocate_with(op: Any, ignore_existing: bool = False) -> contextlib.AbstractContextManager[None]:
    """Put new nodes of the default graph on the device of `op`."""
    return get_default_graph().colocate_with(op, ignore_existing)


def control_dependencies(control_inputs: Any) -> contextlib.AbstractContextManager[None]:
    """Make new nodes of the default graph depend on `control_inputs`; None clears the enclosing scopes."""
    return get_default_graph().control_dependencies(control_inputs)


def init_scope() -> contextlib.AbstractContextManager[None]:
    """Put new nodes outside of the conditionals, loops and control dependencies of the default graph."""
    return get_default_graph().control_dependencies(None)


def container(container_name: str) -> contextlib.AbstractContextManager[str]:
    """Set the resource container of new stateful nodes of the default graph."""
    return get_default_graph().container(container_name)


def add_to_collection(name: Any, value: Any) -> None:
    """Put `value` into a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Put `value` into several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """The values of a collection of the default graph; with `scope`, those whose name starts with a match of it."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: Any) -> list[Any]:
    """A collection of the default graph itself, not a copy."""
    return get_default_graph().get_collection_ref(key)
