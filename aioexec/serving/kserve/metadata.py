"""What the Open Inference Protocol tells about the server and its models."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.graph.node import Tensor
from aioexec.serving.kserve.datatypes import datatype_or_name
from aioexec.serving.kserve.inference import default_signature, lease, version_number
from aioexec.serving.models.version_status import VersionState
from aioexec.serving.repository import Repository

SERVER_NAME: Final = "aioexec"
EXTENSIONS: Final = ("binary_tensor_data",)
PLATFORM: Final = "tensorflow_savedmodel"
"""The platform of models in the words of other servers, by which clients recognize TensorFlow's."""


def _installed_version() -> str:
    try:
        return importlib.metadata.version("aioexec")
    except importlib.metadata.PackageNotFoundError:  # the package is used from its source folder
        return "0"


SERVER_VERSION: Final = _installed_version()


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """An input or output; -1 in the shape is any size, and the shape [-1] also stands for an unknown rank."""

    name: str
    datatype: str
    shape: list[int]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """A model: the versions that take requests, and the tensors of its default signature."""

    name: str
    versions: list[str]
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


def model_metadata(repository: Repository, name: str, version: str, signature: str = "") -> ModelMetadata:
    """Describe a model by one of its versions, "" for the one that the server chooses.

    Raises:
        NotFoundError, UnavailableError: see `Repository.lease`.
        InvalidArgumentError: no such signature.
    """
    with lease(repository, name, version) as served:
        described = served.signature(signature or default_signature(served))
        versions = [each.version for each in repository.status(name) if each.state is VersionState.AVAILABLE]
        return ModelMetadata(
            name, [*map(str, sorted(versions))], _tensors(described.inputs), _tensors(described.outputs)
        )


def _tensors(tensors: Mapping[str, Tensor]) -> list[TensorMetadata]:
    return [
        TensorMetadata(name, datatype_or_name(tensor.dtype), _shape(tensor.dims))
        for name, tensor in tensors.items()
    ]


def _shape(dims: Any) -> list[int]:
    return [-1] if dims is None else [-1 if size is None else size for size in dims]


def is_model_ready(repository: Repository, name: str, version: str) -> bool:
    """Whether a model, or a version of it, takes requests.

    Raises:
        NotFoundError: no such model, version or label.
    """
    number = version_number(version)
    label = version if version and number is None else None
    statuses = repository.status(name, number, label)
    return any(each.state is VersionState.AVAILABLE for each in statuses)
