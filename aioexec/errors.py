"""The exceptions of aioexec: TensorFlow's canonical error classes, with the node and location of an error.

    Exception
    └── OpError                             error_code, message, node_def, op
        ├── CancelledError                  1   the step was cancelled, or a queue was closed with cancellation
        │   └── SessionClosedError              also RuntimeError: the session was closed
        ├── UnknownError                    2   no better class
        ├── InvalidArgumentError            3   wrong in any state of the system: shapes, dtypes, names
        │   ├── GraphValueError                 also ValueError: refused while building or feeding
        │   └── GraphTypeError                  also TypeError: likewise, for a wrong type
        ├── DeadlineExceededError           4   timeout
        ├── NotFoundError                   5   no such file, node, resource
        │   ├── UnknownNameError                also KeyError: a name looked up in a graph or table
        │   ├── UnknownFetchError               also ValueError: a name fetched that the graph lacks
        │   └── UnknownFeedError                also TypeError: a name fed that the graph lacks
        ├── AlreadyExistsError              6
        ├── PermissionDeniedError           7
        ├── ResourceExhaustedError          8   memory, quota
        ├── FailedPreconditionError         9   wrong state of the system: uninitialised variable
        ├── AbortedError                   10   retry the whole step
        ├── OutOfRangeError                11   end of input
        ├── UnimplementedError             12   no such kernel
        ├── InternalError                  13   a bug in aioexec
        ├── UnavailableError               14   a peer is unreachable, retry
        ├── DataLossError                  15   damaged bytes
        └── UnauthenticatedError           16

TensorFlow raises some of these from its Python layer as builtin exceptions and from its runtime as an `OpError`. The
second-level classes are both, so code ported from either side still catches them.

`CancelledError` here is the outcome of a step; `asyncio.CancelledError` is the request to stop a task. Neither is a subclass of
the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

OK: Final = 0
CANCELLED: Final = 1
UNKNOWN: Final = 2
INVALID_ARGUMENT: Final = 3
DEADLINE_EXCEEDED: Final = 4
NOT_FOUND: Final = 5
ALREADY_EXISTS: Final = 6
PERMISSION_DENIED: Final = 7
RESOURCE_EXHAUSTED: Final = 8
FAILED_PRECONDITION: Final = 9
ABORTED: Final = 10
OUT_OF_RANGE: Final = 11
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
UNAVAILABLE: Final = 14
DATA_LOSS: Final = 15
UNAUTHENTICATED: Final = 16


class OpError(Exception):
    """Base of every error of a graph or a step.

    `InvalidArgumentError(node_def, op, message)` is TensorFlow's form. `InvalidArgumentError("message")` is the short one: a
    string as the first argument, without a third one, is the message.
    """

    code: ClassVar[int] = UNKNOWN
    default_message: ClassVar[str] = ""

    # Set by `with_context`, None until then: the failed node, its op type, device and location of creation.
    node: str | None = None
    op_type: str | None = None
    device: str | None = None
    created_at: str | None = None

    payloads: Mapping[str, bytes] = MappingProxyType({})
    """Further data, by type URL; set for errors from, or to, another process."""

    def __init__(
        self, node_def: Any = None, op: Any = None, message: str | None = None, error_code: int | None = None
    ) -> None:
        if isinstance(node_def, str) and message is None:
            node_def, message = None, node_def
        text = self.default_message if message is None else str(message)
        super().__init__(text)
        self._node_def = node_def
        self._op = op
        self._message = text
        self._error_code = self.code if error_code is None else int(error_code)

    @property
    def message(self) -> str:
        """The error text, with its location once that is known."""
        return self._message

    @property
    def op(self) -> Any:
        """The Operation that failed, or None. Not kept by pickling: it belongs to a graph of this process."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The NodeDef that failed, or None; made from `op` on access."""
        return getattr(self._op, "node_def", None) if self._node_def is None else self._node_def

    @property
    def error_code(self) -> int:
        """The canonical code, `errors.INVALID_ARGUMENT` etc."""
        return self._error_code

    def __str__(self) -> str:
        return self._message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), {**self.__dict__, "_op": None})


_E = TypeVar("_E", bound=OpError)


def _restore(kind: type[_E], state: Mapping[str, Any]) -> _E:
    """Make an error from its fields, without calling a subclass's constructor."""
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = (state["_message"],)
    return error


class CancelledError(OpError):
    """The step or call was cancelled."""

    code = CANCELLED


class UnknownError(OpError):
    """An error with no better class, such as a foreign exception of a Python kernel."""

    code = UNKNOWN


class InvalidArgumentError(OpError):
    """An argument is wrong whatever the state of the system."""

    code = INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    """The step's deadline passed."""

    code = DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """A file, node, resource or table entry does not exist."""

    code = NOT_FOUND


