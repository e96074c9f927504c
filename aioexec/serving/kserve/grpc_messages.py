"""ModelInfer over gRPC: bytes of the messages to requests, and replies to bytes.

Raw contents are not parsed by protobuf, which would copy them: they are views of the received bytes, and are joined once into
the sent ones. What remains of a message is short and alike in every call of a client, so its parsed form is cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import InvalidArgumentError
from aioexec.formats.message_fields import Chunk, delimited, delimited_key, split
from aioexec.in_thread import in_thread
from aioexec.serving.kserve.datatypes import datatype_of, dtype_of
from aioexec.serving.kserve.inference import InferReply, InferRequest, check_unique, signature_parameter
from aioexec.serving.kserve.raw_tensors import Array, count_of, decode_raw, encode_raw
from aioexec.serving.protos.inference_pb2 import (
    InferParameter,
    InferTensorContents,
    ModelInferRequest,
    ModelInferResponse,
)

INLINE: Final = 1 << 18
"""Messages of more bytes are decoded and encoded in a thread, if that takes more than views of their contents."""

_RAW_INPUTS: Final = ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER
_RAW_OUTPUT_KEY: Final = delimited_key(ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER)
_SHORT: Final = 1 << 10  # bytes of what is cached; a client could fill the memory with longer ones

_CONTENTS: Final = {
    dt.bool_: "bool_contents",
    dt.int8: "int_contents",
    dt.int16: "int_contents",
    dt.int32: "int_contents",
    dt.int64: "int64_contents",
    dt.uint8: "uint_contents",
    dt.uint16: "uint_contents",
    dt.uint32: "uint_contents",
    dt.uint64: "uint64_contents",
    dt.float32: "fp32_contents",
    dt.float64: "fp64_contents",
    dt.string: "bytes_contents",
}
"""The field of contents by dtype; the protocol has none for FP16 and BF16, which are always raw."""


@dataclass(frozen=True, slots=True)
class _Input:
    """An input of a request without its raw content; `value` is None if that is raw."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    value: Array | None

    @property
    def who(self) -> str:
        return f"input {self.name!r}"


@dataclass(frozen=True, slots=True)
class _Head:
    """A request without its raw contents."""

    model: str
    version: str
    id: str
    signature: str
    inputs: tuple[_Input, ...]
    outputs: tuple[str, ...]


async def decode_request(data: bytes) -> InferRequest:
    """Parse a ModelInferRequest; its raw inputs are read-only views of the bytes.

    Raises:
        InvalidArgumentError: malformed bytes, or inputs that contradict themselves.
    """
    rest, raw = _split(data)
    if len(rest) > INLINE:
        return _joined(await in_thread(_parsed, rest), raw)
    head = _head_of(rest) if len(rest) <= _SHORT else _parsed(rest)
    strings = sum(
        len(content) for each, content in zip(head.inputs, raw, strict=False) if each.dtype is dt.string
    )
    return await in_thread(_joined, head, raw) if strings > INLINE else _joined(head, raw)


def _split(data: bytes) -> tuple[bytes, list[memoryview]]:
    try:
        return split(memoryview(data), _RAW_INPUTS)
    except DecodeError as error:
        raise _malformed(error) from error


@lru_cache(maxsize=256)
def _head_of(rest: bytes) -> _Head:
    return _parsed(rest)


def _parsed(rest: bytes) -> _Head:
    try:
        message = ModelInferRequest.FromString(rest)
    except DecodeError as error:
        raise _malformed(error) from error
    check_unique("input", [each.name for each in message.inputs])
    check_unique("output", [each.name for each in message.outputs])
    parameters = {name: parameter_of(each) for name, each in message.parameters.items()}
    return _Head(
        model=message.model_name,
        version=message.model_version,
        id=message.id,
        signature=signature_parameter(parameters),
        inputs=tuple(map(_input, message.inputs)),
        outputs=tuple(each.name for each in message.outputs),
    )


