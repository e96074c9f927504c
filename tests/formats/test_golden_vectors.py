"""The bytes that TensorFlow wrote, in one place: this package writes the same bytes from the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.formats.bundle_writer import BundleWriter
from aioexec.formats.crc32c import crc32c, masked
from aioexec.formats.protos import GraphDef
from aioexec.formats.tensor_codec import make_tensor_proto
from aioexec.formats.tensor_slice import TensorSlice, parse_shape_and_slice

GRAPH = (
    "0a3b0a0178120b506c616365686f6c6465722a0b0a056474797065120230012a1c0a05736861706512133a11120b08ffffffffffffffffff01"
    "120208020a300a03792f791205436f6e73742a0b0a056474797065120230012a150a0576616c7565120c420a080112002a040000803f"
    "0a1b0a0179120541646456321a01781a03792f792a070a015412023001220308aa13"
)
DATA = "0000803f000000400102bfdfdb7a78797a"
INDEX = (
    "00000608011a02080100010f610801120412020802280835593ce535000311622f730807120412020802200828093599c75aef"
    "000000000100000000f59687c1000000000100000000c0f2a1b000010263003b0000000001000000002097220240084d0e"
    "00000000000000000000000000000000000000000000000000000000000000000000000057fb808b247547db"
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([1, 2], np.float32), "080112041202080222080000803f00000040"),
        (np.array([b"a", b"bc"], object), "080712041202080242016142026263"),
        (np.float32(2), "080112002a0400000040"),
    ],
)
def test_a_tensor_has_the_bytes_of_tensorflow(value: Any, expected: str) -> None:
    assert make_tensor_proto(value).SerializeToString().hex() == expected


def test_a_graph_has_the_bytes_of_tensorflow() -> None:
    with aioexec.Graph().as_default() as graph:
        x = aioexec.placeholder(aioexec.float32, [None, 2], name="x")
        aioexec.add(x, 1.0, name="y")
    exported = graph.as_graph_def()
    exported.versions.producer = 2474  # that of the TensorFlow that wrote the bytes

    assert exported.SerializeToString(deterministic=True).hex() == GRAPH


def test_a_graph_read_and_written_has_its_bytes() -> None:
    parsed = GraphDef.FromString(bytes.fromhex(GRAPH))

    assert parsed.SerializeToString(deterministic=True).hex() == GRAPH


def test_a_bundle_has_the_bytes_of_tensorflow(tmp_path: Path) -> None:
    prefix = str(tmp_path / "model")
    with BundleWriter(prefix) as writer:
        writer.add("a", np.array([1, 2], np.float32), aioexec.float32)
        writer.add("b/s", np.array([b"x", b"yz"], object), aioexec.string)
        writer.finish()

    assert (tmp_path / "model.data-00000-of-00001").read_bytes().hex() == DATA
    assert (tmp_path / "model.index").read_bytes().hex() == INDEX


@pytest.mark.parametrize(
    ("name", "part", "expected"),
    [
        ("p", parse_shape_and_slice("5 4 -:0,2").part, "007000010102807f8082"),
        ("bigp", TensorSlice(((100000, 100000), (0, 1))), "00 62696770 0001 0102 e186a0 e186a0 80 81"),
        ("midp", TensorSlice(((0, 1), (100, 100))), "00 6d696470 0001 0102 80 81 c064 c064"),
    ],
)
def test_the_key_of_a_part_has_the_bytes_of_tensorflow(name: str, part: TensorSlice, expected: str) -> None:
    assert part.key(name) == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("data", "checksum", "mask"),
    [(b"123456789", 0xE3069283, 0xC78AB0E5), (bytes(32), 0x8A9136AA, 0x0FD7FFFA), (b"", 0, 0xA282EAD8)],
)
def test_checksums_are_those_of_tensorflow(data: bytes, checksum: int, mask: int) -> None:
    assert (crc32c(data), masked(crc32c(data))) == (checksum, mask)