class AlreadyExistsError(OpError):
    """The object to be created exists already."""

    code = ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller lacks the permission for the operation."""

    code = PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Memory, a quota or another bound ran out."""

    code = RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state this needs, such as an uninitialised variable."""

    code = FAILED_PRECONDITION


class AbortedError(OpError):
    """The step was aborted, for example by a concurrent operation, and may be retried from its start."""

    code = ABORTED


class OutOfRangeError(OpError):
    """Past the end of an input, a queue or a range."""

    code = OUT_OF_RANGE


class UnimplementedError(OpError):
    """The operation or method is not implemented."""

    code = UNIMPLEMENTED


class InternalError(OpError):
    """An invariant of aioexec itself is broken."""

    code = INTERNAL


class UnavailableError(OpError):
    """A peer is unreachable; a retry may help."""

    code = UNAVAILABLE


class DataLossError(OpError):
    """Stored or received bytes are damaged."""

    code = DATA_LOSS


class UnauthenticatedError(OpError):
    """The caller did not prove its identity."""

    code = UNAUTHENTICATED


class GraphValueError(InvalidArgumentError, ValueError):
    """A bad value given while building a graph or feeding a step."""


class GraphTypeError(InvalidArgumentError, TypeError):
    """A value of a wrong type given while building a graph or feeding a step."""


class UnknownNameError(NotFoundError, KeyError):
    """A name that is in no graph, collection or table. Unlike KeyError, `str` is the message itself."""


class UnknownFetchError(NotFoundError, ValueError):
    """A fetch or target that the session's graph does not have."""


class UnknownFeedError(NotFoundError, TypeError):
    """A feed key that the session's graph does not have."""


class SessionClosedError(CancelledError, RuntimeError):
    """The session was closed before or during the call."""

    default_message = "Attempted to use a closed Session"


_CANONICAL: Final[dict[int, type[OpError]]] = {
    kind.code: kind
    for kind in (
        CancelledError,
        UnknownError,
        InvalidArgumentError,
        DeadlineExceededError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
        UnauthenticatedError,
    )
}

# The OpError class for a Python exception of a kernel, first match first (TensorFlow's table for py_func).
_FOREIGN: Final[tuple[tuple[type[Exception], type[OpError]], ...]] = (
    (TypeError, InvalidArgumentError),
    (ValueError, InvalidArgumentError),
    (StopIteration, OutOfRangeError),
    (StopAsyncIteration, OutOfRangeError),
    (MemoryError, ResourceExhaustedError),
    (NotImplementedError, UnimplementedError),
    (TimeoutError, DeadlineExceededError),
    (FileNotFoundError, NotFoundError),
    (PermissionError, PermissionDeniedError),
)


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """Return the canonical class of a code; `OK` and unknown codes raise `UnknownNameError` (a KeyError)."""
    try:
        return _CANONICAL[error_code]
    except KeyError:
        raise UnknownNameError(f"no exception class has error code {error_code!r}") from None


def error_code_from_exception_type(cls: type[BaseException]) -> int:
    """Return the code of an error class, `UNKNOWN` for classes that are not ours."""
    return cls.code if issubclass(cls, OpError) else UNKNOWN


def from_exception(error: BaseException) -> OpError:
    """Convert an exception of foreign code to an `OpError` with it as the cause; an OpError is returned as it is."""
    if isinstance(error, OpError):
        return error
    kind = next((ours for foreign, ours in _FOREIGN if isinstance(error, foreign)), UnknownError)
    wrapped = kind(str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped.with_traceback(error.__traceback__)


def with_context(
    error: _E,
    *,
    node: str | None = None,
    op_type: str | None = None,
    device: str | None = None,
    created_at: str | None = None,
    op: Any = None,
) -> _E:
    """Return a copy of `error`, of its class, whose message contains the location, and whose `op` is set if known.

        MatMul 'layer1/matmul' on /device:CPU:0: inner dimensions differ, (32, 10) x (12, 4); created at x.py:41

    An error that has a location already (a node inside a function body) is returned unchanged. Code, cause, traceback and notes
    are copied, and so are `op` and `node_def` if the error has them.
    """
    if error.node is not None or error.op_type is not None:
        return error
    subject = op_type if node is None else f"{op_type or 'node'} {node!r}"
    place = " on ".join(part for part in (subject, device) if part)
    message = ": ".join(part for part in (place, error.message) if part)
    if created_at:
        message += f"; created at {created_at}"
    place_fields = {"node": node, "op_type": op_type, "device": device, "created_at": created_at}
    own = {"_op": op if error.op is None else error.op, "_message": message}
    located = _restore(type(error), {**error.__dict__, **place_fields, **own})
    located.__cause__ = error.__cause__
    located.__context__ = error.__context__
    located.__suppress_context__ = error.__suppress_context__
    return located.with_traceback(error.__traceback__)
