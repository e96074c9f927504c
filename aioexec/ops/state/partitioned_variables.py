"""Partitioned variables: partitioners, and the object that represents all partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import register_tensor_conversion_function
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.operators import Operators
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat, split
from aioexec.ops.state.variable import Variable
from aioexec.shapes import Dims, TensorShape

Partitioner = Callable[..., Sequence[int]]
"""Called with (shape=, dtype=); returns the number of partitions along each dimension."""


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """The partition of a variable that an initializer generates."""

    full_shape: list[int]
    var_offset: list[int]

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """Return the dimension along which a partition of this shape is smaller than the whole; None if none is.

        Raises:
            GraphValueError: several dimensions are smaller.
        """
        cut = [k for k, (part, whole) in enumerate(zip(shape, self.full_shape, strict=True)) if part != whole]
        if len(cut) > 1:
            raise GraphValueError(f"expected one sliced dimension, got {cut} of {self.full_shape}")
        return cut[0] if cut else None

    def single_offset(self, shape: Sequence[int]) -> int:
        """Return the offset of a partition of this shape along that dimension."""
        dim = self.single_slice_dim(shape)
        return 0 if dim is None else self.var_offset[dim]


class PartitionedVariable(Operators[Tensor]):
    """A variable whose partitions are separate variables; as a tensor, their concatenation.

    Args:
        variable_list: the partitions in order.
        partitions: number of partitions along each dimension; at most one of them is above 1.
    """

    def __init__(
        self, name: str, shape: Any, dtype: Any, variable_list: Sequence[Variable], partitions: Sequence[int]
    ) -> None:
        if not isinstance(variable_list, list | tuple):
            raise GraphTypeError(f"variable_list is not a list or tuple: {variable_list!r}")
        if not isinstance(partitions, list | tuple) or any(count < 1 for count in partitions):
            raise GraphValueError(f"partition values must be positive: {partitions!r}")
        if not variable_list:
            raise GraphValueError("variable_list may not be empty")
        for part in variable_list:
            if part.slice_info is None or not part.slice_info.full_name.startswith(name):
                raise GraphValueError(f"variable {part.name!r} is not a partition of a variable {name!r}")
        self.name = name
        self.dtype: DType = dtypes.as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._parts = list(variable_list)
        self._partitions = list(partitions)

    @property
    def shape(self) -> TensorShape:
        return self._shape

    def get_shape(self) -> TensorShape:
        return self._shape

    @property
    def dims(self) -> Dims:
        return self._shape.plain

    @property
    def graph(self) -> Any:
        return self._parts[0].graph

    @property
    def op(self) -> Any:
        raise GraphTypeError(
            f"partitioned variable {self.name!r} has no operation of its own, its parts have"
        )

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def _get_variable_list(self) -> list[Variable]:
        return self._parts

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def _partition_axes(self) -> list[int]:
        """Return the partitioned dimensions; the first if there is a single partition."""
        if all(count == 1 for count in self._partitions):
            return [0]
        return [axis for axis, count in enumerate(self._partitions) if count > 1]

    @property
    def _axis(self) -> int:
        axes = self._partition_axes()
        if len(axes) > 1:
            raise GraphValueError(f"{self.name!r} is divided along several dimensions: {axes}")
        return axes[0]

    def as_tensor(self) -> Tensor:
        """Return the concatenation of the partitions."""
        graph = get_default_graph()
        with graph.control_dependencies(None):
            if len(self._parts) == 1:
                with graph.name_scope(None):
                    alone: Tensor = identity(self._parts[0], name=self.name)
                return alone
            axis = self._axis
            with graph.name_scope(f"{self.name}/ConcatPartitions/"):
                whole = concat([part.value() for part in self._parts], axis)
            with graph.name_scope(None):
                together: Tensor = identity(whole, name=self.name)
            return together

    def _operand(self) -> Tensor:
        return self.as_tensor()

    def _as_graph_element(self) -> Tensor:
        return self.as_tensor()

    def _call_parts(self, method: str, value: Any, options: dict[str, Any], read_value: bool) -> list[Any]:
        """Call a method of each partition with its share of the value."""
        if isinstance(value, list):
            shares: Sequence[Any] = value
        elif isinstance(value, PartitionedVariable):
            shares = [part.value() for part in value]
        else:
            axis = self._axis
            sizes = [part.shape.as_list()[axis] for part in self._parts]
            shares = split(value, sizes, axis)
        if len(shares) != len(self._parts):
            raise GraphValueError(
                f"{self.name!r} has {len(self._parts)} parts, got {len(shares)} values for them"
            )
        done = [
            getattr(part, method)(share, **options) for part, share in zip(self._parts, shares, strict=True)
        ]
        return done if read_value else [each.op for each in done]

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        """Replace the content by a tensor, a list with one value per partition, or another partitioned variable."""
        return self._call_parts("assign", value, {"use_locking": use_locking, "name": name}, read_value)

    def assign_add(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        """Add to the content."""
        return self._call_parts("assign_add", value, {"use_locking": use_locking, "name": name}, read_value)

    def assign_sub(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> list[Any]:
        """Subtract from the content."""
        return self._call_parts("assign_sub", value, {"use_locking": use_locking, "name": name}, read_value)

    def __repr__(self) -> str:
        return f"<aioexec.PartitionedVariable {self.name!r} shape={self._shape} parts={len(self._parts)}>"


def _converted(variable: Any, dtype: DType | None, name: str | None, as_ref: bool) -> Tensor:
    if as_ref:
        raise GraphTypeError(f"partitioned variable {variable.name!r} has no reference")
    if dtype is not None and dtype.base_dtype != variable.dtype.base_dtype:
        raise GraphTypeError(
            f"partitioned variable {variable.name!r} is {variable.dtype.name}, expected {dtype.name}"
        )
    tensor: Tensor = variable.as_tensor()
    return tensor


register_tensor_conversion_function(PartitionedVariable, _converted)

# Partitioning


def checked_partitions(partitioner: Partitioner, shape: Sequence[int], dtype: DType) -> list[int]:
    """Return the result of a partitioner, after checking it.

    Raises:
        GraphValueError: the numbers are not positive, or several of them are above 1.
    """
    if not callable(partitioner):
        raise GraphValueError(f"Partitioner must be callable, but received: {partitioner!r}")
    found = partitioner(shape=TensorShape(shape), dtype=dtype)
    if not isinstance(found, list | tuple) or len(found) != len(shape) or any(n < 1 for n in found):
        raise GraphValueError(
            f"Partitioner must return a positive number for each of {len(shape)} dimensions, got {found!r} for {shape}"
        )
    if sum(count > 1 for count in found) > 1:
        raise GraphValueError(
            f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {found}"
        )
    return [int(count) for count in found]


def slices(shape: Sequence[int], partitions: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield offset and shape of each partition; the first ones are larger by one if the size is not divisible."""
    axis = next((k for k, count in enumerate(partitions) if count > 1), 0)
    count = partitions[axis] if partitions else 1
    least, larger = divmod(shape[axis], count)
    offset = [0] * len(shape)
    for k in range(count):
        part = list(shape)
        part[axis] = least + (k < larger)
        yield list(offset), part
        offset[axis] += part[axis]


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Return a partitioner that divides `axis` into `num_shards` partitions, or as many as there are slices."""

    def partitioner(shape: TensorShape, **ignored: Any) -> list[int]:
        sizes = shape.as_list()
        partitions = [1] * len(sizes)
        partitions[axis] = min(num_shards, sizes[axis] or 0)
        return partitions

    return partitioner


def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Partitioner:
    """Return a partitioner that divides `axis` into partitions of at most `max_shard_bytes`, and at most `max_shards` of them.

    Raises:
        GraphValueError: a limit that is not positive.
    """
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise GraphValueError(
            "Both max_shard_bytes and bytes_per_string_element must be positive. "
            f"Currently: max_shard_bytes is {max_shard_bytes} and bytes_per_string_element is {bytes_per_string_element}"
        )
    if max_shards and max_shards < 1:
        raise GraphValueError(f"max_shards must be positive, got {max_shards}")

    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        if not shape.is_fully_defined():
            raise GraphValueError(f"shape is not fully defined: {shape!r}")
        sizes = shape.as_list()
        partitions = [1] * len(sizes)
        length = sizes[axis] or 1
        slice_bytes = _elements(sizes) / length * _element_bytes(dtype, bytes_per_string_element)
        fitting = max(1, floor(max_shard_bytes / slice_bytes)) if slice_bytes else length
        count = ceil(length / fitting)
        partitions[axis] = min(max_shards, count) if max_shards else count
        return partitions

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Partitioner:
    """Return a partitioner that divides `axis` into at most `max_partitions` of at least about `min_slice_size` bytes."""

    def partitioner(shape: TensorShape, dtype: Any) -> list[int]:
        sizes = shape.as_list()
        if axis >= len(sizes):
            raise GraphValueError(f"Cannot partition variable along axis {axis} when shape is only {shape}")
        total = _elements(sizes) * _element_bytes(dtype, bytes_per_string_element)
        partitions = [1] * len(sizes)
        partitions[axis] = max(1, min(sizes[axis] or 1, max_partitions, ceil(total / min_slice_size)))
        return partitions

    return partitioner


def _elements(sizes: Sequence[int | None]) -> int:
    count = 1
    for size in sizes:
        count *= size or 0
    return count


def _element_bytes(dtype: Any, bytes_per_string_element: int) -> int:
    wanted = dtypes.as_dtype(dtype).base_dtype
    return bytes_per_string_element if wanted == dtypes.string else int(wanted.size)
