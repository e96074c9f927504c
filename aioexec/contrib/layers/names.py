"""The public names of `aioexec.contrib.layers`, which TensorFlow has in several modules."""

from aioexec.contrib.layers.batch_normalization import batch_norm as batch_norm
from aioexec.contrib.layers.compositions import (
    repeat as repeat,
    spatial_softmax as spatial_softmax,
    stack as stack,
)
from aioexec.contrib.layers.convolutions import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv2d_transpose as conv2d_transpose,
    conv3d as conv3d,
    conv3d_transpose as conv3d_transpose,
    convolution as convolution,
    convolution1d as convolution1d,
    convolution2d as convolution2d,
    convolution2d_transpose as convolution2d_transpose,
    convolution3d as convolution3d,
    convolution3d_transpose as convolution3d_transpose,
)
from aioexec.contrib.layers.dense import (
    elu as elu,
    fully_connected as fully_connected,
    linear as linear,
    relu as relu,
    relu6 as relu6,
)
from aioexec.contrib.layers.depthwise import (
    conv2d_in_plane as conv2d_in_plane,
    convolution2d_in_plane as convolution2d_in_plane,
    separable_conv2d as separable_conv2d,
    separable_convolution2d as separable_convolution2d,
)
from aioexec.contrib.layers.embeddings import (
    bow_encoder as bow_encoder,
    embed_sequence as embed_sequence,
    embedding_lookup_unique as embedding_lookup_unique,
    safe_embedding_lookup_sparse as safe_embedding_lookup_sparse,
)
from aioexec.contrib.layers.initializers import (
    variance_scaling_initializer as variance_scaling_initializer,
    xavier_initializer as xavier_initializer,
    xavier_initializer_conv2d as xavier_initializer_conv2d,
)
from aioexec.contrib.layers.normalizations import (
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    poincare_normalize as poincare_normalize,
    unit_norm as unit_norm,
)
from aioexec.contrib.layers.optimization import (
    OPTIMIZER_CLS_NAMES as OPTIMIZER_CLS_NAMES,
    OPTIMIZER_SUMMARIES as OPTIMIZER_SUMMARIES,
    adaptive_clipping_fn as adaptive_clipping_fn,
    optimize_loss as optimize_loss,
)
from aioexec.contrib.layers.pooling import (
    avg_pool2d as avg_pool2d,
    avg_pool3d as avg_pool3d,
    max_pool2d as max_pool2d,
    max_pool3d as max_pool3d,
    pool as pool,
)
from aioexec.contrib.layers.regularizers import (
    apply_regularization as apply_regularization,
    l1_l2_regularizer as l1_l2_regularizer,
    l1_regularizer as l1_regularizer,
    l2_regularizer as l2_regularizer,
    sum_regularizer as sum_regularizer,
)
from aioexec.contrib.layers.reshaping import (
    bias_add as bias_add,
    dense_to_sparse as dense_to_sparse,
    dropout as dropout,
    flatten as flatten,
    images_to_sequence as images_to_sequence,
    maxout as maxout,
    one_hot_encoding as one_hot_encoding,
    sequence_to_images as sequence_to_images,
    softmax as softmax,
)
from aioexec.contrib.layers.summaries import (
    summarize_activation as summarize_activation,
    summarize_activations as summarize_activations,
    summarize_biases as summarize_biases,
    summarize_collection as summarize_collection,
    summarize_tensor as summarize_tensor,
    summarize_tensors as summarize_tensors,
    summarize_variables as summarize_variables,
    summarize_weights as summarize_weights,
)
