"""Functions on nested structures under the names and arguments of `tf.nest`.

A structure is a leaf, or a list, tuple, named tuple or dict of structures; the entries of a dict are taken in the order of its
keys. With `expand_composites`, SparseTensors and IndexedSlices are structures of their tensors, else they are leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.control_flow import nesting


def is_nested(seq: Any) -> bool:
    """Whether a value is a list, tuple, named tuple or dict."""
    return nesting.is_sequence(seq)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return the leaves of a structure in order; of a leaf a list with itself."""
    if expand_composites:
        return nesting.flatten(structure)
    leaves: list[Any] = []
    nesting.map_sequences(leaves.append, structure)
    return leaves


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """Return a structure like the first with `func(leaf of each structure)` for each leaf.

    Args:
        check_types: whether sequences must have the same types (True by default).
        expand_composites: whether SparseTensors and IndexedSlices are structures (False by default).

    Raises:
        GraphTypeError: `func` is not callable, or sequences of different types.
        GraphValueError: no structure, or structures that differ in more than their leaves.
    """
    check_types, expand = kwargs.pop("check_types", True), kwargs.pop("expand_composites", False)
    if not callable(func):
        raise GraphTypeError(f"Argument `func` must be callable, got: {func}")
    if not structure:
        raise GraphValueError("Must provide at least one structure")
    if kwargs:
        raise GraphValueError(
            f"Only valid keyword arguments for `map_structure` are `check_types` and `expand_composites`, got {sorted(kwargs)}"
        )
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types, expand)
    rows = zip(*(flatten(each, expand) for each in structure), strict=True)
    return pack_sequence_as(structure[0], [func(*row) for row in rows], expand)


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any], expand_composites: bool = False) -> Any:
    """Return a structure like the given one with these leaves.

    Raises:
        GraphTypeError: the leaves are no list or tuple.
        GraphValueError: their number is another than that of the structure.
    """
    if not isinstance(flat_sequence, list | tuple):
        raise GraphTypeError(
            f"Attempted to pack value:\n  {flat_sequence}\ninto a structure, but found incompatible type "
            f"`{type(flat_sequence)}` instead."
        )
    if expand_composites:
        return nesting.pack_sequence_as(structure, flat_sequence)
    if len(flatten(structure)) != len(flat_sequence):
        raise GraphValueError(
            f"Could not pack sequence. Structure had {len(flatten(structure))} atoms, but flat_sequence had "
            f"{len(flat_sequence)} items.  Structure: {structure}, flat_sequence: {flat_sequence}."
        )
    leaves = iter(flat_sequence)
    return nesting.map_sequences(lambda _: next(leaves), structure)


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Check that two structures differ in their leaves only.

    Raises:
        GraphTypeError: sequences have different types, unless `check_types` is False.
        GraphValueError: sequences have different lengths, or one of the two is a leaf.
    """
    if expand_composites and check_types:
        nesting.assert_same_structure(nest1, nest2)
        return
    same = "The two structures don't have the same nested structure"
    nested = is_nested(nest1)
    if nested != is_nested(nest2):
        raise GraphValueError(f"{same}.\n\nFirst structure: {nest1}\n\nSecond structure: {nest2}")
    if not nested:
        return
    maps = isinstance(nest1, Mapping), isinstance(nest2, Mapping)
    if check_types and type(nest1) is not type(nest2) and not all(maps):
        raise GraphTypeError(
            f"{same}: First structure has type {type(nest1).__name__}, while second structure has type {type(nest2).__name__}"
        )
    if len(nest1) != len(nest2):
        raise GraphValueError(f"{same}: {len(nest1)} and {len(nest2)} elements in {nest1} and {nest2}")
    if all(maps) and sorted(nest1) != sorted(nest2):
        raise GraphValueError(f"{same}: keys {sorted(nest1)} and {sorted(nest2)}")
    for one, other in zip(_children(nest1), _children(nest2), strict=True):
        assert_same_structure(one, other, check_types, expand_composites)


def _children(structure: Any) -> list[Any]:
    return (
        [structure[key] for key in sorted(structure)] if isinstance(structure, Mapping) else list(structure)
    )
