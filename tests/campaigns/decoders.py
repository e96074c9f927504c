"""Decodes mutants of messages, images and texts by the ops that read them.

    python -m tests.campaigns.decoders [--first SEED] [--count N] [--limit SECONDS]

Each is decoded, or refused with a canonical error other than Internal or Unknown, within the bounds of `mutants.bounded`.
"""

from __future__ import annotations

import asyncio
import io
import zlib
from collections.abc import Callable
from functools import cache, partial
from random import Random
from typing import Any

import numpy as np

import aioexec as ax
from aioexec import errors
from aioexec.formats.protos import Summary, TensorProto
from aioexec.formats.tensor_codec import encode_tensor
from aioexec.graph.apply import apply_op, apply_tuple_op
from tests.campaigns import campaign, mutants
from tests.ops.io.example_bytes import example

UNEXPECTED = (errors.InternalError, errors.UnknownError)


def case(seed: int) -> str | None:
    """Decode one mutant by each op that reads its kind."""
    random = Random(seed)
    kind = random.choice(sorted(_corpora()))
    data = mutants.mutant(random, _corpora()[kind])
    if kind == "png" and random.random() < 0.7:
        data = _with_checksums(data)
    for name in _reader().of_kind(kind):
        wrong = mutants.bounded(partial(_reader().read, name, data), (errors.OpError,), len(data))
        if wrong is not None:
            return f"{name}: {wrong}"
    return None


class _Reader:
    """A session with one node for each op that decodes, on an event loop that is kept."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._kinds: dict[str, list[str]] = {}
        self._fetches: dict[str, Any] = {}
        with ax.Graph().as_default() as graph:
            self._text = ax.placeholder(ax.string, [])
            for kind, makers in _DECODERS.items():
                for position, make in enumerate(makers):
                    name = f"{kind} {position}"
                    self._kinds.setdefault(kind, []).append(name)
                    self._fetches[name] = make(self._text)
        self._session = ax.Session(graph=graph)

    def of_kind(self, kind: str) -> list[str]:
        return self._kinds[kind]

    def read(self, name: str, data: bytes) -> None:
        try:
            self._loop.run_until_complete(self._run(name, data))
        except UNEXPECTED as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error

    async def _run(self, name: str, data: bytes) -> None:
        _ = await self._session.run(self._fetches[name], {self._text: data})


@cache
def _reader() -> _Reader:
    return _Reader()


def _sparse(text: Any) -> Any:
    return apply_tuple_op("DeserializeSparse", ax.stack([text, text, text]), dtype=ax.float32)


def _one_example(text: Any) -> Any:
    features = {
        "numbers": ax.VarLenFeature(ax.int64),
        "text": ax.FixedLenFeature([], ax.string, ""),
        "floats": ax.FixedLenFeature([2], ax.float32, [0.0, 0.0]),
    }
    return ax.parse_single_example(text, features)


def _many_examples(text: Any) -> Any:
    features = {
        "numbers": ax.FixedLenSequenceFeature([], ax.int64, allow_missing=True),
        "text": ax.VarLenFeature(ax.string),
    }
    return ax.parse_example(ax.stack([text, text]), features)


def _csv(text: Any) -> Any:
    return ax.decode_csv(text, [[1], [""], [0.5]])


_DECODERS: dict[str, list[Callable[[Any], Any]]] = {
    "tensor": [
        lambda text: ax.parse_tensor(text, ax.float32),
        lambda text: ax.parse_tensor(text, ax.string),
        lambda text: ax.parse_tensor(text, ax.bool),
        _sparse,
    ],
    "example": [_one_example, _many_examples],
    "png": [ax.image.decode_png, ax.image.decode_image],
    "gif": [ax.image.decode_gif],
    "bmp": [ax.image.decode_bmp, ax.image.decode_image],
    "jpeg": [ax.image.decode_jpeg],
    "csv": [_csv],
    "base64": [ax.decode_base64],
    "raw": [lambda text: ax.decode_raw(text, ax.int16)],
    "summary": [lambda text: apply_op("MergeSummary", [text, text])],
    "number": [
        lambda text: ax.string_to_number(text, ax.float64),
        lambda text: ax.string_to_number(text, ax.int32),
    ],
}


# Originals of the mutants


@cache
def _corpora() -> dict[str, list[bytes]]:
    return {
        "tensor": _tensors(),
        "example": _examples(),
        "png": [_image("PNG", "RGB"), _image("PNG", "L"), _image("PNG", "RGBA"), _image("PNG", "P")],
        "gif": [_image("GIF", "P")],
        "bmp": [_image("BMP", "RGB"), _image("BMP", "L")],
        "jpeg": [_image("JPEG", "RGB"), _image("JPEG", "L")],
        "csv": [b'1,"a ""quoted"" word",2.5', b",,", b"1,\xff,3e400"],
        "base64": [b"aGVsbG8gd29ybGQ", b"_-8"],
        "raw": [b"\x01\x00\x02\x00"],
        "summary": _summaries(),
        "number": [b"1.5e300", b" 17 ", b"0x1p-3", b"9" * 400, b"nan"],
    }


def _tensors() -> list[bytes]:
    arrays = (
        np.arange(6.0, dtype=np.float32).reshape(2, 3),
        np.array([b"a", b"bc"], object),
        np.array([True, False]),
    )
    found = [encode_tensor(np.asarray(each), ax.string if each.dtype == object else None) for each in arrays]
    listed = TensorProto(dtype=1, float_val=[1.0])  # type: ignore[arg-type]  # enum numbers are ints here
    listed.tensor_shape.dim.add(size=1000)
    return [each.SerializeToString() for each in (*found, listed)]


def _examples() -> list[bytes]:
    return [example(numbers=[1, 2, 3], floats=[1.0, 2.0], text=[b"words"]), b""]


def _image(kind: str, mode: str) -> bytes:
    from PIL import Image

    pixels = np.arange(8 * 6 * 4, dtype=np.uint8).reshape(8, 6, 4)
    target = io.BytesIO()
    Image.fromarray(pixels, "RGBA").convert("RGB").convert(mode).save(target, kind)
    return target.getvalue()


def _summaries() -> list[bytes]:
    summary = Summary()
    summary.value.add(tag="loss", simple_value=0.5)
    summary.value.add(tag="text").tensor.string_val.append(b"words")
    return [summary.SerializeToString()]


def _with_checksums(data: bytes) -> bytes:
    """Recompute the checksums of a PNG's chunks, as far as its lengths lead to chunks."""
    fixed, position = bytearray(data), 8
    while position + 12 <= len(fixed):
        length = int.from_bytes(fixed[position : position + 4], "big")
        end = position + 8 + length
        if end + 4 > len(fixed):
            break
        fixed[end : end + 4] = zlib.crc32(bytes(fixed[position + 4 : end])).to_bytes(4, "big")
        position = end + 4
    return bytes(fixed)


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
