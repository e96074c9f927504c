"""Tensors of beams: rows repeated for each beam, rows chosen by beam, and the sequences along a tree of beams."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.contrib.seq2seq.attention import steps_before
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import expand_dims, reshape, tile, transpose
from aioexec.ops.array.filling import range_
from aioexec.ops.array.gathering import gather, gather_nd
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where
from aioexec.ops.reduction.reductions import reduce_max
from aioexec.shapes import TensorShape


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeat each row `multiplier` times: rows a, b become a, a, b, b.

    Args:
        t: a tensor `[batch, ...]` or a structure of tensors.

    Raises:
        GraphValueError: a tensor has an unknown rank, or is a scalar.
    """

    def tiled(part: Any) -> Tensor:
        tensor = convert_to_tensor(part, name="t")
        if not tensor.dims:
            raise GraphValueError("t must have statically known rank")
        static = tensor.dims[0]
        copies = tile(expand_dims(tensor, 1), [1, multiplier] + [1] * (len(tensor.dims) - 1))
        dims = shape(tensor)
        rows: Tensor = reshape(copies, concat([[dims[0] * multiplier], dims[1:]], 0))
        rows.set_shape([None if static is None else static * multiplier, *tensor.dims[1:]])
        return rows

    with op_scope(name, "tile_batch", *flatten(t)):
        return map_structure(tiled, t)


def rows_by_beam(values: Tensor, beams: Tensor, batch_size: Any) -> Tensor:
    """Return for each beam the row of `values` with the number in `beams`.

    Args:
        values: `[batch, width, ...]`.
        beams: integers `[batch, count]`.
        batch_size: scalar tensor.
    """
    dims = shape(values)
    width = dims[1] if values.shape[1].value is None else values.shape[1].value
    first = expand_dims(range_(batch_size) * width, 1)
    merged = reshape(values, concat([[-1], dims[2:]], 0))
    found = gather(merged, reshape(beams + first, [-1]))
    chosen: Tensor = reshape(found, concat([shape(beams), dims[2:]], 0))
    chosen.set_shape(TensorShape(beams.shape).concatenate(values.shape[2:]))
    return chosen


def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: str | None = None
) -> Tensor:
    """Return the sequences of all beams, `[steps, batch, beams]`, followed back from their last steps.

    What is past the length, and after the first end token, is the end token.

    Args:
        step_ids: int32 symbols `[steps, batch, beams]`.
        parent_ids: for each beam the beam that it continues, of the step before, `[steps, batch, beams]`.
        max_sequence_lengths: number of steps for each row of the batch.
        end_token: the end token, a scalar.
    """
    return apply_op("GatherTree", step_ids, parent_ids, max_sequence_lengths, end_token, name=name)


def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> Tensor:
    """Return values of beams, `[steps, batch, beams, ...]`, along the sequences that end in the beams.

    Args:
        t: `[steps, batch, beams, ...]`, in the order of the beams of each step.
        parent_ids: as for `gather_tree`.
        sequence_length: the number of steps of each beam, `[batch, beams]`; later steps stay in their order.
    """
    values, parents = convert_to_tensor(t), convert_to_tensor(parent_ids)
    lengths = convert_to_tensor(sequence_length)
    dims = shape(parents)
    steps, batch, width = dims[0], dims[1], dims[2]
    own = tile(reshape(range_(width), [1, 1, -1]), stack([steps, batch, 1]))
    longest = cast(reduce_max(lengths, axis=1), dtypes.int32)
    beams = gather_tree(own, parents, longest, width + 1)
    inside = transpose(steps_before(lengths, steps), [2, 0, 1])
    beams = where(inside, beams, own)
    times = tile(reshape(range_(steps), [-1, 1, 1]), stack([1, batch, width]))
    rows = tile(reshape(range_(batch), [1, -1, 1]), stack([steps, 1, width]))
    ordered = gather_nd(values, stack([times, rows, beams], -1))
    ordered.set_shape(values.shape)
    return ordered
