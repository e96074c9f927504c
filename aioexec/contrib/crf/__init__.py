"""Linear-chain conditional random fields under the names of `tf.contrib.crf`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.crf.decoding import (
        CrfDecodeBackwardRnnCell as CrfDecodeBackwardRnnCell,
        CrfDecodeForwardRnnCell as CrfDecodeForwardRnnCell,
        crf_decode as crf_decode,
        viterbi_decode as viterbi_decode,
    )
    from aioexec.contrib.crf.scores import (
        CrfForwardRnnCell as CrfForwardRnnCell,
        crf_binary_score as crf_binary_score,
        crf_log_likelihood as crf_log_likelihood,
        crf_log_norm as crf_log_norm,
        crf_multitag_sequence_score as crf_multitag_sequence_score,
        crf_sequence_score as crf_sequence_score,
        crf_unary_score as crf_unary_score,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
