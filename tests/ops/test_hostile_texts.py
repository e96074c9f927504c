"""Texts and images designed to take long: kernels need time and memory in proportion to their bytes."""

from __future__ import annotations

import io
import zlib
from time import process_time
from typing import Any

import numpy as np
import pytest
from PIL import Image

import aioexec as ax
from aioexec.distributed.transport.status import without_task
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.protos import TensorProto
from aioexec.ops.linalg.einsum import parsed

MOST_SECONDS = 1.0
"""Of processor time; what the square of the length decides takes minutes."""


async def run(fetch: Any) -> Any:
    async with ax.Session() as session:
        return await session.run(fetch)


@pytest.fixture(autouse=True)
def graph() -> Any:
    with ax.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("text", [b"9" * 200_000, b"0x" + b"a" * 200_000, b"." + b"1" * 200_000])
async def test_a_long_text_that_is_no_number_is_refused_at_once(text):
    began = process_time()

    with pytest.raises(InvalidArgumentError, match="could not correctly convert"):
        await run(ax.string_to_number(text + b"!"))

    assert process_time() - began < MOST_SECONDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"1.", 1.0), (b".5e1", 5.0), (b"1.5e-3", 0.0015), (b"0x1.8p1", 3.0), (b"0x.8", 0.5), (b"1e5", 1e5)],
)
async def test_numbers_are_read_as_c_reads_them(text, expected):
    assert await run(ax.string_to_number(text, ax.float64)) == expected


async def test_a_message_that_stands_for_many_strings_is_refused():
    """The one listed element is repeated to fill the shape."""
    message = TensorProto(dtype=ax.string.as_datatype_enum, string_val=[b"a"])
    message.tensor_shape.dim.add(size=1 << 28)

    with pytest.raises(InvalidArgumentError, match="expected at most 268435456 bytes, got 2147483648"):
        await run(ax.parse_tensor(message.SerializeToString(), ax.string))


def test_a_long_equation_that_is_none_is_refused_at_once():
    began = process_time()

    with pytest.raises(GraphValueError, match="expected an equation"):
        parsed("i" * 200_000 + "!->i")

    assert process_time() - began < MOST_SECONDS


def test_the_line_of_the_task_is_found_at_once():
    began = process_time()

    assert without_task("From /job:a:" * 100_000) == "From /job:a:" * 100_000
    assert without_task("From /job:a/replica:0/task:1:\nwhat\nis wrong") == "what\nis wrong"
    assert without_task("what is wrong") == "what is wrong"

    assert process_time() - began < MOST_SECONDS


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP"])
async def test_an_image_that_claims_more_pixels_than_its_bytes_can_hold_is_refused(kind):
    data = bytearray(_encoded(kind))
    position, size = {"PNG": (16, 4), "GIF": (6, 2), "BMP": (18, 4)}[kind]
    for at in (position, position + size):
        data[at : at + size] = (8000).to_bytes(size, "big" if kind == "PNG" else "little")
    if kind == "PNG":
        data[29:33] = _checksum(data[12:29])

    with pytest.raises(InvalidArgumentError, match="1 x 8000 x 8000 pixels need more than"):
        await run(ax.image.decode_image(bytes(data)))


async def test_an_animation_of_one_colour_a_frame_is_decoded():
    """LZW makes little of it: about 280 pixels are a byte."""
    first = Image.new("P", (500, 500))
    others = [Image.new("P", (500, 500), color=k % 2) for k in range(1, 40)]
    target = io.BytesIO()
    first.save(target, "GIF", save_all=True, append_images=others, optimize=False)
    whole = target.getvalue()

    assert (await run(ax.image.decode_gif(whole))).shape == (40, 500, 500, 3)


@pytest.mark.slow
async def test_a_gif_that_ends_within_a_block_is_refused():
    data = _encoded("GIF")

    for end in range(10, len(data) // 2):
        with pytest.raises(InvalidArgumentError, match="Invalid GIF data"):
            await run(ax.image.decode_gif(data[:end]))


def _encoded(kind: str) -> bytes:
    target = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8), "L").save(target, kind)
    return target.getvalue()


def _checksum(chunk: bytes | bytearray) -> bytes:
    return zlib.crc32(chunk).to_bytes(4, "big")


async def test_string_attributes_may_be_any_bytes(graph):
    joined = graph.create_op(
        "StringJoin", [ax.constant("a"), ax.constant("b")], attrs={"separator": b"\xff", "N": 2}
    )
    replaced = graph.create_op(
        "StaticRegexReplace", [ax.constant("ab")], attrs={"pattern": "a", "rewrite": b"\xff"}
    )
    async with ax.Session(graph=graph) as session:
        assert await session.run([joined.outputs[0], replaced.outputs[0]]) == [b"a\xffb", b"\xffb"]


async def test_a_fill_that_is_no_text_is_refused(graph):
    op = graph.create_op("AsString", [ax.constant(1.0)], attrs={"fill": b"\xff"})
    async with ax.Session(graph=graph) as session:
        with pytest.raises(InvalidArgumentError, match="Fill argument not supported"):
            await session.run(op.outputs[0])
