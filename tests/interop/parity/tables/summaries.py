"""Summaries: serialised protos are compared byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.formats.protos import Summary, SummaryMetadata
from tests.interop.parity.sweeps import plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, unknown

NAN, INF = float("nan"), float("inf")
TWO = np.array([b"a", b"b"], object)
NONE = np.zeros(0, object)
UNITS = (np.array([[[[1.0, 2, 3], [NAN, 0, 0]]]], np.float32), np.array([[[[1.0], [INF]]]], np.float32))


def summary(*tags: str, value: float = 1.5) -> bytes:
    return Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag in tags]).SerializeToString()


def smooth(height: int, width: int, channels: int, dtype: Any = np.uint8) -> Any:
    """A batch of one image whose neighbours resemble each other."""
    rows, columns, depth = np.ogrid[:height, :width, :channels]
    return ((rows * 3 + columns * 2 + depth * 9) % 256).astype(dtype)[None]


SCALARS = [
    *(case("ScalarSummary", b"a", sample(name, ())) for name in plain_dtypes("ScalarSummary")),
    *(
        case("ScalarSummary", TWO, np.array([value, 2.0], np.float32))
        for value in (0.0, -1.5, NAN, INF, 3e38)
    ),
    case("ScalarSummary", b"a", np.array(2**60 + 1)),
    case("ScalarSummary", b"a", np.array(1e300)),
    case("ScalarSummary", b"", 0.0),
    case("ScalarSummary", NONE, np.zeros(0, np.float32)),
    case("ScalarSummary", TWO[:, None], np.array([[1.0], [2.0]])),
    case("ScalarSummary", unknown(TWO), unknown([1.0, 2.0])),
    case("ScalarSummary", const(b"a"), const(1.5)),
    case("ScalarSummary", TWO, [1.5], bad=True),
    case("ScalarSummary", unknown(b"a"), unknown([1.5]), bad=True),
    case("ScalarSummary", TWO, 1.5, bad=True),
    case("ScalarSummary", b"a", np.array(True), bad=True),
]

HISTOGRAMS = [
    *(case("HistogramSummary", b"h", sample(name, (20,))) for name in plain_dtypes("HistogramSummary")),
    *(
        case("HistogramSummary", b"h", np.array(values, np.float64))
        for values in (
            [1.0, 2.0, -3.0, 0.0, 1e-13, 1e30],
            [],
            [0.0],
            [5.0] * 3,
            [1e-12, -1e-12, 1.1e-12],
            [-1e300, 1e300],
            [1e20, -1e20],
        )
    ),
    case("HistogramSummary", b"h", sample("float32", (30, 40))),
    case("HistogramSummary", b"h", np.random.default_rng(3).normal(size=5000).astype(np.float32)),
    case("HistogramSummary", b"", 3.0),
    case("HistogramSummary", unknown(b"h"), unknown([1.0])),
    *(case("HistogramSummary", b"h", [1.0, value], bad=True) for value in (NAN, INF, -INF)),
    *(case("HistogramSummary", tags, [1.0], bad=True) for tags in (TWO, unknown(TWO))),
    case("HistogramSummary", b"h", np.array([True]), bad=True),
]

IMAGES = [
    *(
        case("ImageSummary", b"i", smooth(*size))
        for size in ((1, 1, 1), (1, 5, 3), (5, 1, 3), (2, 2, 4), (17, 23, 1), (64, 64, 3), (100, 200, 3))
    ),
    *(case("ImageSummary", b"i", sample("uint8", (2, 9, 7, channels))) for channels in (1, 3, 4)),
    *(case("ImageSummary", b"i", smooth(9, 8, 3, dtype)) for dtype in (np.float16, np.float32, np.float64)),
    *(case("ImageSummary", b"i", sample(name, (2, 5, 6, 3))) for name in ("float16", "float32", "float64")),
    *(case("ImageSummary", b"i", image) for image in UNITS),
    *(case("ImageSummary", b"i", image, attrs={"max_images": 1}) for image in UNITS),
    case("ImageSummary", b"i", np.full((1, 2, 2, 1), 1e-9, np.float32)),
    case("ImageSummary", b"i", np.full((1, 2, 2, 1), NAN, np.float32)),
    case("ImageSummary", b"i", np.zeros((0, 2, 2, 3), np.float32)),
    case("ImageSummary", b"i", sample("uint8", (5, 2, 2, 3)), attrs={"max_images": 4}),
    case("ImageSummary", b"i", UNITS[0], attrs={"bad_color": np.array([1, 2, 3], np.uint8)}),
    case("ImageSummary", unknown(b"i"), unknown(smooth(3, 3, 3))),
    *(
        case("ImageSummary", b"i", np.zeros(shape, np.float32), bad=True)
        for shape in ((2, 2, 3), (1, 2, 2, 2), (1, 2, 2, 0), (1, 0, 2, 3))
    ),
    case("ImageSummary", b"i", unknown(np.zeros((1, 2, 2, 2), np.uint8)), bad=True),
    case("ImageSummary", TWO, smooth(2, 2, 1), bad=True),
    case("ImageSummary", b"i", UNITS[0], attrs={"bad_color": np.array([1, 2], np.uint8)}, bad=True),
    case("ImageSummary", b"i", UNITS[0], attrs={"bad_color": np.full((4, 1), 1, np.uint8)}, bad=True),
    case("ImageSummary", b"i", UNITS[0], attrs={"bad_color": np.array([1.0, 2, 3])}, bad=True),
    case("ImageSummary", b"i", smooth(2, 2, 1), attrs={"max_images": 0}, bad=True),
    case("ImageSummary", b"i", smooth(2, 2, 1, np.int32), bad=True),
]

ODD = np.array([[0.5, -0.5, 2.0, -2.0, 0.25 / 32768, 0.5 / 32768, -0.5 / 32768, 1.5 / 32768]], np.float32)
STEREO = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 3, 2)

SOUNDS = [
    *(case("AudioSummaryV2", b"s", ODD, rate) for rate in (44100.7, 8000.5, 0.3, 1e6)),
    *(case("AudioSummaryV2", b"s", STEREO, 8000.0, attrs={"max_outputs": most}) for most in (1, 2, 3)),
    case("AudioSummaryV2", b"s", sample("float32", (5, 40)), 16000.0),
    case("AudioSummaryV2", b"s", np.zeros((1, 0), np.float32), 8000.0),
    case("AudioSummaryV2", b"s", np.zeros((0, 3), np.float32), 8000.0),
    case("AudioSummaryV2", b"s", np.array([[NAN, INF, -INF]], np.float32), 8000.0),
    case("AudioSummaryV2", unknown(b"s"), unknown(STEREO), unknown([8000.0])),
    *(case("AudioSummaryV2", b"s", ODD, rate, bad=True) for rate in (0.0, -8000.0)),
    *(
        case("AudioSummaryV2", b"s", unknown(np.zeros(shape, np.float32)), 8000.0, bad=True)
        for shape in ((3,), (), (1, 2, 1, 1), (2, 3, 0))
    ),
    case("AudioSummaryV2", TWO, ODD, 8000.0, bad=True),
    case("AudioSummaryV2", b"s", ODD, 8000.0, attrs={"max_outputs": 0}, bad=True),
]

METADATA = SummaryMetadata(display_name="x", plugin_data=SummaryMetadata.PluginData(plugin_name="p"))
TENSORS = [
    *(
        case("TensorSummary", sample(name, (2, 3)))
        for name in ("float32", "bfloat16", "int8", "bool", "complex64")
    ),
    case("TensorSummary", TWO),
    case("TensorSummary", 1.5),
    case("TensorSummary", np.zeros((0, 2))),
    *(case("TensorSummary", sample(name, (4,))) for name in ("float64", "int64", "uint16")),
    case("TensorSummary", unknown([1, 2])),
    case("TensorSummary", 1.5, attrs={"description": "d", "labels": ["l"], "display_name": "n"}),
    *(
        case("TensorSummaryV2", b"t", sample(name, (2, 3)), METADATA.SerializeToString())
        for name in (
            "float32",
            "float64",
            "bfloat16",
            "float16",
            "int8",
            "uint16",
            "int64",
            "bool",
            "complex64",
        )
    ),
    *(case("TensorSummaryV2", b"t", value, b"") for value in (TWO, 1.5, np.zeros((0, 2)), NONE, b"one")),
    case("TensorSummaryV2", unknown(b"t"), unknown([1, 2]), unknown(b"")),
    case("TensorSummaryV2", b"t", [1.0], b"\xff\xff"),
    case("TensorSummaryV2", TWO, [1.0], b"", bad=True),
    case("TensorSummaryV2", b"t", [1.0], unknown(TWO), bad=True),
]

A, B = summary("a"), summary("b", value=0.0)
MERGES = [
    *(
        case("MergeSummary", list(inputs))
        for inputs in ((A, B), (A,), (A, b""), (b"", b""), (A + B, summary("c")))
    ),
    case("MergeSummary", [np.array([A, B], object), summary("c")]),
    case("MergeSummary", [np.zeros(0, object), A]),
    case("MergeSummary", [unknown(A), unknown(np.array([[B]], object))]),
    case("MergeSummary", [bytes.fromhex("0a08150000803f0a0161"), B], note="fields in another order"),
    case("MergeSummary", [A + bytes.fromhex("12016a"), B], note="an unknown field"),
    case("MergeSummary", [summary("a", "b", "c"), summary("d", "e")]),
    case("MergeSummary", [Summary(value=[Summary.Value(node_name="n")] * 2).SerializeToString()]),
    *(
        case("MergeSummary", list(inputs), bad=True)
        for inputs in ((A, A), (A + A,), (A, b"zzzzzz"), (b"\x0a",))
    ),
]

CASES: list[Case] = [*SCALARS, *HISTOGRAMS, *IMAGES, *SOUNDS, *TENSORS, *MERGES]
