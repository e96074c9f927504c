"""JSON bodies of predict requests, and mutants of their bytes and of their values."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.campaigns.mutants import mutant

GOOD: Final[tuple[Any, ...]] = (
    {"instances": [[1, 2], [3, 4.5]]},
    {"instances": [{"x": [1, 2]}, {"x": [3, 4]}]},
    {"signature_name": "serving_default", "instances": [[0.1, -2e3]]},
    {"instances": [{"n": 3, "flag": True, "text": "é", "small": 7}]},
    {
        "instances": [
            {"n": 3, "flag": False, "text": "b", "small": 0},
            {"n": 4, "flag": True, "text": "", "small": 255},
        ]
    },
    {"instances": ["a", "b"]},
    {"instances": [{"b64": "aGVsbG8="}]},
    {
        "instances": [
            {
                "int64": 1,
                "uint64": 2,
                "float16": 3.5,
                "bfloat16": -1,
                "float64": 0.1,
                "complex64": 2,
                "bool": True,
            }
        ]
    },
    {"inputs": {"x": [[1, 2]]}},
    {"inputs": [[1, 2]], "outputs": ["y"]},
)

_MOST_BYTES: Final = 100_000  # of a body of wrong values: two changes may multiply it by a million

_PIECES: Final = (
    b"1e999",
    b"-1e999",
    b"1e-999",
    b"NaN",
    b"-Infinity",
    b"9" * 400,
    b"9" * 5000,
    b"-" + b"9" * 400,
    b"1." + b"0" * 400,
    b"0" * 40,
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"\\u0000"',
    b'{"b64": "aGVsbG8="}',
    b'{"b64": "' + b"A" * 2000,
    b'"instances": 3,',
    b'"instances":',
    b"[" * 100_000,
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 100_000,
    b"[[1,2],[3]],",
    b"[[[1,2]],[3,4]],",
    b"[],",
    b"{},",
    b"null,",
    b"true,",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x00",
    b"1" + b",1" * 5000,
)

_LEAVES: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    10**4200,
    1e308,
    -0.0,
    5e-324,
    1.5,
    "",
    "x",
    "\ud800",
    "1",
    "NaN",
    [],
    {},
    [[]],
    [None],
    {"b64": "aGVsbG8="},
    {"b64": 3},
    {"x": []},
    {"\udc00": 1},
    [1, [2]],
    ["a", 1],
    [1, "a"],
    [True, 2.5],
    [2**63, 1.5],
    [2**63, -1],
)


def body(random: Random) -> bytes:
    """Return the body of a request: half of them mutants of JSON's bytes, half JSON of wrong values."""
    if random.random() < 0.5:
        data = bytearray(mutant(random, _ENCODED))
        if random.random() < 0.3:
            begin = random.randrange(len(data) + 1)
            data[begin : begin + random.choice((0, 1, 4))] = random.choice(_PIECES)
        return bytes(data)
    value, encoded = random.choice(GOOD), b""
    for _ in range(random.choice((1, 1, 2, 4))):
        value = _changed(random, value)
        try:
            text = json.dumps(value, ensure_ascii=random.random() < 0.8)
        except RecursionError:
            break
        if len(text) > _MOST_BYTES:
            break
        encoded = text.encode("utf-8", "surrogatepass")
    return encoded


def _changed(random: Random, value: Any) -> Any:
    """Return a value with a change at one random place."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        return {**value, name: _changed(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.7:
        index = random.randrange(len(value))
        return [*value[:index], _changed(random, value[index]), *value[index + 1 :]]
    return random.choice(_CHANGES)(random, value)


def _leaf(random: Random, value: Any) -> Any:
    return random.choice(_LEAVES)


def _nested(random: Random, value: Any) -> Any:
    for _ in range(random.choice((1, 2, 31, 32, 33, 64, 65, 200, 900))):
        value = [value]
    return value


def _repeated(random: Random, value: Any) -> Any:
    many = random.choice((2, 2, 3, 3, 100, 1000))
    if isinstance(value, dict):
        return {f"{name}{index}": each for name, each in value.items() for index in range(many)}
    return value * many if isinstance(value, list) else [value] * many


def _renamed(random: Random, value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return {"instances": value}
    name = random.choice(list(value))
    new = random.choice(("", "x", "n", "instances", "inputs", "signature_name", "b64", "\ud800", "__proto__"))
    return {new if each == name else each: held for each, held in value.items()}


def _removed(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and value:
        name = random.choice(list(value))
        return {each: held for each, held in value.items() if each != name}
    return value[1:] if isinstance(value, list) else None


def _wide(random: Random, value: Any) -> Any:
    return {f"input{index}": value for index in range(random.choice((2, 10, 1000)))}


_CHANGES: Final[tuple[Callable[[Random, Any], Any], ...]] = (
    _leaf,
    _leaf,
    _leaf,
    _nested,
    _repeated,
    _renamed,
    _removed,
    _wide,
)
_ENCODED: Final = tuple(json.dumps(each).encode() for each in GOOD)
