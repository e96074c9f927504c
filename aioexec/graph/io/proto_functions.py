"""The encoding of collections: for each collection a message type, and functions to convert items to messages and back.

Items of collections without such functions are encoded by type: tensors and operations by name, strings and numbers as values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError

ToProto = Callable[..., Any]
"""(item, export_scope=) to its message, names relative to that scope; None if the item is not in the scope."""

FromProto = Callable[..., Any]
"""(message, import_scope=) to an item built from the nodes in the default graph under that scope."""


@dataclass(frozen=True, slots=True)
class _Functions:
    proto_type: Any
    to_proto: ToProto | None
    from_proto: FromProto | None


_registered: Final[dict[str, _Functions]] = {}


def register_proto_function(
    collection_name: str,
    proto_type: Any = None,
    to_proto: ToProto | None = None,
    from_proto: FromProto | None = None,
) -> None:
    """Register how items of a collection are converted to messages and back.

    Args:
        proto_type: the class of the messages, or the name of one in `aioexec.formats.protos`, which is imported at first use.

    Raises:
        GraphTypeError: one of the functions is not callable.
        GraphValueError: the collection has functions already.
    """
    for name, function in (("to_proto", to_proto), ("from_proto", from_proto)):
        if function is not None and not callable(function):
            raise GraphTypeError(f"{name} must be callable, got {function!r}")
    if collection_name in _registered:
        raise GraphValueError(f"collection {collection_name!r} has functions to make messages already")
    _registered[collection_name] = _Functions(proto_type, to_proto, from_proto)


def get_collection_proto_type(collection_name: str) -> Any:
    """The message class of a collection; None if there is none."""
    found = _registered.get(collection_name)
    if found is None or not isinstance(found.proto_type, str):
        return None if found is None else found.proto_type
    from aioexec.formats import protos

    return getattr(protos, found.proto_type)


def get_to_proto_function(collection_name: str) -> ToProto | None:
    found = _registered.get(collection_name)
    return None if found is None else found.to_proto


def get_from_proto_function(collection_name: str) -> FromProto | None:
    found = _registered.get(collection_name)
    return None if found is None else found.from_proto
