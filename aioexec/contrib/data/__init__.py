"""Datasets under the names of `tf.contrib.data`: those of `aioexec.data` and `aioexec.data.experimental`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.data.batches import (
        assert_element_shape as assert_element_shape,
        batch_and_drop_remainder as batch_and_drop_remainder,
        padded_batch_and_drop_remainder as padded_batch_and_drop_remainder,
        sliding_window_batch as sliding_window_batch,
        sloppy_interleave as sloppy_interleave,
    )
    from aioexec.data.dataset import AUTOTUNE as AUTOTUNE, Dataset as Dataset
    from aioexec.data.experimental.bucketing import (
        bucket_by_sequence_length as bucket_by_sequence_length,
        group_by_window as group_by_window,
    )
    from aioexec.data.experimental.csv_files import (
        CsvDataset as CsvDataset,
        make_csv_dataset as make_csv_dataset,
    )
    from aioexec.data.experimental.examples import (
        make_batched_features_dataset as make_batched_features_dataset,
        parse_example_dataset as parse_example_dataset,
    )
    from aioexec.data.experimental.sampling import (
        RandomDataset as RandomDataset,
        choose_from_datasets as choose_from_datasets,
        sample_from_datasets as sample_from_datasets,
    )
    from aioexec.data.experimental.transformations import (
        Counter as Counter,
        copy_to_device as copy_to_device,
        dense_to_sparse_batch as dense_to_sparse_batch,
        enumerate_dataset as enumerate_dataset,
        get_single_element as get_single_element,
        ignore_errors as ignore_errors,
        map_and_batch as map_and_batch,
        parallel_interleave as parallel_interleave,
        prefetch_to_device as prefetch_to_device,
        scan as scan,
        shuffle_and_repeat as shuffle_and_repeat,
        unbatch as unbatch,
        unique as unique,
    )
    from aioexec.data.iterator import Iterator as Iterator
    from aioexec.data.readers import (
        FixedLengthRecordDataset as FixedLengthRecordDataset,
        TextLineDataset as TextLineDataset,
        TFRecordDataset as TFRecordDataset,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
