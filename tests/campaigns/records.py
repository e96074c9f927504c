"""Reads mutants of record files: TFRecord files, plain and compressed, and event files.

    python -m tests.campaigns.records [--first SEED] [--count N] [--limit SECONDS]

A mutant is a file with changed bytes, or with changed content and valid lengths and checksums. It is read to its end, or
refused with a canonical error, within the bounds of `mutants.bounded`.
"""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from random import Random

from aioexec import errors
from aioexec.formats.crc32c import crc32c, masked
from aioexec.formats.event_files import summary_iterator
from aioexec.formats.protos import Event
from aioexec.formats.records import encode_record, read_records
from tests.campaigns import campaign, mutants
from tests.ops.io.example_bytes import example

EXPECTED = (errors.OpError,)
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


def case(seed: int) -> str | None:
    """Read one mutant."""
    random = Random(seed)
    compression = random.choice((*COMPRESSIONS, ""))
    compress = COMPRESSIONS[compression]
    contents = [list(each) for each in _corpus()]
    if random.random() < 0.4:
        data = mutants.mutant(random, [compress(b"".join(map(encode_record, each))) for each in contents])
    else:
        records = random.choice(contents)
        position = random.randrange(len(records))
        records[position] = mutants.mutant(random, [*_corpus()[0], *_corpus()[1]])
        encoded = list(map(encode_record, records))
        if random.random() < 0.2:
            encoded[position] = mutants.mutant(random, encoded)
        elif random.random() < 0.3:  # another length, with its checksum
            length = struct.pack("<Q", random.choice(mutants.NUMBERS))
            encoded[position] = length + struct.pack("<I", masked(crc32c(length))) + encoded[position][12:]
        data = compress(b"".join(encoded))
    wrong = mutants.bounded(partial(_read, data, compression), EXPECTED, len(data))
    if wrong is None and not compression:
        with tempfile.NamedTemporaryFile(dir=mutants.memory_folder()) as file:
            Path(file.name).write_bytes(data)
            wrong = mutants.bounded(lambda: list(summary_iterator(file.name)), EXPECTED, len(data))
    return wrong


def _read(data: bytes, compression: str) -> None:
    for _ in read_records(io.BytesIO(data), compression):
        pass


@cache
def _corpus() -> list[list[bytes]]:
    event = Event(wall_time=1.5, step=3)
    event.summary.value.add(tag="loss", simple_value=0.5)
    histogram = event.summary.value.add(tag="weights").histo
    histogram.min, histogram.max = -1.0, 1.0
    histogram.bucket_limit.extend([0.0, 1.0])
    histogram.bucket.extend([3.0, 4.0])
    events = [Event(file_version="brain.Event:2"), event, Event(graph_def=b"\x0a\x00")]
    return [
        [each.SerializeToString() for each in events],
        [example(numbers=[1, 2, 3], text=[b"words"]), b"", b"x" * 1000],
    ]


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
