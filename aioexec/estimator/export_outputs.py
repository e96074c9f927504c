"""The outputs of a model under the names of `tf.estimator.export`: what a signature of its exported form returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.node import Tensor
from aioexec.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from aioexec.saved_model.signature_def_utils import (
    classification_signature_def,
    predict_signature_def,
    regression_signature_def,
)

if TYPE_CHECKING:
    from aioexec.formats.protos import SignatureDef

_SINGLE_OUTPUT: Final = "output"


class ExportOutput:
    """The outputs of one signature; see the subclasses."""

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        """The SignatureDef with these tensors as inputs.

        Raises:
            GraphValueError: the inputs do not suit the outputs.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define as_signature_def")


class ClassificationOutput(ExportOutput):
    """Scores and labels of classes.

    Args:
        scores: a tensor of a floating dtype: a score for each class, or for each of `classes`.
        classes: a tensor of strings: the labels, in descending order of their scores if there are no `scores`.

    Raises:
        GraphValueError: both are missing, or one is of the wrong type.
    """

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is not None and not _is_floating(scores):
            raise GraphValueError(f"Classification scores must be a float32 Tensor; got {scores!r}")
        if classes is not None and not (isinstance(classes, Tensor) and classes.dtype == dtypes.string):
            raise GraphValueError(f"Classification classes must be a string Tensor; got {classes!r}")
        if scores is None and classes is None:
            raise GraphValueError(
                "Cannot create a ClassificationOutput with empty arguments. At least one of `scores` and `classes` must be "
                "defined."
            )
        self._scores: Tensor | None = scores
        self._classes: Tensor | None = classes

    @property
    def scores(self) -> Tensor | None:
        return self._scores

    @property
    def classes(self) -> Tensor | None:
        return self._classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        examples = _only_examples(receiver_tensors, "Classification")
        return classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """Predicted values, a tensor of a floating dtype.

    Raises:
        GraphValueError: it is none.
    """

    def __init__(self, value: Any) -> None:
        if not _is_floating(value):
            raise GraphValueError(f"Regression output value must be a float32 Tensor; got {value!r}")
        self._value: Tensor = value

    @property
    def value(self) -> Tensor:
        return self._value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        return regression_signature_def(_only_examples(receiver_tensors, "Regression"), self.value)


class PredictOutput(ExportOutput):
    """Any tensors, as a dict; a single one has the name "output".

    Raises:
        GraphValueError: a key is neither a string nor a tuple of strings, or a value is no tensor.
    """

    def __init__(self, outputs: Any) -> None:
        given = outputs if isinstance(outputs, Mapping) else {_SINGLE_OUTPUT: outputs}
        self._outputs: dict[str, Tensor] = {}
        for key, value in given.items():
            name = "/".join(key) if isinstance(key, tuple) else key
            if not isinstance(name, str):
                raise GraphValueError(f"Prediction output key must be a string; got {key!r}.")
            if not isinstance(value, Tensor):
                raise GraphValueError(f"Prediction output value must be a Tensor; got {value!r}.")
            self._outputs[name] = value

    @property
    def outputs(self) -> dict[str, Tensor]:
        return self._outputs

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        return predict_signature_def(receiver_tensors, self.outputs)


def _only_examples(receiver_tensors: Mapping[str, Any], what: str) -> Any:
    """The only tensor, which holds serialized Examples."""
    if len(receiver_tensors) != 1:
        raise GraphValueError(f"{what} input must be a single string Tensor; got {receiver_tensors}")
    (examples,) = receiver_tensors.values()
    if not isinstance(examples, Tensor) or examples.dtype != dtypes.string:
        raise GraphValueError(f"{what} input must be a single string Tensor; got {receiver_tensors}")
    return examples


def export_outputs_of(given: Any, predictions: Any) -> dict[str, ExportOutput]:
    """Return the outputs by the name of their signature, one of which is the default for serving.

    Args:
        given: None stands for the predictions.

    Raises:
        GraphTypeError: it is no dict of ExportOutputs.
        GraphValueError: there are several, and none is the default.
    """
    outputs = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)} if given is None else given
    if not isinstance(outputs, dict):
        raise GraphTypeError(f"`export_outputs` must be dict, received: {outputs!r}.")
    if not all(isinstance(value, ExportOutput) for value in outputs.values()):
        raise GraphTypeError(
            f"Values in `export_outputs` must be ExportOutput objects, received: {outputs!r}."
        )
    if len(outputs) == 1:
        (only,) = outputs.values()
        outputs = {**outputs, DEFAULT_SERVING_SIGNATURE_DEF_KEY: only}
    if outputs and DEFAULT_SERVING_SIGNATURE_DEF_KEY not in outputs:
        raise GraphValueError(
            "Multiple `export_outputs` were provided, but none of them are specified as the default. Use "
            "`tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY` to specify a default."
        )
    return outputs


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.is_floating
