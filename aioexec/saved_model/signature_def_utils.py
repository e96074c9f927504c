"""Makes SignatureDefs, under the names of `tf.saved_model.signature_def_utils`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphValueError
from aioexec.graph.node import Operation, Tensor
from aioexec.saved_model import signature_constants as names
from aioexec.saved_model.utils import build_tensor_info, build_tensor_info_from_op

if TYPE_CHECKING:
    from aioexec.formats.protos import SignatureDef, TensorInfo, TensorProto


def build_signature_def(
    inputs: Mapping[str, TensorInfo] | None = None,
    outputs: Mapping[str, TensorInfo] | None = None,
    method_name: str | None = None,
    defaults: Mapping[str, TensorProto] | None = None,
) -> SignatureDef:
    """A SignatureDef of TensorInfos by the names that callers use.

    Args:
        method_name: what it is for, such as `signature_constants.PREDICT_METHOD_NAME`.
        defaults: the values of inputs that a call may leave out.
    """
    from aioexec.formats.protos import SignatureDef

    return SignatureDef(inputs=inputs, outputs=outputs, method_name=method_name, defaults=defaults)


def regression_signature_def(examples: Any, predictions: Any) -> SignatureDef:
    """The SignatureDef of a regression from serialized Examples.

    Args:
        examples: a tensor of strings.
        predictions: a tensor of float32.

    Raises:
        GraphValueError: one of them is None or of another dtype.
    """
    return build_signature_def(
        {names.REGRESS_INPUTS: _info(examples, "Regression examples", "string")},
        {names.REGRESS_OUTPUTS: _info(predictions, "Regression predictions", "float32")},
        names.REGRESS_METHOD_NAME,
    )


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> SignatureDef:
    """The SignatureDef of a classification of serialized Examples.

    Args:
        examples: a tensor of strings.
        classes: a tensor of strings, or None.
        scores: a tensor of float32, or None.

    Raises:
        GraphValueError: there are neither classes nor scores, or one of the tensors has another dtype.
    """
    inputs = {names.CLASSIFY_INPUTS: _info(examples, "Classification examples", "string")}
    if classes is None and scores is None:
        raise GraphValueError("Classification classes and scores cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs[names.CLASSIFY_OUTPUT_CLASSES] = _info(classes, "Classification classes", "string")
    if scores is not None:
        outputs[names.CLASSIFY_OUTPUT_SCORES] = _info(scores, "Classification scores", "float32")
    return build_signature_def(inputs, outputs, names.CLASSIFY_METHOD_NAME)


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> SignatureDef:
    """The SignatureDef of a function of tensors, by the names that callers use.

    Raises:
        GraphValueError: there are no inputs or no outputs.
    """
    for what, tensors in (("inputs", inputs), ("outputs", outputs)):
        if not tensors:
            raise GraphValueError(f"Prediction {what} cannot be None or empty.")
    return build_signature_def(_infos(inputs), _infos(outputs), names.PREDICT_METHOD_NAME)


def is_valid_signature(signature_def: SignatureDef | None) -> bool:
    """Whether TensorFlow Serving can classify, regress or predict by a SignatureDef."""
    if signature_def is None:
        return False
    inputs, outputs = signature_def.inputs, signature_def.outputs
    method = signature_def.method_name
    if method == names.PREDICT_METHOD_NAME:
        return bool(inputs and outputs)
    if method == names.REGRESS_METHOD_NAME:
        return _has(inputs, {names.REGRESS_INPUTS: "string"}) and _has(
            outputs, {names.REGRESS_OUTPUTS: "float32"}
        )
    if method == names.CLASSIFY_METHOD_NAME:
        dtypes = {names.CLASSIFY_OUTPUT_CLASSES: "string", names.CLASSIFY_OUTPUT_SCORES: "float32"}
        expected = {key: dtype for key, dtype in dtypes.items() if key in outputs}
        is_one = bool(expected) and len(outputs) == len(expected)
        return _has(inputs, {names.CLASSIFY_INPUTS: "string"}) and is_one and _has(outputs, expected)
    return False


def op_signature_def(op: Operation, key: str) -> SignatureDef:
    """The SignatureDef of an operation, which is its only output, under `key`."""
    return build_signature_def(outputs={key: build_tensor_info_from_op(op)})


def _infos(tensors: Mapping[str, Any]) -> dict[str, TensorInfo]:
    return {key: build_tensor_info(tensor) for key, tensor in tensors.items()}


def _info(tensor: Any, what: str, dtype: str) -> TensorInfo:
    """The TensorInfo of a tensor of that dtype."""
    if tensor is None:
        raise GraphValueError(f"{what} cannot be None.")
    if not isinstance(tensor, Tensor) or tensor.dtype.base_dtype.name != dtype:
        found = tensor.dtype.name if isinstance(tensor, Tensor) else repr(tensor)
        raise GraphValueError(f"{what} must be a {dtype} Tensor, got {found}.")
    return build_tensor_info(tensor)


def _has(infos: Mapping[str, TensorInfo], expected: Mapping[str, str]) -> bool:
    """Whether tensors of these names have these dtypes."""
    from aioexec.dtypes import as_dtype

    return all(
        key in infos and infos[key].dtype and as_dtype(infos[key].dtype).name == dtype
        for key, dtype in expected.items()
    )
