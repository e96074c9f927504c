"""The store of a graph's variables by name, from which `get_variable` creates and reuses them."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any, Final

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state.initializers import GlorotUniform, Zeros
from aioexec.ops.state.partitioned_variables import (
    PartitionedVariable,
    Partitioner,
    PartitionInfo,
    checked_partitions,
    slices,
)
from aioexec.ops.state.save_slices import SaveSliceInfo
from aioexec.ops.state.variable import Variable
from aioexec.shapes import Dims


class ReuseMode(enum.Enum):
    """The third mode of `get_variable`, besides True (must exist) and False (must not exist)."""

    AUTO_REUSE = 1


AUTO_REUSE: Final = ReuseMode.AUTO_REUSE
"""Reuse the variable if it exists, else create it."""

_STORE: Final = ("__variable_store",)


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of `get_variable` with the defaults of the scope applied."""

    name: str
    shape: Any
    dtype: DType
    initializer: Any
    regularizer: Callable[[Any], Any] | None
    reuse: Any
    trainable: bool | None
    collections: Any
    caching_device: Any
    validate_shape: bool
    use_resource: bool | None
    constraint: Callable[[Any], Any] | None
    partitioner: Partitioner | None = None
    partition_info: PartitionInfo | None = None  # of the requested partition
    synchronization: Any = None
    aggregation: Any = None


@dataclass(slots=True)
class VariableStore:
    """The variables that `get_variable` created in one graph.

    `partitioned` holds partitioned variables, whose partitions are in `variables` too; `scope_counts` counts how often a scope
    of a name was opened, to make default names unique.
    """

    variables: dict[str, Any] = field(default_factory=dict)
    partitioned: dict[str, PartitionedVariable] = field(default_factory=dict)
    scope_counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> VariableStore:
        held = graph.get_collection_ref(_STORE)
        if not held:
            held.append(cls())
        store: VariableStore = held[0]
        return store

    # Scopes

    def open_scope(self, name: str) -> None:
        self.scope_counts[name] = self.scope_counts.get(name, 0) + 1

    def close_subscopes(self, name: str) -> None:
        """Reset the counts of scopes below `name`."""
        for other in self.scope_counts:
            if not name or other.startswith(f"{name}/"):
                self.scope_counts[other] = 0

    # Variables

    def get(self, request: Request) -> Any:
        """Get or create the variable of that name, partitioned if requested."""
        is_scalar = isinstance(request.shape, list | tuple) and not request.shape
        if request.partitioner is not None and not is_scalar:
            return self._get_partitioned(request)
        if request.reuse is True and request.name in self.partitioned:
            return _checked_partitioned(request, self.partitioned[request.name], None)
        if f"{request.name}/part_0" in self.variables:
            raise GraphValueError(
                f"No partitioner was provided, but a partitioned version of the variable was found: {request.name}/part_0"
            )
        return self._get_whole(request)

    def _get_whole(self, request: Request) -> Any:
        from_value = request.initializer is not None and not callable(request.initializer)
        if from_value and request.shape is not None:
            raise GraphValueError(
                f"variable {request.name!r}: the initializer is a value, so its shape is the variable's; "
                f"shape must be None, got {request.shape!r}"
            )
        dims = shapes.as_dims(request.shape)
        found = self.variables.get(request.name)
        if found is not None:
            _check_shared(request, found, dims)
            return found
        if request.reuse is True:
            raise GraphValueError(
                f"Variable {request.name} does not exist, or was not created with get_variable(); "
                f"with reuse=AUTO_REUSE it would be created"
            )
        if not from_value and request.initializer is None and not shapes.is_fully_defined(dims):
            raise _unknown_shape(request, dims)
        variable = self.variables[request.name] = _make(request, dims)
        _regularize(request, variable)
        return variable

    def _get_partitioned(self, request: Request) -> PartitionedVariable:
        request = replace(request, name=request.name.rstrip("/"))  # a name that ends so refers to a scope
        if request.name in self.variables:
            raise GraphValueError(
                f"A partitioner was provided, but an unpartitioned version of the variable was found: {request.name}"
            )
        from_value = request.initializer is not None and not callable(request.initializer)
        value = convert_to_tensor(request.initializer, request.dtype) if from_value else None
        dims = shapes.as_dims(request.shape) if value is None else value.dims
        if dims is None or None in dims:
            raise _unknown_shape(request, dims)
        shape = [int(dim or 0) for dim in dims]
        assert request.partitioner is not None
        partitions = checked_partitions(request.partitioner, shape, request.dtype)
        found = self.partitioned.get(request.name)
        if found is not None:
            return _checked_partitioned(request, found, partitions)
        if request.reuse is True:
            raise GraphValueError(
                f"PartitionedVariable {request.name} does not exist, or was not created with get_variable(); "
                f"with reuse=AUTO_REUSE it would be created"
            )
        parts = [
            self._part(request, k, value, PartitionInfo(shape, offset), part)
            for k, (offset, part) in enumerate(slices(shape, partitions))
        ]
        whole = PartitionedVariable(request.name, shape, request.dtype, parts, partitions)
        self.partitioned[request.name] = whole
        return whole

    def _part(self, request: Request, k: int, value: Any, info: PartitionInfo, shape: list[int]) -> Variable:
        """Get or create partition k of this shape; `value` is the initial content of the whole variable, if given."""
        name = f"{request.name}/part_{k}"
        changes: dict[str, Any] = {"shape": shape, "partition_info": info}
        if value is not None:
            with get_default_graph().name_scope(f"{name}/PartitionedInitializer"):
                share = apply_op("Slice", value, info.var_offset, shape)
            changes = {"shape": None, "initializer": share, "dtype": share.dtype.base_dtype}
        part: Variable = self._get_whole(replace(request, name=name, partitioner=None, **changes))
        part._set_save_slice_info(SaveSliceInfo(request.name, info.full_shape, info.var_offset, shape))
        return part


