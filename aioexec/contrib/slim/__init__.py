"""Layers, losses, training and evaluation under the names of `tf.contrib.slim`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.contrib import layers as layers, losses as losses, metrics as metrics
    from aioexec.contrib.framework.arg_scopes import (
        add_arg_scope as add_arg_scope,
        arg_scope as arg_scope,
        arg_scoped_arguments as arg_scoped_arguments,
        current_arg_scope as current_arg_scope,
        has_arg_scope as has_arg_scope,
    )
    from aioexec.contrib.framework.assignments import (
        assign_from_checkpoint as assign_from_checkpoint,
        assign_from_checkpoint_fn as assign_from_checkpoint_fn,
        assign_from_values as assign_from_values,
        assign_from_values_fn as assign_from_values_fn,
    )
    from aioexec.contrib.framework.selection import (
        filter_variables as filter_variables,
        get_local_variables as get_local_variables,
        get_model_variables as get_model_variables,
        get_trainable_variables as get_trainable_variables,
        get_unique_variable as get_unique_variable,
        get_variable_full_name as get_variable_full_name,
        get_variables as get_variables,
        get_variables_by_name as get_variables_by_name,
        get_variables_by_suffix as get_variables_by_suffix,
        get_variables_to_restore as get_variables_to_restore,
    )
    from aioexec.contrib.framework.tensors import assert_or_get_global_step as assert_or_get_global_step
    from aioexec.contrib.framework.variables import (
        add_model_variable as add_model_variable,
        global_variable as global_variable,
        local_variable as local_variable,
        model_variable as model_variable,
        variable as variable,
    )
    from aioexec.contrib.layers import (
        initializers as initializers,
        regularizers as regularizers,
        utils as utils,
    )
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
    from aioexec.contrib.layers.initializers import (
        variance_scaling_initializer as variance_scaling_initializer,
        xavier_initializer as xavier_initializer,
        xavier_initializer_conv2d as xavier_initializer_conv2d,
    )
    from aioexec.contrib.layers.normalizations import (
        group_norm as group_norm,
        instance_norm as instance_norm,
        layer_norm as layer_norm,
        unit_norm as unit_norm,
    )
    from aioexec.contrib.layers.pooling import (
        avg_pool2d as avg_pool2d,
        avg_pool3d as avg_pool3d,
        max_pool2d as max_pool2d,
        max_pool3d as max_pool3d,
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
    from aioexec.contrib.slim import (
        evaluation as evaluation,
        learning as learning,
        model_analyzer as model_analyzer,
        nets as nets,
        queues as queues,
        summaries as summaries,
        variables as variables,
    )
    from aioexec.contrib.slim.data import (
        data_decoder as data_decoder,
        data_provider as data_provider,
        dataset as dataset,
        dataset_data_provider as dataset_data_provider,
        parallel_reader as parallel_reader,
        prefetch_queue as prefetch_queue,
        tfexample_decoder as tfexample_decoder,
    )
    from aioexec.train.global_steps import (
        create_global_step as create_global_step,
        get_global_step as get_global_step,
        get_or_create_global_step as get_or_create_global_step,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
