"""The JSON of the REST interface: converts requests to arrays, and fetched arrays to replies.

The row format of TensorFlow Serving. If a model has one input (output), a row is its value; otherwise an object with a value
for each name:

    {"instances": [[0.1, 0.2], [0.3, 0.4]]}             {"predictions": [1, 7]}
    {"instances": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}   {"predictions": [{"sum": 3, "product": 2}, …]}

Both are JSON (RFC 8259), which cannot express infinite numbers and NaN: in replies these are the strings "NaN", "Infinity" and
"-Infinity", as in the JSON mapping of protocol buffers; in requests the unquoted words are refused, and so are numbers beyond
the range of their input's dtype.
"""

import base64
import json
import math
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.dtypes import to_array
from aioexec.errors import InternalError, InvalidArgumentError, OpError
from aioexec.graph.node import Tensor

Array = npt.NDArray[Any]

SIGNATURE_NAME = "serving_default"
"""The name of a model's only signature, which is the default of TensorFlow's clients."""


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """The feeds, and the number of instances in them, `count`."""

    feeds: Mapping[Tensor, Array]
    count: int


def decode_request(inputs: Mapping[str, Tensor], body: bytes) -> PredictRequest:
    """Parse the body of a predict request.

    Raises:
        InvalidArgumentError: it is not JSON of the row format, or a value does not fit its input.
    """
    rows = _instances(body)
    columns = _columns(list(inputs), rows)
    feeds = {tensor: _value(name, tensor, columns[name]) for name, tensor in inputs.items()}
    return PredictRequest(feeds, len(rows))


def encode_answer(outputs: Mapping[str, Array], count: int) -> bytes:
    """Serialize the reply to `count` instances.

    Raises:
        InternalError: an output's batch size is not that of the request.
    """
    for name, value in outputs.items():
        if value.ndim == 0 or len(value) != count:
            raise InternalError(f"output {name!r}: expected {count} rows, got shape {value.shape}")
    columns = {name: value.tolist() for name, value in outputs.items()}
    if len(columns) == 1:
        (predictions,) = columns.values()
    else:
        predictions = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    try:
        return _written(predictions)
    except ValueError:  # a value is not finite, which is rare, so it is handled only now
        return _written(_finite(predictions))


def _written(predictions: Any) -> bytes:
    return json.dumps({"predictions": predictions}, default=_encode_leaf, allow_nan=False).encode()


def _finite(value: Any) -> Any:
    """The value with non-finite numbers replaced by strings."""
    if isinstance(value, list):
        return [_finite(element) for element in value]
    if isinstance(value, dict):
        return {name: _finite(element) for name, element in value.items()}
    if isinstance(value, (bytes, str, int)):
        return value
    number = float(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _instances(body: bytes) -> list[Any]:
    try:
        request = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # ValueError: malformed JSON or UTF-8
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgumentError(f"the request is not JSON: {reason}") from error
    if not isinstance(request, dict):
        raise InvalidArgumentError(f"the request must be a JSON object, got {reprlib.repr(request)}")
    if "instances" not in request:
        raise InvalidArgumentError(f"the request must have 'instances', got the keys {_names(request)}")
    unknown = request.keys() - {"instances", "signature_name"}
    if unknown:
        raise InvalidArgumentError(f"the request has unknown keys: {_names(unknown)}")
    if request.get("signature_name", SIGNATURE_NAME) != SIGNATURE_NAME:
        raise InvalidArgumentError(
            f"'signature_name' must be {SIGNATURE_NAME!r}, got {reprlib.repr(request['signature_name'])}"
        )
    rows = request["instances"]
    if not isinstance(rows, list) or not rows:
        raise InvalidArgumentError(f"'instances' must be a list of at least one, got {reprlib.repr(rows)}")
    return rows


def _columns(names: list[str], rows: list[Any]) -> dict[str, list[Any]]:
    if len(names) == 1 and not isinstance(rows[0], dict):
        return {names[0]: rows}
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != set(names):
            got = f"the keys {_names(row)}" if isinstance(row, dict) else reprlib.repr(row)
            raise InvalidArgumentError(
                f"instance {index}: expected an object with the keys {_names(names)}, got {got}"
            )
    return {name: [row[name] for row in rows] for name in names}


def _value(name: str, tensor: Tensor, column: list[Any]) -> Array:
    try:
        value = to_array(column, tensor.dtype)
    except OpError as error:
        raise InvalidArgumentError(f"input {name!r}: {error.message}") from error
    if (tensor.dtype.is_floating or tensor.dtype.is_complex) and not np.isfinite(value).all():
        raise InvalidArgumentError(f"input {name!r}: expected numbers that {tensor.dtype.name} can hold")
    if not shapes.compatible(tensor.dims, value.shape):
        raise InvalidArgumentError(
            f"input {name!r}: expected shape {shapes.describe(tensor.dims)}, got {value.shape}"
        )
    return value


def _names(names: Any) -> str:
    return reprlib.repr(sorted(names))


def _encode_leaf(leaf: Any) -> Any:
    """Convert values of `tolist` that JSON lacks: strings, and scalars of types that NumPy does not have."""
    return {"b64": base64.b64encode(leaf).decode()} if isinstance(leaf, bytes) else float(leaf)
