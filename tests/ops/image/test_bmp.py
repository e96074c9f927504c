"""BMP files of 32 bits a pixel: the fourth byte is the alpha channel, as in TensorFlow."""

import struct

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op

PIXELS = np.arange(1, 17, dtype=np.uint8).reshape(2, 2, 4)  # rows of (blue, green, red, fourth byte)


def bmp(bottom_up: bool, content: bytes = PIXELS.tobytes()) -> bytes:
    """A file of 2 x 2 pixels with the header of Windows 3."""
    header = struct.pack("<IiiHHIIiiII", 40, 2, 2 if bottom_up else -2, 1, 32, 0, len(content), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(content), 0, 0, 54) + header + content


async def decoded(contents: bytes, channels: int) -> np.ndarray:
    with ax.Graph().as_default() as graph:
        image = apply_op("DecodeBmp", ax.constant(contents), channels=channels)
    async with ax.Session(graph=graph) as session:
        value: np.ndarray = await session.run(image)
        return value


@pytest.mark.parametrize("bottom_up", [False, True])
@pytest.mark.parametrize("channels", [0, 3, 4])
async def test_the_fourth_byte_of_a_pixel_is_its_alpha(bottom_up: bool, channels: int):
    image = await decoded(bmp(bottom_up), channels)

    expected = PIXELS[:: -1 if bottom_up else 1, :, [2, 1, 0, 3]]
    assert image.tolist() == expected[..., : channels or 4].tolist()


async def test_a_file_that_ends_before_its_last_row_is_refused():
    with pytest.raises(InvalidArgumentError, match="Invalid BMP data"):
        await decoded(bmp(True, bytes(12)), 4)
