"""One inference of the Open Inference Protocol, whatever carries it: the request, the step, the reply."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.serving.kserve.raw_tensors import Array
from aioexec.serving.models.served_version import DEFAULT_SIGNATURE, ServedVersion
from aioexec.serving.repository import Repository

SIGNATURE_PARAMETER = "signature_name"
"""The parameter of a request that chooses another signature; the protocol itself has none."""


@dataclass(frozen=True, slots=True)
class InferRequest:
    """A request.

    Attributes:
        model, version: as in the request; an empty version means the one that the server chooses.
        id: returned with the reply.
        signature: of the parameter `signature_name`; empty for the default.
        inputs: by name.
        outputs: names of the wanted outputs; empty for all.
    """

    model: str
    version: str
    id: str
    signature: str
    inputs: Mapping[str, Array]
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class InferReply:
    """The outputs of a request in order, and the version of the model that ran."""

    model: str
    version: str
    id: str
    outputs: Mapping[str, Array]


async def infer(repository: Repository, request: InferRequest, caller: str | None) -> InferReply:
    """Run a request of a caller's machine; see `ServedVersion.run`.

    Raises:
        NotFoundError, UnavailableError: see `Repository.lease`.
        InvalidArgumentError: the inputs or outputs are not those of the signature.
    """
    with lease(repository, request.model, request.version) as served:
        signature = request.signature or default_signature(served)
        wanted = request.outputs or list(served.signature(signature).outputs)
        values = await served.run(signature, request.inputs, request.outputs or None, caller=caller)
        outputs = {name: values[name] for name in wanted}
        return InferReply(served.name, str(served.version), request.id, outputs)


@contextmanager
def lease(repository: Repository, name: str, version: str) -> Iterator[ServedVersion]:
    """Lease a version by the protocol's text: a number, a label, or "" for the one that the server chooses.

    Raises:
        NotFoundError, UnavailableError: see `Repository.lease`.
    """
    number = version_number(version)
    with repository.lease(
        name, version=number, label=version if version and number is None else None
    ) as served:
        yield served


def version_number(version: str) -> int | None:
    """Return the number of a version; None for a label and for ""."""
    return int(version) if version.isascii() and version.isdigit() and len(version) < 20 else None


def default_signature(served: ServedVersion) -> str:
    """Return the name of the signature of a request that names none: `serving_default`, or the only one.

    Raises:
        InvalidArgumentError: several, and none of them has that name.
    """
    names = list(served.signatures)
    if DEFAULT_SIGNATURE in names or len(names) != 1:
        return DEFAULT_SIGNATURE
    return names[0]


def signature_parameter(parameters: Mapping[str, Any]) -> str:
    """Return the signature that the parameters of a request choose; "" for the default.

    Raises:
        InvalidArgumentError: it is not a string.
    """
    found = parameters.get(SIGNATURE_PARAMETER, "")
    if not isinstance(found, str):
        raise InvalidArgumentError(
            f"parameter {SIGNATURE_PARAMETER!r}: expected a string, got {reprlib.repr(found)}"
        )
    return found


def check_unique(kind: str, names: Sequence[str]) -> None:
    """Raise InvalidArgumentError if a name occurs twice among the inputs or outputs of a request."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArgumentError(f"{kind} {reprlib.repr(name)}: expected it once, got it again")
        seen.add(name)
