"""Files, records and Examples under the names of `tf.io`."""

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
    from aioexec.io import gfile as gfile
    from aioexec.ops.containers.queue_class import (
        PaddingFIFOQueue as PaddingFIFOQueue,
        PriorityQueue as PriorityQueue,
        QueueBase as QueueBase,
        RandomShuffleQueue as RandomShuffleQueue,
    )
    from aioexec.ops.image.codecs import (
        decode_and_crop_jpeg as decode_and_crop_jpeg,
        decode_bmp as decode_bmp,
        decode_gif as decode_gif,
        decode_image as decode_image,
        decode_jpeg as decode_jpeg,
        decode_png as decode_png,
        encode_jpeg as encode_jpeg,
        encode_png as encode_png,
        extract_jpeg_shape as extract_jpeg_shape,
        is_jpeg as is_jpeg,
    )
    from aioexec.ops.io.decoding import decode_csv as decode_csv, decode_raw as decode_raw
    from aioexec.ops.io.example_functions import (
        FixedLenFeature as FixedLenFeature,
        FixedLenSequenceFeature as FixedLenSequenceFeature,
        SparseFeature as SparseFeature,
        VarLenFeature as VarLenFeature,
        parse_example as parse_example,
        parse_single_example as parse_single_example,
    )
    from aioexec.ops.io.files import (
        matching_files as matching_files,
        read_file as read_file,
        write_file as write_file,
    )
    from aioexec.ops.io.sequence_example_functions import (
        parse_single_sequence_example as parse_single_sequence_example,
    )
    from aioexec.ops.io.tensor_protos import (
        parse_tensor as parse_tensor,
        serialize_tensor as serialize_tensor,
    )
    from aioexec.ops.sparse.conversions import (
        deserialize_many_sparse as deserialize_many_sparse,
        serialize_many_sparse as serialize_many_sparse,
        serialize_sparse as serialize_sparse,
    )
    from aioexec.ops.strings.functions import decode_base64 as decode_base64, encode_base64 as encode_base64
    from aioexec.train.checkpoints.graph_files import write_graph as write_graph
    from aioexec.train.input.input_producers import match_filenames_once as match_filenames_once
else:
    __getattr__, __dir__ = public_names(__name__)
