"""Residual networks in their first version: activations follow the sums (He et al., 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.collecting import collect_named_outputs
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.formats import last_dimension
from aioexec.contrib.slim.nets import resnet_utils as resnet_utils
from aioexec.contrib.slim.nets.classifiers import EndPoints, collected, for_images_of
from aioexec.contrib.slim.nets.resnet_utils import (
    Block,
    conv2d_same,
    head,
    network_of,
    normalizing,
    resnet_arg_scope as resnet_arg_scope,
    root,
    stack_blocks_dense,
    subsample,
)
from aioexec.graph.node import Tensor
from aioexec.ops.nn.activations import relu
from aioexec.ops.state.variable_scope import variable_scope


@add_arg_scope
def bottleneck(
    inputs: Tensor,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Tensor:
    """A residual unit of three convolutions, of which the second has fewer channels, `depth_bottleneck`."""
    with variable_scope(scope, "bottleneck_v1", [inputs]) as opened:
        if depth == last_dimension(inputs.shape, min_rank=4):
            shortcut = subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
        residual = conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3")
        output: Tensor = collect_named_outputs(outputs_collections, opened.name, relu(shortcut + residual))
        return output


def resnet_v1_block(scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """A block of units with `4 * base_depth` channels, of which the last has the stride."""
    unit = {"depth": 4 * base_depth, "depth_bottleneck": base_depth, "stride": 1}
    return Block(scope, bottleneck, [unit] * (num_units - 1) + [{**unit, "stride": stride}])


@for_images_of(224)
def resnet_v1(
    inputs: Any,
    blocks: Sequence[Block],
    num_classes: int | None = None,
    is_training: Any = None,
    global_pool: bool = True,
    output_stride: int | None = None,
    include_root_block: bool = True,
    reuse: Any = None,
    scope: Any = None,
) -> tuple[Tensor, EndPoints]:
    """Build a residual network of given blocks.

    Args:
        inputs: [batch, rows, columns, channels].
        num_classes: of the layer `logits`, which is left out with None.
        is_training: whether batch normalization trains; None: as the argument scopes say.
        global_pool: average over rows and columns.
        output_stride: rows of the inputs for each row of the features, a multiple of 4; None: all strides of the blocks.
        include_root_block: begin with the convolution and the pooling, of stride 4 together.

    Returns:
        The logits or features, and the outputs of units and blocks by name, with `predictions` if there are classes.

    Raises:
        GraphValueError: the blocks do not have the stride `output_stride`.
    """
    layers = [conv2d, bottleneck, stack_blocks_dense]
    with collected(scope, "resnet_v1", inputs, layers, reuse) as (_, end_points), normalizing(is_training):
        net = inputs
        if include_root_block:
            net, output_stride = root(net, output_stride)
        net = stack_blocks_dense(net, blocks, output_stride)
        return head(net, num_classes, global_pool, end_points)


resnet_v1_50 = network_of(resnet_v1, resnet_v1_block, 50, (3, 4, 6, 3))
resnet_v1_101 = network_of(resnet_v1, resnet_v1_block, 101, (3, 4, 23, 3))
resnet_v1_152 = network_of(resnet_v1, resnet_v1_block, 152, (3, 8, 36, 3))
resnet_v1_200 = network_of(resnet_v1, resnet_v1_block, 200, (3, 24, 36, 3))
