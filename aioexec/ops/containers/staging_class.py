"""`StagingArea` and `MapStagingArea`: the classes that users create; their methods add nodes to the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_any_op, apply_no_output_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.containers import staging  # noqa: F401  (registers ops)
from aioexec.shapes import TensorShape


class BaseStagingArea:
    """The base of both staging areas, which hold tuples of tensors of `dtypes`; with `names`, dicts.

    Args:
        dtypes: dtypes of the components.
        shapes: shapes of the components; by default any.
        names: names of the components.
        shared_name: areas of one name are the same; by default a unique name in the graph, derived from the class.
        capacity: maximum number of tuples; unbounded if 0.
        memory_limit: maximum number of bytes; unbounded if 0.

    Raises:
        GraphValueError: the numbers of dtypes, shapes and names differ.
    """

    _family = ""

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        graph = get_default_graph()
        if shared_name is not None and not isinstance(shared_name, str):
            raise GraphValueError(f"shared_name must be a string, got {shared_name}")
        self._name = shared_name or graph.unique_name(type(self).__name__)
        self._dtypes = [dt.as_dtype(dtype) for dtype in dtypes]
        if shapes is not None and len(shapes) != len(self._dtypes):
            raise GraphValueError("StagingArea shapes must be the same length as dtypes")
        if names is not None and len(names) != len(self._dtypes):
            raise GraphValueError("StagingArea names must be the same length as dtypes")
        self._shapes = [TensorShape(shape) for shape in shapes or [None] * len(self._dtypes)]
        self._names = None if names is None else list(names)
        self._capacity = capacity
        self._memory_limit = memory_limit
        with graph.name_scope(f"{self._name}_root"):
            self._root = apply_no_output_op("NoOp")

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        return self._names

    @property
    def capacity(self) -> int:
        """Maximum number of tuples; unbounded if 0."""
        return self._capacity

    @property
    def memory_limit(self) -> int:
        """Maximum number of bytes; unbounded if 0."""
        return self._memory_limit

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of tuples that can be taken."""
        tensor: Tensor = self._node(f"{self._family}Size", name or f"{self._name}_size")
        return tensor

    def clear(self, name: str | None = None) -> Operation:
        """Return an operation that removes all tuples."""
        op: Operation = self._node(f"{self._family}Clear", name or f"{self._name}_clear")
        return op

    # Service

    def _node(self, op_type: str, name: str, *inputs: Any, dtypes: Sequence[DType] | None = None) -> Any:
        """Add a node that is colocated with the area's other nodes."""
        with get_default_graph().colocate_with(self._root):
            return apply_any_op(
                op_type,
                *inputs,
                name=name,
                dtypes=self._dtypes if dtypes is None else dtypes,
                shared_name=self._name,
                capacity=self._capacity,
                memory_limit=self._memory_limit,
            )

    def _components(self, values: Any, indices: Sequence[int] | None) -> tuple[list[Tensor], list[int]]:
        """Return the tensors to stage, and the indices of their components.

        Raises:
            GraphValueError: names, indices or their number do not fit the components.
        """
        if isinstance(values, Mapping):
            given, indices = self._by_name(values)
        elif self._names is not None:
            raise GraphValueError("You must enqueue a dictionary in a staging area with names")
        else:
            given = list(values) if isinstance(values, list | tuple) else [values]
            indices = list(range(len(self._dtypes))) if indices is None else indices
        if len(given) != len(indices):
            raise GraphValueError(
                f"Number of indices {len(indices)} doesn't match number of values {len(given)}"
            )
        tensors = []
        for index, value in zip(indices, given, strict=True):
            tensor = convert_to_tensor(value, self._dtypes[index], name=f"component_{index}")
            tensor.shape.assert_is_compatible_with(self._shapes[index])
            tensors.append(tensor)
        return tensors, list(indices)

    def _by_name(self, values: Mapping[str, Any]) -> tuple[list[Any], list[int]]:
        if self._names is None:
            raise GraphValueError("Staging areas must have names to enqueue a dictionary")
        if not set(values) <= set(self._names):
            raise GraphValueError(
                f"Keys in dictionary to put do not match names of staging area. "
                f"Dictionary: {sorted(values)}Queue: {sorted(self._names)}"
            )
        indices = [k for k, name in enumerate(self._names) if name in values]
        return [values[self._names[k]] for k in indices], indices

    def _tuple(self, tensors: Sequence[Tensor], indices: Sequence[int] | None = None) -> Any:
        """Return a tuple as a list, or with names as a dict."""
        numbers = range(len(self._dtypes)) if indices is None else indices
        for tensor, k in zip(tensors, numbers, strict=True):
            tensor.set_shape(self._shapes[k])
        if self._names is None:
            return list(tensors)
        return {self._names[k]: tensor for tensor, k in zip(tensors, numbers, strict=True)}


