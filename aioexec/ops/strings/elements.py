"""What ops on strings have in common: a function applied to every element, numbers read from text.

Strings are `bytes` in arrays of objects. NumPy's own string types drop trailing zeros, so nothing here goes through them.
"""

from __future__ import annotations

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
# Possessive quantifiers: to try fewer digits would take time in proportion to the square of their number.
_FLOAT = re.compile(rb"[+-]?((\d++(\.\d*+)?|\.\d++)(e[+-]?\d++)?|inf(inity)?|nan)", re.IGNORECASE)
_HEXADECIMAL = re.compile(rb"[+-]?0x([0-9a-f]++(\.[0-9a-f]*+)?|\.[0-9a-f]++)(p[+-]?\d++)?", re.IGNORECASE)
_SLICE = 256  # elements between two looks at the cancellation of the step
_SPACE = b" \t\n\v\f\r"
_MOST_DIGITS = 400
"""Digits of an integer; more than any has, and few enough for Python to read."""


def each(function: Callable[[Any], Any], value: Array, dtype: Any = np.object_) -> Array:
    """The array of `function(element)`, in the same shape."""
    return array_of(_each(function, value), value.shape, dtype)


def _each(function: Callable[[Any], Any], value: Array) -> Iterator[Any]:
    elements = value.ravel()  # `flat` has no more than 32 dimensions
    for first in range(0, value.size, _SLICE):
        check_cancelled()
        yield from map(function, elements[first : first + _SLICE])


def array_of(elements: Iterable[Any], shape: tuple[int, ...], dtype: Any = np.object_) -> Array:
    """An array of so many elements, whatever they are."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.fromiter(elements, dtype, count).reshape(shape)


def scalar_bytes(value: Array, what: str) -> bytes:
    """The only element of a scalar.

    Raises:
        InvalidArgumentError: it is not one.
    """
    if np.ndim(value) != 0:
        raise InvalidArgumentError(
            f"{what} must be scalar, but received tensor of shape: {shown(np.shape(value))}"
        )
    return bytes(np.asarray(value).item())


def bytes_of(attr: str | bytes) -> bytes:
    """A string attribute, which is held as bytes where it is not UTF-8."""
    return attr if isinstance(attr, bytes) else attr.encode()


def text_of(value: bytes) -> str:
    """Bytes in a message."""
    return value.decode("utf-8", "replace")


def number_parser(dtype: DType) -> Callable[[bytes], Any]:
    """From a text, spaces around it, to a number of the dtype; raises ValueError if it is none."""
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
    """Numbers of `number_parser` as an array of the dtype; what is beyond a float32 is infinite."""
    if dtype is dt.float32:
        with np.errstate(over="ignore"):
            return array_of(numbers, shape, np.float64).astype(np.float32)
    return array_of(numbers, shape, dtype.numpy)
