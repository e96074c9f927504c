"""Send and Recv: the ends of an edge between partitions, created by the partitioner and run by the executor by role.

The attributes form the rendezvous key (`execution/rendezvous`); the Host variants are for values that stay in host memory.
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
