"""Datasets under the names of `tf.data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.data import experimental as experimental
    from aioexec.data.dataset import Dataset as Dataset
    from aioexec.data.iterator import (
        Iterator as Iterator,
        get_output_classes as get_output_classes,
        get_output_shapes as get_output_shapes,
        get_output_types as get_output_types,
        make_initializable_iterator as make_initializable_iterator,
        make_one_shot_iterator as make_one_shot_iterator,
    )
    from aioexec.data.options import Options as Options
    from aioexec.data.readers import (
        FixedLengthRecordDataset as FixedLengthRecordDataset,
        TextLineDataset as TextLineDataset,
        TFRecordDataset as TFRecordDataset,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
