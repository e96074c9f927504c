"""StringToNumber, AsString, and hash buckets of strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.formats.murmur import murmur64
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, register
from aioexec.ops.common.elementwise import same_shape
from aioexec.ops.strings.elements import bytes_of, each, number_parser, parsed_array, text_of
from aioexec.ops.strings.hashes import fingerprint64, siphash

# Numbers from strings


def _number_kernel(context: KernelContext) -> Compute:
    dtype = context.output_dtypes[0]
    parse = number_parser(dtype)

    def number(text: bytes) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise InvalidArgumentError(
                f"StringToNumberOp could not correctly convert string: {text_of(text)}"
            ) from None

    return lambda value: parsed_array(map(number, value.ravel()), value.shape, dtype)


register(
    "StringToNumber(string_tensor:string) -> (output:out_type) [out_type:type{float|double|int32|int64|uint32|uint64}=float]",
    shape=same_shape,
    kernel=_number_kernel,
    gradient=NOT_DIFFERENTIABLE,
)


# Strings from numbers

_FILLS = " +-0#"
_MOST_WIDTH = 1 << 16


def _format(dtype: DType, attrs: Attrs) -> str:
    """Return the printf format for a number.

    Raises:
        InvalidArgumentError: the dtype does not support the attributes.
    """
    fill, width, precision = text_of(bytes_of(attrs["fill"])), attrs["width"], attrs["precision"]
    scientific, shortest = attrs["scientific"], attrs["shortest"]
    if not dtype.is_floating and not dtype.is_complex and dtype is not dt.string:
        if scientific or shortest:
            raise InvalidArgumentError(
                f"scientific and shortest format not supported for datatype {dtype.name}"
            )
        if precision >= 0:
            raise InvalidArgumentError(f"precision not supported for datatype {dtype.name}")
    if len(fill) > 1:
        raise InvalidArgumentError("Fill string must be one or fewer characters")
    if fill and fill not in _FILLS:
        raise InvalidArgumentError(f'Fill argument not supported: "{fill}"')
    if scientific and shortest:
        raise InvalidArgumentError("Cannot select both scientific and shortest notation")
    if max(width, precision) > _MOST_WIDTH:
        raise InvalidArgumentError(
            f"width and precision must be at most {_MOST_WIDTH}, got {width} and {precision}"
        )
    return f"%{fill}{width if width >= 0 else ''}{f'.{precision}' if precision >= 0 else ''}{_letter(dtype, attrs)}"


def _letter(dtype: DType, attrs: Attrs) -> str:
    if dtype.is_floating or dtype.is_complex:
        return "e" if attrs["scientific"] else "g" if attrs["shortest"] else "f"
    return "d" if dtype.is_integer else "s"


def _text_kernel(context: KernelContext) -> Compute:
    dtype = context.input_dtypes[0]
    form = _format(dtype, context.attrs)
    if dtype is dt.string:
        return lambda value: each(lambda text: _padded(text, context.attrs), value)
    if dtype is dt.bool_:
        return lambda value: each(lambda item: b"true" if item else b"false", value)
    if dtype is dt.variant:
        raise InvalidArgumentError("AsString: values of variant have no text")
    if dtype.is_complex:
        return lambda value: each(lambda item: f"({form % item.real},{form % item.imag})".encode(), value)
    unfilled = form.replace("%0", "%")  # infinity and NaN are not padded with zeros
    return lambda value: each(lambda item: ((form if np.isfinite(item) else unfilled) % item).encode(), value)


def _padded(text: bytes, attrs: Attrs) -> bytes:
    width = max(attrs["width"], 0)
    return text.ljust(width) if attrs["fill"] == "-" else text.rjust(width)


register(
    "AsString(input:T) -> (output:string) [T:type@8; precision:int=-1; scientific:bool=false; shortest:bool=false; "
    "width:int=-1; fill:string='']",
    shape=same_shape,
    kernel=_text_kernel,
    gradient=NOT_DIFFERENTIABLE,
)


# Buckets


def _buckets(hash_of: Callable[[bytes], int], buckets: int) -> Compute:
    return lambda value: each(lambda text: hash_of(text) % buckets, value, np.int64)


def _strong_kernel(context: KernelContext) -> Compute:
    key: Sequence[int] = context.attrs["key"]
    if len(key) != 2:
        raise InvalidArgumentError(f"Key must have 2 elements, got {len(key)}")
    return _buckets(partial(siphash, (key[0], key[1])), context.attrs["num_buckets"])


for _signature, _kernel in (
    (
        "StringToHashBucketFast(input:string) -> (output:int64) [num_buckets:int>=1]",
        lambda context: _buckets(fingerprint64, context.attrs["num_buckets"]),
    ),
    (
        "StringToHashBucketStrong(input:string) -> (output:int64) [num_buckets:int>=1; key:list(int)]",
        _strong_kernel,
    ),
    (
        "StringToHashBucket(string_tensor:string) -> (output:int64) [num_buckets:int>=1]",
        lambda context: _buckets(murmur64, context.attrs["num_buckets"]),
    ),
):
    register(_signature, shape=same_shape, kernel=_kernel, gradient=NOT_DIFFERENTIABLE)


# Python names


def string_to_number(
    string_tensor: Any = None, out_type: Any = dt.float32, name: str | None = None, input: Any = None
) -> Tensor:
    """Parse strings as numbers of `out_type`."""
    value = input if string_tensor is None else string_tensor
    return apply_op("StringToNumber", value, out_type=dt.as_dtype(out_type), name=name)


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Tensor:
    """Format elements as C's printf does.

    Args:
        precision: digits after the decimal point.
        scientific, shortest: exponential notation, or the shorter of both notations.
        width: minimum number of characters; `fill` is the padding character or a flag of printf.
    """
    return apply_op(
        "AsString",
        input,
        precision=precision,
        scientific=scientific,
        shortest=shortest,
        width=width,
        fill=fill,
        name=name,
    )


def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """Hash strings to buckets by FarmHash."""
    return apply_op("StringToHashBucketFast", input, num_buckets=num_buckets, name=name)


def string_to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Sequence[int], name: str | None = None
) -> Tensor:
    """Hash strings to buckets by SipHash, unpredictable without the key of two integers."""
    return apply_op("StringToHashBucketStrong", input, num_buckets=num_buckets, key=list(key), name=name)


def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: int | None = None, name: str | None = None, input: Any = None
) -> Tensor:
    """Hash strings to buckets by a function that may change between versions of TensorFlow."""
    value = input if string_tensor is None else string_tensor
    return apply_op("StringToHashBucket", value, num_buckets=num_buckets, name=name)
