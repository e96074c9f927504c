"""Conversions between bytes and text, and tuples of types, under the names of `tf.compat`."""

from __future__ import annotations

import numbers
import os
from typing import Any, Final

import numpy as np

from aioexec.errors import GraphTypeError
from aioexec.shapes import Dimension, TensorShape

bytes_or_text_types: Final = (bytes, str)
integral_types: Final = (numbers.Integral, np.integer)
real_types: Final = (numbers.Real, np.integer, np.floating)
complex_types: Final = (numbers.Complex, np.number)


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Return bytes: text is encoded, a bytearray copied.

    Raises:
        GraphTypeError: anything else.
    """
    if isinstance(bytes_or_text, bytes | bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    raise GraphTypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Return text: bytes are decoded.

    Raises:
        GraphTypeError: anything else.
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise GraphTypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Return text: bytes are decoded, anything else as `str` shows it."""
    return value.decode(encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Return the path of a path-like object as text; anything else as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


def dimension_value(dimension: Any) -> Any:
    """Return the size of a Dimension, None if it is unknown; anything else as it is."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: Any, index: int) -> Dimension:
    """Return the Dimension at a place of a TensorShape; an unknown one if its rank is unknown."""
    dims = TensorShape(shape).dims
    return Dimension(None) if dims is None else dims[index]
