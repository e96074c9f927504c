"""Neural network ops under the names of `tf.nn`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.array.space_and_batch import (
        depth_to_space as depth_to_space,
        space_to_batch as space_to_batch,
        space_to_depth as space_to_depth,
    )
    from aioexec.ops.convolution.conv import (
        atrous_conv2d as atrous_conv2d,
        conv2d as conv2d,
        conv2d_backprop_filter as conv2d_backprop_filter,
        conv2d_backprop_input as conv2d_backprop_input,
        conv2d_transpose as conv2d_transpose,
    )
    from aioexec.ops.convolution.conv3d import (
        conv3d as conv3d,
        conv3d_backprop_filter_v2 as conv3d_backprop_filter,
        conv3d_backprop_filter_v2 as conv3d_backprop_filter_v2,
        conv3d_transpose as conv3d_transpose,
    )
    from aioexec.ops.convolution.depthwise import (
        depthwise_conv2d as depthwise_conv2d,
        depthwise_conv2d_backprop_filter as depthwise_conv2d_backprop_filter,
        depthwise_conv2d_backprop_filter as depthwise_conv2d_native_backprop_filter,
        depthwise_conv2d_backprop_input as depthwise_conv2d_backprop_input,
        depthwise_conv2d_backprop_input as depthwise_conv2d_native_backprop_input,
        depthwise_conv2d_native as depthwise_conv2d_native,
        separable_conv2d as separable_conv2d,
    )
    from aioexec.ops.convolution.functions import (
        atrous_conv2d_transpose as atrous_conv2d_transpose,
        conv1d as conv1d,
        conv1d_transpose as conv1d_transpose,
        conv_transpose as conv_transpose,
        convolution as convolution,
        with_space_to_batch as with_space_to_batch,
    )
    from aioexec.ops.math.math_functions import sigmoid as sigmoid, tanh as tanh
    from aioexec.ops.nn.activations import (
        crelu as crelu,
        elu as elu,
        leaky_relu as leaky_relu,
        relu as relu,
        relu6 as relu6,
        selu as selu,
        softplus as softplus,
        softsign as softsign,
        swish as silu,
        swish as swish,
    )
    from aioexec.ops.nn.cross_entropy import (
        log_poisson_loss as log_poisson_loss,
        sigmoid_cross_entropy_with_logits as sigmoid_cross_entropy_with_logits,
        softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
        softmax_cross_entropy_with_logits_v2 as softmax_cross_entropy_with_logits_v2,
        sparse_softmax_cross_entropy_with_logits as sparse_softmax_cross_entropy_with_logits,
        weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
    )
    from aioexec.ops.nn.ctc_functions import (
        collapse_repeated as collapse_repeated,
        ctc_beam_search_decoder as ctc_beam_search_decoder,
        ctc_beam_search_decoder_v2 as ctc_beam_search_decoder_v2,
        ctc_greedy_decoder as ctc_greedy_decoder,
        ctc_loss as ctc_loss,
        ctc_loss_v2 as ctc_loss_v2,
    )
    from aioexec.ops.nn.embedding import (
        embedding_lookup as embedding_lookup,
        embedding_lookup_sparse as embedding_lookup_sparse,
    )
    from aioexec.ops.nn.nn_ops import (
        bias_add as bias_add,
        in_top_k as in_top_k,
        l2_loss as l2_loss,
        l2_normalize as l2_normalize,
        relu_layer as relu_layer,
        top_k as top_k,
        xw_plus_b as xw_plus_b,
    )
    from aioexec.ops.nn.safe_lookup import safe_embedding_lookup_sparse as safe_embedding_lookup_sparse
    from aioexec.ops.nn.sampled_losses import (
        nce_loss as nce_loss,
        sampled_softmax_loss as sampled_softmax_loss,
    )
    from aioexec.ops.nn.softmax import log_softmax as log_softmax, softmax as softmax
    from aioexec.ops.normalization.functions import (
        batch_norm_with_global_normalization as batch_norm_with_global_normalization,
        batch_normalization as batch_normalization,
        fused_batch_norm as fused_batch_norm,
        normalize_moments as normalize_moments,
        sufficient_statistics as sufficient_statistics,
        weighted_moments as weighted_moments,
    )
    from aioexec.ops.normalization.local_response import (
        local_response_normalization as local_response_normalization,
        lrn as lrn,
    )
    from aioexec.ops.pooling.fractional import (
        fractional_avg_pool as fractional_avg_pool,
        fractional_max_pool as fractional_max_pool,
    )
    from aioexec.ops.pooling.functions import (
        avg_pool1d as avg_pool1d,
        avg_pool_v2 as avg_pool_v2,
        erosion2d as erosion2d,
        max_pool1d as max_pool1d,
        max_pool2d as max_pool2d,
        max_pool_v2 as max_pool_v2,
        pool as pool,
    )
    from aioexec.ops.pooling.patches import dilation2d as dilation2d
    from aioexec.ops.pooling.pool2d import avg_pool as avg_pool, avg_pool as avg_pool2d, max_pool as max_pool
    from aioexec.ops.pooling.pool3d import avg_pool3d as avg_pool3d, max_pool3d as max_pool3d
    from aioexec.ops.pooling.selection import max_pool_with_argmax as max_pool_with_argmax
    from aioexec.ops.random.candidate_samplers import (
        all_candidate_sampler as all_candidate_sampler,
        compute_accidental_hits as compute_accidental_hits,
        fixed_unigram_candidate_sampler as fixed_unigram_candidate_sampler,
        learned_unigram_candidate_sampler as learned_unigram_candidate_sampler,
        log_uniform_candidate_sampler as log_uniform_candidate_sampler,
        uniform_candidate_sampler as uniform_candidate_sampler,
    )
    from aioexec.ops.random.random_ops import dropout as dropout
    from aioexec.ops.reduction.statistics import moments as moments, zero_fraction as zero_fraction
    from aioexec.recurrent import rnn_cell as rnn_cell
    from aioexec.recurrent.dynamic import (
        bidirectional_dynamic_rnn as bidirectional_dynamic_rnn,
        dynamic_rnn as dynamic_rnn,
    )
    from aioexec.recurrent.raw import raw_rnn as raw_rnn
    from aioexec.recurrent.static import (
        static_bidirectional_rnn as static_bidirectional_rnn,
        static_rnn as static_rnn,
        static_state_saving_rnn as static_state_saving_rnn,
    )

    __all__ = [
        "all_candidate_sampler",
        "atrous_conv2d",
        "atrous_conv2d_transpose",
        "avg_pool",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "avg_pool_v2",
        "batch_norm_with_global_normalization",
        "batch_normalization",
        "bias_add",
        "bidirectional_dynamic_rnn",
        "collapse_repeated",
        "compute_accidental_hits",
        "conv1d",
        "conv1d_transpose",
        "conv2d",
        "conv2d_backprop_filter",
        "conv2d_backprop_input",
        "conv2d_transpose",
        "conv3d",
        "conv3d_backprop_filter",
        "conv3d_backprop_filter_v2",
        "conv3d_transpose",
        "conv_transpose",
        "convolution",
        "crelu",
        "ctc_beam_search_decoder",
        "ctc_beam_search_decoder_v2",
        "ctc_greedy_decoder",
        "ctc_loss",
        "ctc_loss_v2",
        "depth_to_space",
        "depthwise_conv2d",
        "depthwise_conv2d_backprop_filter",
        "depthwise_conv2d_backprop_input",
        "depthwise_conv2d_native",
        "depthwise_conv2d_native_backprop_filter",
        "depthwise_conv2d_native_backprop_input",
        "dilation2d",
        "dropout",
        "dynamic_rnn",
        "elu",
        "embedding_lookup",
        "embedding_lookup_sparse",
        "erosion2d",
        "fixed_unigram_candidate_sampler",
        "fractional_avg_pool",
        "fractional_max_pool",
        "fused_batch_norm",
        "in_top_k",
        "l2_loss",
        "l2_normalize",
        "leaky_relu",
        "learned_unigram_candidate_sampler",
        "local_response_normalization",
        "log_poisson_loss",
        "log_softmax",
        "log_uniform_candidate_sampler",
        "lrn",
        "max_pool",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "max_pool_v2",
        "max_pool_with_argmax",
        "moments",
        "nce_loss",
        "normalize_moments",
        "pool",
        "raw_rnn",
        "relu",
        "relu6",
        "relu_layer",
        "rnn_cell",
        "safe_embedding_lookup_sparse",
        "sampled_softmax_loss",
        "selu",
        "separable_conv2d",
        "sigmoid",
        "sigmoid_cross_entropy_with_logits",
        "silu",
        "softmax",
        "softmax_cross_entropy_with_logits",
        "softmax_cross_entropy_with_logits_v2",
        "softplus",
        "softsign",
        "space_to_batch",
        "space_to_depth",
        "sparse_softmax_cross_entropy_with_logits",
        "static_bidirectional_rnn",
        "static_rnn",
        "static_state_saving_rnn",
        "sufficient_statistics",
        "swish",
        "tanh",
        "top_k",
        "uniform_candidate_sampler",
        "weighted_cross_entropy_with_logits",
        "weighted_moments",
        "with_space_to_batch",
        "xw_plus_b",
        "zero_fraction",
    ]
else:
    __getattr__, __dir__ = public_names(__name__)
