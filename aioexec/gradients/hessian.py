"""Second derivatives: `hessians`."""

from __future__ import annotations

from typing import Any

from aioexec.gradients.backprop import gradients
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.while_loop import while_loop


def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Tensor]:
    """The Hessian of the sum of `ys` with respect to each of `xs` (no mixed ones), of shape x.shape + x.shape.

    The arguments are those of `gradients`.
    """
    options = (name, colocate_gradients_with_ops, gate_gradients, aggregation_method)
    sources = list(xs) if isinstance(xs, list | tuple) else [xs]
    with graph_of([ys, *sources]).as_default():
        firsts = gradients(ys, sources, None, *options)
        return [
            _derivatives(convert_to_tensor(first), x, options)
            for first, x in zip(firsts, sources, strict=True)
        ]


def _derivatives(first: Tensor, x: Any, options: tuple[Any, ...]) -> Tensor:
    flat = apply_op("Reshape", first, [-1])
    count = apply_op("Size", flat)
    rows = TensorArray(first.dtype, count)

    def row(j: Tensor, rows: TensorArray) -> tuple[Tensor, TensorArray]:
        (second,) = gradients(apply_op("GatherV2", flat, j, 0), x, None, *options)
        return j + 1, rows.write(j, convert_to_tensor(second))

    _, rows = while_loop(lambda j, _: j < count, row, (0, rows))
    shape = apply_op("Shape", first)
    return apply_op("Reshape", rows.stack(), apply_op("ConcatV2", [shape, shape], 0))
