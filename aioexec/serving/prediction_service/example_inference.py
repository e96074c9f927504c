"""Classify and Regress: Examples in, classes with scores or numbers out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.formats.protos import Example
from aioexec.formats.tensor_codec import Array
from aioexec.serving.models.served_version import ServedVersion
from aioexec.serving.protos.prediction_pb2 import (
    ClassificationResult,
    InferenceResult,
    Input,
    RegressionResult,
)

CLASSIFY: Final = "tensorflow/serving/classify"
REGRESS: Final = "tensorflow/serving/regress"

_OUTPUTS: Final = {CLASSIFY: ("classes", "scores"), REGRESS: ("outputs",)}
"""The outputs of a signature by its method; one of the classify ones may be missing."""


def serialized_examples(given: Input) -> Array:
    """Return the serialized Examples of a request, with the features of their context that they do not have.

    Raises:
        InvalidArgumentError: there are none.
    """
    if given.WhichOneof("kind") == "example_list_with_context":
        context = given.example_list_with_context.context
        examples = [_merged(context, each) for each in given.example_list_with_context.examples]
    else:
        examples = [*given.example_list.examples]
    if not examples:
        raise InvalidArgumentError("input: expected at least one Example, got none")
    serialized = [each.SerializeToString(deterministic=True) for each in examples]
    return np.fromiter(serialized, np.object_, len(serialized))


def _merged(context: Example, example: Example) -> Example:
    merged = Example()
    merged.CopyFrom(context)
    merged.MergeFrom(example)
    return merged


async def infer(
    served: ServedVersion, signature_name: str, method: str, examples: Array, caller: str
) -> InferenceResult:
    """Run a signature of a method on serialized Examples of a caller's machine; see `ServedVersion.run`.

    Raises:
        InvalidArgumentError: the signature is not for the method.
        FailedPreconditionError: its outputs are not those of the method.
    """
    signature = served.signature(signature_name)
    wanted = [name for name in _OUTPUTS[method] if name in signature.outputs]
    if signature.method_name != method or len(signature.inputs) != 1 or not wanted:
        raise InvalidArgumentError(
            f"signature {signature_name!r}: expected the method {method!r}, one input and an output of "
            f"{_OUTPUTS[method]}, got {signature.method_name!r}, {sorted(signature.inputs)} and "
            f"{sorted(signature.outputs)}"
        )
    (input_name,) = signature.inputs
    values = await served.run(signature_name, {input_name: examples}, wanted, caller=caller)
    rows = {name: _rows(name, values[name], len(examples)) for name in wanted}
    if method == CLASSIFY:
        return InferenceResult(classification_result=_classes(rows.get("classes"), rows.get("scores")))
    return InferenceResult(regression_result=_regressions(rows["outputs"]))


def _rows(name: str, value: Array, count: int) -> Array:
    if value.ndim == 0 or len(value) != count:
        raise FailedPreconditionError(f"output {name!r}: expected {count} rows, got shape {value.shape}")
    return value.reshape(count, -1)


def _classes(classes: Array | None, scores: Array | None) -> ClassificationResult:
    """The result of rows of labels and rows of scores, of which one may be missing."""
    if classes is not None and classes.dtype.kind != "O":
        raise FailedPreconditionError(f"output 'classes': expected strings, got {classes.dtype}")
    if classes is not None and scores is not None and classes.shape != scores.shape:
        raise FailedPreconditionError(
            f"outputs 'classes' and 'scores': expected equal shapes, got {classes.shape} and {scores.shape}"
        )
    result = ClassificationResult()
    for index in range(len(_given(classes, scores))):
        row = result.classifications.add()
        for column in range(_given(classes, scores).shape[1]):
            label = b"" if classes is None else classes[index, column]
            score = 0.0 if scores is None else float(scores[index, column])
            row.classes.add(label=label.decode(errors="replace"), score=score)
    return result


def _given(classes: Array | None, scores: Array | None) -> Array:
    given = scores if classes is None else classes
    assert given is not None, "a signature has one of them"
    return given


def _regressions(rows: Any) -> RegressionResult:
    if rows.shape[1] != 1:
        raise FailedPreconditionError(
            f"output 'outputs': expected one number for each Example, got {rows.shape[1]}"
        )
    result = RegressionResult()
    for number in rows[:, 0].tolist():
        result.regressions.add(value=number)
    return result
