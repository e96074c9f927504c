"""`tensorflow.serving.PredictionService`: Predict, Classify, Regress, MultiInference, GetModelMetadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from google.protobuf.message import Message

from aioexec.distributed.transport.gathering import gather
from aioexec.distributed.transport.grpc.services import Services, Unary, host_of
from aioexec.distributed.transport.transport import Call
from aioexec.errors import InvalidArgumentError
from aioexec.formats.tensor_codec import Array
from aioexec.serving.admission import Admission
from aioexec.serving.limits import Limits
from aioexec.serving.models.served_version import ServedVersion
from aioexec.serving.prediction_service import example_inference, predict_messages
from aioexec.serving.prediction_service.example_inference import CLASSIFY, REGRESS, serialized_examples
from aioexec.serving.prediction_service.model_specs import answered, lease, name_of, parsed, signature_of
from aioexec.serving.prediction_service.signature_defs import signature_def_map
from aioexec.serving.protos import prediction_pb2 as pb
from aioexec.serving.repository import Repository

SERVICE: Final = "tensorflow.serving.PredictionService"

Inference = Callable[[bytes, str], Awaitable[bytes]]
"""Returns the reply to a request of a caller's machine."""

_SIGNATURE_DEF: Final = "signature_def"
"""The only metadata field."""


def services(repository: Repository, admission: Admission, limits: Limits) -> Services:
    """Return the methods of the service over the models of a repository; inferences need admission."""
    service = _Service(repository, limits)
    inferences: dict[str, Inference] = {
        "Predict": service.predict,
        "Classify": service.classify,
        "Regress": service.regress,
        "MultiInference": service.multi_inference,
    }
    unary = {name: _admitted(method, admission) for name, method in inferences.items()}
    unary["GetModelMetadata"] = service.get_model_metadata
    return Services({f"/{SERVICE}/{name}": method for name, method in unary.items()})


def _admitted(method: Inference, admission: Admission) -> Unary:
    async def admitted(data: bytes, call: Call) -> bytes:
        with admission.admit(len(data)):
            return await method(data, host_of(call))

    return admitted


class _Service:
    """The methods over one repository."""

    def __init__(self, repository: Repository, limits: Limits) -> None:
        self._repository = repository
        self._limits = limits

    async def predict(self, data: bytes, caller: str) -> bytes:
        asked = await predict_messages.decode_request(data, self._limits.request_bytes)
        signature = signature_of(asked.spec)
        with lease(self._repository, asked.spec) as served:
            outputs = await served.run(signature, asked.inputs, asked.outputs or None, caller=caller)
            return await predict_messages.encode_reply(answered(served, signature), outputs)

    async def classify(self, data: bytes, caller: str) -> bytes:
        request = parsed(pb.ClassificationRequest, data)
        spec, found = await self._infer(request.model_spec, CLASSIFY, request.input, caller)
        return _bytes(pb.ClassificationResponse(result=found.classification_result, model_spec=spec))

    async def regress(self, data: bytes, caller: str) -> bytes:
        request = parsed(pb.RegressionRequest, data)
        spec, found = await self._infer(request.model_spec, REGRESS, request.input, caller)
        return _bytes(pb.RegressionResponse(result=found.regression_result, model_spec=spec))

    async def _infer(
        self, spec: pb.ModelSpec, method: str, given: pb.Input, caller: str
    ) -> tuple[pb.ModelSpec, pb.InferenceResult]:
        examples, signature = serialized_examples(given), signature_of(spec)
        with lease(self._repository, spec) as served:
            result = await example_inference.infer(served, signature, method, examples, caller)
            return answered(served, signature), result

    async def multi_inference(self, data: bytes, caller: str) -> bytes:
        """Run the tasks at the same time, on one version of the model."""
        request = parsed(pb.MultiInferenceRequest, data)
        _check_tasks(request)
        examples = serialized_examples(request.input)
        with lease(self._repository, request.tasks[0].model_spec) as served:
            results = await gather(self._run_task(served, task, examples, caller) for task in request.tasks)
        return _bytes(pb.MultiInferenceResponse(results=results))

    async def _run_task(
        self, served: ServedVersion, task: pb.InferenceTask, examples: Array, caller: str
    ) -> pb.InferenceResult:
        signature = signature_of(task.model_spec)
        result = await example_inference.infer(served, signature, task.method_name, examples, caller)
        result.model_spec.CopyFrom(answered(served, signature))
        return result

    async def get_model_metadata(self, data: bytes, call: Call) -> bytes:
        request = parsed(pb.GetModelMetadataRequest, data)
        if [*request.metadata_field] != [_SIGNATURE_DEF]:
            raise InvalidArgumentError(
                f"metadata_field: expected [{_SIGNATURE_DEF!r}], got {[*request.metadata_field]}"
            )
        with lease(self._repository, request.model_spec) as served:
            response = pb.GetModelMetadataResponse(model_spec=answered(served))
            response.metadata[_SIGNATURE_DEF].CopyFrom(signature_def_map(served))
        return _bytes(response)


def _check_tasks(request: pb.MultiInferenceRequest) -> None:
    """Raise InvalidArgumentError unless the tasks use different signatures of one version of a model."""
    if not request.tasks:
        raise InvalidArgumentError("tasks: expected at least one, got none")
    first = request.tasks[0].model_spec
    seen: set[str] = set()
    for index, task in enumerate(request.tasks):
        spec, signature = task.model_spec, signature_of(task.model_spec)
        if task.method_name not in (CLASSIFY, REGRESS):
            raise InvalidArgumentError(
                f"task {index}: expected the method {CLASSIFY!r} or {REGRESS!r}, got {task.method_name!r}"
            )
        if _version(spec) != _version(first):
            raise InvalidArgumentError(
                f"task {index}: expected the model and version of the first task, {name_of(first)!r}, got {spec.name!r}"
            )
        if signature in seen:
            raise InvalidArgumentError(f"task {index}: expected each signature once, got {signature!r} again")
        seen.add(signature)


def _version(spec: pb.ModelSpec) -> tuple[str, str, int, str]:
    return spec.name, spec.WhichOneof("version_choice") or "", spec.version.value, spec.version_label


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()
