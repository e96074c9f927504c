"""One step of a network over sequences of different lengths: outputs past an end are zero, states past it stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import colocate_with
from aioexec.ops.array.identity import identity
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.nesting import assert_same_structure, flatten, map_sequences, pack_sequence_as
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where
from aioexec.ops.reduction.reductions import reduce_max, reduce_min

CallCell = Callable[[], tuple[Any, Any]]


class Lengths:
    """The lengths of the sequences of a batch: an int32 vector, its minimum and its maximum."""

    def __init__(self, each: Tensor) -> None:
        self.each = each
        self.shortest = reduce_min(each)
        self.longest = reduce_max(each)


def length_vector(sequence_length: Any) -> Tensor:
    """Return the lengths as an int32 vector.

    Raises:
        GraphValueError: they are known to be no vector.
    """
    lengths: Tensor = cast(convert_to_tensor(sequence_length), dtypes.int32)
    if lengths.dims is not None and len(lengths.dims) != 1:
        raise GraphValueError(
            f"sequence_length must be a vector of length batch_size, but saw shape: {lengths.shape}"
        )
    return identity(lengths, name="sequence_length")  # type: ignore[no-any-return]


def leaves(structure: Any) -> list[Any]:
    """Return the leaves of a structure in which TensorArrays are leaves."""
    found: list[Any] = []
    map_sequences(found.append, structure)
    return found


def packed(structure: Any, values: list[Any]) -> Any:
    """Return the structure, in which TensorArrays are leaves, with these leaves."""
    rest = iter(values)
    return map_sequences(lambda _: next(rest), structure)


def chosen(condition: Tensor, held: Any, candidate: Any) -> Any:
    """Return, row by row, `held` where the condition holds, else `candidate`; a TensorArray or scalar is not chosen by row."""
    if isinstance(candidate, TensorArray) or candidate.dims == ():
        return candidate
    with colocate_with(candidate):
        return where(condition, held, candidate)


def masked_step(
    time: Tensor, lengths: Lengths, zero_output: Any, state: Any, call_cell: CallCell
) -> tuple[Any, Any]:
    """Call the cell, and choose per row: its output and state, or past the end zeros and the old state."""
    output, new_state = call_cell()
    assert_same_structure(zero_output, output)
    assert_same_structure(state, new_state)
    past_end = time >= lengths.each
    kept = [
        packed(
            new,
            [
                _with_shape_of(old_leaf, chosen(past_end, old_leaf, new_leaf))
                for old_leaf, new_leaf in zip(leaves(old), leaves(new), strict=True)
            ],
        )
        for old, new in ((zero_output, output), (state, new_state))
    ]
    return kept[0], kept[1]


def conditional_step(
    time: Any, lengths: Lengths, zero_output: Any, state: Any, call_cell: CallCell
) -> tuple[Any, Any]:
    """As `masked_step`; the cell runs only before the longest sequence ends, the choice only after the shortest has."""
    time = convert_to_tensor(time, dtypes.int32)

    def before_the_last_end() -> list[Tensor]:
        output, new_state = call_cell()
        assert_same_structure(zero_output, output)
        assert_same_structure(state, new_state)
        new = flatten(output) + flatten(new_state)
        past_end = time >= lengths.each
        return cond(  # type: ignore[no-any-return]
            time < lengths.shortest,
            lambda: new,
            lambda: [chosen(past_end, one, other) for one, other in zip(old, new, strict=True)],
            strict=True,
        )

    old = flatten(zero_output) + flatten(state)
    results = cond(
        apply_op("GreaterEqual", time, lengths.longest), lambda: old, before_the_last_end, strict=True
    )
    results = [_with_shape_of(one, other) for one, other in zip(old, results, strict=True)]
    count = len(flatten(zero_output))
    return pack_sequence_as(zero_output, results[:count]), pack_sequence_as(state, results[count:])


def _with_shape_of(old: Any, new: Any) -> Any:
    if isinstance(new, Tensor):
        new.set_shape(old.shape)
    return new
