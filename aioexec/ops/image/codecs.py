"""Ops that decode and encode PNG, JPEG, BMP and GIF files with Pillow.

JPEG is decoded with the accurate integer DCT whatever `dct_method` says; TensorFlow defaults to a fast one, whose elements
differ by a few units.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError, InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Reference
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.image.functions import convert_image_dtype
from aioexec.ops.image.image_files import (
    MOST_ELEMENTS,
    animation,
    contents,
    frame_count,
    frames,
    opened,
    own_channels,
    pillow,
    pixels,
)
from aioexec.shapes import Dims, merge, with_rank, with_rank_at_least

Array = np.ndarray[Any, Any]

# Decoding

ALLOWED = {
    "DecodePng": (0, 1, 3, 4),
    "DecodeJpeg": (0, 1, 3),
    "DecodeAndCropJpeg": (0, 1, 3),
    "DecodeBmp": (0, 1, 3, 4),
    "DecodeImage": (0, 1, 3, 4),
}


DCT_METHODS = ("", "INTEGER_FAST", "INTEGER_ACCURATE")


def check_channels(op_type: str, channels: int) -> None:
    if channels not in ALLOWED[op_type]:
        raise InvalidArgumentError(f"channels must be one of {list(ALLOWED[op_type])}, got {channels}")


def decoding(op_type: str) -> Reference:
    """Return the kernel of a decoder; as in TensorFlow, most decode the other formats too: of a GIF all frames or the first."""

    def bind(context: KernelContext) -> Compute:
        attrs, dtype = context.attrs, context.output_dtypes[0].numpy
        channels = attrs["channels"]
        check_channels(op_type, channels)
        ratio, method = attrs.get("ratio", 1), attrs.get("dct_method", "")
        if ratio not in (1, 2, 4, 8):
            raise InvalidArgumentError(f"ratio must be 1, 2, 4, or 8, got {ratio}")
        if method not in DCT_METHODS:
            raise InvalidArgumentError(f"dct_method must be one of {list(DCT_METHODS)}, got {method!r}")
        wide = dtype == np.uint16

        def compute(value: Array, window: Array | None = None) -> Array:
            data = contents(value)
            image = opened(data)
            if window is not None:
                result = reduced(image, channels, ratio) if ratio > 1 else pixels(image, channels, wide)
                return cropped(result, image.format, window)
            if op_type == "DecodeBmp" and image.format != "BMP":
                raise InvalidArgumentError("Trying to decode another format with DecodeBmp")
            if image.format == "GIF":
                return as_dtype(of_animation(op_type, image, len(data), attrs), dtype)
            result = pixels(image, channels, wide)
            return as_dtype(result if ratio == 1 else reduced(image, channels, ratio), dtype)

        return compute

    return bind


def cropped(image: Array, file_format: str, window: Array) -> Array:
    """Return the part of a JPEG in a window: row, column, height, width."""
    if file_format != "JPEG":
        raise InvalidArgumentError(f"Trying to decode {file_format} format using DecodeAndCropJpeg op")
    if window.shape != (4,):
        raise InvalidArgumentError(f"crop_window must have four elements, got shape {list(window.shape)}")
    top, left, height, width = (int(size) for size in window)
    rows, columns = image.shape[:2]
    if top < 0 or left < 0 or height <= 0 or width <= 0 or top + height > rows or left + width > columns:
        raise InvalidArgumentError(f"Invalid crop window {window.tolist()} of {rows} x {columns} pixels")
    return np.ascontiguousarray(image[top : top + height, left : left + width])


def of_animation(op_type: str, image: Any, length: int, attrs: Attrs) -> Array:
    if attrs["channels"] in (1, 4):
        raise InvalidArgumentError(f"channels must be 0 or 3 for GIF, got {attrs['channels']}")
    if op_type == "DecodeImage" and attrs["expand_animations"]:
        return animation(image, length)
    count = frame_count(image)
    if op_type != "DecodeImage" and count > 1:
        raise InvalidArgumentError(f"Got {count} frames, but animated gifs can only be decoded by DecodeGif")
    return next(frames(image, length))


def reduced(image: Any, channels: int, ratio: int) -> Array:
    """Decode a JPEG at 1/ratio of its size."""
    width, height = (-(-size // ratio) for size in image.size)
    return pixels(
        image.convert("RGB").resize((width, height), pillow().Resampling.BOX), channels or 3, wide=False
    )


def as_dtype(image: Array, dtype: np.dtype[Any]) -> Array:
    if dtype == np.float32:
        return (image.astype(np.float32) / np.float32(np.iinfo(image.dtype).max)).astype(np.float32)
    if dtype == np.uint16 and image.dtype == np.uint8:
        return image.astype(np.uint16) * np.uint16(257)
    return np.ascontiguousarray(image)


def gif_kernel(context: KernelContext) -> Compute:
    def compute(value: Array) -> Array:
        data = contents(value)
        image = opened(data)
        if image.format == "GIF":
            return animation(image, len(data))
        if image.format == "BMP":
            raise InvalidArgumentError("Trying to decode BMP format using DecodeGif")
        return pixels(image, 3, wide=False)[None]

    return compute


def jpeg_shape_kernel(context: KernelContext) -> Compute:
    dtype = context.output_dtypes[0].numpy

    def compute(value: Array) -> Array:
        image = opened(contents(value))
        if image.format != "JPEG":
            raise InvalidArgumentError("Invalid JPEG data")
        width, height = image.size
        return np.array([height, width, own_channels(image)], dtype)

    return compute


# Encoding


def check_encoded(image: Array, depths: Sequence[int]) -> None:
    if image.ndim != 3:
        raise InvalidArgumentError(f"image must be 3-dimensional, got shape {list(image.shape)}")
    if image.shape[2] not in depths:
        raise InvalidArgumentError(f"image must have {list(depths)} channels, got shape {list(image.shape)}")
    if image.size == 0 or image.size > MOST_ELEMENTS:
        raise InvalidArgumentError(f"image must not be empty nor too large, got shape {list(image.shape)}")


def saved(image: Array, name: str, **options: Any) -> Array:
    deep = image.dtype == np.uint16
    if deep and image.shape[2] != 1:
        raise UnimplementedError("EncodePng: images of 16 bits are encoded with 1 channel only")
    flat = image[..., 0] if image.shape[2] == 1 else image
    target = io.BytesIO()
    pillow().fromarray(np.ascontiguousarray(flat)).save(target, name, **options)
    result = np.empty((), object)
    result[()] = target.getvalue()
    return result


def png_kernel(context: KernelContext) -> Compute:
    level = context.attrs["compression"]
    if not -1 <= level <= 9:
        raise InvalidArgumentError(f"compression should be in [-1,9], got {level}")

    options = {} if level < 0 else {"compress_level": level}

    def compute(images: Array) -> Array:
        if images.ndim < 3:
            raise InvalidArgumentError(
                f"images must have at least 3 dimensions, got shape {list(images.shape)}"
            )
        encoded = np.empty(images.shape[:-3], object)
        if images.shape[-1] not in (1, 2, 3, 4):
            raise InvalidArgumentError(f"image must have 1, 2, 3, or 4 channels, got {images.shape[-1]}")
        for place in np.ndindex(encoded.shape):
            check_cancelled()
            check_encoded(images[place], (1, 2, 3, 4))
            encoded[place] = saved(images[place], "PNG", **options)[()]
        return encoded

    return compute


def jpeg_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    if not 0 <= attrs.get("quality", 95) <= 100:
        raise InvalidArgumentError(f"quality must be in [0,100], got {attrs['quality']}")
    depths = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}[attrs.get("format", "")]

    def compute(image: Array, quality: Array | None = None) -> Array:
        check_encoded(image, depths)
        chosen = attrs.get("quality", 95) if quality is None else int(quality)
        if not 0 <= chosen <= 100:
            raise InvalidArgumentError(f"quality must be in [0,100], got {chosen}")
        options: dict[str, Any] = {"quality": chosen, "progressive": attrs.get("progressive", False)}
        options["optimize"] = attrs.get("optimize_size", False)
        options["subsampling"] = 2 if attrs.get("chroma_downsampling", True) else 0
        return saved(image, "JPEG", **options)

    return compute


# Rows


def decoded_shape(op_type: str) -> Callable[[ShapeContext], Sequence[Dims]]:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        with_rank(context.inputs[0], 0)
        if op_type == "DecodeGif":
            return [(None, None, None, 3)]
        channels = context.attrs["channels"]
        if channels < 0:
            raise GraphValueError(f"channels must be non-negative, got {channels}")
        if op_type == "DecodeImage" and context.attrs["expand_animations"]:
            return [None]
        return [(None, None, channels or None)]

    return rule


def window_shape(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.inputs[0], 0)
    merge(context.inputs[1], (4,))
    window = context.value(1)
    height, width = (None, None) if window is None else (int(size) for size in window[2:])
    return [(height, width, context.attrs["channels"] or None)]


def png_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.inputs[0], 3)
    return [None if dims is None else dims[:-3]]


def encoded_shape(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.inputs[0], 3)
    return [()]


_JPEG = (
    "channels:int=0; ratio:int=1; fancy_upscaling:bool=true; try_recover_truncated:bool=false; "
    "acceptable_fraction:float=1.0; dct_method:string=''"
)
for _name, _signature in (
    ("DecodePng", "(image:dtype) [channels:int=0; dtype:type{uint8|uint16}=uint8]"),
    ("DecodeJpeg", f"(image:uint8) [{_JPEG}]"),
    ("DecodeBmp", "(image:uint8) [channels:int=0]"),
    (
        "DecodeImage",
        "(image:dtype) [channels:int=0; dtype:type{uint8|uint16|float}=uint8; expand_animations:bool=true]",
    ),
):
    register(
        f"{_name}(contents:string) -> {_signature}",
        shape=decoded_shape(_name),
        kernel=decoding(_name),
        gradient=undefined_gradient,
        dynamic_shape=True,
    )
register(
    f"DecodeAndCropJpeg(contents:string, crop_window:int32) -> (image:uint8) [{_JPEG}]",
    shape=window_shape,
    kernel=decoding("DecodeAndCropJpeg"),
    gradient=undefined_gradient,
    dynamic_shape=True,
)
register(
    "DecodeGif(contents:string) -> (image:uint8)",
    shape=decoded_shape("DecodeGif"),
    kernel=gif_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
register(
    "ExtractJpegShape(contents:string) -> (image_shape:output_type) [output_type:type{int32|int64}=int32]",
    shape=lambda context: [(3,)],
    kernel=jpeg_shape_kernel,
    gradient=undefined_gradient,
)
register(
    "EncodePng(image:T) -> (contents:string) [compression:int=-1; T:type{uint8|uint16}=uint8]",
    shape=png_shape,
    kernel=png_kernel,
    gradient=undefined_gradient,
)
register(
    "EncodeJpeg(image:uint8) -> (contents:string) [format:string{|grayscale|rgb}=''; quality:int=95; progressive:bool=false; "
    "optimize_size:bool=false; chroma_downsampling:bool=true; density_unit:string{in|cm}='in'; x_density:int=300; "
    "y_density:int=300; xmp_metadata:string='']",
    shape=encoded_shape,
    kernel=jpeg_kernel,
    gradient=undefined_gradient,
)
register(
    "EncodeJpegVariableQuality(images:uint8, quality:int32) -> (contents:string)",
    shape=encoded_shape,
    kernel=jpeg_kernel,
    gradient=undefined_gradient,
)

# Public functions


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Decode a BMP file to uint8 [height, width, channels]."""
    return apply_op("DecodeBmp", contents, name=name, channels=channels)


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode a JPEG file to uint8 [height, width, channels], at 1/`ratio` of its size.

    Args:
        channels: 1 or 3; 0: those of the file.
        ratio: 1, 2, 4 or 8.
        fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method: have no effect.
    """
    attrs = _jpeg_attrs(fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method)
    return apply_op("DecodeJpeg", contents, name=name, channels=channels, ratio=ratio, **attrs)


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode a JPEG file as `decode_jpeg`, and cut out `crop_window`: row, column, height, width."""
    attrs = _jpeg_attrs(fancy_upscaling, try_recover_truncated, acceptable_fraction, dct_method)
    return apply_op(
        "DecodeAndCropJpeg", contents, crop_window, name=name, channels=channels, ratio=ratio, **attrs
    )


