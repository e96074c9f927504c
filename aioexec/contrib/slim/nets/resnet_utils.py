"""What both versions of residual networks share: blocks of units, subsampling, and the arguments of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from aioexec.contrib.framework.arg_scopes import add_arg_scope, arg_scope
from aioexec.contrib.layers.batch_normalization import batch_norm
from aioexec.contrib.layers.collecting import collect_named_outputs
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.initializers import variance_scaling_initializer
from aioexec.contrib.layers.pooling import max_pool2d
from aioexec.contrib.layers.regularizers import l2_regularizer
from aioexec.contrib.layers.reshaping import softmax
from aioexec.contrib.slim.nets.classifiers import ArgumentScope, EndPoints, for_images_of
from aioexec.errors import GraphValueError
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.padding import pad
from aioexec.ops.nn.activations import relu
from aioexec.ops.reduction.reductions import reduce_mean
from aioexec.ops.state.variable_scope import variable_scope


class Block(NamedTuple):
    """Residual units in one scope.

    Attributes:
        scope: the scope.
        unit_fn: the unit, a function of the inputs and of `args`.
        args: the keyword arguments of each unit: `depth`, `depth_bottleneck` and `stride`.
    """

    scope: str
    unit_fn: Callable[..., Tensor]
    args: Sequence[dict[str, int]]


def subsample(inputs: Tensor, factor: int, scope: str | None = None) -> Tensor:
    """Keep each `factor`-th row and column."""
    return inputs if factor == 1 else max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(
    inputs: Tensor, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: str | None = None
) -> Tensor:
    """A convolution whose padding does not depend on the size of the image, as that of "SAME" does for strides above 1.

    Args:
        rate: the distance between the elements of the kernel.
    """
    padding = "SAME"
    if stride > 1:
        total = (kernel_size - 1) * rate
        before = total // 2
        inputs = pad(inputs, [[0, 0], [before, total - before], [before, total - before], [0, 0]])
        padding = "VALID"
    convolved: Tensor = conv2d(
        inputs, num_outputs, kernel_size, stride=stride, rate=rate, padding=padding, scope=scope
    )
    return convolved


@add_arg_scope
def stack_blocks_dense(
    net: Tensor, blocks: Sequence[Block], output_stride: int | None = None, outputs_collections: Any = None
) -> Tensor:
    """Apply the units of all blocks.

    Args:
        output_stride: the stride of the outputs against `net`; once it is reached, units have stride 1, and their kernels
            spread by the strides that are left out.

    Raises:
        GraphValueError: the units do not have this stride.
    """
    stride = rate = 1
    for block in blocks:
        with variable_scope(block.scope, "block", [net]) as scope:
            for number, unit in enumerate(block.args, 1):
                if output_stride is not None and stride > output_stride:
                    raise GraphValueError("The target output_stride cannot be reached.")
                own = unit.get("stride", 1)
                with variable_scope(f"unit_{number}", values=[net]):
                    if stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **{**unit, "stride": 1})
                        rate *= own
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        stride *= own
            net = collect_named_outputs(outputs_collections, scope.name, net)
    if output_stride is not None and stride != output_stride:
        raise GraphValueError("The target output_stride cannot be reached.")
    return net


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> ArgumentScope:
    """Return the arguments of layers in residual networks, for `arg_scope`.

    Args:
        weight_decay: the factor of the squares of weights in the losses of regularization.
        batch_norm_decay, batch_norm_epsilon, batch_norm_scale: of batch normalization, which follows each convolution.
    """
    normalization = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": GraphKeys.UPDATE_OPS,
    }
    with (
        arg_scope(
            [conv2d],
            weights_regularizer=l2_regularizer(weight_decay),
            weights_initializer=variance_scaling_initializer(),
            activation_fn=relu,
            normalizer_fn=batch_norm,
            normalizer_params=normalization,
        ),
        arg_scope([batch_norm], **normalization),
        arg_scope([max_pool2d], padding="SAME") as arguments,
    ):
        return arguments


@contextmanager
def normalizing(is_training: Any) -> Iterator[None]:
    """A scope in which batch normalization trains or not; with None, as the scopes around it say."""
    with nullcontext() if is_training is None else arg_scope([batch_norm], is_training=is_training):
        yield


def root(net: Tensor, output_stride: int | None) -> tuple[Tensor, int | None]:
    """Apply the first convolution and pooling, of stride 4 together; return the stride that is left for the blocks too.

    Raises:
        GraphValueError: `output_stride` is no multiple of 4.
    """
    if output_stride is not None:
        if output_stride % 4 != 0:
            raise GraphValueError("The output_stride needs to be a multiple of 4.")
        output_stride //= 4
    net = conv2d_same(net, 64, 7, stride=2, scope="conv1")
    return max_pool2d(net, [3, 3], stride=2, scope="pool1"), output_stride


def head(
    net: Tensor, num_classes: int | None, global_pool: bool, end_points: Callable[[], EndPoints]
) -> tuple[Tensor, EndPoints]:
    """Average over rows and columns, and apply the layer `logits` if there are classes: [batch, 1, 1, num_classes]."""
    if global_pool:
        net = reduce_mean(net, [1, 2], name="pool5", keepdims=True)
    if num_classes is None:
        return net, end_points()
    net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits")
    return net, end_points() | {"predictions": softmax(net, scope="predictions")}


def network_of(
    build: Any, block: Callable[[str, int, int, int], Block], layers: int, counts: Sequence[int]
) -> Callable[..., tuple[Tensor, EndPoints]]:
    """Return the function that builds a network of so many layers: four blocks, of so many units each.

    Each block but the last halves rows and columns in its last unit.

    Args:
        build: `resnet_v1` or `resnet_v2`.
    """
    name = f"{build.__name__}_{layers}"
    strides = (2, 2, 2, 1)
    blocks = [
        block(f"block{number}", 32 << number, count, stride)
        for number, (count, stride) in enumerate(zip(counts, strides, strict=True), 1)
    ]

    @for_images_of(224)
    def network(
        inputs: Any,
        num_classes: int | None = None,
        is_training: Any = None,
        global_pool: bool = True,
        output_stride: int | None = None,
        reuse: Any = None,
        scope: Any = name,
    ) -> tuple[Tensor, EndPoints]:
        options = is_training, global_pool, output_stride, True, reuse, scope
        built: tuple[Tensor, EndPoints] = build(inputs, blocks, num_classes, *options)
        return built

    network.__name__ = network.__qualname__ = name
    network.__module__ = build.__module__
    network.__doc__ = f"Build the network with {layers} layers; see `{build.__name__}`."
    return network
