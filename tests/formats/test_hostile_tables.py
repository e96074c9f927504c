"""Checkpoints designed to take long: their entries are checked while they are read, within bounds."""

from __future__ import annotations

import os
from time import process_time

import numpy as np
import pytest

from aioexec import dtypes as dt
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError
from aioexec.formats import sorted_table
from aioexec.formats.bundle_reader import read_index
from aioexec.formats.bundle_writer import merge
from aioexec.formats.checkpoint_files import InputFile, OutputFile
from aioexec.formats.protos import BundleEntryProto, BundleHeaderProto
from aioexec.formats.sorted_table import SortedTable, TableWriter, encode_varint
from aioexec.formats.tensor_slice import covers
from tests.formats.bundles import rewrite_index, save


class RepeatingWriter(TableWriter):
    """Names each data block several times in the index."""

    def finish(self) -> None:
        self._flush()
        assert self._pending is not None
        metaindex = self._write(sorted_table._Block(16))
        for k in range(3):
            self._index.add(self._last_key + bytes([k]), b"".join(map(encode_varint, self._pending)))
        index = self._write(self._index)
        self._file.write(sorted_table._footer(metaindex, index))


def test_a_merge_ends_with_the_first_data_file_that_is_missing(tmp_path):
    prefix = save(tmp_path / "a", [("a", np.arange(3), dt.int64)])
    header = BundleHeaderProto(num_shards=(1 << 31) - 1)
    header.version.producer = 1
    rewrite_index(prefix, lambda entries: entries.update({b"": header.SerializeToString()}))

    with pytest.raises(NotFoundError, match="data-00000-of-2147483647"):
        merge([prefix], str(tmp_path / "b"))

    assert not os.path.exists(tmp_path / "b.index")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (b"\xff", "no BundleEntryProto"),
        (BundleEntryProto(shard_id=(1 << 31) - 1).SerializeToString(), "is in no data file"),
    ],
    ids=["no message", "no data file"],
)
def test_an_entry_that_makes_no_sense_is_refused_by_a_merge(entry, message, tmp_path):
    prefixes = [save(tmp_path / name, [(name, np.arange(3), dt.int64)]) for name in ("a", "b")]
    rewrite_index(prefixes[1], lambda entries: entries.update({b"b": entry}))

    with pytest.raises(DataLossError, match=message):
        merge(prefixes, str(tmp_path / "merged"))

    assert os.path.exists(tmp_path / "a.index")


def test_a_block_that_the_index_names_twice_is_refused(tmp_path):
    with OutputFile(str(tmp_path / "a.index")) as file:
        table = RepeatingWriter(file)
        table.add(b"", BundleHeaderProto(num_shards=1).SerializeToString())
        table.add(b"key", b"value")
        table.finish()
        file.commit()

    with pytest.raises(DataLossError, match="two blocks at"):
        read_index(str(tmp_path / "a"))


def test_keys_that_are_not_in_order_are_refused(tmp_path):
    with OutputFile(str(tmp_path / "a.index")) as file:
        table = TableWriter(file)
        for key in (b"", b"b", b"b"):
            table.add(key, b"value")
        table.finish()
        file.commit()

    with InputFile(str(tmp_path / "a.index")) as file, pytest.raises(DataLossError, match="bad entry"):
        list(SortedTable(file))


def test_the_keys_of_all_blocks_together_are_bounded(tmp_path):
    with OutputFile(str(tmp_path / "a.index")) as file:
        table = TableWriter(file, block_size=100)
        for k in range(100):
            table.add(b"the beginning of each key is the same, " + bytes([k]), b"")
        table.finish()
        file.commit()

    with InputFile(str(tmp_path / "a.index")) as file, pytest.raises(DataLossError, match="bad entry"):
        list(SortedTable(file, max_keys=1000))


def test_thousands_of_scattered_slices_are_too_few_at_once():
    scattered = [((k, k + 1), (k, k + 1)) for k in range(3000)]
    before = process_time()

    assert not covers(scattered, ((0, 3000), (0, 3000)))

    assert process_time() - before < 1, "of the processor; comparing each with each takes minutes"


@pytest.mark.slow
def test_slices_that_overlap_in_too_many_ways_are_refused():
    rng = np.random.default_rng(0)
    low = rng.integers(0, 200, (20_000, 3))
    boxes = [tuple((int(a), int(a) + 20) for a in corner) for corner in low]

    with pytest.raises(InvalidArgumentError, match="overlap in too many ways"):
        covers(boxes, ((0, 230),) * 3)


def test_thousands_of_slices_along_one_dimension_cover_in_any_order():
    slices = [((k, k + 1), (0, 4)) for k in np.random.default_rng(0).permutation(5000).tolist()]

    assert covers(slices, ((0, 5000), (0, 4)))
