"""Cases of string ops: join, split, search, hash, conversion to numbers and from bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, OutOfRangeError
from tests.ops.harness import Case, case


def text(*words: Any) -> Any:
    return np.array([word.encode() if isinstance(word, str) else word for word in words], object)


GRID = np.array([[b"a", b"b"], [b"c", b"d"]], object)
BAD = {"raises": InvalidArgumentError}

TOGETHER = [
    case("StringJoin", [text("a", "b"), b"-"], attrs={"separator": "+"}, expected=text("a+-", "b+-")),
    case("ReduceJoin", GRID, [0], expected=text("ac", "bd")),
    case("ReduceJoin", GRID, [1, 0], attrs={"separator": "-", "keep_dims": True}, expected=[[b"a-b-c-d"]]),
    case("ReduceJoin", GRID, [2], raises=OutOfRangeError),
    case(
        "UnsortedSegmentJoin",
        text("a", "b", "c"),
        [1, 0, 1],
        3,
        dtypes=("int32", "int64"),
        vary="Tindices",
        expected=text("b", "ac", ""),
    ),
]

APART = [
    case(
        "StringSplit",
        text("a b", "", "c"),
        b" ",
        expected=(np.array([[0, 0], [0, 1], [2, 0]]), text("a", "b", "c"), np.array([3, 2])),
    ),
    case(
        "StringSplitV2",
        text("a<>b<>", "c"),
        b"<>",
        expected=(np.array([[0, 0], [0, 1], [0, 2], [1, 0]]), text("a", "b", "", "c"), np.array([2, 3])),
    ),
    case(
        "StringNGrams",
        text("a", "b", "c", "d"),
        np.array([0, 3, 3, 4]),
        attrs={
            "separator": "-",
            "ngram_widths": [2],
            "left_pad": "<",
            "right_pad": ">",
            "pad_width": 0,
            "preserve_short_sequences": True,
        },
        dtypes=("int32", "int64"),
        vary="Tsplits",
        expected=(text("a-b", "b-c", "d"), np.array([0, 2, 2, 3])),
    ),
    case(
        "Substr",
        text("hello", "world"),
        [1, -3],
        [2, 2],
        dtypes=("int32", "int64"),
        expected=text("el", "rl"),
    ),
    case("Substr", text("é1"), [1], [1], attrs={"unit": "UTF8_CHAR"}, dtypes=("int32",), expected=text("1")),
    case("Substr", text("hello"), [6], [1], dtypes=("int32",), **BAD),
    case("StringLength", text("é", ""), expected=np.array([2, 0], np.int32)),
    case("StringLength", text("é", ""), attrs={"unit": "UTF8_CHAR"}, expected=np.array([1, 0], np.int32)),
]

ONE_FOR_ONE = [
    case("StringStrip", text(" a\t", "b "), expected=text("a", "b")),
    case("StringLower", text("Ab É"), expected=text("ab É")),
    case("StringUpper", text("ab é"), attrs={"encoding": "utf-8"}, expected=text("AB É")),
    case("EncodeBase64", text("a", b"\xff\xfe"), expected=text("YQ", "__4")),
    case("DecodeBase64", text("YQ==", "__4"), expected=text("a", b"\xff\xfe")),
    case("DecodeBase64", text("Y"), **BAD),
]

EXPRESSIONS = [
    case("RegexReplace", text("aab", "é"), b"a*", b"x", expected=text("xbx", "xéx")),
    case("RegexReplace", text("a"), b"(?=a)", b"x", **BAD),
    case("RegexReplace", text("é", "aa"), b"a*", b"-", expected=text("-é-", "-")),
    case("RegexReplace", text("a" * 4000), b"(a*)*(a*)*(a*)*b", b"x", expected=text("a" * 4000)),
    case("RegexReplace", text("ab"), b"(a)|b", rb"<\1>\q>", expected=text("<a><>")),
    case(
        "StaticRegexReplace", text("ab"), attrs={"pattern": "(a)(b)", "rewrite": r"\2\1"}, expected=text("ba")
    ),
    case("RegexFullMatch", text("ab", "abc"), b"[[:alpha:]]{2}", expected=np.array([True, False])),
    case(
        "StaticRegexFullMatch", text("A", "b"), attrs={"pattern": "(?i)a"}, expected=np.array([True, False])
    ),
]

NUMBERS = [
    case("StringToNumber", text("1.5", " -2 "), expected=np.array([1.5, -2.0], np.float32)),
    case("StringToNumber", text("12"), attrs={"out_type": "int64"}, expected=np.array([12])),
    case("StringToNumber", text("1_0"), **BAD),
    case("AsString", [1.5, -2.0], attrs={"precision": 2}, expected=text("1.50", "-2.00")),
    case("AsString", [3, 12], attrs={"width": 4, "fill": "0"}, expected=text("0003", "0012")),
    case("AsString", [True, False], expected=text("true", "false")),
    case("AsString", [1 + 2j], attrs={"shortest": True}, expected=text("(1,2)")),
    case("AsString", [1], attrs={"precision": 2}, dtypes=("int32",), **BAD),
    case("StringToHashBucketFast", text("a", "b"), attrs={"num_buckets": 1}, expected=np.array([0, 0])),
    case("StringToHashBucket", text("a", "b"), attrs={"num_buckets": 1}, expected=np.array([0, 0])),
    case(
        "StringToHashBucketStrong",
        text("a", "b"),
        attrs={"num_buckets": 1, "key": [1, 2]},
        expected=np.array([0, 0]),
    ),
]

RECORDS = text('1,"a ""b"", c",x', "2,,")
DEFAULTS = [np.zeros(0, np.int32), text("none"), text("last")]
PROTO = b"\x08\x01\x12\x04\x12\x02\x08\x02\x22\x08" + np.array([1, 2], np.float32).tobytes()
BYTES = [
    case("SerializeTensor", [1.0, 2.0], dtypes=("float32",), expected=np.array(PROTO, object)),
    case("ParseTensor", PROTO, attrs={"out_type": "float32"}, expected=np.array([1.0, 2.0], np.float32)),
    case("ParseTensor", PROTO[:-1], attrs={"out_type": "float32"}, **BAD),
    case(
        "DecodeCSV",
        RECORDS,
        DEFAULTS,
        attrs={"OUT_TYPE": ["int32", "string", "string"]},
        dtypes=(None,),
        expected=(np.array([1, 2], np.int32), text('a "b", c', "none"), text("x", "last")),
    ),
    case(
        "DecodeCSV",
        text("1"),
        DEFAULTS,
        attrs={"OUT_TYPE": ["int32", "string", "string"]},
        dtypes=(None,),
        **BAD,
    ),
    case("DecodeRaw", text(b"\1\0\2\0"), attrs={"out_type": "int16"}, expected=np.array([[1, 2]], np.int16)),
    case(
        "DecodeRaw",
        text(b"\0\1"),
        attrs={"out_type": "int16", "little_endian": False},
        expected=np.array([[1]], np.int16),
    ),
    case("DecodeRaw", text(b"\0\1\2"), attrs={"out_type": "int16"}, **BAD),
    case(
        "DecodePaddedRaw",
        text("ab", "c"),
        2,
        attrs={"out_type": "uint8"},
        expected=np.array([[97, 98], [99, 0]], np.uint8),
    ),
    case(
        "StringFormat",
        [np.array([1, 2])],
        attrs={"template": "<%s>", "T": ["int64"]},
        dtypes=(None,),
        expected=np.array(b"<[1 2]>", object),
    ),
]

CASES: list[Case] = [*TOGETHER, *APART, *ONE_FOR_ONE, *EXPRESSIONS, *NUMBERS, *BYTES]
