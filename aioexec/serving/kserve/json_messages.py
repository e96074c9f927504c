"""Inference over HTTP: bodies to requests, and replies to bodies.

A body is JSON, or with the binary tensor data extension JSON followed by raw tensors, in the order in which JSON names them;
the header `Inference-Header-Content-Length` is then the length of the JSON.

    {"id": …, "parameters": {…}, "inputs": [{"name": …, "shape": […], "datatype": …, "data": […]}], "outputs": [{"name": …}]}
    {"model_name": …, "model_version": …, "id": …, "outputs": [{"name": …, "shape": […], "datatype": …, "data": […]}]}

Numbers beyond the range of a datatype are refused. In replies infinite numbers and NaN are the strings "NaN", "Infinity" and
"-Infinity", since JSON has no such numbers.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, as_dtype, to_array
from aioexec.errors import InvalidArgumentError, OpError, UnimplementedError
from aioexec.formats.message_fields import Chunk
from aioexec.serving.json_text import parse_json, write_json
from aioexec.serving.kserve.datatypes import datatype_of, dtype_of
from aioexec.serving.kserve.inference import InferReply, InferRequest, check_unique, signature_parameter
from aioexec.serving.kserve.raw_tensors import Array, count_of, decode_raw, encode_raw

LENGTH_HEADER: Final = "Inference-Header-Content-Length"

_KEYS: Final = frozenset({"id", "parameters", "inputs", "outputs"})
_SIZE: Final = "binary_data_size"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request, and which outputs of its reply are binary: those in `binary`, and if `binary_default` the unnamed ones."""

    request: InferRequest
    binary: Mapping[str, bool]
    binary_default: bool


def decode_body(body: bytes, json_length: int | None, model: str, version: str) -> HttpRequest:
    """Parse the body of a request; its binary tensors are read-only views of the body.

    Args:
        json_length: of `LENGTH_HEADER`; None if the whole body is JSON.

    Raises:
        InvalidArgumentError: it is not such a request, or an input contradicts itself.
    """
    end = len(body) if json_length is None else json_length
    if end > len(body):
        raise InvalidArgumentError(f"{LENGTH_HEADER}: expected at most {len(body)}, the body, got {end}")
    request = _object(parse_json(body[:end]), "the request")
    if request.keys() - _KEYS:
        raise InvalidArgumentError(f"the request has unknown keys: {_names(request.keys() - _KEYS)}")
    raw = _Raw(memoryview(body)[end:])
    inputs = _tensors(request, "inputs")
    outputs = _tensors(request, "outputs")
    parameters = _object(request.get("parameters", {}), "'parameters'")
    names = [_name(each, "outputs") for each in outputs]
    check_unique("output", names)
    decoded = InferRequest(
        model=model,
        version=version,
        id=_text(request.get("id", ""), "'id'"),
        signature=signature_parameter(parameters),
        inputs=_inputs(inputs, raw),
        outputs=names,
    )
    raw.check_end()
    default = _flag(parameters, "binary_data_output", False)
    binary = {
        name: _flag(_parameters(each), "binary_data", default)
        for name, each in zip(names, outputs, strict=True)
    }
    return HttpRequest(decoded, binary, default)


def encode_body(reply: InferReply, asked: HttpRequest) -> tuple[bytes, int | None]:
    """Return the body of a reply, and the length of its JSON if binary tensors follow it.

    Raises:
        UnimplementedError: an output has no datatype, or BYTES that JSON cannot carry.
    """
    described: list[dict[str, Any]] = []
    raw: list[Chunk] = []
    for name, value in reply.outputs.items():
        who = f"output {name!r}"
        dtype = as_dtype(value.dtype)
        tensor: dict[str, Any] = {
            "name": name,
            "datatype": datatype_of(dtype, who),
            "shape": list(value.shape),
        }
        if asked.binary.get(name, asked.binary_default):
            content = encode_raw(value, who)
            raw.append(content)
            tensor["parameters"] = {_SIZE: len(content)}
        else:
            tensor["data"] = _listed(value, dtype, who)
        described.append(tensor)
    answer = {"model_name": reply.model, "model_version": reply.version, "outputs": described}
    if reply.id:
        answer["id"] = reply.id
    text = write_json(answer)
    return (b"".join([text, *raw]), len(text)) if raw else (text, None)


