"""Errors of SavedModels that TensorFlow raises as builtin exceptions too.

NotFoundError
├── NoSavedModelError       also OSError: there is no SavedModel at a path
└── UnknownTagsError        also RuntimeError: the SavedModel has no graph with these tags
AlreadyExistsError
└── SavedModelStateError    also AssertionError: the builder is in the wrong state for the call, or its folder is not empty
"""

from collections.abc import Iterator
from contextlib import contextmanager

from aioexec.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, OpError


class NoSavedModelError(NotFoundError, OSError):
    """There is no SavedModel at a path."""


class UnknownTagsError(NotFoundError, RuntimeError):
    """The SavedModel has no graph with the given tags."""


class SavedModelStateError(AlreadyExistsError, AssertionError):
    """The builder is in the wrong state for the call, or its folder is not empty."""


class SignatureMapError(InvalidArgumentError, AssertionError):
    """A SignatureDef lacks the name or dtype of a tensor."""


class ReservedSignatureError(InvalidArgumentError, KeyError):
    """The key of a SignatureDef is one of those for operations."""


@contextmanager
def naming_model(path: str) -> Iterator[None]:
    """Add the path of the model to the messages of errors that do not have it."""
    try:
        yield
    except OpError as error:
        if path in error.message:
            raise
        raise type(error)(error.node_def, error.op, f"{path}: {error.message}") from error
