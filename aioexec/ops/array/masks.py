"""Masks of the elements within the lengths of sequences."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None
) -> Tensor:
    """Return for each length a row whose first `lengths` elements are True.

    Args:
        lengths: integers of any shape.
        maxlen: length of a row; by default the largest of `lengths`.
        dtype: of the result, whose elements are False and True, 0 and 1, ….

    Returns:
        A tensor of shape [*lengths.shape, maxlen].

    Raises:
        GraphValueError: maxlen is no scalar.
    """
    with op_scope(name, "SequenceMask", lengths, maxlen):
        given = convert_to_tensor(lengths)
        if maxlen is None:
            flat = apply_op("Reshape", given, [-1])
            most = apply_op("Maximum", constant(0, given.dtype.base_dtype), apply_op("Max", flat, 0))
        else:
            most = convert_to_tensor(maxlen)
        if most.dims not in (None, ()):
            raise GraphValueError(f"Argument `maxlen` must be scalar, got shape {most.shape}")
        kind = most.dtype.base_dtype
        places = apply_op("Range", constant(0, kind), most, constant(1, kind))
        ends = apply_op("ExpandDims", given, -1)
        if ends.dtype.base_dtype is not kind:
            ends = apply_op("Cast", ends, DstT=kind)
        mask = apply_op("Less", places, ends)
        wanted = dtypes.bool_ if dtype is None else dtypes.as_dtype(dtype)
        return mask if wanted is dtypes.bool_ else apply_op("Cast", mask, DstT=wanted)
