"""The JSON of `:classify` and `:regress`: examples of features in, classes with scores or numbers out.

    {"context": {"day": 3}, "examples": [{"age": 41, "words": ["a", "b"]}, {"age": 19}]}
    {"result": [[["yes", 0.9], ["no", 0.1]], …]}      :classify
    {"result": [12.5, 3.0]}                           :regress

Each example becomes an Example proto; its features of integers, floats, and strings or {"b64": …}. Those of the context are
added to every example that has none of that name.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.formats.protos.example_pb2 import Example, Feature
from aioexec.serving.models.served_version import ServedVersion
from aioexec.serving.rest.predict import signature_name_of
from aioexec.serving.rest.values import Array, bytes_of, is_b64, json_of, parsed, written

Verb = Literal["classify", "regress"]

_KEYS: Final = ("examples", "context", "signature_name")
_METHODS: Final[Mapping[Verb, str]] = {
    "classify": "tensorflow/serving/classify",
    "regress": "tensorflow/serving/regress",
}
_OUTPUTS: Final[Mapping[Verb, tuple[str, ...]]] = {"classify": ("classes", "scores"), "regress": ("outputs",)}


@dataclass(frozen=True, slots=True)
class ExamplesRequest:
    """A signature, the serialized examples for its only input, and the outputs to fetch."""

    signature_name: str
    inputs: Mapping[str, Array]
    outputs: tuple[str, ...]
    count: int


def decode_request(served: ServedVersion, body: bytes, verb: Verb) -> ExamplesRequest:
    """Parse the body of a classify or regress request.

    Raises:
        InvalidArgumentError: it is not JSON of this format, or the signature is not for it.
    """
    request = parsed(body, _KEYS)
    signature_name = signature_name_of(request)
    signature = served.signature(signature_name)
    if signature.method_name != _METHODS[verb] or len(signature.inputs) != 1:
        raise InvalidArgumentError(
            f"signature {signature_name!r}: expected one input and the method {_METHODS[verb]!r}, "
            f"got {len(signature.inputs)} and {signature.method_name!r}"
        )
    given, context = request.get("examples"), request.get("context", {})
    if not isinstance(given, list) or not given:
        raise InvalidArgumentError(f"'examples' must be a list of at least one, got {reprlib.repr(given)}")
    if not isinstance(context, dict):
        raise InvalidArgumentError(f"'context' must be an object, got {reprlib.repr(context)}")
    serialized = np.array(
        [_serialized(index, example, context) for index, example in enumerate(given)], object
    )
    outputs = tuple(name for name in _OUTPUTS[verb] if name in signature.outputs)
    if not outputs:
        raise InvalidArgumentError(f"signature {signature_name!r}: expected an output of {_OUTPUTS[verb]}")
    (input_name,) = signature.inputs
    return ExamplesRequest(signature_name, {input_name: serialized}, outputs, len(given))


def encode_answer(outputs: Mapping[str, Array], count: int, verb: Verb) -> bytes:
    """Serialize the reply to `count` examples.

    Raises:
        FailedPreconditionError: an output has no row for each example.
    """
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != count:
            raise FailedPreconditionError(f"output {name!r}: expected {count} rows, got shape {array.shape}")
    columns = {name: json_of(name, array.reshape(count, -1)) for name, array in outputs.items()}
    if verb == "regress":
        (numbers,) = columns.values()
        if any(len(row) != 1 for row in numbers):
            raise FailedPreconditionError(f"expected one number for each example, got {len(numbers[0])}")
        return written({"result": [row[0] for row in numbers]})
    width = max(len(rows[0]) for rows in columns.values())
    classes = columns.get("classes", [[""] * width] * count)
    scores = columns.get("scores", [[0.0] * width] * count)
    if len(classes[0]) != len(scores[0]):
        raise FailedPreconditionError(
            f"expected as many scores as classes, got {len(scores[0])} and {len(classes[0])}"
        )
    pairs = [
        [[label, score] for label, score in zip(*row, strict=True)]
        for row in zip(classes, scores, strict=True)
    ]
    return written({"result": pairs})


def _serialized(index: int, example: Any, context: Mapping[str, Any]) -> bytes:
    if not isinstance(example, dict):
        raise InvalidArgumentError(f"example {index}: expected an object, got {reprlib.repr(example)}")
    proto = Example()
    for name, value in {**context, **example}.items():
        try:
            proto.features.feature[name].CopyFrom(_feature(value))
        except (
            InvalidArgumentError,
            ValueError,
        ) as error:  # ValueError: an integer or a text that a proto cannot hold
            raise InvalidArgumentError(f"example {index}, feature {reprlib.repr(name)}: {error}") from error
    return proto.SerializeToString(deterministic=True)


def _feature(value: Any) -> Feature:
    values = value if isinstance(value, list) else [value]
    feature = Feature()
    if not values:
        return feature
    if all(type(each) is int for each in values):
        feature.int64_list.value.extend(values)
    elif all(type(each) in (int, float) for each in values):
        feature.float_list.value.extend(values)
    elif all(isinstance(each, str) or is_b64(each) for each in values):
        feature.bytes_list.value.extend(
            each.encode() if isinstance(each, str) else bytes_of(each) for each in values
        )
    else:
        raise InvalidArgumentError(f"expected numbers, or strings and base64, got {reprlib.repr(value)}")
    return feature
