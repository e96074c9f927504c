"""Fully connected layers of `tf.contrib.layers`; see `convolutions` for the arguments that layers share."""

from __future__ import annotations

import functools
from typing import Any

from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import apply_layer
from aioexec.contrib.layers.convolutions import Activation, Normalizer
from aioexec.contrib.layers.initializers import XAVIER
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ZEROS
from aioexec.layers.core import Dense
from aioexec.ops.nn.activations import elu as nn_elu, relu as nn_relu, relu6 as nn_relu6


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
    activation_fn: Activation = nn_relu,
    normalizer_fn: Normalizer = None,
    normalizer_params: Any = None,
    weights_initializer: Any = XAVIER,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """Multiply inputs `[..., channels]` by `weights` `[channels, num_outputs]`, then normalize or add `biases`.

    Raises:
        GraphValueError: `num_outputs` is no integer, or the number of channels is not known.
    """
    if not isinstance(num_outputs, int):
        raise GraphValueError(f"num_outputs type should be int, got {type(num_outputs).__name__}.")
    return apply_layer(
        Dense,
        "fully_connected",
        locals(),
        units=num_outputs,
        kernel_initializer=weights_initializer,
        kernel_regularizer=weights_regularizer,
    )


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=nn_relu)
relu6 = functools.partial(fully_connected, activation_fn=nn_relu6)
elu = functools.partial(fully_connected, activation_fn=nn_elu)
