"""Cases of ops on images by hand or by plain loops: colours, boxes, patches, local response, fake quantisation, files."""

from __future__ import annotations

import colorsys
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(29)
SINGLE = ["float32"]
COLOURS = np.array([[0.2, 0.4, 0.9], [0.9, 0.1, 0.3], [0.3, 0.8, 0.5], [0.7, 0.6, 0.1]])


def each_colour(function: Any) -> Any:
    return lambda images: np.array([function(*colour) for colour in images.reshape(-1, 3)]).reshape(
        images.shape
    )


def colours() -> Iterator[Case]:
    yield case("RGBToHSV", COLOURS, expected=each_colour(colorsys.rgb_to_hsv), gradients=(0,))
    yield case("HSVToRGB", COLOURS, expected=each_colour(colorsys.hsv_to_rgb))
    image = COLOURS.reshape(2, 2, 3)
    mean = image.mean((0, 1))
    yield case("AdjustContrastv2", image, 2.0, expected=(image - mean) * 2 + mean)

    def adjusted(change: Any) -> Any:
        def one(*rgb: float) -> tuple[float, float, float]:
            return colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*rgb)))

        return each_colour(one)(image)

    yield case("AdjustHue", image, 0.25, expected=adjusted(lambda h, s, v: ((h + 0.25) % 1, s, v)))
    yield case("AdjustSaturation", image, 0.5, expected=adjusted(lambda h, s, v: (h, s / 2, v)))


def boxes() -> Iterator[Case]:
    drawn = np.zeros((1, 4, 5, 1))
    drawn[0, 1:4, 1:4, 0] = 1
    drawn[0, 2, 2, 0] = 0
    box = [[[0.34, 0.3, 1.0, 0.8]]]
    yield case("DrawBoundingBoxes", np.zeros((1, 4, 5, 1)), box, expected=drawn)
    yield case("DrawBoundingBoxesV2", np.zeros((1, 4, 5, 1)), box, [[0.5, 1.0, 1.0, 1.0]], expected=drawn / 2)
    several = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 3, 1, 4], [0, 3, 1, 4]], np.float32)
    scores = np.array([0.5, 0.75, 0.25, 0.125], np.float32)
    yield case("NonMaxSuppression", several, scores, 3, expected=[1, 2])
    yield case("NonMaxSuppressionV2", several, scores, 3, np.float32(0.5), expected=[1, 2], dtypes=SINGLE)
    limits = np.float32(0.5), np.float32(0.3)
    yield case("NonMaxSuppressionV3", several, scores, 3, *limits, expected=[1], dtypes=SINGLE)
    attrs = {"pad_to_max_output_size": True}
    yield case(
        "NonMaxSuppressionV4",
        several,
        scores,
        3,
        *limits,
        attrs=attrs,
        expected=lambda *_: (np.array([1, 0, 0]), np.array(1)),
        dtypes=SINGLE,
    )
    yield case(
        "NonMaxSuppressionV5",
        several,
        scores,
        3,
        0.5,
        0.0,
        0.0,
        expected=lambda *_: (np.array([1, 2]), np.array([0.75, 0.25]), np.array(2)),
        dtypes=SINGLE,
    )
    alike = np.array([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]])
    yield case("NonMaxSuppressionWithOverlaps", alike, [0.1, 0.3, 0.2], 3, 0.5, 0.0, expected=[1, 2])
    yield case("NonMaxSuppression", several, scores, -1, raises=InvalidArgumentError)


def patches() -> Iterator[Case]:
    image = RNG.integers(-6, 7, (1, 3, 4, 2)) / 4.0
    rows = [[image[0, i : i + 2, j : j + 3].reshape(-1) for j in range(2)] for i in range(2)]
    attrs = {"ksizes": [1, 2, 3, 1], "strides": [1] * 4, "rates": [1] * 4, "padding": "VALID"}
    yield case("ExtractImagePatches", image, attrs=attrs, expected=[rows], gradients=(0,))
    yield case(
        "ExtractImagePatches", image[:, :2, :3], attrs=attrs, expected=[[[image[0, :2, :3].reshape(-1)]]]
    )
    line = np.array([0.0, 3.0, 1.0, 2.0]).reshape(1, 1, 4, 1)
    shape = np.array([0.0, 1.5, 0.25]).reshape(1, 3, 1)
    windows = {"strides": [1] * 4, "rates": [1] * 4, "padding": "SAME"}
    dilated = np.array([3.25, 4.5, 3.0, 3.5]).reshape(line.shape)
    yield case("Dilation2D", line, shape, attrs=windows, expected=dilated, gradients=(0, 1))
    dy = np.array([1.0, 2.0, 4.0, 8.0]).reshape(line.shape)
    by_line = np.array([0.0, 7.0, 0.0, 8.0]).reshape(line.shape)
    yield case("Dilation2DBackpropInput", line, shape, dy, attrs=windows, expected=by_line)
    by_shape = np.array([4.0, 10.0, 1.0]).reshape(shape.shape)
    yield case("Dilation2DBackpropFilter", line, shape, dy, attrs=windows, expected=by_shape)


