"""Attributes of a node: infers them from the inputs, adds defaults, and checks them against the op's definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.opdef import ArgDef, AttrDef, OpDef
from aioexec.shapes import is_too_large

MOST_TENSORS: Final = 1 << 16
"""The largest number of tensors in one argument of a node."""


def input_count(arg: ArgDef, attrs: dict[str, Any]) -> int:
    """The number of tensors in an argument."""
    if arg.number_attr:
        return int(attrs[arg.number_attr])
    if arg.type_list_attr:
        return len(attrs[arg.type_list_attr])
    return 1


def arg_dtypes(arg: ArgDef, attrs: dict[str, Any]) -> list[DType]:
    """The dtype of each tensor in an argument.

    Raises:
        GraphValueError: there would be more tensors than a node can have.
    """
    if arg.type_list_attr:
        types = list(attrs[arg.type_list_attr])
    else:
        base = arg.dtype if arg.dtype is not None else attrs[arg.type_attr]
        count = input_count(arg, attrs)
        if count > MOST_TENSORS:
            raise GraphValueError(
                f"attr {arg.number_attr!r} must be at most {MOST_TENSORS} tensors of {arg.name!r}, got {count}"
            )
        types = [base] * count
    return [dtype.as_ref for dtype in types] if arg.is_ref else types


def output_dtypes(definition: OpDef, attrs: dict[str, Any]) -> list[DType]:
    return [dtype for arg in definition.outputs for dtype in arg_dtypes(arg, attrs)]


def complete_attrs(
    definition: OpDef, name: str, attrs: dict[str, Any], input_types: Sequence[DType]
) -> dict[str, Any]:
    """Infer attributes from the inputs, add defaults, and check everything.

    Results are cached if all attributes are of plain types. Others are not cached: they may be equal without being identical
    (0.0 and -0.0) or are not hashable (arrays).

    Raises:
        GraphValueError, GraphTypeError: a wrong number or dtype of inputs, a missing, unknown or ill-typed attribute.
    """
    for value in attrs.values():
        if type(value) not in _PLAIN:
            return _complete(definition, name, attrs, input_types)
    key = (id(definition), *input_types, *attrs, *attrs.values())
    kept = _completed.get(key)
    if kept is None:
        if len(_completed) >= _MOST_KEPT:
            _completed.clear()
        kept = _completed[key] = definition, _complete(definition, name, attrs, input_types)
    return dict(kept[1])


_MOST_KEPT: Final = 4096
_PLAIN: Final = frozenset({bool, int, str, bytes, DType})
_completed: dict[tuple[Any, ...], tuple[OpDef, dict[str, Any]]] = {}
"""The key contains the definition's id; the entry refers to the definition so that its id is not reused."""


def _complete(
    definition: OpDef, name: str, attrs: dict[str, Any], input_types: Sequence[DType]
) -> dict[str, Any]:
    where = f"{definition.name} {name!r}"
    done = {key: value for key, value in attrs.items() if key.startswith("_")}
    for attr in definition.attrs:
        if attr.name in attrs:
            done[attr.name] = check_attr(where, attr, attrs[attr.name])
    unknown = sorted(set(attrs) - set(done))
    if unknown:
        raise GraphValueError(
            f"{where} has no attr {unknown[0]!r}; it has {[attr.name for attr in definition.attrs]}"
        )
    _bind_input_attrs(where, definition, done, input_types)
    for attr in definition.attrs:
        if attr.name not in done:
            if attr.required:
                raise GraphValueError(f"{where} lacks its attr {attr.name!r} ({attr.kind})")
            done[attr.name] = attr.default
    return done


def _bind_input_attrs(
    where: str, definition: OpDef, attrs: dict[str, Any], input_types: Sequence[DType]
) -> None:
    """Set type and number attributes from the given inputs, and check every input's dtype."""
    position = 0
    for arg in definition.inputs:
        rest = len(input_types) - position
        count = _count_for(where, definition, arg, attrs, rest)
        if count > rest:
            raise GraphValueError(f"{where}: too few inputs, {len(input_types)} for {_signature(definition)}")
        types = input_types[position : position + count]
        _match_types(where, definition, arg, attrs, types, position)
        position += count
    if position != len(input_types):
        raise GraphValueError(
            f"{where}: {len(input_types)} inputs, expected {position} for {_signature(definition)}"
        )


def _count_for(where: str, definition: OpDef, arg: ArgDef, attrs: dict[str, Any], rest: int) -> int:
    name = arg.number_attr or arg.type_list_attr
    if not name:
        return 1
    if name in attrs:
        return int(attrs[name]) if arg.number_attr else len(attrs[name])
    fixed = sum(1 for other in definition.inputs if not other.is_list)
    lists = [other for other in definition.inputs if other.is_list]
    if len(lists) > 1 and not all(other.number_attr == arg.number_attr != "" for other in lists):
        raise GraphValueError(f"{where} lacks its attr {name!r}: it cannot be inferred from the inputs")
    before = sum(1 for other in definition.inputs[: definition.inputs.index(arg)] if not other.is_list)
    count = (rest - (fixed - before)) // len(lists)
    attr = definition.attr(name)
    if arg.number_attr and attr is not None:
        attrs[name] = check_attr(where, attr, count)
    return count


