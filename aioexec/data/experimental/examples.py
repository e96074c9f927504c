"""Datasets of the features of Examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.data.dataset import AUTOTUNE, Dataset
from aioexec.data.experimental.transformations import Transformation, shuffled_epochs
from aioexec.data.readers import TFRecordDataset
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.io.example_functions import parse_example


def parse_example_dataset(features: Mapping[str, Any] | None, num_parallel_calls: Any = 1) -> Transformation:
    """Parse batches of serialised Examples to dicts of tensors and SparseTensors; see `parse_example`.

    Raises:
        GraphValueError: there are no features.
        GraphTypeError: elements are no vectors of strings.
    """
    if features is None:
        raise GraphValueError("Missing: features was None.")

    def transformed(dataset: Dataset) -> Dataset:
        if dataset.output_types != dtypes.string or dataset.output_shapes.ndims not in (1, None):
            raise GraphTypeError("Input dataset should be a dataset of vectors of strings")
        return dataset.map(
            lambda serialized: parse_example(serialized, features), num_parallel_calls=num_parallel_calls
        )

    return transformed


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: Any,
    features: Mapping[str, Any],
    reader: Callable[..., Any] = TFRecordDataset,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = AUTOTUNE,
    reader_num_threads: int = 1,
    parser_num_threads: Any = 2,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Return batches of parsed Examples of files, as dicts, or as pairs with the feature `label_key`.

    Args:
        reader: from a name (and `reader_args`) to a dataset of serialised Examples.
        num_epochs: repetitions; endless by default.
        reader_num_threads: files read at once.

    Raises:
        GraphValueError: `label_key` is no feature.
    """
    names = Dataset.list_files(file_pattern, shuffle=shuffle, seed=shuffle_seed)
    arguments = list(reader_args or [])
    if reader_num_threads == 1 and not sloppy_ordering:
        dataset = names.flat_map(lambda name: reader(name, *arguments))
    else:
        dataset = names.interleave(
            lambda name: reader(name, *arguments),
            cycle_length=reader_num_threads,
            num_parallel_calls=reader_num_threads,
        )
    dataset = shuffled_epochs(dataset, num_epochs, shuffle_buffer_size if shuffle else None, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(parse_example_dataset(features, num_parallel_calls=parser_num_threads))
    if label_key is not None:
        if label_key not in features:
            raise GraphValueError(
                f"The `label_key` provided ({label_key!r}) must be one of the `features` keys."
            )
        dataset = dataset.map(lambda parsed: (parsed, parsed.pop(label_key)))
    return dataset.prefetch(prefetch_buffer_size)
