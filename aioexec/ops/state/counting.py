"""CountUpTo: increments a variable up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError, OutOfRangeError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext, Role
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.state.assignments import reference_of, update_reference
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims


def _counted(context: KernelContext) -> Compute:
    limit: int = context.attrs["limit"]

    def count(variable: Variable) -> Array:
        before = variable.require()
        if before.ndim or before.dtype != context.output_dtypes[0].numpy:
            raise InvalidArgumentError(
                f"CountUpTo: expected a scalar {context.output_dtypes[0].name}, variable {variable.name!r} is "
                f"{before.dtype} of shape {shown(before.shape)}"
            )
        if before >= limit:
            raise OutOfRangeError(f"Reached limit of {limit}")
        after = np.array(before + 1, before.dtype)
        variable.update(lambda present: after)
        return before

    return count


def _scalar(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 0)
    return [shapes.with_rank(context.variable(0), 0) or ()]


for _signature in (
    "CountUpTo(ref:Ref(T)) -> (output:T) [limit:int; T:type{int32|int64}]",
    "ResourceCountUpTo(resource:resource) -> (output:T) [limit:int; T:type{int32|int64}] {stateful}",
):
    register(
        _signature,
        shape=_scalar,
        kernel=_counted,
        gradient=NOT_DIFFERENTIABLE,
        role=Role.UPDATE,
        writes=(0,),
        reads=(0,),
    )


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Increment a scalar variable; return its previous value.

    The node fails with OutOfRangeError once the variable has reached the limit.
    """
    reference = reference_of(ref)
    if reference is None:
        dtype = ref.dtype
        return apply_op("ResourceCountUpTo", ref.handle, limit=limit, T=dtype, name=name)
    return update_reference("CountUpTo", reference, limit=limit, name=name)
