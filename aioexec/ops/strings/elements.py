"""Shared by ops on strings: application of functions to all elements, parsing of numbers.

Strings are `bytes` in object arrays. NumPy's string dtypes drop trailing zero bytes and are not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.ops.common.elementwise import Array, shown

_INTEGER = re.compile(rb"[+-]?[0-9]+")
# Possessive quantifiers: backtracking over digits would take quadratic time.
_FLOAT = re.compile(rb"[+-]?((\d++(\.\d*+)?|\.\d++)(e[+-]?\d++)?|inf(inity)?|nan)", re.IGNORECASE)
_HEXADECIMAL = re.compile(rb"[+-]?0x([0-9a-f]++(\.[0-9a-f]*+)?|\.[0-9a-f]++)(p[+-]?\d++)?", re.IGNORECASE)
_SLICE = 256  # elements between checks for cancellation
_SPACE = b" \t\n\v\f\r"
_MOST_DIGITS = 400
"""Maximum digits of an integer: more than any dtype needs, and few enough for Python's limit."""


def each(function: Callable[[Any], Any], value: Array, dtype: Any = np.object_) -> Array:
    """Return an array of `function(element)` of the same shape."""
    return array_of(_each(function, value), value.shape, dtype)


def _each(function: Callable[[Any], Any], value: Array) -> Iterator[Any]:
    elements = value.ravel()  # `flat` supports at most 32 dimensions
    for first in range(0, value.size, _SLICE):
        check_cancelled()
        yield from map(function, elements[first : first + _SLICE])


def array_of(elements: Iterable[Any], shape: tuple[int, ...], dtype: Any = np.object_) -> Array:
    """Return an object array of a given shape with these elements."""
    return np.fromiter(elements, dtype, math.prod(shape)).reshape(shape)


def scalar_bytes(value: Array, what: str) -> bytes:
    """Return the element of a scalar.

    Raises:
        InvalidArgumentError: the array is not a scalar.
    """
    if np.ndim(value) != 0:
        raise InvalidArgumentError(
            f"{what} must be scalar, but received tensor of shape: {shown(np.shape(value))}"
        )
    return bytes(np.asarray(value).item())


def bytes_of(attr: str | bytes) -> bytes:
    """Return a string attribute as bytes; attributes that are not UTF-8 are bytes already."""
    return attr if isinstance(attr, bytes) else attr.encode()


def text_of(value: bytes) -> str:
    """Decode bytes for a message."""
    return value.decode("utf-8", "replace")


def number_parser(dtype: DType) -> Callable[[bytes], Any]:
    """Return a parser of numbers of a dtype, which accepts surrounding spaces and raises ValueError."""
    if not dtype.is_integer:
        return _float
    limits = np.iinfo(dtype.numpy)
    is_signed = limits.min < 0

    def integer(text: bytes) -> int:
        text = text.strip(_SPACE)
        if not _INTEGER.fullmatch(text) or len(text) > _MOST_DIGITS or (text[:1] == b"-" and not is_signed):
            raise ValueError(text)
        number = int(text)
        if not limits.min <= number <= limits.max:
            raise ValueError(text)
        return number

    return integer


def _float(text: bytes) -> float:
    text = text.strip(_SPACE)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(text.decode())
        except OverflowError:
            return -np.inf if text.startswith(b"-") else np.inf
    raise ValueError(text)


def parsed_array(numbers: Iterable[Any], shape: tuple[int, ...], dtype: DType) -> Array:
    """Return parsed numbers as an array; values beyond float32 become infinite (kernels run without warnings)."""
    if dtype is dt.float32:
        return array_of(numbers, shape, np.float64).astype(np.float32)
    return array_of(numbers, shape, dtype.numpy)
