"""Frames of a signal: slices at equal distances, and the sum of slices at their places."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.array.arrays import reshape, transpose
from aioexec.ops.array.filling import range_
from aioexec.ops.array.gathering import gather
from aioexec.ops.array.padding import pad
from aioexec.ops.array.shapes_of import shape as shape_of
from aioexec.ops.math.extremes import maximum
from aioexec.ops.reduction.segments import unsorted_segment_sum


def frame(
    signal: Any,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Return slices of an axis: [..., samples, ...] becomes [..., frames, frame_length, ...].

    Args:
        frame_step: the distance of the starts of two frames.
        pad_end: whether frames that begin inside of the signal but end outside are filled by `pad_value`, else left out.

    Raises:
        GraphValueError: the rank is not known, or the axis is none of the signal.
    """
    with name_scope(name, "frame", [signal]):
        signal = convert_to_tensor(signal, name="signal")
        rank = signal.shape.ndims
        if rank is None or not -rank <= axis < rank:
            raise GraphValueError(f"axis {axis} is none of a signal of shape {signal.shape}")
        place = axis % rank
        known = signal.shape.as_list()[place]
        length: Any = shape_of(signal)[place] if known is None else known
        count = _frames(length, frame_length, frame_step, pad_end)
        if pad_end:
            missing = _at_least_0(frame_length + frame_step * (count - 1) - length)
            before_and_after = [[0, missing if each == place else 0] for each in range(rank)]
            signal = pad(signal, before_and_after, constant_values=pad_value)
        starts = reshape(range_(count) * frame_step, [-1, 1])
        framed: Tensor = gather(signal, starts + reshape(range_(frame_length), [1, -1]), axis=place)
        outer, inner = signal.shape.as_list()[:place], signal.shape.as_list()[place + 1 :]
        framed.set_shape([*outer, None if isinstance(count, Tensor) else count, frame_length, *inner])
        return framed


def _frames(length: Any, frame_length: int, frame_step: int, pad_end: bool) -> Any:
    """The number of frames: an int, or a scalar tensor if the length is one."""
    if pad_end:
        return -(-length // frame_step)
    return _at_least_0(1 + (length - frame_length) // frame_step)


def _at_least_0(value: Any) -> Any:
    return maximum(0, value) if isinstance(value, Tensor) else max(0, value)


def overlap_and_add(signal: Any, frame_step: int, name: str | None = None) -> Tensor:
    """Return the sum of frames [..., frames, frame_length] that start `frame_step` apart: [..., samples].

    Raises:
        GraphValueError: the rank is less than 2 or not known.
    """
    with name_scope(name, "overlap_and_add", [signal]):
        signal = convert_to_tensor(signal, name="signal")
        rank = signal.shape.ndims
        if rank is None or rank < 2:
            raise GraphValueError(f"overlap_and_add: expected a signal of rank 2 or more, got {signal.shape}")
        whole, known = shape_of(signal), signal.shape.as_list()
        count, size = (whole[place] if known[place] is None else known[place] for place in (-2, -1))
        samples = (count - 1) * frame_step + size
        places = reshape(range_(count) * frame_step, [-1, 1]) + reshape(range_(size), [1, -1])
        last_two_first = transpose(signal, [rank - 2, rank - 1, *range(rank - 2)])
        total = unsorted_segment_sum(last_two_first, places, samples)
        added: Tensor = transpose(total, [*range(1, rank - 1), 0])
        added.set_shape([*known[:-2], None if isinstance(samples, Tensor) else samples])
        return added
