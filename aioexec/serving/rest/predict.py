"""The JSON of `:predict`, in TensorFlow Serving's two formats.

Rows: a value for each instance. If a signature has one input (output), it is its value; otherwise an object by name:

    {"instances": [[0.1, 0.2], [0.3, 0.4]]}               {"predictions": [1, 7]}
    {"instances": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}   {"predictions": [{"sum": 3, "product": 2}, …]}

Columns: a value for each input and output, whose shapes need not have a batch dimension:

    {"inputs": {"x": [1, 3], "y": [2, 4]}}                {"outputs": {"sum": [3, 7], "product": [2, 12]}}
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.serving.models.served_version import DEFAULT_SIGNATURE, ServedVersion, Signature
from aioexec.serving.rest.values import Array, array_of, is_b64, json_of, names, parsed, written

_KEYS: Final = ("instances", "inputs", "signature_name")


@dataclass(frozen=True, slots=True)
class PredictRequest:
    """What to run: a signature with values of its inputs; `count` is the number of rows, None for columns."""

    signature_name: str
    inputs: Mapping[str, Array]
    count: int | None


def decode_request(served: ServedVersion, body: bytes) -> PredictRequest:
    """Parse the body of a predict request.

    Raises:
        InvalidArgumentError: it is not JSON of one of the formats, or a value does not fit its input.
    """
    request = parsed(body, _KEYS)
    if ("instances" in request) == ("inputs" in request):
        raise InvalidArgumentError(
            f"the request must have either 'instances' or 'inputs', got the keys {names(request)}"
        )
    signature_name = signature_name_of(request)
    signature = served.signature(signature_name)
    tensors = signature.inputs
    expected = _Names.of(signature)
    if "inputs" in request:
        columns, count = _named(expected, request["inputs"]), None
    else:
        rows = request["instances"]
        if not isinstance(rows, list) or not rows:
            raise InvalidArgumentError(
                f"'instances' must be a list of at least one, got {reprlib.repr(rows)}"
            )
        columns, count = _columns(expected, rows), len(rows)
    inputs = {name: array_of(name, tensors[name], column) for name, column in columns.items()}
    return PredictRequest(signature_name, inputs, count)


def signature_name_of(request: Mapping[str, Any]) -> str:
    """Return the signature that a request names, or the default one."""
    name = request.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(name, str):
        raise InvalidArgumentError(f"'signature_name' must be a string, got {reprlib.repr(name)}")
    return name


def encode_answer(outputs: Mapping[str, Array], count: int | None) -> bytes:
    """Serialize the reply to `count` rows, or to columns if it is None.

    Raises:
        FailedPreconditionError: an output has no row for each instance, or a dtype that JSON does not have.
    """
    if count is None:
        columns = {name: json_of(name, array) for name, array in outputs.items()}
        return written({"outputs": _single(columns)})
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != count:
            raise FailedPreconditionError(
                f"output {name!r}: expected {count} rows, got shape {array.shape}; use 'inputs' instead of 'instances'"
            )
    columns = {name: json_of(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        return written({"predictions": _single(columns)})
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return written({"predictions": rows})


def _single(columns: Mapping[str, Any]) -> Any:
    """The only column, or all."""
    if len(columns) != 1:
        return columns
    (column,) = columns.values()
    return column


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a signature's inputs: all, and those without a default value, which a request must have."""

    every: frozenset[str]
    required: frozenset[str]

    @classmethod
    def of(cls, signature: Signature) -> _Names:
        defaults: Mapping[str, Any] = getattr(
            signature, "defaults", {}
        )  # signatures of other kinds have none
        every = frozenset(signature.inputs)
        return cls(every, every - defaults.keys())

    def single(self, value: Any) -> str | None:
        """The input that a value without a name is for, None if the value has names."""
        wanted = self.every if len(self.every) == 1 else self.required
        if len(wanted) != 1 or (isinstance(value, dict) and not is_b64(value)):
            return None
        return next(iter(wanted))

    def check(self, where: str, given: Any) -> None:
        """Raise InvalidArgumentError if values are not given by these names."""
        if not isinstance(given, dict) or not self.required <= given.keys() <= self.every:
            got = f"the keys {names(given)}" if isinstance(given, dict) else reprlib.repr(given)
            raise InvalidArgumentError(
                f"{where}: expected an object with the keys {names(self.every)}, got {got}"
            )


def _named(expected: _Names, given: Any) -> Mapping[str, Any]:
    """The values by input: given so, or as the value of the only input."""
    single = expected.single(given)
    if single is not None:
        return {single: given}
    expected.check("'inputs'", given)
    values: Mapping[str, Any] = given
    return values


def _columns(expected: _Names, rows: list[Any]) -> Mapping[str, list[Any]]:
    single = expected.single(rows[0])
    if single is not None:
        return {single: rows}
    for index, row in enumerate(rows):
        expected.check(f"instance {index}", row)
        if row.keys() != rows[0].keys():
            raise InvalidArgumentError(
                f"instance {index}: expected the keys of instance 0, {names(rows[0])}, got {names(row)}"
            )
    return {name: [row[name] for row in rows] for name in rows[0]}
