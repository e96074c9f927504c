"""Image codecs: decode and encode PNG, JPEG, BMP and GIF with Pillow, which is imported at first use.

JPEG is decoded with the accurate integer DCT whatever `dct_method` says; TensorFlow defaults to a fast one, whose elements
differ by a few units. The size of an image is validated before it is decoded.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Reference
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.shapes import Dims, with_rank, with_rank_at_least

Array = np.ndarray[Any, Any]
MOST_ELEMENTS = 1 << 28
"""Upper bound for the elements of a decoded image or animation."""

MOST_PIXELS_PER_BYTE = {"PNG": 8 * 1032, "JPEG": 1024, "BMP": 128, "GIF": 4096}
"""Upper bound for the pixels per byte of a file; files that claim more are rejected before memory is allocated. PNG: deflate
expands a byte to 1032, of 8 pixels each. JPEG: a block of 64 pixels needs a bit; doubled as a margin. BMP: two bytes are a run
of 255. GIF: an LZW code of at least 9 bits stands for less than 4096 pixels.
"""

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
MAGIC = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG", b"BM": "BMP", b"GIF8": "GIF"}


def pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise UnimplementedError("image files need Pillow: install aioexec[images]") from error
    return Image


def format_of(data: bytes) -> str:
    found = next((name for magic, name in MAGIC.items() if data.startswith(magic)), None)
    if found is None:
        raise InvalidArgumentError("Unknown image file format. One of JPEG, PNG, GIF, BMP required")
    return found


def opened(data: bytes) -> Any:
    """Open an image and read its header only."""
    name = format_of(data)
    try:
        image = pillow().open(io.BytesIO(data), formats=[name])
    except UnimplementedError:
        raise
    except Exception as error:
        raise InvalidArgumentError(f"Invalid {name} data, size {len(data)}: {error}") from error
    check_size(image, len(data), 4)
    return image


def check_size(image: Any, length: int, channels: int, count: int = 1) -> None:
    """Reject frames that are too large, or larger than a file of this length can encode."""
    width, height = image.size
    size = count * width * height
    what = f"{count} x {width} x {height} pixels"
    if width <= 0 or height <= 0 or size * channels > MOST_ELEMENTS:
        raise InvalidArgumentError(f"{image.format} image of {what} is too large to decode")
    if size > length * MOST_PIXELS_PER_BYTE[image.format]:
        raise InvalidArgumentError(f"Invalid {image.format} data: {what} need more than {length} bytes")


def contents(value: Array) -> bytes:
    if value.ndim:
        raise InvalidArgumentError(f"contents must be scalar, got shape {list(value.shape)}")
    item: Any = value[()]
    return item if isinstance(item, bytes) else str(item).encode()


def own_channels(image: Any) -> int:
    """Return the number of channels that the file stores."""
    if has_fourth_byte(image):
        return 4
    if "transparency" in image.info and image.format == "PNG":
        return 2 if image.mode in ("L", "1") else 4
    return {"1": 1, "L": 1, "I": 1, "I;16": 1, "LA": 2, "RGBA": 4, "PA": 4}.get(image.mode, 3)


def has_fourth_byte(image: Any) -> bool:
    """Return whether an image that is not loaded is a BMP file of 32 bits a pixel without an alpha channel in its header."""
    return bool(image.format == "BMP" and image.tile and image.tile[0][3][0] == "BGRX")


def with_fourth_byte(image: Any) -> Array:
    """Read red, green, blue and the fourth byte of each pixel, which Pillow leaves out and TensorFlow takes for alpha."""
    _, _, offset, (_, stride, direction) = image.tile[0]
    width, height = image.size
    rows = np.frombuffer(image.fp.getvalue(), np.uint8, stride * height, offset).reshape(height, stride)
    bgra = rows[::direction, : 4 * width].reshape(height, width, 4)
    return bgra[..., [2, 1, 0, 3]]


def pixels(image: Any, channels: int, wide: bool) -> Array:
    """Decode the current frame to [height, width, channels], of 8 or 16 bits."""
    wanted = channels or own_channels(image)
    try:
        if image.mode.startswith("I"):
            deep = np.asarray(image).astype(np.int64)
            values = np.clip(deep, 0, 65535).astype(np.uint16)
            gray = values if wide else (values >> 8).astype(np.uint8)
            return deepened(gray, wanted)
        if wanted == 4 and has_fourth_byte(image):
            flat = with_fourth_byte(image)
        elif image.format == "PNG" and wanted < 3 <= own_channels(image):
            flat = without_colour(np.asarray(image.convert("RGBA"), np.int64), wanted)
        else:
            flat = np.asarray(image.convert(MODES[wanted]), np.uint8)
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises many classes for malformed files
        raise InvalidArgumentError(f"Invalid {image.format} data: {error}") from error
    result = flat[..., None] if flat.ndim == 2 else flat
    return result.astype(np.uint16) * np.uint16(257) if wide else result


LUMINANCE = np.array([9797, 19234, 3737])
"""The weights of red, green and blue in the luminance of a PNG image, scaled by 1 << 15."""


def without_colour(image: Array, channels: int) -> Array:
    gray = (image[..., :3] @ LUMINANCE) >> 15
    return np.stack([gray, image[..., 3]][:channels], axis=-1).astype(np.uint8)


def deepened(gray: Array, channels: int) -> Array:
    opaque = np.full(gray.shape, np.iinfo(gray.dtype).max, gray.dtype)
    colour = [gray] * (1 if channels < 3 else 3)
    return np.stack([*colour, *([opaque] if channels in (2, 4) else [])], axis=-1)


def frames(image: Any, length: int) -> Iterator[Array]:
    """Yield all frames of an animation as RGB; `length` is the size of the file."""
    count, canvas = frame_count(image), image.size
    check_size(image, length, 3, count)
    for number in range(count):
        try:
            image.seek(number)
        except Exception as error:
            raise InvalidArgumentError(f"Invalid GIF data: {error}") from error
        if image.size != canvas:  # Pillow would enlarge the canvas of this and all later frames
            raise InvalidArgumentError(f"Invalid GIF data: frame {number} is larger than {canvas}")
        yield pixels(image, 3, wide=False)


def frame_count(image: Any) -> int:
    """Return the number of frames, which requires scanning the file."""
    try:
        count: int = getattr(image, "n_frames", 1)
    except Exception as error:
        raise InvalidArgumentError(f"Invalid {image.format} data: {error}") from error
    return count


def animation(image: Any, length: int) -> Array:
    return np.stack(list(frames(image, length)))


# Decoding

ALLOWED = {
    "DecodePng": (0, 1, 3, 4),
    "DecodeJpeg": (0, 1, 3),
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

        def compute(value: Array) -> Array:
            data = contents(value)
            image = opened(data)
            if op_type == "DecodeBmp" and image.format != "BMP":
                raise InvalidArgumentError("Trying to decode another format with DecodeBmp")
            if image.format == "GIF":
                return as_dtype(of_animation(op_type, image, len(data), attrs), dtype)
            result = pixels(image, channels, wide)
            return as_dtype(result if ratio == 1 else reduced(image, channels, ratio), dtype)

        return compute

    return bind


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
    """Decode a BMP file to [height, width, channels]."""
    return apply_op("DecodeBmp", contents, name=name, channels=channels)


def decode_jpeg(contents: Any, channels: int = 0, ratio: int = 1, name: str | None = None) -> Tensor:
    """Decode a JPEG file to [height, width, channels], at 1/`ratio` of its size."""
    return apply_op("DecodeJpeg", contents, name=name, channels=channels, ratio=ratio)


def decode_png(contents: Any, channels: int = 0, dtype: Any = None, name: str | None = None) -> Tensor:
    """Decode a PNG file to [height, width, channels], of 8 or 16 bits."""
    return apply_op("DecodePng", contents, name=name, channels=channels, dtype=dtype)


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Decode a GIF file to [frames, height, width, 3]."""
    return apply_op("DecodeGif", contents, name=name)


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = None,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decode an image file of any format; of an animation all frames if `expand_animations`, else the first."""
    attrs = {"channels": channels or 0, "dtype": dtype, "expand_animations": expand_animations}
    return apply_op("DecodeImage", contents, name=name, **attrs)


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Encode an image [height, width, channels] as a PNG file."""
    return apply_op("EncodePng", image, name=name, compression=compression)


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    name: str | None = None,
) -> Tensor:
    """Encode an image [height, width, channels] as a JPEG file."""
    attrs = {"format": format, "quality": quality, "progressive": progressive, "optimize_size": optimize_size}
    return apply_op("EncodeJpeg", image, name=name, chroma_downsampling=chroma_downsampling, **attrs)
