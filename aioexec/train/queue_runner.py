"""Queue runners under the names of `tf.train.queue_runner`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.train.input.queue_runner import (
        QueueRunner as QueueRunner,
        add_queue_runner as add_queue_runner,
        start_queue_runners as start_queue_runners,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
