"""Mutants of protocol buffers: values at random places are replaced, repeated, removed or exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from tests.campaigns.mutants import NUMBERS, mutant

_TEXTS: Final = (
    "",
    "x",
    "x:0",
    ":0",
    "x:99999999999999999999",
    "^x",
    "v/read:0",
    "/job:worker/replica:0/task:0/device:CPU:0",
    "/job:worker/task:99999999999999999999",
    "/device:CPU:*",
    "a" * 5000,
    "\0",
    "é\u2028",
    ";;;;",
)

_FLOATS: Final = (0.0, -1.0, float("nan"), float("inf"), 1e300, 5e-324)

_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: 32,
    FieldDescriptor.CPPTYPE_INT64: 64,
    FieldDescriptor.CPPTYPE_ENUM: 32,
}


def message_mutant(random: Random, message: Any, others: Sequence[Any]) -> bytes:
    """Return a message after one to four changes as bytes; `others` are messages of the same class, to take parts of."""
    made = type(message)()
    made.CopyFrom(message)
    for _ in range(random.choice((1, 1, 2, 4))):
        if random.random() < 0.1:
            made.MergeFrom(random.choice(others))
        else:
            _change(random, made)
    data: bytes = made.SerializeToString()
    return mutant(random, [data]) if random.random() < 0.1 else data


def _change(random: Random, message: Any) -> None:
    """Change one field, of this message or of one inside; fields that are set come before those that are not."""
    held = message.ListFields()
    fields = [field for field, _ in held] if held and random.random() < 0.9 else message.DESCRIPTOR.fields
    if not fields:
        return
    field = random.choice(fields)
    if _is_map(field):
        _change_map(random, getattr(message, field.name))
    elif field.is_repeated:
        _change_repeated(random, field, message)
    elif field.message_type is not None:
        if random.random() < 0.1:
            message.ClearField(field.name)
        else:
            _change(random, getattr(message, field.name))
    else:
        setattr(message, field.name, _value(random, field, getattr(message, field.name)))


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _change_map(random: Random, held: Any) -> None:
    if not held:
        return
    key = random.choice(sorted(held))
    kind = random.random()
    if kind < 0.2:
        del held[key]
    elif hasattr(held[key], "CopyFrom"):
        if kind < 0.3:
            held[random.choice(sorted(held))].CopyFrom(held[key])
        else:
            _change(random, held[key])


def _change_repeated(random: Random, field: Any, message: Any) -> None:
    held = getattr(message, field.name)
    kind = random.random()
    if not held or kind < 0.1:
        held.add() if field.message_type is not None else held.append(_value(random, field, None))
        return
    place = random.randrange(len(held))
    if kind < 0.2:
        del held[place]
    elif kind < 0.35:
        held.extend([held[place]] * random.choice((1, 1, 2, 100)))
    elif kind < 0.4:
        elements = list(held)
        random.shuffle(elements)
        copies = [type(message)() for _ in elements]
        for copy, each in zip(copies, elements, strict=True):
            getattr(copy, field.name).extend([each])
        del held[:]
        for copy in copies:
            held.extend(getattr(copy, field.name))
    elif field.message_type is not None:
        _change(random, held[place])
    else:
        held[place] = _value(random, field, held[place])


def _value(random: Random, field: Any, held: Any) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return random.choice(_FLOATS)
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return mutant(random, [held or b""])
        if held and random.random() < 0.5:
            return mutant(random, [held.encode()]).decode("utf-8", "replace")
        return random.choice(_TEXTS)
    number = random.choice((*NUMBERS, -1, -2, random.randrange(30), (held or 0) + 1))
    bits = _RANGES.get(kind)
    if bits is None:
        return number % (1 << (32 if kind == FieldDescriptor.CPPTYPE_UINT32 else 64))
    number %= 1 << bits
    return number - (1 << bits) if number >> (bits - 1) else number
