"""Loops and conditionals as single nodes, to which planning rewrites Switch, Merge, Enter and so on. Clients never add them."""

from __future__ import annotations

from aioexec.graph.kernels.kernel import Role
from aioexec.graph.registry import NOT_DIFFERENTIABLE, register

_BOUNDARY = "Tin:list(type)>=0; Tout:list(type)>=0; output_shapes:list(shape)>=0"

for _signature in (
    f"_Loop(inputs:Tin) -> (outputs:Tout) [{_BOUNDARY}]",
    f"_Conditional(pred:bool, inputs:Tin) -> (outputs:Tout) [{_BOUNDARY}]",
):
    register(
        _signature,
        shape=lambda context: context.attrs["output_shapes"],
        kernel=None,
        gradient=NOT_DIFFERENTIABLE,
        role=Role.STRUCTURE,
    )