def local_response() -> Iterator[Case]:
    attrs = {"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75}

    def norm(x: Array) -> Array:
        squares = np.pad(x**2, [(0, 0)] * 3 + [(1, 1)])
        return 2 + 0.5 * (squares[..., :-2] + squares[..., 1:-1] + squares[..., 2:])

    x = RNG.uniform(-2, 2, (1, 1, 2, 4))
    yield case("LRN", x, attrs=attrs, expected=lambda x: x / norm(x) ** 0.75, gradients=(0,), dtypes=SINGLE)
    one = np.full((1, 1, 1, 1), 2.0)  # alone: x (2 + x x / 2) ** -0.75, whose derivative is known
    slope = 4.0**-0.75 - 0.75 * 4 * 4.0**-1.75
    yield case("LRNGrad", one, one, one / norm(one) ** 0.75, attrs=attrs, expected=one * slope)


def fake_quantization() -> Iterator[Case]:
    name, x = "FakeQuantWithMinMax", np.array([-0.6, 0.0, 0.12, 0.4, 3.0])
    rounded, dy = [-0.5, 0.0, 0.1, 0.4, 1.0], np.arange(1.0, 6.0)
    attrs = {"num_bits": 4}  # 15 steps of 0.1
    bounds = attrs | {"min": -0.5, "max": 1.0}
    inside = [0.0, 2.0, 3.0, 4.0, 0.0]
    yield case(f"{name}Args", x, attrs=bounds, expected=rounded)
    yield case(f"{name}ArgsGradient", dy, x, attrs=bounds, expected=inside)
    yield case(f"{name}Vars", x, -0.5, 1.0, attrs=attrs, expected=rounded)
    yield case(
        f"{name}VarsGradient",
        dy,
        x,
        -0.5,
        1.0,
        attrs=attrs,
        expected=lambda *_: (np.array(inside), np.array(1.0), np.array(5.0)),
    )
    columns = np.stack([x, x], axis=1)
    low, high = [-0.5, -0.5], [1.0, 1.0]
    yield case(f"{name}VarsPerChannel", columns, low, high, attrs=attrs, expected=np.stack([rounded] * 2, 1))
    pairs = np.stack([dy, dy], axis=1)
    yield case(
        f"{name}VarsPerChannelGradient",
        pairs,
        columns,
        low,
        high,
        attrs=attrs,
        expected=lambda *_: (np.stack([inside] * 2, 1), np.ones(2), np.full(2, 5.0)),
    )
    fine = {"num_bits": 16}  # so many steps that a difference sees a line
    apart = np.array([-3.0, -0.2, 0.3, 2.5])
    yield case(f"{name}Args", apart, attrs=fine | {"min": -1.0, "max": 1.0}, gradients=(0,))
    yield case(f"{name}Vars", apart, -1.0, 1.0, attrs=fine, gradients=(0,), native=False)
    wide = np.stack([apart, apart], axis=1)
    yield case(f"{name}VarsPerChannel", wide, [-1.0, -1.0], [1.0, 1.0], attrs=fine, gradients=(0,))


def encoded(image: Array, name: str) -> Any:
    target = io.BytesIO()
    Image.fromarray(image).save(target, name)
    return np.array(target.getvalue(), object)


def files() -> Iterator[Case]:
    image = RNG.integers(0, 256, (3, 4, 3)).astype(np.uint8)
    even = np.full((8, 8, 3), 70, np.uint8)
    for op, name in (("DecodePng", "PNG"), ("DecodeBmp", "BMP"), ("DecodeImage", "PNG")):
        yield case(op, encoded(image, name), expected=image, dtypes=["uint8"], vary="dtype")
    yield case("DecodePng", encoded(image, "PNG"), attrs={"dtype": "uint16"}, expected=image * np.uint16(257))
    yield case("DecodeJpeg", encoded(even, "JPEG"), expected=even)
    yield case("DecodeAndCropJpeg", encoded(even, "JPEG"), [1, 2, 3, 4], expected=even[1:4, 2:6])
    yield case("DecodeAndCropJpeg", encoded(even, "JPEG"), [1, 2, 8, 4], raises=InvalidArgumentError)
    yield case("DecodeGif", encoded(even[..., 0], "GIF"), expected=even[None])
    yield case("ExtractJpegShape", encoded(even, "JPEG"), expected=[8, 8, 3], dtypes=["int32"])
    yield case("EncodePng", image, dtypes=["uint8"])
    yield case("EncodeJpeg", image)
    yield case("EncodeJpegVariableQuality", image, 50)
    yield case("DecodePng", np.array(b"no image", object), raises=InvalidArgumentError)
    huge = encoded(image, "PNG").item().replace((4).to_bytes(4, "big"), (1 << 30).to_bytes(4, "big"), 1)
    yield case("DecodePng", np.array(huge, object), raises=InvalidArgumentError)


CASES = [*colours(), *boxes(), *patches(), *local_response(), *fake_quantization(), *files()]
