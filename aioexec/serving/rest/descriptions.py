"""The JSON of a model's status and of its signatures, as TensorFlow Serving writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import errors
from aioexec.formats.protos.error_codes_pb2 import Code
from aioexec.formats.protos.tensor_pb2 import DataType
from aioexec.graph.node import Tensor
from aioexec.serving.models.served_version import ServedVersion, Signature
from aioexec.serving.models.version_status import VersionStatus


def status_json(statuses: Sequence[VersionStatus]) -> dict[str, Any]:
    """Describe the state of versions."""
    return {"model_version_status": [_version_json(status) for status in statuses]}


def metadata_json(served: ServedVersion) -> dict[str, Any]:
    """Describe the signatures of a version."""
    signatures = {name: _signature_json(signature) for name, signature in served.signatures.items()}
    return {
        "model_spec": {"name": served.name, "signature_name": "", "version": str(served.version)},
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


def _version_json(status: VersionStatus) -> dict[str, Any]:
    code, message = (
        (errors.OK, "") if status.error is None else (status.error.error_code, status.error.message)
    )
    return {
        "version": str(status.version),
        "state": status.state.name,
        "status": {"error_code": Code.Name(code), "error_message": message},
    }


def _signature_json(signature: Signature) -> dict[str, Any]:
    return {
        "inputs": {name: _tensor_json(tensor) for name, tensor in signature.inputs.items()},
        "outputs": {name: _tensor_json(tensor) for name, tensor in signature.outputs.items()},
        "method_name": signature.method_name,
    }


def _tensor_json(tensor: Tensor) -> dict[str, Any]:
    dims = [{"size": str(-1 if size is None else size), "name": ""} for size in tensor.dims or ()]
    return {
        "dtype": DataType.Name(tensor.dtype.base_dtype.as_datatype_enum),
        "tensor_shape": {"dim": dims, "unknown_rank": tensor.dims is None},
        "name": tensor.name,
    }
