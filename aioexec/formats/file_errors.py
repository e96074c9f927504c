"""What the operating system says of files, in canonical errors."""

from __future__ import annotations

import errno
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
_NUMBERS: Final[dict[int | None, type[OpError]]] = {
    errno.EROFS: PermissionDeniedError,
    errno.ENOSPC: ResourceExhaustedError,
    errno.EDQUOT: ResourceExhaustedError,
    errno.EMFILE: ResourceExhaustedError,
    errno.ENFILE: ResourceExhaustedError,
    errno.ENAMETOOLONG: InvalidArgumentError,
    errno.ENOTEMPTY: FailedPreconditionError,
    errno.ELOOP: InvalidArgumentError,
}


def canonical(path: str | bytes, error: Exception) -> OpError:
    """The error to raise instead of one that opening, reading or writing a file gave."""
    by_number = _NUMBERS.get(getattr(error, "errno", None), UnknownError)
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), by_number)
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return kind(f"{os.fsdecode(path)}; {said}")