class _Raw:
    """The raw tensors after the JSON; each is taken once, in order."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._position = 0

    def take(self, size: int, who: str) -> memoryview:
        """Return the next `size` bytes."""
        end = self._position + size
        if end > len(self._content):
            raise InvalidArgumentError(
                f"{who}: expected {size} bytes after the JSON at {self._position}, "
                f"got {len(self._content) - self._position}"
            )
        taken = self._content[self._position : end]
        self._position = end
        return taken

    def check_end(self) -> None:
        """Raise InvalidArgumentError if bytes are left."""
        if self._position != len(self._content):
            raise InvalidArgumentError(
                f"the body: expected {self._position} bytes of binary inputs, got {len(self._content)}"
            )


def _inputs(inputs: Sequence[Mapping[str, Any]], raw: _Raw) -> dict[str, Array]:
    check_unique("input", [_name(each, "inputs") for each in inputs])
    return {each["name"]: _input(each, raw) for each in inputs}


def _input(tensor: Mapping[str, Any], raw: _Raw) -> Array:
    who = f"input {tensor['name']!r}"
    dtype = dtype_of(tensor.get("datatype"), who)
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(type(size) is int for size in shape):
        raise InvalidArgumentError(
            f"{who}: expected a 'shape' as a list of integers, got {reprlib.repr(shape)}"
        )
    count = count_of(shape, dtype, who)
    size = _parameters(tensor).get(_SIZE)
    if size is None:
        return _given(tensor.get("data"), dtype, shape, count, who)
    if type(size) is not int or size < 0:
        raise InvalidArgumentError(
            f"{who}: expected {_SIZE!r} as a number of bytes, got {reprlib.repr(size)}"
        )
    if "data" in tensor:
        raise InvalidArgumentError(f"{who}: expected either 'data' or {_SIZE!r}, got both")
    return decode_raw(raw.take(size, who), dtype, shape, who)


def _given(data: Any, dtype: DType, shape: Sequence[int], count: int, who: str) -> Array:
    """The array of elements in JSON, flat or nested."""
    if not isinstance(data, list):
        raise InvalidArgumentError(f"{who}: expected 'data' as a list, got {reprlib.repr(data)}")
    try:
        value = to_array(data, dtype)
    except OpError as error:
        raise InvalidArgumentError(f"{who}: {error.message}") from error
    if value.size != count or value.ndim not in (1, len(shape)):
        raise InvalidArgumentError(
            f"{who}: expected {count} elements for shape {list(shape)}, got an array of shape {list(value.shape)}"
        )
    if dtype.is_floating and not np.isfinite(value).all():
        raise InvalidArgumentError(f"{who}: expected numbers that {dtype.name} can hold")
    return value.reshape(shape)


def _listed(value: Array, dtype: DType, who: str) -> list[Any]:
    """The elements of an array for JSON, flat."""
    if dtype is dt.string:
        return [_utf8(element, who) for element in value.ravel().tolist()]
    if not dtype.is_floating:
        listed: list[Any] = value.ravel().tolist()
        return listed
    wide = value.astype(np.float64 if dtype is dt.float64 else np.float32, copy=False).ravel()
    elements: list[Any] = wide.tolist()
    return elements if np.isfinite(wide).all() else [_number(element) for element in elements]


def _number(element: float) -> float | str:
    if math.isfinite(element):
        return element
    return "NaN" if math.isnan(element) else "Infinity" if element > 0 else "-Infinity"


def _utf8(element: bytes, who: str) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError as error:
        raise UnimplementedError(
            f"{who}: JSON cannot carry bytes that are not UTF-8; request it as binary_data"
        ) from error


# Parts of a request


def _object(value: Any, who: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{who} must be a JSON object, got {reprlib.repr(value)}")
    return value


def _tensors(request: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The tensors in a list of the request; outputs may be missing."""
    tensors = request.get(key, [] if key == "outputs" else None)
    if not isinstance(tensors, list):
        raise InvalidArgumentError(f"{key!r} must be a list, got {reprlib.repr(tensors)}")
    return [_object(each, f"{key}[{index}]") for index, each in enumerate(tensors)]


def _name(tensor: Mapping[str, Any], key: str) -> str:
    return _text(tensor.get("name"), f"'name' in {key!r}")


def _parameters(tensor: Mapping[str, Any]) -> dict[str, Any]:
    return _object(tensor.get("parameters", {}), f"'parameters' of {tensor.get('name')!r}")


def _flag(parameters: Mapping[str, Any], name: str, default: bool) -> bool:
    flag = parameters.get(name, default)
    if not isinstance(flag, bool):
        raise InvalidArgumentError(f"parameter {name!r}: expected true or false, got {reprlib.repr(flag)}")
    return flag


def _text(value: Any, who: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{who} must be a string, got {reprlib.repr(value)}")
    return value


def _names(names: Any) -> str:
    return reprlib.repr(sorted(names))
