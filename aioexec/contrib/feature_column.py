"""Columns of sequences, and their input layer, under the names of `tf.contrib.feature_column`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.feature_column.sequence_input import (
        concatenate_context_input as concatenate_context_input,
        sequence_input_layer as sequence_input_layer,
    )
    from aioexec.feature_column.sequences import (
        sequence_categorical_column_with_hash_bucket as sequence_categorical_column_with_hash_bucket,
        sequence_categorical_column_with_identity as sequence_categorical_column_with_identity,
        sequence_categorical_column_with_vocabulary_file as sequence_categorical_column_with_vocabulary_file,
        sequence_categorical_column_with_vocabulary_list as sequence_categorical_column_with_vocabulary_list,
        sequence_numeric_column as sequence_numeric_column,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