class StagingArea(BaseStagingArea):
    """Passes tuples of tensors between steps in FIFO order. `get` waits for a tuple, `put` for space.

    Args: see `BaseStagingArea`.
    """

    _family = "Stage"

    def put(self, values: Any, name: str | None = None) -> Operation:
        """Return an operation that stages a tuple: a list or tuple of tensors, or with names a dict."""
        with get_default_graph().name_scope(name or f"{self._name}_put") as scope:
            tensors, _ = self._components(values, None)
            if len(tensors) != len(self._dtypes):
                raise GraphValueError(
                    f"{self._name}: expected {len(self._dtypes)} components, got {len(tensors)}"
                )
            op: Operation = self._node("Stage", scope, tensors)
        return op

    def get(self, name: str | None = None) -> Any:
        """Remove and return the first tuple: a list of tensors, or with names a dict."""
        return self._tuple(self._node("Unstage", name or f"{self._name}_get"))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """Return the tuple at a position without removing it."""
        return self._tuple(self._node("StagePeek", name or f"{self._name}_peek", index))


class MapStagingArea(BaseStagingArea):
    """Maps keys to tuples of tensors, which may be put and taken in parts. `get` waits for its key, `put` for space.

    Args:
        ordered: whether `get` without a key takes the tuple of the lowest key.
        dtypes, shapes, names, shared_name, capacity, memory_limit: see `BaseStagingArea`.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._family = "OrderedMap" if ordered else "Map"

    def put(
        self, key: Any, vals: Any, indices: Sequence[int] | None = None, name: str | None = None
    ) -> Operation:
        """Return an operation that stages a tuple, or some of its components.

        Args:
            vals: a dict, or with `indices` a list of tensors.
        """
        if not isinstance(vals, Mapping) and indices is None:
            raise GraphValueError("Indices must be supplied when inserting a list of tensors")
        with get_default_graph().name_scope(name or f"{self._name}_put") as scope:
            tensors, numbers = self._components(vals, indices)
            op: Operation = self._node(f"{self._family}Stage", scope, key, numbers, tensors)
        return op

    def get(self, key: Any = None, indices: Sequence[Any] | None = None, name: str | None = None) -> Any:
        """Remove and return (key, tuple), or the components `indices` of the tuple; without `key`, of the first key."""
        numbers = self._numbers(indices)
        types = [self._dtypes[k] for k in numbers]
        if key is None:
            label = name or f"{self._name}_get_nokey"
            found, tensors = self._node(f"{self._family}UnstageNoKey", label, numbers, dtypes=types)
        else:
            found, label = key, name or f"{self._name}_get"
            tensors = self._node(f"{self._family}Unstage", label, key, numbers, dtypes=types)
        return found, self._tuple(tensors, numbers)

    def peek(self, key: Any, indices: Sequence[Any] | None = None, name: str | None = None) -> Any:
        """Return the tuple of a key, or the components `indices` of it, without removing it."""
        numbers = self._numbers(indices)
        label = name or f"{self._name}_pop"
        types = [self._dtypes[k] for k in numbers]
        return self._tuple(self._node(f"{self._family}Peek", label, key, numbers, dtypes=types), numbers)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of incomplete tuples."""
        tensor: Tensor = self._node(f"{self._family}IncompleteSize", name or f"{self._name}_incomplete_size")
        return tensor

    def _numbers(self, indices: Sequence[Any] | None) -> list[int]:
        """Return the indices of the requested components, given by number or name; all if None."""
        if indices is None:
            return list(range(len(self._dtypes)))
        if all(isinstance(index, str) for index in indices):
            if self._names is None:
                raise GraphValueError(
                    f"String indices provided {list(indices)}, but this Staging Area was not created with names."
                )
            return [self._names.index(index) for index in indices]
        return [int(index) for index in indices]
