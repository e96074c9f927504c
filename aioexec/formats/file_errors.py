"""What the operating system says of files, in canonical errors."""

from __future__ import annotations

import os
from typing import Final

from aioexec.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)

_KINDS: Final[tuple[tuple[type[Exception], type[OpError]], ...]] = (
    (FileNotFoundError, NotFoundError),
    (FileExistsError, AlreadyExistsError),
    (PermissionError, PermissionDeniedError),
    (IsADirectoryError, FailedPreconditionError),
    (NotADirectoryError, FailedPreconditionError),
    (MemoryError, ResourceExhaustedError),
    (ValueError, InvalidArgumentError),
)


def canonical(path: str | bytes, error: Exception) -> OpError:
    """The error to raise instead of one that opening, reading or writing a file gave."""
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), UnknownError)
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return kind(f"{os.fsdecode(path)}; {said}")
