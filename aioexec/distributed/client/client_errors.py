"""Rewrites errors of a server for its client: names the operation of the client's graph, and the line that created it."""

from __future__ import annotations

from typing import Final

from aioexec.distributed.transport.status import PLACED, error_from, node_of, without_task
from aioexec.errors import OpError, with_context
from aioexec.graph.graph import Graph
from aioexec.sessions.names import find_operation

_LOG_TAIL: Final = "\nRecent warning and error logs:"
"""A TensorFlow server appends its recent log messages, of any step, from here on."""


def located(error: OpError, graph: Graph | None) -> OpError:
    """The error with the operation of this graph that its message names, in the form of an error of a local step."""
    text = error.message.partition(_LOG_TAIL)[0].rstrip()
    name = node_of(text)
    op = None if graph is None or name is None else find_operation(graph, name)
    if op is None:
        return error
    device = None
    placed = PLACED.fullmatch(without_task(text))
    if placed is not None and placed["node"] == name:
        device = placed["device"]
        text = placed["text"].removesuffix(f"\n\t [[{{{{node {name}}}}}]]")
    local_error = error_from(error.error_code, text, error.payloads)
    local_error.node = None
    return with_context(
        local_error, node=name, op_type=op.type, device=device, created_at=op.created_at, op=op
    )
