"""Op signatures: parses the compact notation of TensorFlow's registry into definitions.

The notation, one op a line:

    Name(input:type, ...) -> (output:type, ...) [attr:kind constraint=default; ...] {flags}

`N*T` is a list of N tensors of type attr T, `Ref(T)` a reference edge, a bare name of a list(type) attr a heterogeneous list.
`type@5` allows the dtypes of set 5 below, `type{int32|int64}` those in place; `>=n` is a least value or length.
An attr without `=` is required. The default of a tensor is its dtype and its elements: `uint8[255, 0]`.
"""

from __future__ import annotations

import ast
import functools
import re
from functools import cache
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType

_FLOATS = "bfloat16|half|float|double"
_INTS = "uint8|int8|uint16|int16|int32|uint32|int64|uint64"
_COMPLEX = "complex64|complex128"
_QUANTIZED = "qint8|quint8|qint32|qint16|quint16"
_NUMERIC = f"{_FLOATS}|{_INTS}|{_COMPLEX}|{_QUANTIZED}"
_REAL = f"{_FLOATS}|{_INTS}"

# Sets of allowed dtypes, numbered as in TensorFlow's registry listing.
TYPE_SETS = {
    1: "bfloat16|half|float|double|int8|int16|int32|int64",
    2: f"{_FLOATS}|{_COMPLEX}",
    3: f"{_FLOATS}|uint8|int8|int16|int32|int64|{_COMPLEX}|string",
    4: f"{_NUMERIC}|variant",
    5: f"{_REAL}|{_COMPLEX}",
    6: _NUMERIC,
    7: f"{_REAL}|{_QUANTIZED}|bool",
    8: f"{_REAL}|{_COMPLEX}|bool|variant|string",
    9: f"{_FLOATS}|int16|int32|int64|uint8|uint16|uint32|uint64|{_COMPLEX}",
    10: _NUMERIC,
    11: "half|bfloat16|float|double|int32",
    12: _REAL,
    13: f"half|float|double|int32|uint16|uint8|int16|int8|int64|{_COMPLEX}|bool|bfloat16",
    14: f"{_FLOATS}|int32|int64|{_COMPLEX}",
    15: f"{_REAL}|{_COMPLEX}",
    16: f"{_FLOATS}|{_COMPLEX}",
    17: _REAL,
    18: f"{_FLOATS}|int32|int64|uint8|uint16|uint32|uint64|{_COMPLEX}",
    19: f"double|float|half|{_COMPLEX}",
    20: f"{_REAL}|{_QUANTIZED}",
    21: f"{_FLOATS}|int32|int64|uint8|int16|int8|uint16|qint8",
    22: _REAL,
    23: f"int32|int64|{_FLOATS}",
    24: f"{_FLOATS}|int8|int16|int32|int64|{_COMPLEX}",
    25: f"{_REAL}|{_COMPLEX}|bool",
    26: f"{_FLOATS}|int8|int16|int32|int64|{_COMPLEX}",
    27: f"{_FLOATS}|int8|int16|int32|int64|uint16|uint32|uint64",
    28: f"{_REAL}|qint8",
    29: f"{_FLOATS}|int8|uint8|int16|uint16|int32|int64",
    30: f"{_REAL}|bool|{_COMPLEX}|string",
    31: f"{_REAL}|{_COMPLEX}",
    32: "float|double|int32|int64|uint32|uint64",
    33: f"{_REAL}|{_COMPLEX}",
    34: f"{_NUMERIC}|bool",
    35: f"{_FLOATS}|{_COMPLEX}",
    36: f"{_FLOATS}|int32|int64",
    37: "bool|float|half|double|int32|int64",
    38: "float|half|double|int32|int64",
    39: "float|double|int32|int64|string",
}


@dataclass(frozen=True, slots=True)
class ArgDef:
    """An input or output: one tensor, N tensors of one type, or a list of tensors of any types.

    Exactly one of `dtype`, `type_attr`, `type_list_attr` is set and determines its type.
    """

    name: str
    dtype: DType | None = None
    type_attr: str = ""
    number_attr: str = ""
    type_list_attr: str = ""
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        return bool(self.number_attr or self.type_list_attr)


@dataclass(frozen=True, slots=True)
class AttrDef:
    """An attribute: its kind ("int", "list(type)", …), default (None and `required` if it has none) and bounds."""

    name: str
    kind: str
    required: bool
    default: Any = None
    minimum: int | None = None
    allowed: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class OpDef:
    """The signature of an op."""

    name: str
    inputs: tuple[ArgDef, ...]
    outputs: tuple[ArgDef, ...]
    attrs: tuple[AttrDef, ...]
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    allows_uninitialized_input: bool = False

    def attr(self, name: str) -> AttrDef | None:
        return next((attr for attr in self.attrs if attr.name == name), None)

    @property
    def inferred_attrs(self) -> frozenset[str]:
        """Attributes that are inferred from the inputs, so callers need not pass them."""
        names = (name for arg in self.inputs for name in (arg.type_attr, arg.number_attr, arg.type_list_attr))
        return frozenset(name for name in names if name)


