"""Numbers and tensors from text and bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, unknown


def text(*words: Any) -> Any:
    return np.array([word.encode() if isinstance(word, str) else word for word in words], object)


NEEDED = [np.zeros(0, np.int32), text("none")]
TYPES = {"OUT_TYPE": ["int32", "string"]}


def csv(*records: str, bad: bool = False, **attrs: Any) -> Case:
    return case("DecodeCSV", text(*records), NEEDED, attrs={**TYPES, **attrs}, bad=bad)


LINES = [
    csv("1,a", "2,", '3,"b ""c"", d"'),
    csv('"4",x', "\n6,z"),
    csv("5,y\r\n", bad=True),
    csv("1;a", field_delim=";"),
    csv('1,a"b', use_quote_delim=False),
    csv("1,NA", na_value="NA"),
    csv("0,1,skipped,a,b", select_cols=[1, 3]),
    csv(" 7 ,a"),
    csv("1,", "2,"),
    csv("-1,"),
    *(
        csv(line, bad=True)
        for line in ("", "1", "1,a,b", ",a", "x,a", '1,a"b', '1,"a', '1,"a"b', "1,a\nb", "99999999999,a")
    ),
    csv("1,a", field_delim=";;", bad=True),
    csv("0,1", select_cols=[1, 0], bad=True),
    csv("0,1", select_cols=[1], bad=True),
    *(
        case("DecodeCSV", text("1.5", "2.5"), [np.array([2], name)], attrs={"OUT_TYPE": [name]})
        for name in ("float32", "float64")
    ),
    *(
        case("DecodeCSV", text("15", "25"), [np.array(2, name)], attrs={"OUT_TYPE": [name]})
        for name in ("int32", "int64")
    ),
    case("DecodeCSV", np.zeros((0, 2), object), NEEDED, attrs=TYPES),
    case("DecodeCSV", unknown(text("1,a")), list(map(unknown, NEEDED)), attrs=TYPES),
    case("DecodeCSV", np.array([[b"1,a"], [b"2,b"]], object), NEEDED, attrs=TYPES),
    case("DecodeCSV", text("1"), [np.array([1, 2])], attrs={"OUT_TYPE": ["int64"]}, bad=True),
]

DATA = text(bytes(range(16)), bytes(range(16, 32)))
BYTES = [
    *(
        case("DecodeRaw", DATA, attrs={"out_type": name, "little_endian": little})
        for name in plain_dtypes("DecodeRaw", "out_type")
        for little in (True, False)
    ),
    case("DecodeRaw", b"\0\1", attrs={"out_type": "uint8"}),
    case("DecodeRaw", np.zeros((0, 2), object), attrs={"out_type": "uint8"}),
    case("DecodeRaw", text("", ""), attrs={"out_type": "int32"}),
    case("DecodeRaw", unknown(DATA), attrs={"out_type": "int32"}),
    case("DecodeRaw", text("abc"), attrs={"out_type": "int16"}, bad=True),
    case("DecodeRaw", text("ab", "a"), attrs={"out_type": "uint8"}, bad=True),
    *(
        case("DecodePaddedRaw", DATA, const(length), attrs={"out_type": name, "little_endian": little})
        for name in plain_dtypes("DecodePaddedRaw", "out_type")
        for little in (True, False)
        for length in (8, 24)
    ),
    case("DecodePaddedRaw", text("a", "", "bcd"), 2, attrs={"out_type": "uint8"}),
    case("DecodePaddedRaw", unknown(DATA), unknown(8), attrs={"out_type": "int32"}),
    *(case("DecodePaddedRaw", DATA, length, attrs={"out_type": "int32"}, bad=True) for length in (3, 0, -4)),
]

PROTO = b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + np.array([1, 2], np.float32).tobytes()
KINDS = ("float32", "int64", "string", "bool", "bfloat16", "complex64", "uint8")
DAMAGED = (PROTO[:-1], b"junk", b"\xff", PROTO[:12] + b"\0" * 4)
TENSORS = [
    *(
        case("SerializeTensor", sample(name, shape))
        for name in ("float32", "int64", "string", "bool", "bfloat16", "complex64", "uint8")
        for shape in ((), (2, 3), (0, 2))
    ),
    case("SerializeTensor", unknown([1.0])),
    case("ParseTensor", PROTO, attrs={"out_type": "float32"}),
    case("ParseTensor", unknown(PROTO), attrs={"out_type": "float32"}),
    case("ParseTensor", b"\x08\x03\x12\x04\x12\x02\x08\x03\x3a\x01\x05", attrs={"out_type": "int32"}),
    case("ParseTensor", b"\x08\x07\x12\x00\x42\x02ab", attrs={"out_type": "string"}),
    case("ParseTensor", PROTO, attrs={"out_type": "int32"}, bad=True),
    *(
        case("ParseTensor", each, attrs={"out_type": "float32"}, bad=True)
        for each in (PROTO[:-1], b"junk", b"\xff", PROTO[:12] + b"\0" * 4)
    ),
    case("ParseTensor", text("a"), attrs={"out_type": "float32"}, bad=True),
]

CASES: list[Case] = [*LINES, *BYTES, *TENSORS]
