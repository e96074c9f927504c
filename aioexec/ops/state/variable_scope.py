"""Variable scopes: names, sharing and defaults of the variables that `get_variable` creates."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import graph_of
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.state.partitioned_variables import Partitioner
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_options import VARIABLE_SCOPES
from aioexec.ops.state.variable_store import AUTO_REUSE as AUTO_REUSE, Request, VariableStore

Getter = Callable[..., Any]


def no_regularizer(variable: Any) -> None:
    """A regularizer without effect, to override that of the scope."""


class VariableScope:
    """The name prefix and defaults of variables; `reuse` is False, True or AUTO_REUSE.

    A scope inherits from the enclosing scope when it is entered; setters affect later calls.
    """

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Getter | None = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        self.name = name
        self.reuse = reuse
        self.initializer = initializer
        self.regularizer = regularizer
        self.caching_device = caching_device
        self.partitioner = partitioner
        self.custom_getter = custom_getter
        self.original_name_scope = name_scope
        self.dtype = dtypes.as_dtype(dtype)
        self.use_resource = use_resource
        self.constraint = constraint

    def reuse_variables(self) -> None:
        """From now on, `get_variable` only returns existing variables."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        self.regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        self.caching_device = caching_device

    def set_partitioner(self, partitioner: Partitioner | None) -> None:
        self.partitioner = partitioner

    def set_custom_getter(self, custom_getter: Getter | None) -> None:
        self.custom_getter = custom_getter

    def set_dtype(self, dtype: Any) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def set_use_resource(self, use_resource: bool | None) -> None:
        self.use_resource = use_resource

    def set_constraint(self, constraint: Any) -> None:
        self.constraint = constraint

    def get_collection(self, name: Any) -> list[Any]:
        """Return the values of a collection whose names are in this scope."""
        return get_default_graph().get_collection(name, f"{self.name}/" if self.name else None)

    def trainable_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Getter | None = None,
        constraint: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
    ) -> Any:
        """Get or create a variable in this scope; see `get_variable`."""
        if dtype is not None and initializer is not None and not callable(initializer):
            initializer = _in_dtype(name, initializer, dtypes.as_dtype(dtype).base_dtype)
        arguments = {
            "name": f"{self.name}/{name}" if self.name else name,
            "shape": shape,
            "dtype": self.dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype,
            "initializer": self.initializer if initializer is None else initializer,
            "regularizer": self.regularizer if regularizer is None else regularizer,
            "reuse": self.reuse if reuse is None else reuse,
            "trainable": trainable,
            "collections": collections,
            "caching_device": self.caching_device if caching_device is None else caching_device,
            "partitioner": self.partitioner if partitioner is None else partitioner,
            "validate_shape": validate_shape,
            "use_resource": self.use_resource if use_resource is None else use_resource,
            "constraint": self.constraint if constraint is None else constraint,
            "synchronization": synchronization,
            "aggregation": aggregation,
        }
        with get_default_graph().name_scope(None):
            custom_getter = self.custom_getter if custom_getter is None else custom_getter
            if custom_getter is not None:
                return custom_getter(_get, **arguments)
            return _get(**arguments)

    def inner(self, name: str, reuse: Any, name_scope: str, **changes: Any) -> VariableScope:
        """Return a copy of this scope with the arguments that are not None replaced."""
        kept = {key: getattr(self, key) if value is None else value for key, value in changes.items()}
        getter = changes.get("custom_getter")
        if getter is not None and self.custom_getter is not None:
            kept["custom_getter"] = _nested(getter, self.custom_getter)
        return VariableScope(reuse or self.reuse, name, name_scope=name_scope, **kept)


def _in_dtype(name: str, value: Any, dtype: dtypes.DType) -> Any:
    """Return an initial value after checking its dtype."""
    if not isinstance(value, Tensor | Variable):
        return dtypes.to_array(value, dtype)
    if value.dtype.base_dtype != dtype:
        raise GraphValueError(
            f"variable {name!r}: the initializer is {value.dtype.base_dtype.name}, but dtype says {dtype.name}"
        )
    return value


def _nested(inner: Getter, outer: Getter) -> Getter:
    """Return a getter that calls `inner`, whose own getter is `outer`."""

    def getter(get: Getter, *args: Any, **kwargs: Any) -> Any:
        return inner(functools.partial(outer, get), *args, **kwargs)

    return getter


