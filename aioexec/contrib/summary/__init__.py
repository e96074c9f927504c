"""Summaries that a step itself writes to a file, under the names of `tf.contrib.summary`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.summary.recording import (
        always_record_summaries as always_record_summaries,
        never_record_summaries as never_record_summaries,
        record_summaries_every_n_global_steps as record_summaries_every_n_global_steps,
        should_record_summaries as should_record_summaries,
    )
    from aioexec.contrib.summary.summaries import (
        all_summary_ops as all_summary_ops,
        audio as audio,
        generic as generic,
        histogram as histogram,
        image as image,
        scalar as scalar,
    )
    from aioexec.contrib.summary.writers import (
        SummaryWriter as SummaryWriter,
        create_file_writer as create_file_writer,
        create_summary_file_writer as create_summary_file_writer,
        flush as flush,
        initialize as initialize,
        summary_writer_initializer_op as summary_writer_initializer_op,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
