"""Strings joined, cut, searched, hashed and read as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import SHAPES, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, unknown


def numbers_in(dtype: str) -> np.ndarray[Any, Any]:
    """Numbers of every size; what a dtype cannot hold is infinite."""
    with np.errstate(over="ignore"):
        return np.array([0.0, -1.5, 1e20, 1e-7, 0.1, 123456.789]).astype(dtype)


def text(*words: Any) -> Any:
    return np.array([word.encode() if isinstance(word, str) else word for word in words], object)


WORDS = text("", "a", "Bc dE", "héllo", "  x\ty \n", b"\xff\xfea", "12.5")
GRID = np.array([[b"a", b"b", b"c"], [b"d", b"", b"f"]], object)
NONE = np.zeros(0, np.int32)
EMPTY = np.zeros((0, 2), object)


def plain(op_type: str, **attrs: Any) -> list[Case]:
    """An op from strings to something of their shape."""
    return [
        case(op_type, WORDS, attrs=attrs),
        *(case(op_type, sample("string", shape), attrs=attrs) for shape in SHAPES),
        case(op_type, unknown(WORDS), attrs=attrs),
        case(op_type, const(WORDS), attrs=attrs),
        case(op_type, np.array([1, 2]), bad=True),
    ]


TOGETHER = [
    *(
        case("StringJoin", list(parts), attrs={"separator": separator})
        for separator in ("", ", ")
        for parts in (
            (GRID, GRID),
            (text("a"), text("b"), text("c")),
            ("a", GRID),
            ("a", "b"),
            (EMPTY, EMPTY),
        )
    ),
    case("StringJoin", [unknown(GRID), "a"]),
    case("StringJoin", [unknown(GRID), unknown(GRID)]),
    case("StringJoin", [text("a"), text("b", "c")], bad=True),
    case("StringJoin", [unknown(text("a")), unknown(text("b", "c"))], bad=True),
    *(
        case(
            "ReduceJoin", GRID, const(np.array(axes, np.int32)), attrs={"keep_dims": keeps, "separator": "-"}
        )
        for axes in ([0], [1], [0, 1], [1, 0], [-1], [])
        for keeps in (False, True)
    ),
    case("ReduceJoin", EMPTY, const([0])),
    case("ReduceJoin", EMPTY, const([1])),
    case("ReduceJoin", "a", const(NONE)),
    case("ReduceJoin", GRID, const(1)),
    case("ReduceJoin", GRID, [0]),
    case("ReduceJoin", unknown(GRID), const([0])),
    *(case("ReduceJoin", unknown(GRID), const(axes), bad=True) for axes in ([0, 0], [2], [-3], [0, -2])),
    *(
        case("UnsortedSegmentJoin", GRID, const(np.array(ids, name)), const(3), attrs={"separator": ","})
        for name in ("int32", "int64")
        for ids in ([2, 0], [1, 1], [[0, 1, 0], [2, 2, 2]])
    ),
    case("UnsortedSegmentJoin", GRID, [0, 1], 2),
    case("UnsortedSegmentJoin", EMPTY, np.zeros(0, np.int32), const(2)),
    case("UnsortedSegmentJoin", unknown(GRID), [0, 1], const(2)),
    case("UnsortedSegmentJoin", GRID, [0, 3], const(3), bad=True),
    case("UnsortedSegmentJoin", GRID, [0, -1], const(3), bad=True),
    case("UnsortedSegmentJoin", GRID, [0, 1], const(-1), bad=True),
]

TOKENS = text("a", "b", "", "d")


def ngrams(widths: Any, pads: int, splits: Any = (0, 3, 3, 4), tokens: Any = TOKENS, **given: Any) -> Case:
    keeps_short, more = given.pop("keeps_short", False), given
    attrs = {"separator": "|", "ngram_widths": widths, "left_pad": "<", "right_pad": ">"}
    attrs |= {"pad_width": pads, "preserve_short_sequences": keeps_short}
    return case("StringNGrams", tokens, np.array(splits, np.int64), attrs=attrs, **more)


NGRAMS = [
    *(
        ngrams(widths, pads, keeps_short=keeps_short)
        for widths in ([2], [1], [3, 1], [7])
        for pads in (0, 1, 5, -1)
        for keeps_short in (True, False)
    ),
    ngrams([], 0),
    ngrams([2], 0, [0], text()),
    ngrams([2], -1, [0, 0, 0], text()),
    ngrams([2], 0, [], text()),
    ngrams([2], 0, [1, 4], bad=True),
    ngrams([2], 0, [0, 3, 2, 4], bad=True),
    ngrams([2], 0, [0, 5], bad=True),
    ngrams([2], 0, [0, 3], bad=True),
    ngrams([0], 0, bad=True),
]

LINES = text("a b", "", "c  d ", " \te,f;g")
APART = [
    *(
        case("StringSplit", LINES, const(delimiter), attrs={"skip_empty": skips})
        for delimiter in (" ", "", ",;", ", ")
        for skips in (True, False)
    ),
    case("StringSplit", np.zeros(0, object), const(" ")),
    case("StringSplit", unknown(LINES), unknown(b" ")),
    case("StringSplit", GRID, " ", bad=True),
    case("StringSplit", unknown(GRID), " ", bad=True),
    case("StringSplit", LINES, text(" "), bad=True),
    *(
        case("StringSplitV2", LINES, const(separator), attrs={"maxsplit": most})
        for separator in (" ", "", "  ", ",")
        for most in (-1, 0, 1)
        if separator or most < 1
    ),
    case("StringSplitV2", LINES[:3], const(""), attrs={"maxsplit": 1}),
    case(
        "StringSplitV2",
        text(" a"),
        const(""),
        attrs={"maxsplit": 1},
        differs="as Python splits, no empty piece is left behind spaces at the beginning",
    ),
    case("StringSplitV2", np.zeros(0, object), const(" ")),
    case("StringSplitV2", unknown(LINES), unknown(b" ")),
    case("StringSplitV2", GRID, " ", bad=True),
    case("StringSplitV2", LINES, text(" "), bad=True),
    *(
        case("Substr", text("hello", "héllo"), const(position), const(length), attrs={"unit": unit})
        for unit in ("BYTE", "UTF8_CHAR")
        for position in (0, 2, 5, -3, -5)
        for length in (0, 2, 99, -1)
        if unit == "BYTE" or length >= 0
    ),
    case("Substr", text("hello", "world"), const(np.array([1, 2])), const(np.array([2, 3]))),
    case("Substr", GRID, np.zeros((2, 3), np.int32), np.ones((2, 3), np.int32)),
    case("Substr", "hello", [1, 2], [2, 2]),
    case("Substr", unknown(GRID), unknown(0), unknown(1)),
    *(
        case("Substr", "hello", const(p), const(1), attrs={"unit": u}, bad=True)
        for p in (6, -6)
        for u in ("BYTE", "UTF8_CHAR")
    ),
    case("Substr", "hello", [1, 2], [2], bad=True),
    *(case("StringLength", WORDS, attrs={"unit": unit}) for unit in ("BYTE", "UTF8_CHAR")),
    *plain("StringLength"),
]

ONE_FOR_ONE = [
    *plain("StringStrip"),
    *(
        each
        for op in ("StringLower", "StringUpper")
        for code in ("", "utf-8")
        for each in plain(op, encoding=code)
    ),
    *(case(op, WORDS, attrs={"encoding": "utf-16"}, bad=True) for op in ("StringLower", "StringUpper")),
    *(each for pad in (True, False) for each in plain("EncodeBase64", pad=pad)),
    *(
        case("DecodeBase64", each)
        for each in ("", "YQ", "YQ==", "_-_-", "YWI", "YR", text("YQ", "YWJj"), EMPTY)
    ),
    case("DecodeBase64", unknown(text("YQ"))),
    *(case("DecodeBase64", each, bad=True) for each in ("YQ=", "Y", "YQ!", "/+", " YQ", "YWI=YQ")),
]

PATTERNS = (
    ("a*", "x"), ("(a)(b)", r"\2\1"), ("a", r"\\"), ("a", r"\1"), ("a", r"\0\0"), ("a$", "x"), (".", "x"), ("^a", "x"),
    ("[[:alpha:]]", "x"), ("[^a]", "x"), ("(?i)A", "x"), ("a|b", ""), ("", "-"), (r"\s+", "_"), ("a{2}", "x"),
    ("(?P<n>a)", r"<\1>"),
    ("a+?", "x"), ("[a-c]", "x"), (r"\z", "x"), (r"\Qa.\E", "x"), ("(?s).", "x"), ("(?m)a$", "x"), (r"[\d.]", "x"), ("é", "e"),
)  # fmt: skip
REFUSED = ("(", "(?=a)", "a**", r"(a)\1", "[", "a{2000}", "(?>a)", "a++", "(?<!a)b", "*", r"\8", "[[:nope:]]")
SUBJECTS = text("aab\n", "é", "ba", "", "a.b\na", "A1.5")

EXPRESSIONS = [
    *(
        case("StaticRegexReplace", SUBJECTS, attrs={"pattern": p, "rewrite": r, "replace_global": everywhere})
        for p, r in PATTERNS
        for everywhere in (True, False)
    ),
    *(case("RegexReplace", SUBJECTS, const(p), const(r)) for p, r in PATTERNS),
    *(
        case("StaticRegexReplace", SUBJECTS, attrs={"pattern": p, "rewrite": r, "replace_global": everywhere})
        for p in ("(a)(b)?", "é*", r"\b", r"\pL", "(?-s).")
        for r in (r"<\2>", r"-\q+", "+\\")
        for everywhere in (True, False)
    ),
    *(case("RegexFullMatch", SUBJECTS, const(p)) for p, _ in PATTERNS),
    *(case("StaticRegexFullMatch", SUBJECTS, attrs={"pattern": p}) for p, _ in PATTERNS),
    *(case("RegexFullMatch", SUBJECTS, const(p), bad=True) for p in REFUSED),
    *(case("RegexReplace", SUBJECTS, const(p), const(""), bad=True) for p in REFUSED),
    *(case("StaticRegexFullMatch", SUBJECTS, attrs={"pattern": p}, bad=True) for p in REFUSED),
    case("RegexReplace", unknown(SUBJECTS), unknown("a"), unknown("b")),
    case("RegexReplace", SUBJECTS, text("a"), const(""), bad=True),
    case("RegexFullMatch", unknown(SUBJECTS), unknown("a")),
    case("RegexFullMatch", EMPTY, const("a")),
]

FLOATS = (
    "1",
    "+1",
    " 1 ",
    "0x10",
    "1e3",
    "inf",
    "nan",
    "-inf",
    "infinity",
    "1.",
    ".5",
    "1e400",
    "1e-400",
    "INF",
    "\t1\n",
    "-.5e-3",
)
WHOLE = ("1", "+1", " 1 ", "-0", "007", "-1", "2147483647", "-2147483648", "9223372036854775807")
NUMBERS = [
    *(
        case("StringToNumber", text(each), attrs={"out_type": name})
        for each in FLOATS
        for name in ("float32", "float64")
    ),
    *(
        case("StringToNumber", text(each), attrs={"out_type": name}, bad=True)
        for each in ("1_0", "", "1f", "1d", "- 1", "one", "1 2")
        for name in ("float32", "float64", "int32", "int64", "uint32", "uint64")
    ),
    *(case("StringToNumber", text(each), attrs={"out_type": "int64"}) for each in WHOLE),
    *(
        case("StringToNumber", text(each), attrs={"out_type": name})
        for each in ("1", "+1", " 7 ")
        for name in ("int32", "uint32", "uint64")
    ),
    *(
        case("StringToNumber", text("-1"), attrs={"out_type": name}, bad=True)
        for name in ("uint32", "uint64")
    ),
    case("StringToNumber", text("2147483648"), attrs={"out_type": "int32"}, bad=True),
    case("StringToNumber", text("9" * 30), attrs={"out_type": "int64"}, bad=True),
    case("StringToNumber", EMPTY),
    case("StringToNumber", unknown(text("1.5"))),
    *(case("AsString", sample(name, (2, 3), 1)) for name in plain_dtypes("AsString")),
    *(
        case("AsString", numbers_in(name), attrs=attrs)
        for name in ("float32", "float64", "complex64", "float16")
        for attrs in (
            {},
            {"precision": 2},
            {"scientific": True},
            {"shortest": True},
            {"width": 12},
            {"width": 12, "fill": "0"},
            {"fill": "+"},
            {"fill": "-", "width": 9},
            {"fill": " ", "width": 9},
            {"fill": "#", "precision": 0},
            {"width": -3},
        )
    ),
    *(
        case("AsString", np.array([0, -3, 12], name), attrs=attrs)
        for name in ("int32", "int8", "int64")
        for attrs in ({"width": 6}, {"width": 6, "fill": "0"}, {"width": 6, "fill": "-"}, {"fill": "+"})
    ),
    *(
        case("AsString", np.array([True, False]), attrs=attrs)
        for attrs in ({"width": 8}, {"fill": "0", "width": 7})
    ),
    *(
        case("AsString", text("a", "bc"), attrs=attrs)
        for attrs in ({"width": 4}, {"width": 4, "fill": "-"}, {"precision": 1})
    ),
    *(
        case("AsString", x, attrs=attrs, bad=True)
        for x in ([1, 2], [True])
        for attrs in (
            {"precision": 2},
            {"scientific": True},
            {"shortest": True},
            {"fill": "x"},
            {"fill": "00"},
        )
    ),
    case("AsString", [1.0], attrs={"scientific": True, "shortest": True}, bad=True),
    case("AsString", unknown([1.0])),
    case("AsString", np.zeros((0, 2))),
]

LONG = text(
    *(bytes((k * k + n) % 256 for k in range(n)) for n in (*range(0, 140, 3), 64, 65, 128, 129, 1000))
)
BUCKETS = [
    *(
        case(op, value, attrs={"num_buckets": count, **more})
        for op, more in (
            ("StringToHashBucketFast", {}),
            ("StringToHashBucket", {}),
            ("StringToHashBucketStrong", {"key": [3, -5]}),
        )
        for value in (WORDS, LONG, EMPTY, "a", unknown(WORDS))
        for count in (1, 7, 1 << 62)
    ),
    *(
        case(op, WORDS, attrs={"num_buckets": 0}, bad=True)
        for op in ("StringToHashBucketFast", "StringToHashBucket")
    ),
    *(
        case("StringToHashBucketStrong", WORDS, attrs={"num_buckets": 3, "key": key}, bad=True)
        for key in ([1], [1, 2, 3])
    ),
]

FORMATS = [
    *(
        case("StringFormat", [np.array(value)], attrs={"template": "<%s>", "summarize": ends})
        for ends in (3, 1, -1)
        for value in (
            1,
            [1.5, 2.0],
            [[1, 2], [3, 4], [5, 6]],
            True,
            list(range(10)),
            [],
            [[1, 2]] * 9,
            [[[1, 2], [3, 4]]] * 3,
            1.5e20,
            [0.1, -0.0],
            b"s",
            [b"s", b'q"'],
        )
    ),
    case(
        "StringFormat",
        [1, [2.0]],
        attrs={"template": "a{}b{}", "placeholder": "{}", "T": ["int32", "float32"]},
    ),
    case("StringFormat", [], attrs={"template": "x", "T": []}),
    case("StringFormat", [1], attrs={"template": "x", "T": ["int32"]}, bad=True),
    case("StringFormat", [1], attrs={"template": "%s%s", "T": ["int32"]}, bad=True),
]

CASES: list[Case] = [*TOGETHER, *NGRAMS, *APART, *ONE_FOR_ONE, *EXPRESSIONS, *NUMBERS, *BUCKETS, *FORMATS]
