"""Conversion of canonical errors to HTTP statuses and back: the mapping of Google's APIs (google.rpc.Code)."""

from typing import Final

from aioexec import errors

_STATUS: Final = {
    errors.InvalidArgumentError: 400,
    errors.UnauthenticatedError: 401,
    errors.PermissionDeniedError: 403,
    errors.NotFoundError: 404,
    errors.AbortedError: 409,
    errors.ResourceExhaustedError: 429,
    errors.CancelledError: 499,
    errors.InternalError: 500,
    errors.UnimplementedError: 501,
    errors.UnavailableError: 503,
    errors.DeadlineExceededError: 504,
    # Not the first of their status, so no status is converted back to these.
    errors.FailedPreconditionError: 400,
    errors.OutOfRangeError: 400,
    errors.AlreadyExistsError: 409,
    errors.DataLossError: 500,
    errors.UnknownError: 500,
}

_TO_STATUS: Final = {kind.code: status for kind, status in _STATUS.items()}
_TO_ERROR: Final = {status: kind for kind, status in reversed(_STATUS.items())}


def status_of(error: errors.OpError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, errors.SessionClosedError):
        return 503  # not cancelled by the client
    return _TO_STATUS.get(error.error_code, 500)


def error_of(status: int) -> type[errors.OpError]:
    """Return the error class for an HTTP status."""
    if status == 413:  # the request's body
        return errors.InvalidArgumentError
    return _TO_ERROR.get(status, errors.UnknownError)
