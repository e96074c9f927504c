"""Nested structures of tensors, the arguments and results of the functions in conditionals and loops.

A structure is a leaf, or a list, tuple, named tuple or dict of structures (dicts ordered by key). IndexedSlices, SparseTensors
and classes registered as composites (TensorArray) are structures of their component tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.sparse_tensor import SparseTensor

_composites: dict[type, tuple[Callable[[Any], list[Any]], Callable[[Any, list[Any]], Any]]] = {}


def register_composite(
    kind: type, parts: Callable[[Any], list[Any]], rebuilt: Callable[[Any, list[Any]], Any]
) -> None:
    """Register a class whose objects consist of tensors `parts(value)`; `rebuilt(value, parts)` replaces them."""
    _composites[kind] = parts, rebuilt


def is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple | Mapping)


def is_nested(value: Any) -> bool:
    return is_sequence(value) or isinstance(value, IndexedSlices | SparseTensor) or type(value) in _composites


def _children(structure: Any) -> list[Any]:
    if isinstance(structure, IndexedSlices):
        parts = [structure.values, structure.indices, structure.dense_shape]
        return [part for part in parts if part is not None]
    if isinstance(structure, SparseTensor):
        return [structure.indices, structure.values, structure.dense_shape]
    if isinstance(structure, Mapping):
        return [structure[key] for key in sorted(structure)]
    if type(structure) in _composites:
        return _composites[type(structure)][0](structure)
    return list(structure)


def _rebuilt(structure: Any, children: list[Any]) -> Any:
    """Return a structure of the same kind with other children."""
    if isinstance(structure, IndexedSlices | SparseTensor):
        return type(structure)(*children)
    if isinstance(structure, Mapping):
        found = dict(zip(sorted(structure), children, strict=True))
        mapping: Any = type(structure)
        return mapping((key, found[key]) for key in structure)
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*children)
    if type(structure) in _composites:
        return _composites[type(structure)][1](structure, children)
    return type(structure)(children)


def flatten(structure: Any) -> list[Any]:
    """Return the leaves, in order."""
    if not is_nested(structure):
        return [structure]
    return [leaf for child in _children(structure) for leaf in flatten(child)]


def map_structure(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return the same structure with `function(leaf)` for each leaf."""
    if not is_nested(structure):
        return function(structure)
    return _rebuilt(structure, [map_structure(function, child) for child in _children(structure)])


def map_sequences(function: Callable[[Any], Any], structure: Any) -> Any:
    """As `map_structure`, but composites, IndexedSlices and SparseTensors are leaves."""
    if not is_sequence(structure):
        return function(structure)
    return _rebuilt(structure, [map_sequences(function, child) for child in _children(structure)])


def flatten_sequences(structure: Any) -> list[Any]:
    """As `flatten`, but composites, IndexedSlices and SparseTensors are leaves."""
    if not is_sequence(structure):
        return [structure]
    return [leaf for child in _children(structure) for leaf in flatten_sequences(child)]


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """Return the structure with these leaves.

    Raises:
        GraphValueError: the number of leaves differs from that of the structure.
    """
    expected = len(flatten(structure))
    if expected != len(flat_sequence):
        raise GraphValueError(
            f"the structure has {expected} elements, but flat_sequence has {len(flat_sequence)}: {structure!r}"
        )
    leaves: Iterator[Any] = iter(flat_sequence)
    return map_structure(lambda _: next(leaves), structure)


def assert_same_structure(first: Any, second: Any) -> None:
    """Check that two structures differ in their leaves only.

    Raises:
        GraphTypeError: sequences have different types.
        GraphValueError: sequences have different lengths, or one of the two is a leaf.
    """
    same = "The two structures don't have the same nested structure"
    if is_nested(first) != is_nested(second):
        raise GraphValueError(f"{same}: {first!r} beside {second!r}")
    if not is_nested(first):
        return
    if type(first) is not type(second) and not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        raise GraphTypeError(
            f"{same}: the first has sequence type {type(first).__name__}, the second {type(second).__name__}: "
            f"{first!r} and {second!r}"
        )
    ours, theirs = _children(first), _children(second)
    if len(ours) != len(theirs) or (isinstance(first, Mapping) and sorted(first) != sorted(second)):
        raise GraphValueError(f"{same}: {first!r} and {second!r}")
    for one, other in zip(ours, theirs, strict=True):
        assert_same_structure(one, other)
