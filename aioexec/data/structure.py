"""Structures of elements: tuples, named tuples and dicts of components; a list is a value, which becomes a tensor.

A *spec* is such a structure of `Component`s. A component is one tensor of the dataset's ops, whatever it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor, is_sparse
from aioexec.shapes import TensorShape

# Nesting


def is_nested(value: Any) -> bool:
    """Whether a value has components of its own."""
    return isinstance(value, tuple | Mapping)


def _children(structure: Any) -> list[Any]:
    if isinstance(structure, Mapping):
        return [structure[key] for key in sorted(structure)]
    return list(structure)


def _rebuilt(structure: Any, children: list[Any]) -> Any:
    if isinstance(structure, Mapping):
        found = dict(zip(sorted(structure), children, strict=True))
        mapping: Any = type(structure)
        return mapping((key, found[key]) for key in structure)
    if hasattr(structure, "_fields"):
        return type(structure)(*children)
    return tuple(children)


def flatten(structure: Any) -> list[Any]:
    """Return the leaves, in order; dicts are ordered by key."""
    if not is_nested(structure):
        return [structure]
    return [leaf for child in _children(structure) for leaf in flatten(child)]


def map_structure(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return the same structure with `function(leaf)` for each leaf."""
    if not is_nested(structure):
        return function(structure)
    return _rebuilt(structure, [map_structure(function, child) for child in _children(structure)])


def pack(structure: Any, leaves: Sequence[Any]) -> Any:
    """Return the structure with these leaves."""
    rest: Iterator[Any] = iter(leaves)
    return map_structure(lambda _: next(rest), structure)


def flatten_up_to(spec: Any, values: Any) -> list[Any]:
    """Return what stands in `values` where `spec` has its leaves.

    Raises:
        GraphTypeError, GraphValueError: it has another structure.
    """
    if not is_nested(spec):
        return [values]
    if isinstance(spec, Mapping) != isinstance(values, Mapping) or not isinstance(
        values, list | tuple | Mapping
    ):
        raise GraphTypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(values)}."
        )
    ours, theirs = _children(spec), _children(values)
    if len(ours) != len(theirs) or (isinstance(spec, Mapping) and sorted(spec) != sorted(values)):
        raise GraphValueError(
            "The two structures don't have the same sequence length. "
            f"Input structure has length {len(theirs)}, while shallow structure has length {len(ours)}."
        )
    return [leaf for pair in zip(ours, theirs, strict=True) for leaf in flatten_up_to(*pair)]


def same_structure(one: Any, other: Any) -> bool:
    """Whether two structures differ in their leaves only."""
    if not is_nested(one) or not is_nested(other):
        return is_nested(one) == is_nested(other)
    if isinstance(one, Mapping) != isinstance(other, Mapping):
        return False
    if isinstance(one, Mapping) and sorted(one) != sorted(other):
        return False
    ours, theirs = _children(one), _children(other)
    return len(ours) == len(theirs) and all(map(same_structure, ours, theirs))


# Components


@dataclass(frozen=True, slots=True)
class Component:
    """A component that is a tensor; subclasses stand for other objects.

    Attributes:
        dtype: dtype of its values.
        shape: static shape.
    """

    dtype: DType
    shape: TensorShape

    @property
    def flat_dtype(self) -> DType:
        """Dtype of the tensor in the dataset's ops."""
        return self.dtype

    @property
    def flat_shape(self) -> TensorShape:
        """Shape of the tensor in the dataset's ops."""
        return self.shape

    @property
    def legacy_class(self) -> Any:
        """What `output_classes` contains."""
        return Tensor

    @property
    def legacy_type(self) -> Any:
        """What `output_types` contains."""
        return self.dtype

    @property
    def legacy_shape(self) -> Any:
        """What `output_shapes` contains."""
        return self.shape

    def to_tensor(self, value: Any, slices: bool = False) -> Tensor:
        """Return the tensor for a value; `slices`: for values whose first dimension is that of the dataset."""
        return convert_to_tensor(value, self.dtype)

    def from_tensor(self, tensor: Tensor) -> Any:
        """Return the value that a tensor of the dataset's ops stands for."""
        return tensor

    def with_shape(self, shape: TensorShape) -> Component:
        return type(self)(self.dtype, shape)

    def batched(self, rows: int | None) -> Component:
        return self.with_shape(TensorShape([rows]).concatenate(self.shape))

    def unbatched(self) -> Component:
        """Return the component of a row.

        Raises:
            GraphValueError: the component is a scalar.
        """
        if self.shape.ndims == 0:
            raise GraphValueError(
                "Rows of a dataset's tensors: all components must be at least 1-dimensional"
            )
        return self.with_shape(self.shape[1:])

    def is_compatible_with(self, other: Component) -> bool:
        """Whether values of `other` may be values of this."""
        return (
            type(self) is type(other)
            and self.dtype == other.dtype
            and self.shape.is_compatible_with(other.shape)
        )

    def relaxed(self, other: Component) -> Component:
        """Return the most specific component that both are."""
        return self.with_shape(most_specific(self.shape, other.shape))


def most_specific(one: TensorShape, other: TensorShape) -> TensorShape:
    """Return the most specific shape that both are compatible with."""
    if one.ndims is None or other.ndims is None or one.ndims != other.ndims:
        return TensorShape(None)
    ours, theirs = one.as_list(), other.as_list()
    return TensorShape([a if a == b else None for a, b in zip(ours, theirs, strict=True)])


