"""Functions of `tf.image` against TensorFlow's: values, static shapes, gradients, random streams and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, Built, values, whole
from tests.interop.train.engines import compare, table

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROWS, add = table()
ERRORS, add_error = table()
Make = Callable[[Any, Any], Any]
Dims = Sequence[int | None]

IMAGE = values(1, 7, 9, 3, low=0.0)
BATCH = values(2, 2, 7, 9, 3, low=0.0)
BYTES = whole(3, 7, 9, 3, low=0, high=256, dtype="uint8")
ANY_IMAGE: Dims = (None, None, 3)
ANY_BATCH: Dims = (None, None, None, 3)
ANY_RANK: Any = "any"


def of(make: Make, value: Any, known: Any = None, *, graph_seed: int | None = None, runs: int = 2) -> Builder:
    """What `make(tf, image)` returns for a placeholder that holds `value`; `known`: its static shape."""

    def build(tf: Any) -> Built:
        if graph_seed is not None:
            tf.set_random_seed(graph_seed)
        dims = value.shape if known is None else known
        x = tf.placeholder(value.dtype.name, *(() if known is ANY_RANK else (dims,)))
        made = make(tf, x)
        outputs = list(made) if isinstance(made, list | tuple) else [made]
        return Built(outputs, [{x: value}] * runs)

    return build


def image(function: str, *arguments: Any, **options: Any) -> Make:
    return lambda tf, x: getattr(tf.image, function)(x, *arguments, **options)


def everywhere(name: str, make: Make, without: str = "", **options: Any) -> None:
    """Rows for images of known and unknown size, batches, bytes and unknown rank, except those named in `without`."""
    for kind, value, known in (
        ("image", IMAGE, None),
        ("bytes", BYTES, None),
        ("any_image", IMAGE, ANY_IMAGE),
        ("batch", BATCH, None),
        ("any_batch", BATCH, ANY_BATCH),
        ("any_rank", IMAGE, ANY_RANK),
    ):
        if kind not in without.split():
            add(f"{name}, {kind}", of(make, value, known, **options))


# Flips and rotations

everywhere("flip_left_right", image("flip_left_right"))
everywhere("flip_up_down", image("flip_up_down"))
everywhere("transpose", image("transpose"), without="any_rank")
add("transpose_image", of(image("transpose_image"), IMAGE))
for turns in (0, 1, 2, 3, -1, 6):
    add(f"rot90 by {turns}", of(image("rot90", turns), IMAGE))
everywhere("rot90", image("rot90", k=3), without="any_rank")
for function in ("flip_left_right", "flip_up_down", "rot90", "transpose"):
    add_error(f"{function} of a matrix", of(image(function), IMAGE[0]))
    add_error(f"{function} of five dimensions", of(image(function), BATCH[None]))
    add_error(f"{function} of an empty image", of(image(function), IMAGE[:0]))
    add_error(f"{function} of an empty image of unknown size", of(image(function), IMAGE[:0], ANY_IMAGE))

for function in ("random_flip_left_right", "random_flip_up_down"):
    everywhere(function, image(function, seed=5), runs=6)
    add(f"{function} by the seed of the graph", of(image(function), IMAGE, graph_seed=7, runs=6))
    add(f"{function} by both seeds", of(image(function, 2), BATCH, graph_seed=7, runs=6))

# Crops and padding

everywhere("central_crop", image("central_crop", 0.5), without="any_rank")
for fraction in (0.3, 0.87, 1.0):
    add(f"central_crop of {fraction}", of(image("central_crop", fraction), BATCH))
add(
    "central_crop of a tensor",
    of(lambda tf, x: tf.image.central_crop(x, tf.placeholder_with_default(0.6, [])), IMAGE),
)
add_error("central_crop of nothing", of(image("central_crop", 0.0), IMAGE))
add_error("central_crop of more", of(image("central_crop", 1.1), IMAGE))
add_error("central_crop of unknown rank", of(image("central_crop", 0.5), IMAGE, ANY_RANK))

everywhere("crop_to_bounding_box", image("crop_to_bounding_box", 1, 2, 4, 5))
everywhere("pad_to_bounding_box", image("pad_to_bounding_box", 1, 2, 12, 13))
add("crop_to_bounding_box to itself", of(image("crop_to_bounding_box", 0, 0, 7, 9), IMAGE))
add("pad_to_bounding_box to itself", of(image("pad_to_bounding_box", 0, 0, 7, 9), IMAGE))


def with_tensors(function: str, *numbers: int) -> Make:
    return lambda tf, x: getattr(tf.image, function)(
        x, *(tf.placeholder_with_default(number, []) for number in numbers)
    )


for function, numbers, faulty in (
    ("crop_to_bounding_box", (1, 2, 4, 5), [(-1, 0, 3, 3), (0, -1, 3, 3), (0, 0, 0, 3), (4, 0, 4, 3), (0, 5, 3, 5)]),
    ("pad_to_bounding_box", (1, 2, 12, 13), [(-1, 0, 9, 9), (0, -1, 9, 9), (0, 0, 6, 9), (1, 0, 7, 9), (0, 1, 7, 9)]),
    ("resize_image_with_crop_or_pad", (5, 12), [(0, 3), (3, 0), (-1, 3)]),
    ("resize_image_with_pad", (5, 12), [(0, 3), (3, 0)]),
):  # fmt: skip
    add(f"{function} by tensors", of(with_tensors(function, *numbers), IMAGE))
    add(f"{function} by tensors, any_image", of(with_tensors(function, *numbers), IMAGE, ANY_IMAGE))
    for wrong in faulty:
        add_error(f"{function} {wrong}", of(image(function, *wrong), IMAGE))
        add_error(f"{function} {wrong} of unknown size", of(image(function, *wrong), IMAGE, ANY_IMAGE))
    add_error(f"{function} of a matrix", of(image(function, *numbers), IMAGE[0]))

for size in ((5, 6), (12, 13), (4, 14), (13, 4), (7, 9), (8, 10)):
    add(f"resize_image_with_crop_or_pad to {size}", of(image("resize_image_with_crop_or_pad", *size), IMAGE))
everywhere("resize_image_with_crop_or_pad", image("resize_image_with_crop_or_pad", 5, 12))
add("resize_with_crop_or_pad", of(image("resize_with_crop_or_pad", 4, 4), IMAGE))
everywhere("resize_image_with_pad", image("resize_image_with_pad", 10, 8), without="any_rank")
for method in (0, 1, 2, 3):
    add(f"resize_image_with_pad by {method}", of(image("resize_image_with_pad", 5, 11, method), IMAGE))
add("resize_image_with_pad, corners", of(image("resize_image_with_pad", 5, 11, align_corners=True), IMAGE))

for resizer in (0, 1, 2, 3, "bilinear", "nearest", "bicubic", "area"):
    add(f"resize_images by {resizer}", of(image("resize_images", [5, 4], resizer), BATCH))
everywhere("resize", image("resize", [5, 4]), without="any_rank")
everywhere(
    "resize keeping proportions", image("resize", [12, 12], preserve_aspect_ratio=True), without="any_rank"
)
add("resize to the same size", of(image("resize", [7, 9]), BYTES))
add("resize to a tensor", of(lambda tf, x: tf.image.resize(x, tf.shape(x)[:2] * 2), IMAGE))
add_error("resize of unknown rank", of(image("resize", [5, 4]), IMAGE, ANY_RANK))
add_error("resize by an unknown method", of(image("resize", [5, 4], "other"), IMAGE))
add_error("resize to three sizes", of(image("resize", [5, 4, 3]), IMAGE))

# Colours


def in_float32(make: Make) -> Make:
    """The result in the dtype that it is computed in."""
    return lambda tf, x: tf.cast(make(tf, x), tf.float32)


for function, amount in (
    ("adjust_brightness", 0.3),
    ("adjust_contrast", 1.7),
    ("adjust_hue", 0.2),
    ("adjust_saturation", 1.6),
    ("adjust_gamma", 1.4),
):
    everywhere(function, image(function, amount))
    add(f"{function} of doubles", of(in_float32(image(function, amount)), IMAGE.astype(np.float64)))
add("adjust_gamma with a gain", of(image("adjust_gamma", 0.5, 1.2), BYTES))
add_error("adjust_gamma of less than 0", of(image("adjust_gamma", -1), IMAGE))

for function, bounds in (
    ("random_brightness", (0.3,)),
    ("random_contrast", (0.5, 1.5)),
    ("random_hue", (0.2,)),
    ("random_saturation", (0.5, 1.5)),
):
    everywhere(function, image(function, *bounds, seed=3), runs=3)
    add(f"{function} by the seed of the graph", of(image(function, *bounds), IMAGE, graph_seed=9, runs=3))
    add_error(f"{function} below 0", of(image(function, *(-bound for bound in bounds)), IMAGE))
add_error("random_hue above 0.5", of(image("random_hue", 0.6), IMAGE))
add_error("random_contrast of nothing", of(image("random_contrast", 0.5, 0.5), IMAGE))
add_error("random_saturation of nothing", of(image("random_saturation", 0.5, 0.4), IMAGE))
add_error("random_jpeg_quality of nothing", of(image("random_jpeg_quality", 50, 50), IMAGE))
add_error("random_jpeg_quality above 100", of(image("random_jpeg_quality", 50, 101), IMAGE))

everywhere("rgb_to_grayscale", image("rgb_to_grayscale"), without="any_rank")
everywhere("grayscale_to_rgb", lambda tf, x: tf.image.grayscale_to_rgb(x[..., :1]))
add_error("grayscale_to_rgb of three channels", of(image("grayscale_to_rgb"), IMAGE))
add_error("grayscale_to_rgb of an unknown number", of(image("grayscale_to_rgb"), IMAGE, [None, None, None]))
for function in ("rgb_to_yiq", "yiq_to_rgb", "rgb_to_yuv", "yuv_to_rgb", "rgb_to_hsv", "hsv_to_rgb"):
    everywhere(function, image(function), without="bytes any_rank")
    add(f"{function} of doubles", of(image(function), BATCH.astype(np.float64)))
everywhere("per_image_standardization", image("per_image_standardization"), without="any_rank")
everywhere("convert_image_dtype to bytes", image("convert_image_dtype", "uint8"))
everywhere("convert_image_dtype to floats", image("convert_image_dtype", "float32"))
for kind in ("uint8", "int16", "int32", "uint16", "float16", "float64"):
    for saturate in (False, True):
        add(f"bytes to {kind}, {saturate}", of(image("convert_image_dtype", kind, saturate), BYTES))
add(
    "convert_image_dtype of too large floats",
    of(image("convert_image_dtype", "uint8", saturate=True), IMAGE * 3 - 1),
)
add(
    "convert_image_dtype of too large integers",
    of(image("convert_image_dtype", "uint8", saturate=True), whole(4, 5, 6, 3, low=-9, high=2**30)),
)

# Comparisons

OTHER = np.clip(BATCH + values(5, 2, 7, 9, 3) * 0.1, 0, 1).astype(np.float32)
LARGE = values(6, 2, 48, 53, 2, low=0.0)
LARGE_OTHER = np.clip(LARGE + values(7, 2, 48, 53, 2) * 0.2, 0, 1).astype(np.float32)


def with_other(function: str, other: Any, *arguments: Any, **options: Any) -> Make:
    def make(tf: Any, x: Any) -> Any:
        found = getattr(tf.image, function)(x, tf.constant(other), *arguments, **options)
        return [found, tf.gradients(found, x)[0]] if x.dtype.is_floating else found

    return make


add("psnr", of(with_other("psnr", OTHER, 1.0), BATCH))
add("psnr of one image and a batch", of(with_other("psnr", OTHER, 1.0), BATCH[:1]))
add("psnr of bytes", of(with_other("psnr", BYTES[::-1].copy(), 255), BYTES))
add("psnr of unknown size", of(with_other("psnr", OTHER, 1.0), BATCH, ANY_BATCH))
add("ssim", of(with_other("ssim", OTHER, 1.0, filter_size=4), BATCH))
add("ssim of bytes", of(with_other("ssim", BYTES[::-1].copy(), 255, filter_size=3, filter_sigma=0.7), BYTES))
add("ssim of unknown size", of(with_other("ssim", LARGE_OTHER, 1.0), LARGE, [None, None, None, 2]))
add("ssim of each place", of(with_other("ssim", OTHER, 1.0, 5, return_index_map=True), BATCH))
add("ssim with constants", of(with_other("ssim", LARGE_OTHER, 2.0, k1=0.1, k2=0.2), LARGE))
add("ssim_multiscale", of(with_other("ssim_multiscale", LARGE_OTHER, 1.0, filter_size=3), LARGE))
add(
    "ssim_multiscale with powers",
    of(with_other("ssim_multiscale", LARGE_OTHER, 1.0, power_factors=(0.5, 0.3), filter_size=5), LARGE),
)
add_error("ssim of small images", of(with_other("ssim", OTHER, 1.0), BATCH))
for function in ("psnr", "ssim"):
    add_error(f"{function} of other shapes", of(with_other(function, OTHER[:, 1:], 1.0), BATCH))
    add_error(f"{function} of other batches", of(with_other(function, OTHER, 1.0), BATCH[[0, 1, 0]]))
    add_error(f"{function} of matrices", of(with_other(function, OTHER[0, 0], 1.0), BATCH[0, 0]))
everywhere("total_variation", image("total_variation"), without="any_rank bytes")
add("total_variation of integers", of(image("total_variation"), whole(8, 2, 4, 5, 3)))
add("image_gradients", of(image("image_gradients"), BATCH))
add("image_gradients of unknown size", of(image("image_gradients"), BATCH, ANY_BATCH))
add("image_gradients of integers", of(image("image_gradients"), whole(8, 2, 4, 5, 3)))
add("sobel_edges", of(image("sobel_edges"), BATCH))
add("sobel_edges of unknown size", of(image("sobel_edges"), BATCH, ANY_BATCH))
add_error("total_variation of a matrix", of(image("total_variation"), IMAGE[0]))
add_error("image_gradients of one image", of(image("image_gradients"), IMAGE))

# Boxes

CORNERS = values(9, 30, 2, low=0.0)
BOXES = np.concatenate([CORNERS, CORNERS + values(10, 30, 2, low=0.1, high=0.6)], axis=1)
SCORES = values(11, 30, low=0.0)


def scored(function: str, *arguments: Any, **options: Any) -> Make:
    return lambda tf, x: getattr(tf.image, function)(x, tf.constant(SCORES), *arguments, **options)


for function in ("non_max_suppression", "non_max_suppression_with_scores", "non_max_suppression_padded"):
    add(function, of(scored(function, 10), BOXES))
    add(f"{function} with thresholds", of(scored(function, 20, 0.3, score_threshold=0.4), BOXES))
add("soft suppression", of(scored("non_max_suppression_with_scores", 9, soft_nms_sigma=0.4), BOXES))
add("padded suppression", of(scored("non_max_suppression_padded", 30, pad_to_max_output_size=True), BOXES))
add("suppression by overlaps", of(scored("non_max_suppression_overlaps", 9), values(12, 30, 30, low=0.0)))

# Random crops

for shape in ((4, 5, 3), (7, 9, 3), (1, 1, 1)):
    add(f"random_crop of {shape}", of(image("random_crop", shape, seed=4), IMAGE, runs=4))
add("tf.random_crop", of(lambda tf, x: tf.random_crop(x, [2, 3], seed=6), whole(1, 8, 9), runs=4))
add("random_crop by the seed of the graph", of(image("random_crop", [4, 5, 3]), IMAGE, graph_seed=3))
add("random_crop of unknown size", of(image("random_crop", [4, 5, 3], 8), IMAGE, ANY_IMAGE))
add_error("random_crop of more", of(image("random_crop", [4, 10, 3]), IMAGE))

# Files

SMOOTH = np.add.outer(np.arange(16) * 3, np.arange(24) * 5).astype(np.uint8)[..., None]


def coded(function: str, **options: Any) -> Make:
    """Encode an image without loss, and decode it."""
    return lambda tf, x: getattr(tf.image, function)(tf.image.encode_png(x), **options)


for kind in ("uint8", "uint16", "float32", "float64", "int32"):
    add(f"decode_image as {kind}", of(coded("decode_image", dtype=kind, expand_animations=False), BYTES))
add("decode_png", of(coded("decode_png", channels=1), BYTES[..., :1].copy()))
add(
    "is_jpeg",
    of(
        lambda tf, x: [tf.image.is_jpeg(tf.image.encode_png(x)), tf.image.is_jpeg(tf.image.encode_jpeg(x))],
        BYTES,
    ),
)
add(
    "extract_jpeg_shape",
    of(lambda tf, x: tf.image.extract_jpeg_shape(tf.image.encode_jpeg(x), tf.int64), BYTES),
)


def distorted(covered: float) -> Make:
    return lambda tf, x: tf.image.sample_distorted_bounding_box(
        tf.shape(x), BOXES[None, :3] / 2, seed=5, seed2=2, min_object_covered=covered
    )


for covered in (0.1, 0.7):
    add(f"sample_distorted_bounding_box {covered}", of(distorted(covered), IMAGE, runs=5))
add(
    "sample_distorted_bounding_box of nothing",
    of(
        lambda tf, x: tf.image.sample_distorted_bounding_box(
            tf.shape(x),
            np.zeros((1, 0, 4), np.float32),
            3,
            aspect_ratio_range=[0.5, 2.0],
            area_range=[0.2, 0.8],
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        ),
        IMAGE,
        runs=5,
    ),
)
add("extract_glimpse", of(image("extract_glimpse", [3, 4], [[0.1, -0.2], [0.0, 0.3]]), BATCH))

PATCHES: dict[str, Any] = {"strides": [1, 2, 3, 1], "rates": [1, 1, 2, 1], "padding": "SAME"}
add("extract_patches", of(image("extract_patches", [1, 3, 2, 1], **PATCHES), BATCH))
add("extract_image_patches", of(image("extract_image_patches", [1, 3, 2, 1], **PATCHES), BATCH))


@pytest.mark.parametrize("name", ROWS)
async def test_images_agree_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ROWS[name], 20.0) == []


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ERRORS[name]) == []
