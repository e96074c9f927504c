"""ModelSpec: which model, version and signature a request means, and which ones answered."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from aioexec.errors import InvalidArgumentError
from aioexec.serving.models.served_version import DEFAULT_SIGNATURE, ServedVersion
from aioexec.serving.protos.prediction_pb2 import ModelSpec
from aioexec.serving.repository import Repository

M = TypeVar("M", bound=Message)


def lease(repository: Repository, spec: ModelSpec) -> AbstractContextManager[ServedVersion]:
    """Lease the version that a request means.

    Raises:
        InvalidArgumentError: it names no model.
        NotFoundError, UnavailableError: see `Repository.lease`.
    """
    return repository.lease(name_of(spec), version=version_of(spec), label=label_of(spec))


def name_of(spec: ModelSpec) -> str:
    """The model that a request names.

    Raises:
        InvalidArgumentError: it names none.
    """
    if not spec.name:
        raise InvalidArgumentError("model_spec: expected the name of a model, got none")
    return spec.name


def version_of(spec: ModelSpec) -> int | None:
    """The number of the version that a request chooses, or None."""
    return spec.version.value if spec.WhichOneof("version_choice") == "version" else None


def label_of(spec: ModelSpec) -> str | None:
    """The label of the version that a request chooses, or None."""
    return spec.version_label if spec.WhichOneof("version_choice") == "version_label" else None


def signature_of(spec: ModelSpec) -> str:
    """The signature that a request chooses, or the default one."""
    return spec.signature_name or DEFAULT_SIGNATURE


def answered(served: ServedVersion, signature: str = "") -> ModelSpec:
    """The ModelSpec of a reply."""
    spec = ModelSpec(name=served.name, signature_name=signature)
    spec.version.value = served.version
    return spec


def parsed(kind: type[M], data: bytes) -> M:
    """Parse a request.

    Raises:
        InvalidArgumentError: malformed bytes.
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError(f"expected a {kind.__name__}, got malformed bytes: {error}") from error