_SIGNATURE = re.compile(r"^(\w+)\((.*?)\) -> \((.*?)\)(?: \[(.*)\])?(?: \{([\w,]+)\})?$", re.DOTALL)
_ATTR = re.compile(r"^(\w+):(list\(\w+\)|\w+)(?:@(\d+)|\{([^}]*)\})?(?:>=(-?\d+))?(?:=(.*))?$", re.DOTALL)
_TYPE_NAMES = {"half": "float16", "float": "float32", "double": "float64"}


@cache
def _dtype(name: str) -> DType:
    return dtypes.as_dtype(_TYPE_NAMES.get(name, name))


@cache
def _allowed_dtypes(names: str) -> tuple[DType, ...]:
    return tuple(dict.fromkeys(_dtype(name) for name in names.split("|")))


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside of brackets and quotes."""
    parts, depth, quoted, start = [], 0, False, 0
    for position, char in enumerate(text):
        if char == "'":
            quoted = not quoted
        elif not quoted and char in "([{":
            depth += 1
        elif not quoted and char in ")]}":
            depth -= 1
        elif char == separator and not quoted and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def _parse_default(kind: str, text: str) -> Any:
    if kind == "shape":
        return None if text == "<unknown>" else tuple(ast.literal_eval(text))
    if kind == "type":
        return _dtype(text)
    if kind == "tensor":
        name, _, elements = text.partition("[")
        value = np.array(ast.literal_eval(f"[{elements}"), _dtype(name).numpy)
        value.setflags(write=False)
        return value
    if text.startswith("["):
        items = _split(text[1:-1], ",")
        return tuple(_parse_default(kind[5:-1], item) for item in items)
    if text in ("true", "false"):
        return text == "true"
    return float(text) if kind == "float" else ast.literal_eval(text)


def _parse_attr(text: str) -> AttrDef:
    match = _ATTR.match(text)
    if match is None:
        raise ValueError(f"op attribute {text!r}: not in the notation")
    name, kind, type_set, choices, minimum, default = match.groups()
    allowed: tuple[Any, ...] | None = None
    if type_set:
        allowed = _allowed_dtypes(TYPE_SETS[int(type_set)])
    elif choices is not None:
        allowed = _allowed_dtypes(choices) if "type" in kind else tuple(choices.split("|"))
    return AttrDef(
        name,
        kind,
        required=default is None,
        default=None if default is None else _parse_default(kind, default),
        minimum=None if minimum is None else int(minimum),
        allowed=allowed,
    )


def _parse_arg(text: str, attr_kinds: dict[str, str]) -> ArgDef:
    name, _, kind = text.partition(":")
    is_ref = "Ref(" in kind
    kind = kind.replace("Ref(", "").rstrip(")") if is_ref else kind
    number, star, rest = kind.partition("*")
    number, kind = (number, rest) if star else ("", kind)
    attr_kind = attr_kinds.get(kind)
    if attr_kind == "list(type)":
        return ArgDef(name, type_list_attr=kind, is_ref=is_ref)
    if attr_kind == "type":
        return ArgDef(name, type_attr=kind, number_attr=number, is_ref=is_ref)
    return ArgDef(name, dtype=_dtype(kind), number_attr=number, is_ref=is_ref)


@functools.cache
def parse_signature(text: str) -> OpDef:
    """Parse one op signature.

    Raises:
        ValueError: the text is not in the notation.
    """
    match = _SIGNATURE.match(" ".join(text.split()))
    if match is None:
        raise ValueError(f"op signature {text!r}: not in the notation")
    name, inputs, outputs, attrs, flags = match.groups(default="")
    attr_defs = tuple(_parse_attr(part) for part in _split(attrs, ";"))
    kinds = {attr.name: attr.kind for attr in attr_defs}
    flag_set = set(flags.split(",")) - {""}
    return OpDef(
        name,
        tuple(_parse_arg(part, kinds) for part in _split(inputs, ",")),
        tuple(_parse_arg(part, kinds) for part in _split(outputs, ",")),
        attr_defs,
        is_stateful="stateful" in flag_set,
        is_commutative="commutative" in flag_set,
        is_aggregate="aggregate" in flag_set,
        allows_uninitialized_input="allows_uninit" in flag_set,
    )