def _get(
    name: str,
    shape: Any = None,
    dtype: Any = dtypes.float32,
    initializer: Any = None,
    regularizer: Any = None,
    reuse: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
    **ignored: Any,
) -> Any:
    """The getter that custom getters call: gets the variable itself."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    request = Request(
        name,
        shape,
        dtype,
        initializer,
        regularizer,
        reuse,
        trainable,
        collections,
        caching_device,
        validate_shape,
        use_resource,
        constraint,
        partitioner,
        synchronization=synchronization,
        aggregation=aggregation,
    )
    return VariableStore.of(get_default_graph()).get(request)


def get_variable_scope() -> VariableScope:
    """The current variable scope of the default graph."""
    held = get_default_graph().get_collection_ref(VARIABLE_SCOPES)
    if not held:
        held.append(VariableScope(reuse=False))
    scope: VariableScope = held[0]
    return scope


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Getter | None = None,
    constraint: Any = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """Get or create a variable in the current variable scope.

    Args:
        shape: shape of the variable, fully defined unless the initializer is a value or a function without arguments.
        partitioner: function that returns the number of partitions along each dimension; the result is a PartitionedVariable.
        initializer: an initializer or its class, a value, or a function; by default that of the scope, else Glorot's
            uniform for floating dtypes and zeros for others.
        regularizer: a function of the variable, whose result is added to the collection of regularization losses.
        custom_getter: `custom_getter(getter, name, **kwargs)` is called instead, and may call `getter`.

    Raises:
        GraphValueError: the variable exists but `reuse` is False, is missing but `reuse` is True, or has another shape or
            dtype.
    """
    return get_variable_scope().get_variable(**locals())  # all arguments, by their names


def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = False,
    collections: Any = None,
    **kwargs: Any,
) -> Any:
    """As `get_variable`, for a variable in LOCAL_VARIABLES that is not trainable."""
    collections = [*(collections or ()), GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, shape, dtype, initializer, regularizer, False, collections, **kwargs)


@contextlib.contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Sequence[Any] | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Getter | None = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Open a variable scope: a name prefix and defaults for variables; None inherits.

    Args:
        name_or_scope: a name within the current scope, or a scope to enter again.
        default_name: name if `name_or_scope` is None, made unique.
        reuse: True: variables must exist. AUTO_REUSE: missing variables are created.
        auxiliary_name_scope: open a name scope as well.

    Raises:
        GraphTypeError: the argument is neither a name nor a scope.
        GraphValueError: `reuse` is given without a name.
    """
    if name_or_scope is None and default_name is None:
        raise GraphTypeError("variable_scope: name_or_scope is required if there is no default_name")
    if not isinstance(name_or_scope, str | VariableScope | None):
        raise GraphTypeError(
            f"variable_scope: name_or_scope must be a str or VariableScope, got {name_or_scope!r}"
        )
    if name_or_scope is None and reuse:
        raise GraphValueError(f"variable_scope: reuse={reuse!r} cannot be used without a name_or_scope")
    with graph_of(values or ()).as_default() as graph:
        name = _name_of(name_or_scope, default_name)
        outer = graph.get_name_scope()
        opened: contextlib.AbstractContextManager[str] = contextlib.nullcontext(f"{outer}/" if outer else "")
        if auxiliary_name_scope and name:
            opened = graph.name_scope(name)
        with opened as name_scope:
            target = _unique(graph, name) if name_or_scope is None else name_or_scope
            changes = {
                "initializer": initializer,
                "regularizer": regularizer,
                "caching_device": caching_device,
                "partitioner": partitioner,
                "custom_getter": custom_getter,
                "dtype": dtype,
                "use_resource": use_resource,
                "constraint": constraint,
            }
            with _entered(graph, target, reuse or None, name_scope, changes) as scope:
                yield scope


def _name_of(name_or_scope: str | VariableScope | None, default_name: str | None) -> str:
    """Return the name scope that corresponds to a variable scope."""
    if isinstance(name_or_scope, VariableScope):
        return name_or_scope.name.rpartition("/")[2]
    return (default_name or "") if name_or_scope is None else name_or_scope


def _unique(graph: Graph, name: str) -> str:
    """Return `name`, with _1, _2, … appended if the current scope has opened a scope of that name."""
    counts = VariableStore.of(graph).scope_counts
    outer = get_variable_scope().name
    prefix = f"{outer}/{name}" if outer else name
    if not counts.get(prefix):
        return name
    number = 1
    while counts.get(f"{prefix}_{number}"):
        number += 1
    return f"{name}_{number}"


@contextlib.contextmanager
def _entered(
    graph: Graph, target: str | VariableScope, reuse: Any, name_scope: str, changes: dict[str, Any]
) -> Iterator[VariableScope]:
    """Make a scope the current one; re-entering restores the counts of its subscopes."""
    store, old = VariableStore.of(graph), get_variable_scope()
    counts = dict(store.scope_counts)
    if isinstance(target, VariableScope):
        scope = target.inner(target.name, reuse, target.original_name_scope, **changes)
    else:
        name = f"{old.name}/{target}" if old.name else target
        scope = old.inner(name, reuse, name_scope or target, **changes)
    held = graph.get_collection_ref(VARIABLE_SCOPES)
    store.open_scope(scope.name)
    held[0] = scope
    try:
        yield scope
    finally:
        held[0] = old
        store.close_subscopes(scope.name)
        if isinstance(target, VariableScope):
            store.scope_counts = counts


def create_partitioned_variables(
    shape: Sequence[int],
    slicing: Sequence[int],
    initializer: Any,
    dtype: Any = dtypes.float32,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """Create the partitions of a variable; `slicing` is the number of partitions along each dimension.

    Raises:
        GraphValueError: shape and slicing differ in length.
    """
    if len(shape) != len(slicing) or not shape:
        raise GraphValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the same length, at least 1: "
            f"shape: {shape}, slicing: {slicing}"
        )
    with variable_scope(name, "PartitionedVariable", reuse=reuse) as scope:
        whole = scope.get_variable(
            "",
            shape,
            dtype,
            initializer,
            trainable=trainable,
            collections=collections,
            partitioner=lambda **ignored: list(slicing),
        )
    return list(whole)


def variable_op_scope(
    values: Sequence[Any] | None,
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Getter | None = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> contextlib.AbstractContextManager[VariableScope]:
    """Open a variable scope; an old form of `variable_scope(name_or_scope, default_name, values)`."""
    return variable_scope(
        name_or_scope,
        default_name,
        values,
        initializer,
        regularizer,
        caching_device,
        partitioner,
        custom_getter,
        reuse,
        dtype,
        use_resource,
        constraint,
    )
