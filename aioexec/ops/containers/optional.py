"""Optionals: values that may be missing, as tensors of dtype variant. TensorFlow's functional conditionals pass intermediate
values of a branch to its gradient in them: a branch that is not taken outputs OptionalNone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.resources.optional import OptionalValue, optional_in
from aioexec.resources.tensor_list import Array, boxed, kept
from aioexec.shapes import Dims


def _from_value(*components: Array) -> Array:
    return boxed(OptionalValue(tuple(map(kept, components))))


def _value_gradient(op: Operation, doptional: Tensor) -> Sequence[Any]:
    return apply_list_op(
        "OptionalGetValue",
        doptional,
        output_types=[each.dtype for each in op.inputs],
        output_shapes=[each.shape for each in op.inputs],
    )


register(
    "OptionalFromValue(components:Toutput_types) -> (optional:variant) [Toutput_types:list(type)>=1]",
    shape=lambda context: [()],
    kernel=plain(_from_value),
    gradient=_value_gradient,
)

register(
    "OptionalNone() -> (optional:variant)",
    shape=lambda context: [()],
    kernel=plain(lambda: boxed(OptionalValue(None))),
    gradient=undefined_gradient,
)


def _scalar(context: ShapeContext) -> None:
    shapes.with_rank(context.inputs[0], 0)


def _shape_of_has_value(context: ShapeContext) -> Sequence[Dims]:
    _scalar(context)
    return [()]


register(
    "OptionalHasValue(optional:variant) -> (has_value:bool)",
    shape=_shape_of_has_value,
    kernel=plain(lambda variant: np.array(optional_in(variant, "OptionalHasValue").components is not None)),
    gradient=undefined_gradient,
)


def declared_shapes(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes in `output_shapes` of a node, one for each of its `output_types`."""
    _scalar(context)
    types, found = context.attrs["output_types"], context.attrs["output_shapes"]
    if len(types) != len(found):
        raise GraphValueError(
            f"`output_shapes` must be the same length as `output_types` ({len(found)} vs. {len(types)})"
        )
    return list(found)


def _get_value(context: KernelContext) -> Compute:
    expected = list(zip(context.output_dtypes, context.attrs["output_shapes"], strict=True))

    def get_value(variant: Any) -> Any:
        components = optional_in(variant, "OptionalGetValue").checked(expected)
        return components if len(components) > 1 else components[0]

    return get_value


register(
    "OptionalGetValue(optional:variant) -> (components:output_types)"
    " [output_types:list(type)>=1; output_shapes:list(shape)>=1]",
    shape=declared_shapes,
    kernel=_get_value,
    gradient=lambda op, *gradients: [apply_op("OptionalFromValue", list(gradients))],
    dynamic_shape=True,
)
