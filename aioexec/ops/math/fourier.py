"""Discrete Fourier transforms over the last one, two or three dimensions, of complex or real numbers.

Transforms of real numbers keep only the first half of the frequencies in the last dimension; the others are their conjugates.
`fft_length` is the length of each dimension in real space, to which the input is cropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, named, op_scope, shown
from aioexec.shapes import Dims

_COMPLEX = "Tcomplex:type{complex64|complex128}=complex64"
_REAL = f"Treal:type{{float|double}}=float; {_COMPLEX}"
_COMPLEX_OF = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
_REAL_OF = {whole: part for part, whole in _COMPLEX_OF.items()}


def _suffix(rank: int) -> str:
    return "" if rank == 1 else f"{rank}D"


# Of complex numbers


def _same_of_rank(rank: int) -> Callable[[ShapeContext], Sequence[Dims]]:
    return lambda context: [shapes.with_rank_at_least(context.inputs[0], rank)]


def _plain_kernel(rank: int, function: Callable[..., Array]) -> Any:
    def bind(context: KernelContext) -> Compute:
        def compute(x: Array) -> Array:
            if x.ndim < rank:
                raise InvalidArgumentError(
                    f"Input must have rank of at least {rank} but got: {shown(x.shape)}"
                )
            if not x.size:
                return x
            return function(x, axes=range(-rank, 0)).astype(x.dtype, copy=False)

        return compute

    return bind


def _size(x: Tensor, rank: int) -> Tensor:
    """Return the number of elements that are transformed together."""
    last = apply_op("StridedSlice", apply_op("Shape", x), [-rank], [0], [1], end_mask=1)
    return apply_op("Cast", apply_op("Prod", last, [0]), DstT=x.dtype.base_dtype)


for _rank in (1, 2, 3):

    def _forward_gradient(op: Operation, dy: Tensor, rank: int = _rank) -> list[Tensor]:
        return [apply_op(f"IFFT{_suffix(rank)}", dy) * _size(dy, rank)]

    def _backward_gradient(op: Operation, dy: Tensor, rank: int = _rank) -> list[Tensor]:
        return [apply_op(f"FFT{_suffix(rank)}", dy) / _size(dy, rank)]

    for _name, _function, _gradient in (
        ("FFT", np.fft.fftn, _forward_gradient),
        ("IFFT", np.fft.ifftn, _backward_gradient),
    ):
        register(
            f"{_name}{_suffix(_rank)}(input:Tcomplex) -> (output:Tcomplex) [{_COMPLEX}]",
            shape=_same_of_rank(_rank),
            kernel=_plain_kernel(_rank, _function),
            gradient=_gradient,
        )

# Of real numbers


def _real_shape(rank: int, to_real: bool) -> Any:
    def shape(context: ShapeContext) -> Sequence[Dims]:
        dims = shapes.with_rank_at_least(context.inputs[0], rank)
        shapes.merge(shapes.with_rank(context.inputs[1], 1), (rank,))
        length = context.value(1)
        if dims is None:
            return [None]
        if length is None:
            return [(*dims[:-rank], *[None] * rank)]
        last = [int(size) for size in length]
        if min(last) < 0:
            raise GraphValueError(f"fft_length must be numbers >= 0, got {last}")
        if not to_real:
            last[-1] = last[-1] // 2 + 1 if last[-1] else 0
        return [(*dims[:-rank], *last)]

    return shape


def _real_kernel(rank: int, to_real: bool) -> Any:
    def bind(context: KernelContext) -> Compute:
        (given, _), (made,) = context.input_dtypes, context.output_dtypes
        wanted = made.numpy
        fits = _REAL_OF[given] == made if to_real else _COMPLEX_OF[given] == made

        def compute(x: Array, length: Array) -> Array:
            if not fits:
                raise InvalidArgumentError(
                    f"The real and complex types differ in width: {given.name}, {made.name}"
                )
            _check_length(x, length, rank, to_real)
            sizes = length.tolist()
            out = [*sizes[:-1], sizes[-1] if to_real else sizes[-1] // 2 + 1 if sizes[-1] else 0]
            if not x.size or 0 in sizes:
                return np.zeros((*x.shape[:-rank], *out), wanted)
            function = np.fft.irfftn if to_real else np.fft.rfftn
            return np.asarray(function(x, sizes, range(-rank, 0))).astype(wanted, copy=False)

        return compute

    return bind


def _check_length(x: Array, length: Array, rank: int, to_real: bool) -> None:
    """Raise InvalidArgumentError if the input is too short, unless it is empty, as TensorFlow does."""
    if x.ndim < rank:
        raise InvalidArgumentError(f"Input must have rank of at least {rank} but got: {shown(x.shape)}")
    if length.shape != (rank,) or (length < 0).any():
        raise InvalidArgumentError(
            f"fft_length must be a vector of {rank} numbers >= 0, got {length.tolist()}"
        )
    for k, (size, wanted) in enumerate(zip(x.shape[-rank:], length.tolist(), strict=True)):
        least = wanted // 2 + 1 if to_real and k == rank - 1 else wanted
        if size and size < least:
            raise InvalidArgumentError(
                f"Input dimension {x.ndim - rank + k} must have length of at least {least} but got: {size}"
            )


def _resized(x: Tensor, like: Tensor, rank: int) -> Tensor:
    """Crop or zero-pad the last dimensions to those of `like`; cropped elements have no gradient."""
    if x.dims is not None and like.dims is not None and None not in x.dims and x.dims == like.dims:
        return x
    have, want = apply_op("Shape", x), apply_op("Shape", like)
    part = apply_op("Slice", x, apply_op("ZerosLike", have), apply_op("Minimum", have, want))
    after = apply_op("Sub", want, apply_op("Minimum", have, want))
    return apply_op("Pad", part, apply_op("Pack", [apply_op("ZerosLike", after), after], axis=1))


def _to_frequencies_gradient(rank: int) -> Any:
    """Return the gradient of RFFT: zero-pad dropped frequencies, transform back, take the real part."""

    def gradient(op: Operation, dy: Tensor) -> list[Any]:
        x, length = op.inputs
        last = apply_op("StridedSlice", length, [-1], [0], [1], end_mask=1)
        kept = apply_op("StridedSlice", apply_op("Shape", dy), [-1], [0], [1], end_mask=1)
        before = apply_op("StridedSlice", apply_op("Shape", dy), [0], [-1], [1], begin_mask=1)
        fill = apply_op(
            "Fill", apply_op("ConcatV2", [before, last - kept], 0), convert_to_tensor(0, dy.dtype.base_dtype)
        )
        whole = apply_op("ConcatV2", [dy, fill], -1)
        back = apply_op(f"IFFT{_suffix(rank)}", whole) * _size(whole, rank)
        return [_resized(apply_op("Real", back, Tout=x.dtype.base_dtype), x, rank), None]

    return gradient


def _to_real_gradient(rank: int) -> Any:
    """Return the gradient of IRFFT: frequencies count twice, but for the first and, of an even length, the last."""

    def gradient(op: Operation, dy: Tensor) -> list[Any]:
        x, length = op.inputs
        part, whole = dy.dtype.base_dtype, x.dtype.base_dtype
        last = apply_op("StridedSlice", length, [-1], [0], [1], shrink_axis_mask=1)
        found = apply_op(f"RFFT{_suffix(rank)}", dy, length, Tcomplex=whole)
        places = apply_op("Range", 0, last // 2 + 1, 1)
        once = apply_op("LogicalOr", apply_op("Equal", places, 0), apply_op("Equal", places * 2, last))
        weight = apply_op("SelectV2", once, convert_to_tensor(1, part), convert_to_tensor(2, part))
        scaled = weight / _size(dy, rank)
        return [_resized(found * apply_op("Cast", scaled, DstT=whole), x, rank), None]

    return gradient


for _rank in (1, 2, 3):
    for _head, _to_real, _rule in (
        (
            f"RFFT{_suffix(_rank)}(input:Treal, fft_length:int32) -> (output:Tcomplex)",
            False,
            _to_frequencies_gradient,
        ),
        (
            f"IRFFT{_suffix(_rank)}(input:Tcomplex, fft_length:int32) -> (output:Treal)",
            True,
            _to_real_gradient,
        ),
    ):
        register(
            f"{_head} [{_REAL}]",
            shape=_real_shape(_rank, _to_real),
            kernel=_real_kernel(_rank, _to_real),
            gradient=_rule(_rank) if _rank < 3 else undefined_gradient,
            shape_operands=(1,),
        )

# Functions


def _plain_function(op_type: str, summary: str) -> Callable[..., Tensor]:
    def function(input: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, input, name=name)

    return named(
        function, op_type.lower(), f"Return the {summary} of complex numbers over the last dimensions."
    )


fft, fft2d, fft3d = (
    _plain_function(f"FFT{_suffix(rank)}", "discrete Fourier transform") for rank in (1, 2, 3)
)
ifft, ifft2d, ifft3d = (
    _plain_function(f"IFFT{_suffix(rank)}", "inverse discrete Fourier transform") for rank in (1, 2, 3)
)


def _real_function(op_type: str, rank: int, to_real: bool, summary: str) -> Callable[..., Tensor]:
    def function(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        with op_scope(name, op_type.lower(), input_tensor, fft_length) as scope:
            tensor = convert_to_tensor(input_tensor, name="input")
            own = tensor.dtype.base_dtype
            if own not in (_REAL_OF if to_real else _COMPLEX_OF):
                raise GraphValueError(f"{op_type.lower()}: dtype {own.name} is not supported")
            length = _default_length(tensor, rank, to_real) if fft_length is None else fft_length
            attrs = {"Treal": _REAL_OF[own]} if to_real else {"Tcomplex": _COMPLEX_OF[own]}
            if fft_length is not None:
                tensor = _zero_padded(tensor, convert_to_tensor(length, dtypes.int32), rank, to_real)
            return apply_op(op_type, tensor, length, name=scope, **attrs)

    doc = (
        f"Return the {summary} over the last dimensions, of length `fft_length` each, by default the input's."
    )
    return named(function, op_type.lower(), doc)


def _default_length(x: Tensor, rank: int, to_real: bool) -> Tensor:
    shape = apply_op("StridedSlice", apply_op("Shape", x), [-rank], [0], [1], end_mask=1)
    if not to_real:
        return shape
    last = np.array([0] * (rank - 1) + [1], np.int32)
    # n frequencies represent 2 (n - 1) numbers; none represent none
    return apply_op(
        "Maximum", shape + (shape - 2) * convert_to_tensor(last), convert_to_tensor(0, dtypes.int32)
    )


def _zero_padded(x: Tensor, length: Tensor, rank: int, to_real: bool) -> Tensor:
    """Zero-pad dimensions shorter than `length`, which the ops reject."""
    halved = np.array([0] * (rank - 1) + [1], np.int32)
    wanted = length - (length - (length // 2 + 1)) * convert_to_tensor(halved) if to_real else length
    have = apply_op("StridedSlice", apply_op("Shape", x), [-rank], [0], [1], end_mask=1)
    missing = apply_op("Maximum", wanted - have, convert_to_tensor(0, dtypes.int32))
    batch = apply_op(
        "Fill", apply_op("ExpandDims", apply_op("Rank", x) - rank, 0), convert_to_tensor(0, dtypes.int32)
    )
    after = apply_op("ConcatV2", [batch, missing], 0)
    return apply_op("Pad", x, apply_op("Pack", [apply_op("ZerosLike", after), after], axis=1))


rfft, rfft2d, rfft3d = (
    _real_function(f"RFFT{_suffix(rank)}", rank, False, "discrete Fourier transform of real numbers")
    for rank in (1, 2, 3)
)
irfft, irfft2d, irfft3d = (
    _real_function(f"IRFFT{_suffix(rank)}", rank, True, "inverse discrete Fourier transform to real numbers")
    for rank in (1, 2, 3)
)
