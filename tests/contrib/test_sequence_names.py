"""The names of `tf.contrib` for sequences: recurrent cells, encoders and decoders, conditional random fields."""

from __future__ import annotations

import importlib

import pytest

NAMES = {
    "crf": """
CrfDecodeBackwardRnnCell CrfDecodeForwardRnnCell CrfForwardRnnCell crf_binary_score crf_decode crf_log_likelihood
crf_log_norm crf_multitag_sequence_score crf_sequence_score crf_unary_score viterbi_decode
""",
    "cudnn_rnn": """
CUDNN_INPUT_AUTO_MODE CUDNN_INPUT_LINEAR_MODE CUDNN_INPUT_SKIP_MODE CUDNN_RNN_BIDIRECTION CUDNN_RNN_UNIDIRECTION
CudnnCompatibleGRUCell CudnnCompatibleLSTMCell CudnnGRU CudnnLSTM CudnnRNNRelu CudnnRNNTanh
""",
    "legacy_seq2seq": """
attention_decoder basic_rnn_seq2seq embedding_attention_decoder embedding_attention_seq2seq embedding_rnn_decoder
embedding_rnn_seq2seq embedding_tied_rnn_seq2seq model_with_buckets one2many_rnn_seq2seq rnn_decoder sequence_loss
sequence_loss_by_example tied_rnn_seq2seq
""",
    "rnn": """
AttentionCellWrapper BasicLSTMCell BasicRNNCell BidirectionalGridLSTMCell CFNCell CompiledWrapper Conv1DLSTMCell
Conv2DLSTMCell Conv3DLSTMCell ConvLSTMCell CoupledInputForgetGateLSTMCell DeviceWrapper DropoutWrapper EmbeddingWrapper
FusedRNNCell FusedRNNCellAdaptor GLSTMCell GRUBlockCell GRUBlockCellV2 GRUCell GridLSTMCell HighwayWrapper IndRNNCell
IndyGRUCell IndyLSTMCell InputProjectionWrapper IntersectionRNNCell LSTMBlockCell LSTMBlockFusedCell LSTMBlockWrapper
LSTMCell LSTMStateTuple LayerNormBasicLSTMCell LayerNormLSTMCell LayerRNNCell MinimalRNNCell MultiRNNCell NASCell
OutputProjectionWrapper PhasedLSTMCell RNNCell ResidualWrapper SRUCell TimeFreqLSTMCell TimeReversedFusedRNN UGRNNCell
WeightNormLSTMCell rnn_cell stack_bidirectional_dynamic_rnn stack_bidirectional_rnn static_bidirectional_rnn static_rnn
static_state_saving_rnn transpose_batch_time
""",
    "seq2seq": """
AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention BahdanauMonotonicAttention BasicDecoder
BasicDecoderOutput BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState CustomHelper Decoder
FinalBeamSearchDecoderOutput GreedyEmbeddingHelper Helper InferenceHelper LuongAttention LuongMonotonicAttention
SampleEmbeddingHelper ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper TrainingHelper dynamic_decode
gather_tree gather_tree_from_array hardmax monotonic_attention safe_cumprod sequence_loss tile_batch
""",
}
"""The names of modules of `tf.contrib` of TensorFlow 1.15, which are in the modules of `aioexec.contrib` of the same names."""


@pytest.mark.parametrize(("module", "names"), NAMES.items(), ids=NAMES)
def test_the_names_of_tensorflow_exist(module, names):
    found = importlib.import_module(f"aioexec.contrib.{module}")

    assert [name for name in names.split() if not hasattr(found, name)] == []
    assert [name for name in names.split() if not getattr(found, name).__doc__ and name.islower()] == []
    assert sorted(found.__all__) == sorted(names.split())
