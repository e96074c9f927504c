"""Decoders in while loops, attention and beam search, under the names of `tf.contrib.seq2seq`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib.seq2seq.attention import (
        AttentionMechanism as AttentionMechanism,
        BahdanauAttention as BahdanauAttention,
        LuongAttention as LuongAttention,
    )
    from aioexec.contrib.seq2seq.attention_wrapper import (
        AttentionWrapper as AttentionWrapper,
        AttentionWrapperState as AttentionWrapperState,
    )
    from aioexec.contrib.seq2seq.basic_decoder import (
        BasicDecoder as BasicDecoder,
        BasicDecoderOutput as BasicDecoderOutput,
    )
    from aioexec.contrib.seq2seq.beam_search import (
        BeamSearchDecoder as BeamSearchDecoder,
        BeamSearchDecoderOutput as BeamSearchDecoderOutput,
        BeamSearchDecoderState as BeamSearchDecoderState,
        FinalBeamSearchDecoderOutput as FinalBeamSearchDecoderOutput,
    )
    from aioexec.contrib.seq2seq.beams import (
        gather_tree as gather_tree,
        gather_tree_from_array as gather_tree_from_array,
        tile_batch as tile_batch,
    )
    from aioexec.contrib.seq2seq.decoder import Decoder as Decoder, dynamic_decode as dynamic_decode
    from aioexec.contrib.seq2seq.helpers import (
        CustomHelper as CustomHelper,
        GreedyEmbeddingHelper as GreedyEmbeddingHelper,
        Helper as Helper,
        InferenceHelper as InferenceHelper,
        SampleEmbeddingHelper as SampleEmbeddingHelper,
        TrainingHelper as TrainingHelper,
    )
    from aioexec.contrib.seq2seq.loss import sequence_loss as sequence_loss
    from aioexec.contrib.seq2seq.monotonic import (
        BahdanauMonotonicAttention as BahdanauMonotonicAttention,
        LuongMonotonicAttention as LuongMonotonicAttention,
        hardmax as hardmax,
        monotonic_attention as monotonic_attention,
        safe_cumprod as safe_cumprod,
    )
    from aioexec.contrib.seq2seq.scheduled_helpers import (
        ScheduledEmbeddingTrainingHelper as ScheduledEmbeddingTrainingHelper,
        ScheduledOutputTrainingHelper as ScheduledOutputTrainingHelper,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