def _input(message: ModelInferRequest.InferInputTensor) -> _Input:
    who = f"input {message.name!r}"
    dtype = dtype_of(message.datatype, who)
    shape = tuple(message.shape)
    value = _contents(message.contents, dtype, shape, who) if message.HasField("contents") else None
    return _Input(message.name, dtype, shape, value)


def _contents(contents: InferTensorContents, dtype: DType, shape: Sequence[int], who: str) -> Array:
    """The array of typed contents, which is read-only."""
    wanted = _CONTENTS.get(dtype)
    unwanted = [field.name for field, _ in contents.ListFields() if field.name != wanted]
    if unwanted or wanted is None:
        raise InvalidArgumentError(
            f"{who}: expected {wanted or 'raw contents'} for {dtype.name}, got {', '.join(unwanted) or 'contents'}"
        )
    elements = getattr(contents, wanted)
    count = count_of(shape, dtype, who)
    if len(elements) != count:
        raise InvalidArgumentError(
            f"{who}: expected {count} elements in {wanted} for shape {list(shape)}, got {len(elements)}"
        )
    value = _typed(elements, dtype, count, who).reshape(shape)
    value.flags.writeable = False
    return value


def _typed(elements: Any, dtype: DType, count: int, who: str) -> Array:
    if dtype is dt.string:
        return np.fromiter(elements, np.object_, count)
    try:
        return np.fromiter(elements, dtype.numpy, count)
    except OverflowError as error:
        raise InvalidArgumentError(f"{who}: expected elements that {dtype.name} can hold: {error}") from error


def _joined(head: _Head, raw: Sequence[memoryview]) -> InferRequest:
    """The request of a head and its raw contents, of which there is one for each input or none."""
    typed = [each.name for each in head.inputs if each.value is not None]
    if raw and (typed or len(raw) != len(head.inputs)):
        raise InvalidArgumentError(
            f"raw_input_contents: expected one for each of {len(head.inputs)} inputs and no other contents, "
            f"got {len(raw)}, and contents in {typed}"
        )
    if raw:
        inputs = {
            each.name: decode_raw(content, each.dtype, each.shape, each.who)
            for each, content in zip(head.inputs, raw, strict=True)
        }
    else:
        inputs = {each.name: _given(each) for each in head.inputs}
    return InferRequest(head.model, head.version, head.id, head.signature, inputs, head.outputs)


def _given(each: _Input) -> Array:
    """The value of an input without raw content: with typed contents, or without elements."""
    if each.value is not None:
        return each.value
    return decode_raw(b"", each.dtype, each.shape, each.who)


async def encode_reply(reply: InferReply) -> bytes:
    """Serialize a ModelInferResponse with raw contents.

    Raises:
        UnimplementedError: an output's dtype has no datatype.
    """
    size = sum(value.size * 64 if value.dtype.hasobject else value.nbytes for value in reply.outputs.values())
    return await in_thread(_encode, reply) if size > INLINE else _encode(reply)


def _encode(reply: InferReply) -> bytes:
    tensors = tuple((name, value.dtype, value.shape) for name, value in reply.outputs.items())
    chunks: list[Chunk] = [_reply_head(reply.model, reply.version, reply.id, tensors)]
    for name, value in reply.outputs.items():
        chunks += delimited(_RAW_OUTPUT_KEY, [encode_raw(value, f"output {name!r}")])
    return b"".join(chunks)


@lru_cache(maxsize=256)
def _reply_head(
    model: str, version: str, request_id: str, tensors: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]
) -> bytes:
    """The bytes of a reply without its contents."""
    message = ModelInferResponse(model_name=model, model_version=version, id=request_id)
    for name, dtype, shape in tensors:
        message.outputs.add(name=name, datatype=datatype_of(as_dtype(dtype), f"output {name!r}"), shape=shape)
    return message.SerializeToString()


def parameter_of(message: InferParameter) -> Any:
    """The value of a parameter; None if it has none."""
    kind = message.WhichOneof("parameter_choice")
    return None if kind is None else getattr(message, kind)


def _malformed(error: DecodeError) -> InvalidArgumentError:
    return InvalidArgumentError(f"expected a ModelInferRequest, got malformed bytes: {error}")
