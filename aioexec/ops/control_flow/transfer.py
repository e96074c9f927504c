"""Transfers, which planning creates and the executor runs by role.

Send and Recv are the ends of an edge between partitions: their attributes form the rendezvous key (`execution/rendezvous`), and
the Host variants are for values that stay in host memory. On a device with memory of its own, `_CopyToHost` and `_CopyToDevice`
are where a value crosses between that and main memory.
"""

from __future__ import annotations

from aioexec.graph.kernels.kernel import Role
from aioexec.graph.registry import NOT_DIFFERENTIABLE, register

_KEY = (
    "tensor_name:string; send_device:string; send_device_incarnation:int; recv_device:string; "
    "client_terminated:bool=false"
)

for _prefix in ("_", "_Host"):
    register(
        f"{_prefix}Send(tensor:T) -> () [T:type; {_KEY}] {{stateful}}",
        shape=lambda context: (),
        kernel=None,
        gradient=NOT_DIFFERENTIABLE,
        role=Role.SEND,
    )
    register(
        f"{_prefix}Recv() -> (tensor:tensor_type) [tensor_type:type; {_KEY}] {{stateful}}",
        shape=lambda context: [None],
        kernel=None,
        gradient=NOT_DIFFERENTIABLE,
        role=Role.RECV,
    )

for _name, _role in (("_CopyToHost", Role.COPY_TO_HOST), ("_CopyToDevice", Role.COPY_TO_DEVICE)):
    register(
        f"{_name}(input:T) -> (output:T) [T:type]",
        shape=lambda context: [context.inputs[0]],
        kernel=None,
        gradient=NOT_DIFFERENTIABLE,
        role=_role,
    )
