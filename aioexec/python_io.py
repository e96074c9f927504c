"""Record files under the names of `tf.python_io`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.files.record_files import (
        TFRecordCompressionType as TFRecordCompressionType,
        TFRecordOptions as TFRecordOptions,
        TFRecordWriter as TFRecordWriter,
        tf_record_iterator as tf_record_iterator,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
