"""Large messages parsed and serialized in pieces, so that other threads run in between and contents of tensors are not copied.

Protobuf holds the interpreter lock while it parses a message, a millisecond for a few megabytes. But a message may be parsed in
pieces that are cut between its fields, or between the fields of a nested message, with the same result. The content of tensors,
usually most of the bytes, is not parsed at all: it is returned as a view of the input. A field of at most PIECE bytes is never
cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.message import Message

from aioexec.formats.message_fields import DELIMITED, FIXED, PIECE, VARINT, field_at
from aioexec.formats.protos import TensorProto
from aioexec.formats.sorted_table import encode_varint

_DEEPEST: Final = 32
"""The most levels of nested messages that are read here; deeper ones are left to protobuf, which has a limit of its own."""

_CONTENT: Final = TensorProto.TENSOR_CONTENT_FIELD_NUMBER


class Pieces:
    """Fills messages from bytes.

    Attributes:
        contents: the large `tensor_content` of TensorProtos, not set in these yet.
    """

    def __init__(self) -> None:
        self.contents: list[tuple[TensorProto, memoryview]] = []

    def merge(self, message: Message, data: memoryview, depth: int = 0) -> None:
        """Merge bytes into a message.

        Raises:
            DecodeError: malformed bytes.
        """
        start = position = 0
        while position < len(data):
            number, wire, begin, end = field_at(data, position)
            if wire not in (VARINT, DELIMITED) and wire not in FIXED:
                break  # a group, or malformed: left to protobuf
            if wire == DELIMITED and end - begin > PIECE:
                message.MergeFromString(bytes(data[start:position]))
                self._merge_field(message, number, data, (position, begin, end), depth)
                start = end
            elif end - start > PIECE:
                message.MergeFromString(bytes(data[start:end]))
                start = end
            position = end
        message.MergeFromString(bytes(data[start:]))

    def put_back(self) -> None:
        """Set the contents that were not removed in their tensors."""
        for proto, content in self.contents:
            proto.tensor_content = bytes(content)
        self.contents.clear()

    def _merge_field(
        self, message: Message, number: int, data: memoryview, at: tuple[int, int, int], depth: int
    ) -> None:
        position, begin, end = at
        if isinstance(message, TensorProto) and number == _CONTENT:
            self.contents = [each for each in self.contents if each[0] is not message]  # the last one counts
            self.contents.append((message, data[begin:end]))
            return
        inner = _inner(message, number) if depth < _DEEPEST else None
        if inner is None:
            message.MergeFromString(bytes(data[position:end]))
        else:
            self.merge(inner, data[begin:end], depth + 1)


def written(message: Message) -> Iterator[bytes]:
    """The bytes of a message made in this process, serialized one repeated message at a time; unknown fields are left out."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            alone: Any = type(message)()
            held = getattr(alone, field.name)
            if hasattr(held, "MergeFrom"):
                held.MergeFrom(value)
            else:
                setattr(alone, field.name, value)
            yield alone.SerializeToString()
            continue
        key = encode_varint(field.number << 3 | DELIMITED)
        if isinstance(value, Message):
            pieces = list(written(value))
            yield key + encode_varint(sum(map(len, pieces)))
            yield from pieces
            continue
        for element in value:
            content = element.SerializeToString()
            yield key + encode_varint(len(content)) + content


def _inner(message: Message, number: int) -> Message | None:
    """The message into which the bytes of a field are merged; None for other types and for maps."""
    field = message.DESCRIPTOR.fields_by_number.get(number)
    if field is None or field.message_type is None or field.message_type.GetOptions().map_entry:
        return None
    held: Any = getattr(message, field.name)
    if isinstance(held, Message):
        held.SetInParent()
        return held
    added: Message = held.add()
    return added
