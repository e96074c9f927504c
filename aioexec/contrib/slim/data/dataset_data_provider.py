"""The samples of a data set, read by several readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec.contrib.slim.data.data_provider import DataProvider
from aioexec.contrib.slim.data.parallel_reader import parallel_read
from aioexec.errors import GraphValueError


class DatasetDataProvider(DataProvider):
    """Provides the samples of a Dataset. Blocks while it looks for files.

    Args:
        num_readers, reader_kwargs, shuffle, num_epochs, seed, scope: see `parallel_read`.
        common_queue_capacity, common_queue_min: of the queue of records.
        record_key: the name of a further item, the key of the record.

    Raises:
        GraphValueError: the data set has no files, or an item named as `record_key`.
    """

    def __init__(
        self,
        dataset: Any,
        num_readers: int = 1,
        reader_kwargs: Mapping[str, Any] | None = None,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
        scope: str | None = None,
    ) -> None:
        key, data = parallel_read(
            dataset.data_sources,
            reader_class=dataset.reader,
            num_epochs=num_epochs,
            num_readers=num_readers,
            reader_kwargs=reader_kwargs,
            shuffle=shuffle,
            capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min,
            seed=seed,
            scope=scope,
        )
        items = dataset.decoder.list_items()
        if record_key in items:
            raise GraphValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: {record_key}"
            )
        tensors = dict(zip(items, dataset.decoder.decode(data, items), strict=True))
        super().__init__({**tensors, record_key: key}, dataset.num_samples)
