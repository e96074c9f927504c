"""Cases of summaries and of the names of shards: expected protos are written by hand."""

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import HistogramProto, Summary, SummaryMetadata, TensorProto
from tests.ops.harness import case

HIGHEST = float(np.finfo(np.float64).max)
TWO = np.array([b"a", b"b"], object)
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f80000000e49444154089963606060606000000006000185c2"
    "99bc0000000049454e44ae426082"
)
"""Two by two black pixels."""
WAV = bytes.fromhex(
    "524946462c00000057415645666d74201000000001000200401f0000007d00000400100064617461080000000040ff7f00c00080"
)
"""Two frames of two channels at 8 kHz."""


def written(*values: Summary.Value) -> np.ndarray:
    return np.array(Summary(value=values).SerializeToString(), object)


def number(tag: str, value: float) -> Summary.Value:
    return Summary.Value(tag=tag, simple_value=value)


def histogram(**fields) -> np.ndarray:
    return written(Summary.Value(tag="h", histo=HistogramProto(**fields)))


def pair() -> TensorProto:
    """The bytes 1 and 2."""
    proto = TensorProto(dtype=4, tensor_content=b"\x01\x02")
    proto.tensor_shape.dim.add(size=2)
    return proto


A, B = written(number("a", 1.5)), written(number("b", 2.0))

CASES = [
    case("ScalarSummary", b"a", 1.5, expected=A),
    case("ScalarSummary", TWO, np.array([1, 2]), expected=written(number("a", 1), number("b", 2))),
    case("ScalarSummary", np.zeros(0, object), np.zeros(0), expected=written()),
    case("ScalarSummary", TWO, 1.5, raises=InvalidArgumentError),
    case(
        "HistogramSummary",
        b"h",
        np.array([5.0, 5.0, 5.0]),
        dtypes=("float32", "float64"),
        expected=histogram(
            min=5,
            max=5,
            num=3,
            sum=15,
            sum_squares=75,
            bucket_limit=[4.6361946174186253, 5.0998140791604882, HIGHEST],
            bucket=[0, 3, 0],
        ),
    ),
    case(
        "HistogramSummary",
        b"h",
        np.zeros((1, 1), int),
        expected=histogram(num=1, bucket_limit=[0, 1e-12, HIGHEST], bucket=[0, 1, 0]),
    ),
    case(
        "HistogramSummary",
        b"h",
        np.zeros(0),
        expected=histogram(min=HIGHEST, max=-HIGHEST, bucket_limit=[HIGHEST], bucket=[0]),
    ),
    case("HistogramSummary", b"h", [1.0, float("nan")], raises=InvalidArgumentError),
    case("HistogramSummary", b"h", [1.0, float("inf")], raises=InvalidArgumentError),
    case(
        "ImageSummary",
        b"i",
        np.zeros((1, 2, 2, 1)),
        attrs={"max_images": 1},
        dtypes=("uint8", "float16", "float32", "float64"),
        expected=written(
            Summary.Value(
                tag="i/image",
                image=Summary.Image(height=2, width=2, colorspace=1, encoded_image_string=PNG),
            )
        ),
    ),
    case("ImageSummary", b"i", np.zeros((0, 2, 2, 3)), dtypes=("uint8", "float32"), expected=written()),
    case("ImageSummary", b"i", np.zeros((2, 2, 3)), dtypes=("uint8", "float32"), raises=InvalidArgumentError),
    case(
        "ImageSummary",
        b"i",
        np.zeros((1, 2, 2, 1)),
        dtypes=("uint8", "float32"),
        raises=InvalidArgumentError,
        attrs={"bad_color": np.ones((4, 1), np.uint8)},
    ),
    case(
        "AudioSummaryV2",
        b"s",
        np.array([[[0.5, 2.0], [-0.5, -2.0]]]),
        8000.0,
        expected=written(
            Summary.Value(
                tag="s/audio/0",
                audio=Summary.Audio(
                    sample_rate=8000,
                    num_channels=2,
                    length_frames=2,
                    encoded_audio_string=WAV,
                    content_type="audio/wav",
                ),
            )
        ),
    ),
    case("AudioSummaryV2", b"s", np.zeros((1, 2)), 0.0, raises=InvalidArgumentError),
    case(
        "TensorSummary",
        np.array([1, 2]),
        dtypes=("uint8",),
        expected=written(Summary.Value(node_name="TensorSummary", tensor=pair())),
    ),
    case(
        "TensorSummaryV2",
        b"t",
        np.array([1, 2]),
        SummaryMetadata(display_name="d").SerializeToString(),
        dtypes=("uint8",),
        expected=written(Summary.Value(tag="t", tensor=pair(), metadata=SummaryMetadata(display_name="d"))),
    ),
    case("TensorSummaryV2", TWO, 1.0, b"", raises=InvalidArgumentError),
    case("MergeSummary", [A, B], expected=written(number("a", 1.5), number("b", 2.0))),
    case(
        "MergeSummary",
        [np.array([A[()], B[()]], object)],
        expected=written(number("a", 1.5), number("b", 2.0)),
    ),
    case("MergeSummary", [A, A], raises=InvalidArgumentError),
    case("MergeSummary", [b"zzzz"], raises=InvalidArgumentError),
    case("ShardedFilename", b"a/b", 3, 123456, expected=np.array(b"a/b-00003-of-123456", object)),
    case("ShardedFilespec", b"a/b", 2, expected=np.array(b"a/b-?????-of-00002", object)),
]
