"""Neural network ops under the names of `tf.nn`."""

from __future__ import annotations

from aioexec.ops.activations import (
    elu as elu,
    leaky_relu as leaky_relu,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    softplus as softplus,
    softsign as softsign,
)
from aioexec.ops.conv import (
    atrous_conv2d as atrous_conv2d,
    conv2d as conv2d,
    conv2d_backprop_filter as conv2d_backprop_filter,
    conv2d_backprop_input as conv2d_backprop_input,
    conv2d_transpose as conv2d_transpose,
)
from aioexec.ops.math_functions import (
    sigmoid as sigmoid,
    tanh as tanh,
)
from aioexec.ops.pool import (
    avg_pool as avg_pool,
    max_pool as max_pool,
)
from aioexec.ops.random import (
    dropout as dropout,
)
from aioexec.ops.softmax import (
    log_softmax as log_softmax,
    softmax as softmax,
)
from aioexec.ops.statistics import (
    moments as moments,
    zero_fraction as zero_fraction,
)
