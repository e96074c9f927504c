"""Further transformations under the names of `tf.data.experimental`: most return a function for `Dataset.apply`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.data.dataset import AUTOTUNE as AUTOTUNE
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
        map_and_batch_with_legacy_function as map_and_batch_with_legacy_function,
        parallel_interleave as parallel_interleave,
        prefetch_to_device as prefetch_to_device,
        scan as scan,
        shuffle_and_repeat as shuffle_and_repeat,
        take_while as take_while,
        unbatch as unbatch,
        unique as unique,
    )
    from aioexec.data.options import (
        OptimizationOptions as OptimizationOptions,
        StatsOptions as StatsOptions,
        ThreadingOptions as ThreadingOptions,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
