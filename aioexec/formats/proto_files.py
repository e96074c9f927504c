"""Protocol buffers in files, in binary or text form. Every call blocks: callers on an event loop use a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from aioexec.errors import DataLossError
from aioexec.formats.checkpoint_files import InputFile, OutputFile, sync_folder

if TYPE_CHECKING:
    from google.protobuf.message import Message as AnyProto

    Message = TypeVar("Message", bound=AnyProto)


def write_proto(path: str, message: Any, as_text: bool) -> None:
    """Write a message to a file atomically."""
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
    """Read a message of class `kind` from a file in binary or text form.

    Raises:
        NotFoundError, PermissionDeniedError, FailedPreconditionError: the file does not exist, may not be read, or is not a
            regular file.
        DataLossError: the content is not a message of that class.
    """
    with InputFile(path) as file:
        data = file.read_at(0, file.size)
    try:
        return kind.FromString(data)
    except Exception:  # a DecodeError; its class depends on protobuf's implementation
        return _from_text(path, data, kind)


def _from_text(path: str, data: bytes, kind: type[Message]) -> Message:
    from google.protobuf import text_format

    message = kind()
    try:
        text_format.Parse(data.decode(), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise DataLossError(f"Cannot parse file {path} as a {kind.__name__}: {str(error)[:200]}") from error
    return message
