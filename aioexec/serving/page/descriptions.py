"""Descriptions of models, signatures and graphs, as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aioexec import shapes
from aioexec.errors import NotFoundError, UnavailableError
from aioexec.graph.node import Operation, Tensor
from aioexec.serving.models.served_version import Signature
from aioexec.serving.page.tracing import session_of
from aioexec.serving.repository import Repository, VersionState, VersionStatus

JsonObject = dict[str, Any]


def version_states(repository: Repository) -> dict[str, dict[str, str]]:
    """Return the name of each version's state, by model and version."""
    return {
        name: {str(status.version): status.state.name for status in repository.status(name)}
        for name in repository.names()
    }


def describe_models(repository: Repository) -> JsonObject:
    """Return all models with their versions; those that take requests have `signatures`."""
    return {"models": [_describe_model(repository, name) for name in repository.names()]}


def _describe_model(repository: Repository, name: str) -> JsonObject:
    versions = [_describe_version(repository, name, status) for status in repository.status(name)]
    return {"name": name, "versions": versions}


def _describe_version(repository: Repository, name: str, status: VersionStatus) -> JsonObject:
    described: JsonObject = {
        "version": status.version,
        "state": status.state.name,
        "error": None if status.error is None else status.error.message,
    }
    if status.state is VersionState.AVAILABLE:
        try:
            with repository.lease(name, version=status.version) as served:
                described["signatures"] = {
                    key: _describe_signature(signature) for key, signature in served.signatures.items()
                }
        except (NotFoundError, UnavailableError):  # it is unloaded in this moment
            described["state"] = VersionState.UNLOADING.name
    return described


def _describe_signature(signature: Signature) -> JsonObject:
    return {
        "method_name": signature.method_name,
        "inputs": _describe_tensors(signature.inputs),
        "outputs": _describe_tensors(signature.outputs),
        "traceable": session_of(signature) is not None,
    }


def _describe_tensors(tensors: Mapping[str, Tensor]) -> JsonObject:
    return {
        name: {
            "tensor": tensor.name,
            "dtype": tensor.dtype.base_dtype.name,
            "shape": None if tensor.dims is None else list(tensor.dims),
        }
        for name, tensor in tensors.items()
    }


def graph_of(signatures: Mapping[str, Signature]) -> list[Operation]:
    """Return the nodes of the graph that a version's signatures share, as they are now."""
    for signature in signatures.values():
        for tensor in (*signature.outputs.values(), *signature.inputs.values()):
            return tensor.graph.get_operations()
    return []


def describe_graph(operations: Sequence[Operation]) -> Iterator[list[Any]]:
    """Yield each node as [name, op, device, inputs, control inputs, outputs]; inputs are positions of nodes.

    Reads only what is constant or replaced as a whole, so a thread may call it.
    """
    return (_describe_node(operation) for operation in operations)


def _describe_node(operation: Operation) -> list[Any]:
    return [
        operation.name,
        operation.type,
        operation.device,
        [tensor.op.index for tensor in operation.inputs],
        [control.index for control in operation.control_inputs],
        [f"{tensor.dtype.name} {shapes.describe(tensor.dims)}" for tensor in operation.outputs],
    ]
