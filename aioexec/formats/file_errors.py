"""Maps errors of the operating system to canonical errors, as TensorFlow's `IOError` does."""

from __future__ import annotations

import errno
import os
from typing import Final

from aioexec import errors
from aioexec.errors import OpError

_CLASSES: Final[dict[type[OpError], str]] = {
    errors.InvalidArgumentError: (
        "EINVAL ENAMETOOLONG E2BIG EDESTADDRREQ EDOM EFAULT EILSEQ ENOPROTOOPT ENOSTR ENOTSOCK ENOTTY EPROTOTYPE ESPIPE"
    ),
    errors.DeadlineExceededError: "ETIMEDOUT ETIME",
    errors.NotFoundError: "ENODEV ENOENT ENXIO ESRCH",
    errors.AlreadyExistsError: "EEXIST EADDRNOTAVAIL EALREADY",
    errors.PermissionDeniedError: "EPERM EACCES EROFS",
    errors.FailedPreconditionError: (
        "ENOTEMPTY EISDIR ENOTDIR EADDRINUSE EBADF EBUSY ECHILD EISCONN ENOTBLK ENOTCONN EPIPE ESHUTDOWN ETXTBSY"
    ),
    errors.ResourceExhaustedError: "ENOSPC EDQUOT EMFILE EMLINK ENFILE ENOBUFS ENODATA ENOMEM ENOSR EUSERS",
    errors.OutOfRangeError: "EFBIG EOVERFLOW ERANGE",
    errors.UnimplementedError: (
        "ENOSYS ENOTSUP EAFNOSUPPORT EPFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT EXDEV"
    ),
    errors.UnavailableError: (
        "EAGAIN ECONNREFUSED ECONNABORTED ECONNRESET EINTR EHOSTDOWN EHOSTUNREACH ENETDOWN ENETRESET ENETUNREACH "
        "ENOLCK ENOLINK ENONET"
    ),
    errors.AbortedError: "EDEADLK ESTALE",
    errors.CancelledError: "ECANCELED",
}
"""Errno to error class, as TensorFlow's `ErrnoToCode`; others are UnknownError. Some platforms lack some of the names."""

_NUMBERS: Final[dict[int | None, type[OpError]]] = {
    getattr(errno, name): kind
    for kind, names in _CLASSES.items()
    for name in names.split()
    if hasattr(errno, name)
}
_KINDS: Final[tuple[tuple[type[Exception], type[OpError]], ...]] = (
    (FileNotFoundError, errors.NotFoundError),
    (FileExistsError, errors.AlreadyExistsError),
    (PermissionError, errors.PermissionDeniedError),
    (IsADirectoryError, errors.FailedPreconditionError),
    (NotADirectoryError, errors.FailedPreconditionError),
    (MemoryError, errors.ResourceExhaustedError),
    (ValueError, errors.InvalidArgumentError),
)
"""Error classes for exceptions without an errno."""


def canonical(path: str | bytes, error: Exception) -> OpError:
    """Return the canonical error for an exception that opening, reading or writing a file raised."""
    kind = _NUMBERS.get(getattr(error, "errno", None))
    if kind is None:
        kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), errors.UnknownError)
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return kind(f"{os.fsdecode(path)}; {said}")