def _jpeg_attrs(fancy: bool, recover: bool, fraction: float, dct_method: str) -> dict[str, Any]:
    return {
        "fancy_upscaling": fancy,
        "try_recover_truncated": recover,
        "acceptable_fraction": float(fraction),
        "dct_method": dct_method,
    }


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None
) -> Tensor:
    """Decode a PNG file to [height, width, channels], of 8 or 16 bits."""
    return apply_op("DecodePng", contents, name=name, channels=channels, dtype=dtype)


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Decode a GIF file to uint8 [frames, height, width, 3]."""
    return apply_op("DecodeGif", contents, name=name)


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decode an image file of any format; of an animation all frames if `expand_animations`, else the first.

    Args:
        channels: number of channels; None or 0: those of the file.
        dtype: of the result; floats are in 0 … 1.

    Returns:
        [height, width, channels], or [frames, height, width, 3] for an animation.
    """
    wanted = dtypes.as_dtype(dtype)
    decoded = wanted if wanted in (dtypes.float32, dtypes.uint8, dtypes.uint16) else dtypes.uint16
    with op_scope(name, "decode_image", contents):
        attrs: dict[str, Any] = {
            "channels": channels or 0,
            "dtype": decoded,
            "expand_animations": expand_animations,
        }
        image = apply_op("DecodeImage", contents, **attrs)
        return image if decoded is wanted else convert_image_dtype(image, wanted)


def extract_jpeg_shape(contents: Any, output_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """Return height, width and number of channels of a JPEG file, from its header."""
    return apply_op("ExtractJpegShape", contents, name=name, output_type=output_type)


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Return whether files begin as a JPEG file does."""
    with op_scope(name, "is_jpeg", contents):
        return apply_op("Equal", apply_op("Substr", contents, 0, 3), b"\xff\xd8\xff", name=name)


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Encode images [..., height, width, channels] of 8 or 16 bits as PNG files: strings [...]."""
    return apply_op("EncodePng", convert_to_tensor(image), name=name, compression=compression)


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """Encode an image [height, width, channels] of bytes as a JPEG file.

    Args:
        density_unit, x_density, y_density, xmp_metadata: have no effect.
    """
    attrs: dict[str, Any] = {
        "format": format,
        "quality": quality,
        "progressive": progressive,
        "optimize_size": optimize_size,
        "chroma_downsampling": chroma_downsampling,
        "density_unit": density_unit,
        "x_density": x_density,
        "y_density": y_density,
        "xmp_metadata": xmp_metadata,
    }
    return apply_op("EncodeJpeg", image, name=name, **attrs)
