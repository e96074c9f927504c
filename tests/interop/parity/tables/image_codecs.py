"""Image files: decoding of files by third parties, and by each engine of its own."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

from tests.interop.parity.table import Case, case, const, node, unknown

DRAW = np.random.default_rng(5)
SMOOTH = np.add.outer(np.arange(8) * 9, np.arange(12) * 5).astype(np.uint8)
COLOURS = np.stack([SMOOTH, SMOOTH[::-1], 255 - SMOOTH], axis=-1)
NOISE = DRAW.integers(0, 256, (5, 7, 4)).astype(np.uint8)
FAST: dict[str, Any] = {"compared": (), "note": "TensorFlow's fast transform differs by a few units"}


def encoded(image: Any, name: str, **options: Any) -> Any:
    target = io.BytesIO()
    Image.fromarray(image).save(target, name, **options)
    return np.array(target.getvalue(), object)


def animated(count: int) -> Any:
    target = io.BytesIO()
    images = [Image.fromarray(np.full((4, 5, 3), 60 * k, np.uint8)) for k in range(count)]
    images[0].save(target, "GIF", save_all=True, append_images=images[1:])
    return np.array(target.getvalue(), object)


PNG = {
    mode: encoded(NOISE[..., :depth] if depth > 1 else NOISE[..., 0], "PNG")
    for mode, depth in (("L", 1), ("LA", 2), ("RGB", 3), ("RGBA", 4))
}
DEEP = encoded(DRAW.integers(0, 65536, (4, 3)).astype(np.uint16), "PNG")
JPEG = {
    "rgb": encoded(COLOURS, "JPEG", quality=95, subsampling=0),
    "gray": encoded(SMOOTH, "JPEG", quality=95),
}
BMP = encoded(NOISE[..., :3], "BMP")
GIF = {count: animated(count) for count in (1, 3)}
BROKEN = np.array(bytes(PNG["RGB"].item())[:40], object)
RUBBISH = np.array(b"not an image at all", object)


def decoder(
    op: str, valid: dict[str, Any], channels: tuple[int, ...], dtypes: tuple[str, ...] = (), **more: Any
) -> list[Case]:
    rows = [
        case(op, data, attrs={"channels": count, **more}) for data in valid.values() for count in channels
    ]
    rows += [case(op, data, attrs={"dtype": dtype, **more}) for data in valid.values() for dtype in dtypes]
    first = next(iter(valid.values()))
    return [
        *rows,
        case(op, unknown(first), attrs=more),
        case(op, const(first), attrs=more),
        case(op, RUBBISH, attrs=more, bad=True),
        case(op, BROKEN, attrs=more, bad=True),
        case(op, np.array(b"", object), attrs=more, bad=True),
        case(op, first, attrs={"channels": 7, **more}, bad=True),
        case(op, first.reshape(1), attrs=more, bad=True),
    ]


def round_trips() -> list[Case]:
    rows = []
    for depth in (1, 2, 3, 4):
        image = np.ascontiguousarray(NOISE[..., :depth])
        for level in (-1, 0, 9):
            encoded_node = node("EncodePng", image, attrs={"compression": level})
            rows.append(case("DecodePng", encoded_node))
    return rows


def encoders() -> list[Case]:
    """The bytes differ from library to library: what is compared is that there is a file, or an error."""
    hidden: dict[str, Any] = {"compared": (), "note": "the compressors differ"}
    rows = [
        case("EncodePng", np.ascontiguousarray(NOISE[..., :depth]), attrs={"compression": level}, **hidden)
        for depth in (1, 2, 3, 4)
        for level in (-1, 5)
    ]
    rows += [case("EncodePng", NOISE[..., :1].astype(np.uint16) * 200, **hidden)]
    for options in (
        {},
        {"quality": 30},
        {"progressive": True},
        {"optimize_size": True},
        {"chroma_downsampling": False},
    ):
        rows += [
            case("EncodeJpeg", COLOURS, attrs=options, **hidden),
            case("EncodeJpeg", SMOOTH[..., None], attrs=options, **hidden),
        ]
    rows += [case("EncodeJpegVariableQuality", COLOURS, quality, **hidden) for quality in range(10, 101, 10)]
    return [
        *rows,
        case("EncodePng", NOISE[0], bad=True),
        case("EncodePng", unknown(NOISE[0]), bad=True),
        case("EncodePng", NOISE, attrs={"compression": 11}, bad=True),
        case("EncodeJpeg", COLOURS, attrs={"quality": 101}, bad=True),
        case("EncodeJpeg", NOISE, bad=True),
        case("EncodeJpeg", COLOURS, attrs={"format": "grayscale"}, bad=True),
        case("EncodeJpegVariableQuality", COLOURS, 300, bad=True),
        case("EncodeJpegVariableQuality", NOISE, 30, bad=True),
    ]


def windows() -> list[Case]:
    """Parts of JPEG files; the whole file is decoded by the accurate transform."""
    exact = {"dct_method": "INTEGER_ACCURATE"}
    op, whole = "DecodeAndCropJpeg", [0, 0, 8, 12]
    rgb, gray = JPEG["rgb"], JPEG["gray"]
    rows = [
        case(op, data, window, attrs=exact)
        for data in (rgb, gray)
        for window in (whole, [2, 3, 4, 5], [7, 11, 1, 1], [0, 4, 8, 2])
    ]
    return [
        *rows,
        case(op, rgb, const(np.array([1, 2, 3, 4], np.int32)), attrs=exact),
        case(op, unknown(rgb), unknown(np.array([1, 2, 3, 4], np.int32)), attrs=exact),
        case(op, gray, [1, 2, 3, 4], attrs={"channels": 3, **exact}),
        *(
            case(op, rgb, window, attrs=exact, bad=True)
            for window in ([0, 0, 9, 12], [0, 0, 8, 13], [-1, 0, 3, 3], [0, 0, 0, 3], [5, 0, 4, 4], [0, 0, 3])
        ),
        case(op, PNG["RGB"], [0, 0, 2, 2], attrs=exact, bad=True),
        case(op, RUBBISH, [0, 0, 2, 2], attrs=exact, bad=True),
        case(op, rgb, [0, 0, 2, 2], attrs={"channels": 4, **exact}, bad=True),
    ]


ANY = {**PNG, "bmp": BMP, "gif": GIF[1]}

CASES: list[Case] = [
    *decoder("DecodePng", PNG, (0, 1, 3, 4), ("uint8", "uint16")),
    case("DecodePng", DEEP, attrs={"dtype": "uint16"}),
    case("DecodePng", DEEP),
    *round_trips(),
    *decoder("DecodeJpeg", JPEG, (0, 3), dct_method="INTEGER_ACCURATE"),
    *(case("DecodeJpeg", data, attrs={"channels": 1}, **FAST) for data in JPEG.values()),
    *(case("DecodeImage", data, attrs={"expand_animations": False}, **FAST) for data in JPEG.values()),
    *windows(),
    *decoder(
        "DecodeBmp",
        {"bmp": BMP, "small": encoded(NOISE[:2, :2, :3], "BMP"), "row": encoded(NOISE[:1, :, :3], "BMP")},
        (0, 3),
    ),
    *decoder("DecodeImage", ANY, (0, 3), ("uint8", "float32"), expand_animations=False),
    *(case("DecodeImage", data) for data in (*GIF.values(), PNG["RGB"])),
    *(case("DecodeGif", data) for data in (*GIF.values(), animated(2), animated(5), PNG["RGB"])),
    case("DecodeGif", BMP, bad=True),
    case("DecodeGif", unknown(GIF[3])),
    *(
        case("DecodeGif", data, bad=True)
        for data in (RUBBISH, BROKEN, np.array(b"", object), GIF[1].reshape(1))
    ),
    *(case("DecodeGif", np.array(bytes(GIF[3].item())[:size], object), bad=True) for size in (6, 12)),
    *(
        case("ExtractJpegShape", JPEG[name], attrs={"output_type": dtype})
        for name in JPEG
        for dtype in ("int32", "int64")
    ),
    *(case("ExtractJpegShape", encoded(COLOURS[:size], "JPEG")) for size in range(1, 7)),
    *(case("ExtractJpegShape", data, bad=True) for data in (RUBBISH, PNG["RGB"])),
    *encoders(),
]
