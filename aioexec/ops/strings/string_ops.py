"""Ops that join, split, measure and convert strings."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError, OutOfRangeError, ResourceExhaustedError
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, same_shape, shown
from aioexec.ops.strings.elements import array_of, bytes_of, each, text_of
from aioexec.shapes import Dims

_MOST_SEGMENTS: Final = 1 << 28

# Joining


def _join_shape(context: ShapeContext) -> Sequence[Dims]:
    joined: Dims = ()
    for given in context.inputs:
        if given is None:
            return [None]
        if given != ():
            joined = given if joined == () else shapes.merge(joined, given)
    return [joined]


def _join_kernel(context: KernelContext) -> Compute:
    separator = bytes_of(context.attrs["separator"])

    def compute(*inputs: Array) -> Array:
        shape: tuple[int, ...] = next((value.shape for value in inputs if value.ndim), ())
        for value in inputs:
            if value.ndim and value.shape != shape:
                raise InvalidArgumentError(
                    f"Input shapes do not match: {shown(shape)} vs. {shown(value.shape)}"
                )
        spread = [np.broadcast_to(value, shape).ravel() for value in inputs]
        return array_of(map(separator.join, zip(*spread, strict=True)) if inputs else [b""], shape)

    return compute


register(
    "StringJoin(inputs:N*string) -> (output:string) [N:int>=0; separator:string='']",
    shape=_join_shape,
    kernel=_join_kernel,
    gradient=NOT_DIFFERENTIABLE,
)


def _reduced_axes(rank: int, axes: Array) -> list[int]:
    found: list[int] = []
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise OutOfRangeError(f"Invalid reduction dimension {axis} for input with {rank} dimension(s)")
        if axis % rank in found:
            raise InvalidArgumentError(f"Duplicate reduction dimension {axis % rank}")
        found.append(axis % rank)
    return found


def _reduce_join_shape(context: ShapeContext) -> Sequence[Dims]:
    dims, axes = context.inputs[0], context.value(1)
    shapes.with_rank_at_most(context.inputs[1], 1)
    if dims is None or axes is None:
        return [None]
    if not dims:
        return [()]
    for axis in axes.reshape(-1).tolist():
        if not -len(dims) <= axis < len(dims):
            raise GraphValueError(f"Invalid reduction dimension {axis} for input with {len(dims)} dimensions")
    reduced = {axis % len(dims) for axis in axes.reshape(-1).tolist()}
    if context.attrs["keep_dims"]:
        return [tuple(1 if k in reduced else dim for k, dim in enumerate(dims))]
    return [tuple(dim for k, dim in enumerate(dims) if k not in reduced)]


def _reduce_join_kernel(context: KernelContext) -> Compute:
    separator, keeps = bytes_of(context.attrs["separator"]), context.attrs["keep_dims"]

    def compute(value: Array, axes: Array) -> Array:
        if not value.ndim or not axes.size:
            _reduced_axes(1, axes)  # a scalar is treated as a vector of one element
            return value.copy()
        reduced = _reduced_axes(value.ndim, axes)
        kept = [axis for axis in range(value.ndim) if axis not in reduced]
        outer = tuple(value.shape[axis] for axis in kept)
        rows = value.transpose(*kept, *reversed(reduced)).reshape(math.prod(outer), -1 if value.size else 0)
        shape = tuple(1 if k in reduced else dim for k, dim in enumerate(value.shape)) if keeps else outer
        return array_of((separator.join(row) for row in rows), shape)

    return compute


register(
    "ReduceJoin(inputs:string, reduction_indices:int32) -> (output:string) [keep_dims:bool=false; separator:string='']",
    shape=_reduce_join_shape,
    kernel=_reduce_join_kernel,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(1,),
)


def _segment_shape(context: ShapeContext) -> Sequence[Dims]:
    data, ids, count = context.inputs[0], context.inputs[1], context.value(2)
    if data is None or ids is None:
        return [None]
    if len(ids) > len(data):
        raise GraphValueError(f"Shape must be at least rank {len(ids)} but is rank {len(data)}")
    shapes.merge(data[: len(ids)], ids)
    return [(None if count is None else int(count), *data[len(ids) :])]


def _segment_kernel(context: KernelContext) -> Compute:
    separator = bytes_of(context.attrs["separator"])

    def compute(value: Array, ids: Array, count: Array) -> Array:
        size = int(count)
        if size < 0:
            raise InvalidArgumentError(f"Number of segments cannot be negative, got {size}")
        if ids.ndim == 0:
            raise InvalidArgumentError("Segment_id cannot have rank 0")
        if ids.ndim > value.ndim:
            raise OutOfRangeError(
                f"Invalid segment_id rank {ids.ndim} for input with {value.ndim} dimension(s)"
            )
        if value.shape[: ids.ndim] != ids.shape:
            raise InvalidArgumentError(
                f"inputs of shape {shown(value.shape)} do not begin with the shape {shown(ids.shape)} of segment_ids"
            )
        rest = value.shape[ids.ndim :]
        if size * max(math.prod(rest), 1) > _MOST_SEGMENTS:
            raise ResourceExhaustedError(f"{size} segments of shape {shown(rest)} are too many")
        if ids.size and not 0 <= ids.min() <= ids.max() < size:
            raise InvalidArgumentError(
                "segment_ids are not allowed to exceed num_segments or to have negative values."
            )
        parts: list[list[bytes]] = [[] for _ in range(size * math.prod(rest))]
        for row, segment in zip(value.reshape(ids.size, math.prod(rest)), ids.ravel(), strict=True):
            for column, text in enumerate(row):
                parts[int(segment) * len(row) + column].append(text)
        return array_of(map(separator.join, parts), (size, *rest))

    return compute


register(
    "UnsortedSegmentJoin(inputs:string, segment_ids:Tindices, num_segments:Tnumsegments) -> (output:string) "
    "[separator:string=''; Tindices:type{int32|int64}; Tnumsegments:type{int32|int64}=int32]",
    shape=_segment_shape,
    kernel=_segment_kernel,
    gradient=undefined_gradient,
    shape_operands=(2,),
)


# Splitting


def _sparse(rows: list[list[bytes]]) -> tuple[Array, Array, Array]:
    """Return rows of any length as a sparse matrix: indices, values, shape."""
    widths = [len(row) for row in rows]
    places = [(k, column) for k, width in enumerate(widths) for column in range(width)]
    values = [text for row in rows for text in row]
    shape = np.array([len(rows), max(widths, default=0)], np.int64)
    return np.array(places, np.int64).reshape(-1, 2), array_of(values, (len(values),)), shape


def _split_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 1)
    shapes.with_rank(context.inputs[1], 0)
    return [(None, 2), (None,), (2,)]


def _checked_split(value: Array, delimiter: Array) -> bytes:
    if value.ndim != 1:
        raise InvalidArgumentError(f"input must be a vector, got shape: {shown(value.shape)}")
    if delimiter.ndim:
        raise InvalidArgumentError(f"delimiter must be a scalar, got shape: {shown(delimiter.shape)}")
    return bytes(delimiter.item())


def _split_kernel(context: KernelContext) -> Compute:
    """Return a kernel that splits at each byte of the delimiter, or into single bytes if it is empty."""
    skips: bool = context.attrs["skip_empty"]

    def pieces(text: bytes, delimiter: bytes) -> list[bytes]:
        if not delimiter:
            return [bytes([byte]) for byte in text]
        for other in delimiter[1:]:
            text = text.replace(bytes([other]), delimiter[:1])
        found = text.split(delimiter[:1]) if text else []
        return [piece for piece in found if piece] if skips else found

    def compute(value: Array, delimiter: Array) -> Any:
        by = _checked_split(value, delimiter)
        return _sparse([pieces(text, by) for text in value])

    return compute


def _split_v2_kernel(context: KernelContext) -> Compute:
    """Return a kernel that splits as Python does; 0 means any number of splits, too."""
    most: int = context.attrs["maxsplit"]

    def compute(value: Array, separator: Array) -> Any:
        by = _checked_split(value, separator) or None
        return _sparse([text.split(by, most) if most else [text] for text in value])

    return compute


_PIECES = "(indices:int64, values:string, shape:int64)"
register(
    f"StringSplit(input:string, delimiter:string) -> {_PIECES} [skip_empty:bool=true]",
    shape=_split_shape,
    kernel=_split_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
register(
    f"StringSplitV2(input:string, sep:string) -> {_PIECES} [maxsplit:int=-1]",
    shape=_split_shape,
    kernel=_split_v2_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)


def _starts(text: bytes) -> list[int]:
    """Return the offsets of UTF-8 characters, and the end."""
    return [k for k, byte in enumerate(text) if byte & 0xC0 != 0x80] + [len(text)]


def _part_of_bytes(text: bytes, position: int, length: int) -> bytes:
    if not -len(text) <= position <= len(text):
        raise ValueError(f" b'{text_of(text)}'")
    start = position if position >= 0 else len(text) + position
    return text[start : start + length] if length >= 0 else text[start:]


def _part_of_characters(text: bytes, position: int, length: int) -> bytes:
    starts = _starts(text)
    count = len(starts) - 1
    if not -count <= position <= count:
        raise ValueError("")
    start = position if position >= 0 else count + position
    return text[starts[start] : starts[min(start + max(length, 0), count)]]


def _substr_kernel(context: KernelContext) -> Compute:
    part = _part_of_bytes if context.attrs["unit"] == "BYTE" else _part_of_characters

    def compute(value: Array, positions: Array, lengths: Array) -> Array:
        if positions.shape != lengths.shape:
            raise InvalidArgumentError(
                f"pos and len should have the same shape, got: {shown(positions.shape)} vs. {shown(lengths.shape)}"
            )
        try:
            shape = np.broadcast_shapes(value.shape, positions.shape)
        except ValueError:
            raise InvalidArgumentError(
                f"Incompatible shapes: {shown(value.shape)} vs. {shown(positions.shape)}"
            ) from None
        spread = [np.broadcast_to(array, shape).ravel() for array in (value, positions, lengths)]
        return array_of(_parts(part, zip(*spread, strict=True)), shape)

    return compute


def _parts(part: Callable[[bytes, int, int], bytes], cuts: Iterator[Any]) -> Iterator[bytes]:
    for number, (text, position, length) in enumerate(cuts):
        try:
            yield part(text, int(position), int(length))
        except ValueError as error:
            raise InvalidArgumentError(
                f"pos {position} out of range for string{error} at index {number}"
            ) from None


def _substr_shape(context: ShapeContext) -> Sequence[Dims]:
    positions = shapes.merge(context.inputs[1], context.inputs[2])
    return [shapes.broadcast(context.inputs[0], positions)]


_UNIT = "unit:string{BYTE|UTF8_CHAR}='BYTE'"
register(
    f"Substr(input:string, pos:T, len:T) -> (output:string) [T:type{{int32|int64}}; {_UNIT}]",
    shape=_substr_shape,
    kernel=_substr_kernel,
    gradient=undefined_gradient,
)


def _length_kernel(context: KernelContext) -> Compute:
    length = len if context.attrs["unit"] == "BYTE" else lambda text: len(_starts(text)) - 1
    return lambda value: each(length, value, np.int32)


register(
    f"StringLength(input:string) -> (output:int32) [{_UNIT}]",
    shape=same_shape,
    kernel=_length_kernel,
    gradient=undefined_gradient,
)


# Element-wise


def _strip_kernel(context: KernelContext) -> Compute:
    return lambda value: each(lambda text: text.strip(b" \t\n\v\f\r"), value)


def _cased(
    of_bytes: Callable[[bytes], bytes], of_text: Callable[[str], str]
) -> Callable[[KernelContext], Compute]:
    def kernel(context: KernelContext) -> Compute:
        encoding: str = context.attrs["encoding"]
        if encoding not in ("", "utf-8"):
            raise InvalidArgumentError(f"only utf-8 or '' (no encoding) is supported, received {encoding}")
        if not encoding:
            return lambda value: each(of_bytes, value)
        return lambda value: each(lambda text: of_text(text_of(text)).encode(), value)

    return kernel


_ALPHABET: Final = re.compile(rb"[A-Za-z0-9_-]*")


def _encode64_kernel(context: KernelContext) -> Compute:
    pads: bool = context.attrs["pad"]

    def encoded(text: bytes) -> bytes:
        result = base64.urlsafe_b64encode(text)
        return result if pads else result.rstrip(b"=")

    return lambda value: each(encoded, value)


def _decode64_kernel(context: KernelContext) -> Compute:
    def decoded(text: bytes) -> bytes:
        if len(text) % 4 == 0 and text.endswith(b"="):
            text = text[:-2] if text.endswith(b"==") else text[:-1]
        if not _ALPHABET.fullmatch(text):
            raise InvalidArgumentError("Invalid character found in base64.")
        if len(text) % 4 == 1:
            raise InvalidArgumentError("Base64 string length cannot be 1 modulo 4.")
        return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))

    return lambda value: each(decoded, value)


for _signature, _kernel, _gradient in (
    ("StringStrip(input:string) -> (output:string)", _strip_kernel, undefined_gradient),
    (
        "StringLower(input:string) -> (output:string) [encoding:string='']",
        _cased(bytes.lower, str.lower),
        undefined_gradient,
    ),
    (
        "StringUpper(input:string) -> (output:string) [encoding:string='']",
        _cased(bytes.upper, str.upper),
        undefined_gradient,
    ),
    ("EncodeBase64(input:string) -> (output:string) [pad:bool=false]", _encode64_kernel, NOT_DIFFERENTIABLE),
    ("DecodeBase64(input:string) -> (output:string)", _decode64_kernel, NOT_DIFFERENTIABLE),
):
    register(_signature, shape=same_shape, kernel=_kernel, gradient=_gradient)
