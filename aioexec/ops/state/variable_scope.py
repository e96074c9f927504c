"""Variable scopes: names, sharing and defaults for the variables that `get_variable` makes."""

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
from aioexec.ops.state.variable_kinds import VARIABLE_SCOPES
from aioexec.ops.state.variable_store import AUTO_REUSE as AUTO_REUSE, Request, VariableStore

Getter = Callable[..., Any]


def no_regularizer(variable: Any) -> None:
    """A regularizer that does nothing, where the one of the scope is not wanted."""


class VariableScope:
    """Name and defaults for new variables; `reuse` is False, True or AUTO_REUSE.

    A scope inherits from the one around it when it is entered; setters change it for what comes after.
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
        """From now on, variables must exist."""
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
        """The values of a collection whose names lie in this scope."""
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
        """The variable of this name in the scope; see `get_variable`."""
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
        """A scope that has everything from this one but what is given and not None."""
        kept = {key: getattr(self, key) if value is None else value for key, value in changes.items()}
        getter = changes.get("custom_getter")
        if getter is not None and self.custom_getter is not None:
            kept["custom_getter"] = _nested(getter, self.custom_getter)
        return VariableScope(reuse or self.reuse, name, name_scope=name_scope, **kept)


def _in_dtype(name: str, value: Any, dtype: dtypes.DType) -> Any:
    """An initial value in the dtype asked for."""
    if not isinstance(value, Tensor | Variable):
        return dtypes.to_array(value, dtype)
    if value.dtype.base_dtype != dtype:
        raise GraphValueError(
            f"variable {name!r}: the initializer is {value.dtype.base_dtype.name}, but dtype says {dtype.name}"
        )
    return value


def _nested(inner: Getter, outer: Getter) -> Getter:
    """A getter that has `inner` call `outer` where it would get the variable."""

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
    """What a custom getter gets to call: the variable itself."""
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
    """The variable of this name in the current variable scope: made, or found again where the scope reuses.

    Args:
        shape: fully defined for a new variable, unless the initializer is a value or a function without arguments.
        partitioner: says in how many parts along which dimension to keep it; the result is a PartitionedVariable.
        initializer: an initializer or its class, a value, or a function; by default that of the scope, else Glorot's
            uniform for floating dtypes and zeros for others.
        regularizer: a function of the variable; what it returns goes to the collection of regularization losses.
        custom_getter: `custom_getter(getter, name, **the rest)` is called instead, and may call `getter`.

    Raises:
        GraphValueError: the variable exists though it must not, does not exist though it must, or is of another shape or dtype.
    """
    return get_variable_scope().get_variable(
        name,
        shape,
        dtype,
        initializer,
        regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


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
    """As `get_variable`, for a variable that is listed as local and not trainable."""
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
    """Put variables under a name, with defaults for them; what is None is inherited.

    Args:
        name_or_scope: a name below the current scope, or a scope to enter again.
        default_name: used if `name_or_scope` is None, and made unique.
        reuse: True: variables must exist. AUTO_REUSE: they are made where they do not exist.
        auxiliary_name_scope: open a name scope as well.

    Raises:
        GraphTypeError: neither name nor scope.
        GraphValueError: reuse without a name.
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
    """The name of the name scope that goes with a variable scope."""
    if isinstance(name_or_scope, VariableScope):
        return name_or_scope.name.rpartition("/")[2]
    return (default_name or "") if name_or_scope is None else name_or_scope


def _unique(graph: Graph, name: str) -> str:
    """`name`, with _1, _2, … appended if a variable scope of that name was opened in the current one."""
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
    """Make a scope the current one; one entered again leaves the count of scopes as it was."""
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
    """The parts of a new variable, divided as `slicing` says: the number of parts along each dimension.

    Raises:
        GraphValueError: shape and slicing do not fit each other.
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