def _checked_partitioned(
    request: Request, found: PartitionedVariable, partitions: list[int] | None
) -> PartitionedVariable:
    """Return an existing partitioned variable; `partitions` is the requested partitioning, None for any."""
    if request.reuse is False:
        raise GraphValueError(
            f"Partitioned variable with name {request.name} already exists; "
            f"to get it again set reuse=True or reuse=AUTO_REUSE in the variable scope"
        )
    if not shapes.compatible(shapes.as_dims(request.shape), found.dims):
        raise GraphValueError(
            f"Trying to reuse partitioned variable {request.name}, but specified shape {request.shape} "
            f"and found shape {found.shape}"
        )
    if request.dtype != found.dtype.base_dtype:
        raise GraphValueError(
            f"Trying to reuse partitioned variable {request.name}, but specified dtype {request.dtype.name} "
            f"and found dtype {found.dtype.name}"
        )
    if partitions is not None and partitions != found._get_partitions():
        raise GraphValueError(
            f"Trying to reuse partitioned variable {request.name}, but specified partitions {partitions} "
            f"and found partitions {found._get_partitions()}"
        )
    return found


def _check_shared(request: Request, found: Any, dims: Dims) -> None:
    if request.reuse is False:
        raise GraphValueError(
            f"Variable {request.name} already exists, disallowed; it was created at {found.op.created_at}; "
            f"to get it again set reuse=True or reuse=AUTO_REUSE in the variable scope"
        )
    if not shapes.compatible(dims, found.dims):
        raise GraphValueError(
            f"Trying to share variable {request.name}, but specified shape {shapes.describe(dims)} "
            f"and found shape {shapes.describe(found.dims)}"
        )
    if request.dtype != found.dtype.base_dtype:
        raise GraphValueError(
            f"Trying to share variable {request.name}, but specified dtype {request.dtype.name} "
            f"and found dtype {found.dtype.base_dtype.name}"
        )


def _make(request: Request, dims: Dims) -> Variable:
    initial_value, dtype = _initial_value(request, dims)
    return Variable(
        initial_value=initial_value,
        name=request.name,
        trainable=request.trainable,
        collections=request.collections,
        caching_device=request.caching_device,
        dtype=dtype,
        validate_shape=request.validate_shape,
        constraint=request.constraint,
        use_resource=request.use_resource,
        synchronization=request.synchronization,
        aggregation=request.aggregation,
    )


def _initial_value(request: Request, dims: Dims) -> tuple[Any, DType | None]:
    """Return the initial value or a function that creates it, and the dtype to convert it to."""
    initializer = request.initializer
    if initializer is None:
        initializer = _default_initializer(request)
    if not callable(initializer):
        return initializer, None
    if inspect.isclass(initializer):
        initializer = initializer()
    if shapes.is_fully_defined(dims):
        sizes = [int(dim or 0) for dim in dims or ()]
        return lambda: _call(initializer, sizes, request.dtype, request.partition_info), request.dtype
    if request.shape is None and _accepts_no_arguments(initializer):
        return initializer, None
    raise _unknown_shape(request, dims)


def _call(
    initializer: Callable[..., Any], sizes: list[int], dtype: DType, partition_info: PartitionInfo | None
) -> Any:
    """Call an initializer with the arguments it accepts: some take no dtype, some no partition_info."""
    try:
        parameters = inspect.signature(initializer).parameters
    except (TypeError, ValueError):
        return initializer(sizes, dtype=dtype)
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    given = {"dtype": dtype, "partition_info": partition_info}
    return initializer(
        sizes, **{name: value for name, value in given.items() if takes_all or name in parameters}
    )


def _accepts_no_arguments(function: Callable[..., Any]) -> bool:
    return all(
        parameter.default is not parameter.empty
        or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        for parameter in inspect.signature(function).parameters.values()
    )


def _default_initializer(request: Request) -> Any:
    if request.dtype.is_floating:
        return GlorotUniform()
    if request.dtype.is_integer or request.dtype == dtypes.bool_ or request.dtype == dtypes.string:
        return Zeros()
    raise GraphValueError(
        f"variable {request.name!r}: an initializer is required, there is none for {request.dtype.name} by default"
    )


def _unknown_shape(request: Request, dims: Dims) -> GraphValueError:
    return GraphValueError(
        f"Shape of a new variable ({request.name}) must be fully defined, but instead was {shapes.describe(dims)}"
    )


def _regularize(request: Request, variable: Any) -> None:
    """Add the result of the regularizer for the variable to the losses."""
    if request.regularizer is None:
        return
    graph = get_default_graph()
    with graph.colocate_with(variable.op), graph.name_scope(f"{request.name}/Regularizer/"):
        loss = request.regularizer(variable)
    if loss is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
