"""Interleaved datasets that compute elements ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.data.arguments import int64_tensor
from aioexec.data.dataset import Dataset, spec_of_dataset
from aioexec.data.functions import traced
from aioexec.graph.convert import convert_to_tensor


def interleaved(
    dataset: Dataset,
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Dataset:
    """Return the elements of the datasets of a function, as `experimental.parallel_interleave` does.

    Raises:
        GraphTypeError: the function returns something else.
    """
    function = traced(map_func, "tf_data_experimental_parallel_interleave", dataset.element_spec)
    outputs = 2 * block_length if buffer_output_elements is None else buffer_output_elements
    inputs = 2 * cycle_length if prefetch_input_elements is None else prefetch_input_elements
    return dataset._mapped(
        "ParallelInterleaveDataset",
        function,
        int64_tensor(cycle_length, "cycle_length"),
        int64_tensor(block_length, "block_length"),
        convert_to_tensor(sloppy, dtypes.bool, name="sloppy"),
        int64_tensor(outputs, "buffer_output_elements"),
        int64_tensor(inputs, "prefetch_input_elements"),
        spec=spec_of_dataset(function, "map_func"),
    )
