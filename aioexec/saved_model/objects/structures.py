"""Structures in an object graph: nested tuples, lists and dicts of tensor specifications and plain values.

The arguments of a function that was saved have such a structure, and so have its results. `decode` reads it from its proto;
`matched` compares it with the arguments of a call; `rebuilt` puts results into it. Pure.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import DataLossError, GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.formats.tensor_codec import decode_tensor, shape_from_proto
from aioexec.shapes import Dims

if TYPE_CHECKING:
    from aioexec.formats.protos import StructuredValue

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor: the name of the argument, its dtype, and its shape."""

    name: str
    dtype: DType
    dims: Dims

    def __str__(self) -> str:
        return f"{self.dtype.name} {shapes.describe(self.dims)}"


@dataclass(frozen=True, slots=True)
class OtherSpec:
    """A value that several tensors represent, such as a ragged tensor, or a variable."""

    kind: str

    def __str__(self) -> str:
        return self.kind


def decode(proto: StructuredValue) -> Any:
    """The structure of a proto: nested containers of TensorSpecs, OtherSpecs and plain values.

    Raises:
        DataLossError, InvalidArgumentError: the proto is malformed.
    """
    kind = proto.WhichOneof("kind")
    if kind in ("list_value", "tuple_value"):
        items = [decode(item) for item in getattr(proto, kind).values]
        return items if kind == "list_value" else tuple(items)
    if kind == "dict_value":
        return {key: decode(proto.dict_value.fields[key]) for key in sorted(proto.dict_value.fields)}
    if kind == "named_tuple_value":
        return _named_tuple(proto.named_tuple_value)
    if kind in ("tensor_spec_value", "bounded_tensor_spec_value"):
        spec = getattr(proto, kind)
        return TensorSpec(spec.name, dtypes.as_dtype(spec.dtype), shape_from_proto(spec.shape))
    if kind == "type_spec_value":
        spec = proto.type_spec_value
        return OtherSpec(spec.type_spec_class_name or f"type {spec.type_spec_class}")
    return _plain(proto, kind)


def _plain(proto: StructuredValue, kind: str | None) -> Any:
    if kind in ("tensor_value", "numpy_value"):
        return decode_tensor(getattr(proto, kind))
    if kind == "tensor_shape_value":
        return shapes.TensorShape(shape_from_proto(proto.tensor_shape_value))
    if kind == "tensor_dtype_value":
        return dtypes.as_dtype(proto.tensor_dtype_value)
    if kind in (None, "none_value"):
        return None
    return getattr(proto, kind)


def _named_tuple(proto: Any) -> Any:
    names = [pair.key for pair in proto.values]
    try:
        made = namedtuple(proto.name, names)  # type: ignore[misc]  # the fields are known at run time only
    except ValueError as error:
        raise DataLossError(f"no named tuple {proto.name!r} has the fields {names}: {error}") from error
    return made(*(decode(pair.value) for pair in proto.values))


def children(structure: Any) -> Iterable[tuple[Any, Any]] | None:
    """The items of a container with their keys, in the order of tensors; None of a leaf."""
    if isinstance(structure, Mapping):
        return structure.items()
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return zip(structure._fields, structure, strict=True)
    if isinstance(structure, list | tuple):
        return enumerate(structure)
    return None


def specs(structure: Any) -> Iterator[TensorSpec | OtherSpec]:
    """The specifications in a structure, in the order of the tensors of its function."""
    inner = children(structure)
    if inner is not None:
        for _, item in inner:
            yield from specs(item)
    elif isinstance(structure, TensorSpec | OtherSpec):
        yield structure


def tensor_count(structure: Any) -> int | None:
    """The number of tensors that represent a structure; None if values of several tensors are in it."""
    found = [*specs(structure)]
    return len(found) if all(isinstance(spec, TensorSpec) for spec in found) else None


class MismatchError(InvalidArgumentError):
    """A value does not fit a structure."""


def matched(structure: Any, value: Any, path: str, converts: bool) -> Iterator[Array]:
    """The arrays that a call's argument consists of, in the order of the tensors.

    Args:
        path: the name of the argument.
        converts: also convert what is no array of the dtype.

    Raises:
        MismatchError: the value does not fit.
    """
    inner = children(structure)
    if isinstance(structure, TensorSpec):
        yield _array(structure, value, path, converts)
    elif inner is not None:
        yield from _matched_items(structure, list(inner), value, path, converts)
    elif isinstance(structure, OtherSpec) or not _equal(structure, value):
        raise MismatchError(f"{path}: expected {_shown(structure)}, got {_shown(value)}")


def _matched_items(
    structure: Any, inner: list[tuple[Any, Any]], value: Any, path: str, converts: bool
) -> Iterator[Array]:
    given = children(value)
    found = (
        None if given is None or isinstance(structure, Mapping) != isinstance(value, Mapping) else dict(given)
    )
    positional = found is not None and not isinstance(structure, Mapping)
    items = None if found is None else list(found.values()) if positional else found
    keys = [place if positional else key for place, (key, _) in enumerate(inner)]
    if items is None or (len(items) != len(keys) if positional else {*items} != {*keys}):
        raise MismatchError(f"{path}: expected {_shown(structure)}, got {_shown(value)}")
    for key, (name, item) in zip(keys, inner, strict=True):
        yield from matched(item, items[key], f"{path}[{name!r}]", converts)


def _array(spec: TensorSpec, value: Any, path: str, converts: bool) -> Array:
    if (
        isinstance(value, np.ndarray | np.generic)
        and value.dtype == spec.dtype.numpy
        and value.dtype != object
    ):
        array = np.asarray(value)
    elif not converts or value is None:
        raise MismatchError(f"{path}: expected {spec}, got {_shown(value)}")
    else:
        try:
            array = dtypes.to_array_exactly(value, spec.dtype)
        except (GraphTypeError, GraphValueError) as error:
            raise MismatchError(f"{path}: expected {spec}, got {_shown(value)}: {error.message}") from error
    if not shapes.compatible(spec.dims, array.shape):
        raise MismatchError(f"{path}: expected {spec}, got shape {shapes.describe(array.shape)}")
    return array


def _equal(expected: Any, value: Any) -> bool:
    if isinstance(expected, np.ndarray) or isinstance(value, np.ndarray):
        return np.array_equal(expected, value)
    return isinstance(value, bool) == isinstance(expected, bool) and bool(expected == value)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {shapes.describe(value.shape)}"
    text = str(value) if isinstance(value, TensorSpec | OtherSpec) else describe(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def describe(structure: Any) -> str:
    """A structure as text."""
    if isinstance(structure, Mapping):
        return "{" + ", ".join(f"{key!r}: {describe(item)}" for key, item in structure.items()) + "}"
    inner = children(structure)
    if inner is not None:
        return "(" + ", ".join(describe(item) for _, item in inner) + ")"
    return str(structure) if isinstance(structure, TensorSpec | OtherSpec) else repr(structure)


def rebuilt(structure: Any, values: Iterator[Any]) -> Any:
    """A structure with the next values in place of its TensorSpecs."""
    if isinstance(structure, TensorSpec):
        return next(values)
    inner = children(structure)
    if inner is None:
        return structure
    items = {key: rebuilt(item, values) for key, item in inner}
    if isinstance(structure, Mapping):
        return items
    made = type(structure)
    return made(*items.values()) if hasattr(made, "_fields") else made(items.values())
