"""Feature columns under the names of `tf.feature_column`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.feature_column.categorical import (
        categorical_column_with_hash_bucket as categorical_column_with_hash_bucket,
        categorical_column_with_identity as categorical_column_with_identity,
        categorical_column_with_vocabulary_file as categorical_column_with_vocabulary_file,
        categorical_column_with_vocabulary_list as categorical_column_with_vocabulary_list,
    )
    from aioexec.feature_column.combined import (
        crossed_column as crossed_column,
        weighted_categorical_column as weighted_categorical_column,
    )
    from aioexec.feature_column.embedding import (
        embedding_column as embedding_column,
        indicator_column as indicator_column,
        shared_embedding_columns as shared_embedding_columns,
    )
    from aioexec.feature_column.input_layers import (
        input_layer as input_layer,
        make_parse_example_spec as make_parse_example_spec,
    )
    from aioexec.feature_column.linear_models import linear_model as linear_model
    from aioexec.feature_column.numeric import (
        bucketized_column as bucketized_column,
        numeric_column as numeric_column,
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
