"""Conversion of node attributes to AttrValue protos and back.

An attribute that the op defines has a kind; its Python form is that of `graph.attrs`, in which a shape is a plain tuple or
None. A private attribute (name with a leading "_") has no definition: the field that is set in the proto determines its kind,
and a shape is read as a TensorShape, so that writing it again yields the same proto.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.formats.protos import AttrValue, NameAttrList as NameAttrListProto
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor, shape_from_proto, shape_to_proto
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.opdef import AttrDef
from aioexec.shapes import Dims, TensorShape, as_dims, check_rank, is_too_large


class _Form(NamedTuple):
    """The encoding of one kind of value in an AttrValue: the proto's field, and functions to read and write it."""

    field: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _read_text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _write_text(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _read_dtype(number: int) -> DType:
    try:
        return as_dtype(int(number))
    except GraphTypeError:
        raise GraphValueError(f"unknown DataType number {int(number)}") from None


def _write_dtype(dtype: Any) -> int:
    number: int = as_dtype(dtype).as_datatype_enum
    return number


def _read_tensor(proto: Any) -> np.ndarray[Any, Any]:
    value = decode_tensor(proto)
    value.setflags(write=False)
    return value


def _write_tensor(value: np.ndarray[Any, Any]) -> Any:
    return encode_tensor(value, dtypes.string if value.dtype.hasobject else None)


def _read_shape(proto: Any) -> Dims:
    dims = shape_from_proto(proto)
    if is_too_large(dims):
        raise GraphValueError(f"Shape {list(dims or ())} is too large (more than 2**63 - 1 entries)")
    check_rank(len(dims or ()))
    return dims


def _write_shape(value: Any) -> Any:
    return shape_to_proto(as_dims(value))


def read_function(proto: Any) -> NameAttrList:
    """The function named by an attribute, with the attributes of the call."""
    if not isinstance(proto, NameAttrListProto):
        proto = NameAttrListProto.FromString(proto.SerializeToString())
    return NameAttrList(proto.name, {name: read_private_attr(held) for name, held in proto.attr.items()})


def _write_function(value: NameAttrList) -> NameAttrListProto:
    proto = NameAttrListProto(name=value.name)
    for name, each in value.attrs.items():
        write_private_attr(proto.attr[name], each)
    return proto


_FORMS: Final = {
    "int": _Form("i", _same, int),
    "float": _Form("f", _same, float),
    "bool": _Form("b", _same, bool),
    "string": _Form("s", _read_text, _write_text),
    "type": _Form("type", _read_dtype, _write_dtype),
    "shape": _Form("shape", _read_shape, _write_shape),
    "tensor": _Form("tensor", _read_tensor, _write_tensor),
    "func": _Form("func", read_function, _write_function),
}
_KIND_OF_FIELD: Final = {form.field: kind for kind, form in _FORMS.items()}
_MESSAGES: Final = frozenset(
    {"shape", "tensor", "func"}
)  # kinds that are messages: set by CopyFrom, not by assignment


def read_attr(attr: AttrDef, proto: AttrValue) -> Any:
    """The value of an attribute with definition `attr`; its bounds are not checked here.

    Raises:
        InvalidArgumentError: the proto holds another kind of value, or a malformed one.
    """
    held = proto.WhichOneof("value")
    if not attr.kind.startswith("list("):
        form = _FORMS[attr.kind]
        if held != form.field:
            raise _unlike(attr, held)
        return form.read(getattr(proto, form.field))
    form = _FORMS[attr.kind[5:-1]]
    if held != "list":
        raise _unlike(attr, held)
    fields = [field.name for field, _ in proto.list.ListFields()]
    if fields and fields != [form.field]:
        raise GraphValueError(f"attr {attr.name!r} must be a {attr.kind}, got a list of {fields}")
    return tuple(map(form.read, getattr(proto.list, form.field)))


def _unlike(attr: AttrDef, held: str | None) -> GraphValueError:
    got = "nothing" if held is None else f"a value of kind {_KIND_OF_FIELD.get(held, held)!r}"
    return GraphValueError(f"attr {attr.name!r} must be a {attr.kind}, got {got}")


def read_private_attr(proto: AttrValue) -> Any:
    """The value of an attribute without a definition.

    Raises:
        InvalidArgumentError: malformed.
    """
    held = proto.WhichOneof("value")
    if held == "list":
        fields = proto.list.ListFields()
        return tuple(
            _read_undeclared(_KIND_OF_FIELD[field.name], item) for field, items in fields for item in items
        )
    if held is None or held not in _KIND_OF_FIELD:
        copy = AttrValue()
        copy.CopyFrom(proto)
        return copy
    return _read_undeclared(_KIND_OF_FIELD[held], getattr(proto, held))


def _read_undeclared(kind: str, value: Any) -> Any:
    read = _FORMS[kind].read(value)
    return TensorShape(read) if kind == "shape" else read


def write_attr(target: AttrValue, kind: str, value: Any) -> None:
    """Write a value of a defined kind ("int", "list(shape)", …) to an empty proto."""
    if kind.startswith("list("):
        kind = kind[5:-1]
        form = _FORMS[kind]
        target.list.SetInParent()
        getattr(target.list, form.field).extend(map(form.write, value))
        return
    form = _FORMS[kind]
    if kind in _MESSAGES:
        getattr(target, form.field).CopyFrom(form.write(value))
    else:
        setattr(target, form.field, form.write(value))


def write_private_attr(target: AttrValue, value: Any) -> None:
    """Write a value to an empty proto; its Python type determines the kind.

    Raises:
        GraphTypeError: no kind of attribute holds such a value.
    """
    if isinstance(value, AttrValue):
        target.CopyFrom(value)
    elif isinstance(value, list | tuple):
        write_attr(target, f"list({_kind_of(value[0])})" if value else "list(int)", value)
    else:
        write_attr(target, _kind_of(value), value)


# The order matters: bool is a subclass of int.
_KINDS_BY_TYPE: Final[tuple[tuple[Any, str], ...]] = (
    ((bool, np.bool_), "bool"),
    ((int, np.integer), "int"),
    ((float, np.floating), "float"),
    ((str, bytes), "string"),
    (DType, "type"),
    (TensorShape, "shape"),
    (np.ndarray, "tensor"),
    (NameAttrList, "func"),
)


def _kind_of(value: Any) -> str:
    for types, kind in _KINDS_BY_TYPE:
        if isinstance(value, types):
            return kind
    raise GraphTypeError(f"an attribute cannot hold {value!r} of type {type(value).__name__!r}")