class SparseComponent(Component):
    """A component that is a SparseTensor; its tensor is a variant of its three parts."""

    __slots__ = ()

    @property
    def flat_dtype(self) -> DType:
        return dtypes.variant

    @property
    def flat_shape(self) -> TensorShape:
        return TensorShape(None)  # [3], after the dimensions of batches

    @property
    def legacy_class(self) -> Any:
        return SparseTensor

    def to_tensor(self, value: Any, slices: bool = False) -> Tensor:
        sparse = SparseTensor.from_value(value)
        return apply_op(
            "SerializeManySparse" if slices else "SerializeSparse",
            sparse.indices,
            sparse.values,
            sparse.dense_shape,
            out_type=dtypes.variant,
        )

    def from_tensor(self, tensor: Tensor) -> SparseTensor:
        found = SparseTensor(*apply_tuple_op("DeserializeSparse", tensor, dtype=self.dtype))
        rank = self.shape.ndims
        found.indices.set_shape([None, rank])
        found.dense_shape.set_shape([rank])
        return found


_kinds: list[tuple[Callable[[Any], bool], Callable[[Any], Component]]] = []
"""Of values that are no tensors: a test, and the component of such a value."""


def register_kind(test: Callable[[Any], bool], component: Callable[[Any], Component]) -> None:
    """Let values that pass a test become components of their own."""
    _kinds.append((test, component))


def component_of(value: Any) -> Component | None:
    """Return the component of a value that is no plain tensor; None for all others."""
    if is_sparse(value):
        sparse = SparseTensor.from_value(value)
        return SparseComponent(sparse.dtype, sparse.get_shape())
    for test, component in _kinds:
        if test(value):
            return component(value)
    return None


def normalized(element: Any) -> tuple[Any, list[Tensor]]:
    """Convert the leaves of an element to tensors: return its spec and the tensors, as they are.

    Leaves that are no tensors themselves (sparse tensors, datasets) stay.
    """
    values: list[Any] = []
    specs: list[Component] = []
    with get_default_graph().name_scope("normalize_element"):
        for number, leaf in enumerate(flatten(element)):
            component = component_of(leaf)
            value = leaf if component is not None else convert_to_tensor(leaf, name=f"component_{number}")
            values.append(value)
            specs.append(component or Component(value.dtype.base_dtype, value.shape))
    return pack(element, specs), values


# Specs


def common_spec(ours: Any, theirs: Any) -> Any:
    """Return the spec of the elements of two datasets one after another.

    Raises:
        GraphTypeError: they have other dtypes or another structure.
    """
    if not same_structure(ours, theirs) or flat_dtypes(ours) != flat_dtypes(theirs):
        raise GraphTypeError(
            f"Two datasets to concatenate have different types {legacy_types(ours)} and {legacy_types(theirs)}"
        )
    pairs = list(zip(flatten(ours), flatten(theirs), strict=True))
    if any(type(one) is not type(other) for one, other in pairs):
        raise GraphTypeError(
            f"Two datasets to concatenate have different classes {legacy_classes(ours)} and {legacy_classes(theirs)}"
        )
    return pack(ours, [one.relaxed(other) for one, other in pairs])


def flat_dtypes(spec: Any) -> list[DType]:
    return [component.flat_dtype for component in flatten(spec)]


def flat_shapes(spec: Any) -> list[TensorShape]:
    return [component.flat_shape for component in flatten(spec)]


def attrs_of(spec: Any) -> dict[str, Any]:
    """Return the attributes `output_types` and `output_shapes` of a dataset op."""
    return {"output_types": flat_dtypes(spec), "output_shapes": flat_shapes(spec)}


def from_tensors(spec: Any, tensors: Sequence[Tensor]) -> Any:
    """Return the element that tensors of the dataset's ops stand for."""
    components = flatten(spec)
    for component, tensor in zip(components, tensors, strict=True):
        tensor.set_shape(component.flat_shape)
    found = [component.from_tensor(tensor) for component, tensor in zip(components, tensors, strict=True)]
    return pack(spec, found)


def spec_of_legacy(output_types: Any, output_shapes: Any = None, output_classes: Any = None) -> Any:
    """Return the spec of structures of dtypes, shapes and classes.

    Raises:
        GraphTypeError, GraphValueError: the structures differ.
    """
    types = map_structure(lambda each: each if isinstance(each, Component) else as_dtype(each), output_types)
    leaves = flatten(types)
    shapes: list[Any]
    if output_shapes is None:
        shapes = [TensorShape(None)] * len(leaves)
    else:
        shapes = [
            each if isinstance(each, Component) else TensorShape(each)
            for each in flatten_up_to(types, output_shapes)
        ]
    kinds = [Tensor] * len(leaves) if output_classes is None else flatten_up_to(types, output_classes)
    found = []
    for dtype, shape, kind in zip(leaves, shapes, kinds, strict=True):
        if isinstance(dtype, Component):
            found.append(dtype)
        else:
            found.append((SparseComponent if kind is SparseTensor else Component)(dtype, shape))
    return pack(types, found)


def legacy_types(spec: Any) -> Any:
    return map_structure(lambda component: component.legacy_type, spec)


def legacy_shapes(spec: Any) -> Any:
    return map_structure(lambda component: component.legacy_shape, spec)


def legacy_classes(spec: Any) -> Any:
    return map_structure(lambda component: component.legacy_class, spec)
