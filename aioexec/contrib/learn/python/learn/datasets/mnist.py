"""`contrib.learn.datasets.mnist` at the place of its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.learn.datasets.mnist import (
        DEFAULT_SOURCE_URL as DEFAULT_SOURCE_URL,
        DataSet as DataSet,
        dense_to_one_hot as dense_to_one_hot,
        extract_images as extract_images,
        extract_labels as extract_labels,
        load_mnist as load_mnist,
        read_data_sets as read_data_sets,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
