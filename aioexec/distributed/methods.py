"""TensorFlow's services as a table: the messages of each method, and where its tensors are.

Messages are those of `formats.protos`. Beside them is our own service Peer, by which aioexec processes know each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from aioexec.dtypes import as_dtype, resource, string, variant
from aioexec.formats import protos
from aioexec.formats.protos import DataType, TensorProto
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor

MASTER = "MasterService"
WORKER = "WorkerService"
PEER = "Peer"

STAY = frozenset({resource.as_datatype_enum, variant.as_datatype_enum})
"""Dtypes whose values stay in the message."""


@dataclass(frozen=True, slots=True)
class Method:
    """The messages of a method, and the fields of theirs that hold tensors ("" for none).

    A field is repeated and holds messages with a field `tensor` (NamedTensorProto), or TensorProtos, or is one TensorProto.
    """

    request: type[Any]
    response: type[Any]
    sent: str = ""
    received: str = ""


def _method(name: str, sent: str = "", received: str = "") -> Method:
    return Method(getattr(protos, f"{name}Request"), getattr(protos, f"{name}Response"), sent, received)


METHODS: dict[str, Method] = {
    f"{service}/{name}": _method(name, *fields)
    for service, methods in {
        MASTER: {
            "CreateSession": (),
            "ExtendSession": (),
            "PartialRunSetup": (),
            "RunStep": ("feed", "tensor"),
            "CloseSession": (),
            "ListDevices": (),
            "Reset": (),
            "MakeCallable": (),
            "RunCallable": ("feed", "fetch"),
            "ReleaseCallable": (),
        },
        WORKER: {
            "GetStatus": (),
            "CreateWorkerSession": (),
            "DeleteWorkerSession": (),
            "RegisterGraph": (),
            "DeregisterGraph": (),
            "RunGraph": ("send", "recv"),
            "CleanupGraph": (),
            "CleanupAll": (),
            "RecvTensor": ("", "tensor"),
            "MarkRecvFinished": (),
            "Logging": (),
            "Tracing": (),
        },
        PEER: {
            "Hello": (),
        },
    }.items()
    for name, fields in methods.items()
}


def path_of(method: str) -> str:
    """What a method is called on the wire of gRPC."""
    return f"/aioexec.{method}" if method.startswith(f"{PEER}/") else f"/tensorflow.{method}"


def tensor_protos(message: Any, field: str) -> Sequence[TensorProto]:
    """The places for tensors in a message, in order; those of a repeated field must be there."""
    if not field:
        return ()
    found = getattr(message, field)
    if isinstance(found, TensorProto):
        return (found,)
    return [each if isinstance(each, TensorProto) else each.tensor for each in found]


def put_in(message: Any, field: str, tensors: Sequence[Any]) -> None:
    """Write tensors into their places in a message; a repeated field of TensorProtos gets the places it lacks."""
    if not tensors:
        return
    found = getattr(message, field)
    if message.DESCRIPTOR.fields_by_name[field].message_type is TensorProto.DESCRIPTOR and found is not None:
        while not isinstance(found, TensorProto) and len(found) < len(tensors):
            found.add()
    for place, tensor in zip(tensor_protos(message, field), tensors, strict=True):
        if tensor is not None:
            write_tensor(place, tensor)


def taken_out(message: Any, field: str, max_bytes: int) -> list[Any]:
    """Read the tensors of a message and clear their places; resource handles and variants stay, None stands for them.

    Raises:
        InvalidArgumentError: a tensor that lies about its size or dtype.
        ResourceExhaustedError: one of more than `max_bytes`.
    """
    tensors: list[Any] = []
    for place in tensor_protos(message, field):
        if place.dtype in STAY:
            tensors.append(None)
        else:
            tensors.append(decode_tensor(place, max_bytes))
            place.Clear()
    return tensors


def write_tensor(place: TensorProto, tensor: Any) -> None:
    """Write a tensor as TensorFlow's servers do: numbers as `tensor_content`, whatever their number."""
    array = np.asarray(tensor)
    if array.dtype.hasobject:
        place.CopyFrom(encode_tensor(array, string))
        return
    place.dtype = cast("DataType", as_dtype(array.dtype).as_datatype_enum)
    place.tensor_shape.SetInParent()
    for size in array.shape:
        place.tensor_shape.dim.add(size=size)
    place.tensor_content = array.tobytes()
