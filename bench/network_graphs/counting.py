"""The floating-point operations of a step, counted from the shapes of a traced run in TensorFlow.

Products and convolutions are counted, two operations a multiplication and addition; the rest is small beside them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Shape = Sequence[int]
Shapes = dict[tuple[str, int], Shape]
Rule = Callable[[Any, Callable[[int], Shape], Shape], int]


def flops(tf: Any, session_of: Callable[[Any], Any], network: Any) -> int:
    """The operations of one step; `session_of` makes a session of a ConfigProto, with variables initialised."""
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # nodes keep their names
    metadata = tf.RunMetadata()
    fetches = [*network.outputs, *([] if network.train is None else [network.train])]
    with session_of(config) as session:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(fetches, network.feeds, options=options, run_metadata=metadata)
    stats = [stats for device in metadata.step_stats.dev_stats for stats in device.node_stats]
    shapes: Shapes = {
        (each.node_name, output.slot): [dim.size for dim in output.tensor_description.shape.dim]
        for each in stats
        for output in each.output
    }
    graph = network.outputs[0].graph
    operations = {operation.name: operation for operation in graph.get_operations()}
    return sum(_of_node(operations[each.node_name], shapes) for each in stats if each.node_name in operations)


def _of_node(operation: Any, shapes: Shapes) -> int:
    def into(index: int) -> Shape:
        tensor = operation.inputs[index]
        return shapes.get((tensor.op.name, tensor.value_index)) or tensor.shape.as_list()

    rule = _RULES.get(operation.type)
    return rule(operation, into, shapes[operation.name, 0]) if rule else 0


def _product(operation: Any, into: Callable[[int], Shape], out: Shape) -> int:
    left = into(0)
    attribute = "transpose_a" if operation.type == "MatMul" else "adj_x"
    return 2 * math.prod(out) * left[-2 if operation.get_attr(attribute) else -1]


_RULES: dict[str, Rule] = {
    "MatMul": _product,
    "BatchMatMulV2": _product,
    "Conv2D": lambda _, into, out: 2 * math.prod(out) * math.prod(into(1)[:3]),
    "Conv2DBackpropInput": lambda _, into, out: 2 * math.prod(into(2)) * math.prod(into(1)[:3]),
    "Conv2DBackpropFilter": lambda _, into, out: 2 * math.prod(into(2)) * math.prod(out[:3]),
    "DepthwiseConv2dNative": lambda _, into, out: 2 * math.prod(out) * math.prod(into(1)[:2]),
    "DepthwiseConv2dNativeBackpropInput": lambda _, into, out: (
        2 * math.prod(into(2)) * math.prod(into(1)[:2])
    ),
    "DepthwiseConv2dNativeBackpropFilter": lambda _, into, out: 2 * math.prod(into(2)) * math.prod(out[:2]),
}
