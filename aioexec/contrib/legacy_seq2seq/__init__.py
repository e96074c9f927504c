"""Sequence-to-sequence models over Python lists of steps, under the names of `tf.contrib.legacy_seq2seq`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.legacy_seq2seq.attention import (
        attention_decoder as attention_decoder,
        embedding_attention_decoder as embedding_attention_decoder,
        embedding_attention_seq2seq as embedding_attention_seq2seq,
    )
    from aioexec.contrib.legacy_seq2seq.decoders import (
        embedding_rnn_decoder as embedding_rnn_decoder,
        rnn_decoder as rnn_decoder,
    )
    from aioexec.contrib.legacy_seq2seq.losses import (
        model_with_buckets as model_with_buckets,
        sequence_loss as sequence_loss,
        sequence_loss_by_example as sequence_loss_by_example,
    )
    from aioexec.contrib.legacy_seq2seq.models import (
        basic_rnn_seq2seq as basic_rnn_seq2seq,
        embedding_rnn_seq2seq as embedding_rnn_seq2seq,
        embedding_tied_rnn_seq2seq as embedding_tied_rnn_seq2seq,
        one2many_rnn_seq2seq as one2many_rnn_seq2seq,
        tied_rnn_seq2seq as tied_rnn_seq2seq,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
