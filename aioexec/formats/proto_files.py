"""Messages in files, as bytes or as text. Every call blocks: callers on an event loop make it on a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from aioexec.errors import DataLossError
from aioexec.formats.checkpoint_files import InputFile, OutputFile, sync_folder

if TYPE_CHECKING:
    from google.protobuf.message import Message as AnyProto

    Message = TypeVar("Message", bound=AnyProto)


def write_proto(path: str, message: Any, as_text: bool) -> None:
    """Put a message into a file, all of it or, if anything goes wrong, nothing."""
    if as_text:
        from google.protobuf import text_format

        data = text_format.MessageToString(message).encode()
    else:
        data = message.SerializeToString(deterministic=True)
    with OutputFile(path) as file:
        file.write(data)
        file.commit()
    sync_folder(path)


def read_proto(path: str, kind: type[Message]) -> Message:
    """A message of a class that a file holds, as bytes or as text.

    Raises:
        NotFoundError, PermissionDeniedError, FailedPreconditionError: there is no such file, or it is of another kind.
        DataLossError: it holds no such message.
    """
    with InputFile(path) as file:
        data = file.read_at(0, file.size)
    try:
        return kind.FromString(data)
    except Exception:  # protobuf's DecodeError, by whichever of its implementations is in use; text, then
        return _from_text(path, data, kind)


def _from_text(path: str, data: bytes, kind: type[Message]) -> Message:
    from google.protobuf import text_format

    message = kind()
    try:
        text_format.Parse(data.decode(), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise DataLossError(f"Cannot parse file {path} as a {kind.__name__}: {str(error)[:200]}") from error
    return message
