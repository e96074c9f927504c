"""Image files read with Pillow, which is imported at first use: their size, channels, pixels and frames.

The size of an image is checked before it is decoded.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, UnimplementedError

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
