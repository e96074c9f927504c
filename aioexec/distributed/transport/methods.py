"""TensorFlow's services as a table: the messages of each method, and the fields with tensors.

Messages are those of `formats.protos`. The service Peer is our own; aioexec processes use it among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.distributed.transport.push_messages import Pushed
from aioexec.dtypes import resource, variant
from aioexec.formats import protos
from aioexec.formats.protos import TensorProto
from aioexec.formats.tensor_codec import decode_tensor

MASTER = "MasterService"
WORKER = "WorkerService"
PEER = "Peer"

STAY = frozenset({resource.as_datatype_enum, variant.as_datatype_enum})
"""Dtypes whose values stay in the message."""


@dataclass(frozen=True, slots=True)
class Method:
    """The messages of a method, and their fields with tensors ("" for none).

    `sent` is the field of the `request`, `received` that of the `response`.

    Such a field is a repeated message with a field `tensor` (NamedTensorProto), a repeated TensorProto, or one TensorProto.
    """

    request: type[Any]
    response: type[Any]
    sent: str = ""
    received: str = ""


def _method(name: str, sent: str = "", received: str = "") -> Method:
    return Method(getattr(protos, f"{name}Request"), getattr(protos, f"{name}Response"), sent, received)


_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
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
    PEER: {"Hello": (), "Push": ()},
}

METHODS: dict[str, Method] = {
    f"{service}/{name}": _method(name, *fields)
    for service, methods in _FIELDS.items()
    for name, fields in methods.items()
}

NOTIFICATIONS: dict[str, type[Any]] = {f"{PEER}/Push": Pushed}
"""The notification classes of methods that have notifications. The bytes are those of the protobuf message `response`."""


def path_of(method: str) -> str:
    """The path of a method in gRPC."""
    return f"/aioexec.{method}" if method.startswith(f"{PEER}/") else f"/tensorflow.{method}"


def tensor_protos(message: Any, field: str) -> Sequence[TensorProto]:
    """The TensorProtos in a message, in order; those of a repeated field must exist."""
    if not field:
        return ()
    found = getattr(message, field)
    if isinstance(found, TensorProto):
        return (found,)
    return [each if isinstance(each, TensorProto) else each.tensor for each in found]


def take_out(message: Any, field: str, max_bytes: int) -> list[Any]:
    """Decode the tensors of a message and clear them there; resource handles and variants stay, and yield None.

    Raises:
        InvalidArgumentError: a tensor with a wrong size or dtype.
        ResourceExhaustedError: a tensor of more than `max_bytes`.
    """
    tensors: list[Any] = []
    for place in tensor_protos(message, field):
        if place.dtype in STAY:
            tensors.append(None)
        else:
            tensors.append(decode_tensor(place, max_bytes))
            place.Clear()
    return tensors
