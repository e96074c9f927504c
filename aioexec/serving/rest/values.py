"""Values in JSON: from and to arrays of a tensor's dtype.

Bytes are objects {"b64": …} or, where they are UTF-8, strings. JSON (RFC 8259) cannot express infinite numbers and NaN: in
replies these are the strings "NaN", "Infinity" and "-Infinity", as in the JSON mapping of protocol buffers; in requests the
unquoted words are refused, and so are numbers beyond the range of their input's dtype.
"""

from __future__ import annotations

import base64
import binascii
import math
import reprlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aioexec import shapes
from aioexec.dtypes import string, to_array
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, OpError
from aioexec.graph.node import Tensor
from aioexec.serving.json_text import parse_json, write_json

Array = npt.NDArray[Any]

_B64: Final = {"b64"}
_BYTES_SUFFIX: Final = "_bytes"
"""Outputs whose name ends so are bytes, not text: the convention of TensorFlow Serving."""


def parsed(body: bytes, keys: Collection[str]) -> dict[str, Any]:
    """Parse a request, which is an object with some of these keys.

    Raises:
        InvalidArgumentError: it is not.
    """
    request = parse_json(body)
    if not isinstance(request, dict):
        raise InvalidArgumentError(f"the request must be a JSON object, got {reprlib.repr(request)}")
    unknown = request.keys() - keys
    if unknown:
        raise InvalidArgumentError(f"the request has unknown keys: {names(unknown)}")
    return request


def array_of(name: str, tensor: Tensor, value: Any) -> Array:
    """Convert the value of an input.

    Raises:
        InvalidArgumentError: its dtype or shape is not that of the tensor.
    """
    dtype = tensor.dtype.base_dtype
    try:
        array = to_array(_decoded(value) if dtype == string else value, dtype)
    except OpError as error:
        raise InvalidArgumentError(f"input {name!r}: {error.message}") from error
    if (dtype.is_floating or dtype.is_complex) and not np.isfinite(array).all():
        raise InvalidArgumentError(f"input {name!r}: expected numbers that {dtype.name} can hold")
    if not shapes.compatible(tensor.dims, array.shape):
        raise InvalidArgumentError(
            f"input {name!r}: expected shape {shapes.describe(tensor.dims)}, got {array.shape}"
        )
    return array


def is_b64(value: Any) -> bool:
    """Whether a value is bytes in base64."""
    return isinstance(value, dict) and value.keys() == _B64


def bytes_of(value: dict[str, Any]) -> bytes:
    """Decode {"b64": text}.

    Raises:
        InvalidArgumentError: it is not base64.
    """
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"expected base64, got {reprlib.repr(value['b64'])}: {error}") from error


def json_of(name: str, array: Array) -> Any:
    """Convert an output to values for `written`.

    Raises:
        FailedPreconditionError: JSON has no values of its dtype.
    """
    if array.dtype == np.object_:
        return _texts(array, is_bytes=name.endswith(_BYTES_SUFFIX))
    if array.dtype.kind in "cmM":
        raise FailedPreconditionError(f"output {name!r}: JSON has no values of {array.dtype}")
    return array.tolist()


def written(reply: Mapping[str, Any]) -> bytes:
    """Serialize a reply."""
    try:
        return write_json(reply)
    except ValueError:  # a value is not finite, which is rare, so it is handled only now
        return write_json(_finite(reply))


def names(found: Any) -> str:
    """Names in an error's message."""
    return reprlib.repr(sorted(found))


def _decoded(value: Any) -> Any:
    """A value of a string tensor, with bytes for base64."""
    if isinstance(value, list):
        return [_decoded(element) for element in value]
    return bytes_of(value) if is_b64(value) else value


def _texts(array: Array, *, is_bytes: bool) -> Any:
    """Strings; base64 for all of them if one is not UTF-8, so that an output has values of one kind."""
    flat = [element if isinstance(element, bytes) else str(element).encode() for element in array.ravel()]
    converted: list[Any] = []
    if not is_bytes:
        try:
            converted = [element.decode() for element in flat]
        except UnicodeDecodeError:
            is_bytes = True
    if is_bytes:
        converted = [{"b64": base64.b64encode(element).decode()} for element in flat]
    boxes = np.empty(len(flat), np.object_)
    boxes[:] = converted
    return boxes.reshape(array.shape).tolist()


def _finite(value: Any) -> Any:
    """The value with non-finite numbers replaced by strings."""
    if isinstance(value, list):
        return [_finite(element) for element in value]
    if isinstance(value, dict):
        return {name: _finite(element) for name, element in value.items()}
    if isinstance(value, (str, int)):
        return value
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