def _match_types(
    where: str, definition: OpDef, arg: ArgDef, attrs: dict[str, Any], types: Sequence[DType], position: int
) -> None:
    for offset, dtype in enumerate(types):
        if arg.is_ref and not dtype.is_ref:
            raise GraphTypeError(
                f"{where}: input {position + offset} ({arg.name!r}) must be a variable, got a value of {dtype.name}"
            )
    base = [dtype.base_dtype for dtype in types]
    if arg.type_list_attr:
        attr = definition.attr(arg.type_list_attr)
        if arg.type_list_attr not in attrs and attr is not None:
            attrs[arg.type_list_attr] = check_attr(where, attr, tuple(base))
        expected = list(attrs[arg.type_list_attr])
    elif arg.dtype is not None:
        expected = [arg.dtype] * len(types)
    else:
        attr = definition.attr(arg.type_attr)
        if arg.type_attr not in attrs and base and attr is not None:
            attrs[arg.type_attr] = check_attr(where, attr, base[0])
        expected = [attrs[arg.type_attr]] * len(types) if base else []
    for offset, (dtype, wanted) in enumerate(zip(base, expected, strict=True)):
        if dtype != wanted:
            raise GraphTypeError(
                f"{where}: input {position + offset} ({arg.name!r}) must be {wanted.name}, got {dtype.name}"
            )


def _signature(definition: OpDef) -> str:
    return f"{definition.name}({', '.join(arg.name for arg in definition.inputs)})"


def check_attr(where: str, attr: AttrDef, value: Any) -> Any:
    """The value of an attribute in canonical form.

    Raises:
        GraphTypeError, GraphValueError: the value does not fit the definition.
    """
    if attr.kind.startswith("list("):
        if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
            raise GraphTypeError(f"{where}: attr {attr.name!r} must be a {attr.kind}, got {value!r}")
        items = tuple(_check_item(where, attr, attr.kind[5:-1], item) for item in value)
        if attr.minimum is not None and len(items) < attr.minimum:
            raise GraphValueError(
                f"{where}: attr {attr.name!r} needs at least {attr.minimum} items, got {len(items)}"
            )
        return items
    value = _check_item(where, attr, attr.kind, value)
    if attr.minimum is not None and value < attr.minimum:
        raise GraphValueError(f"{where}: attr {attr.name!r} must be at least {attr.minimum}, got {value}")
    return value


def _check_item(where: str, attr: AttrDef, kind: str, value: Any) -> Any:
    try:
        value = _CANONICAL[kind](value)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise GraphTypeError(f"{where}: attr {attr.name!r} must be a {attr.kind}, got {value!r}") from error
    if kind == "shape" and is_too_large(value):
        raise GraphValueError(f"{where}: attr {attr.name!r}: shape {value} has more than 2**63 - 1 entries")
    if attr.allowed is not None and value not in attr.allowed:
        allowed = [item.name if isinstance(item, DType) else item for item in attr.allowed]
        shown = value.name if isinstance(value, DType) else repr(value)
        error_class = GraphTypeError if kind == "type" else GraphValueError
        raise error_class(f"{where}: attr {attr.name!r} does not allow {shown}; allowed are {allowed}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, float) or int(value) != value:
        raise TypeError(value)
    return int(value)


def _boolean(value: Any) -> bool:
    if value not in (True, False):
        raise TypeError(value)
    return bool(value)


def _text(value: Any) -> str | bytes:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _shape(value: Any) -> Any:
    if value is None:
        return None
    plain = value.plain if hasattr(value, "plain") else value
    if plain is None:
        return None
    return tuple(None if dim is None or int(dim) < 0 else int(dim) for dim in plain)


def _function(value: Any) -> NameAttrList:
    if isinstance(value, NameAttrList):
        return value
    if isinstance(value, str):
        return NameAttrList(value)
    if hasattr(value, "ListFields"):
        from aioexec.graph.attr_values import read_function  # loaded already if it is a proto

        return read_function(value)
    return NameAttrList(value.name)


def _identity(value: Any) -> Any:
    return value


_CANONICAL: dict[str, Callable[[Any], Any]] = {
    "int": _integer,
    "float": lambda value: float(np.float32(value)),  # rounded to float32, the precision of a GraphDef
    "bool": _boolean,
    "string": _text,
    "type": lambda value: dtypes.as_dtype(value).base_dtype,
    "shape": _shape,
    "tensor": _identity,
    "func": _function,
}
