"""Inspects the plan of a step: the devices of its nodes, and the transfers between devices."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.interop.behaviours.both import Engine

FIRST, SECOND = (f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in range(2))


def as_built(engine: Engine) -> dict[str, Any]:
    """Options of a session with two processors as devices, whose graphs are planned without being optimised."""
    graph_options = engine.proto(
        "GraphOptions", "optimizer_options { opt_level: L0 } rewrite_options { disable_meta_optimizer: true }"
    )
    return {"device_count": {"CPU": 2}, "graph_options": graph_options}


async def partition_graphs(engine: Engine, session: Any, fetches: Any, feeds: Any = None) -> list[Any]:
    """The partitions of a step, which is run."""
    metadata = engine.proto("RunMetadata")
    await session.run(fetches, feeds, engine.proto("RunOptions", output_partition_graphs=True), metadata)
    return list(metadata.partition_graphs)


async def places(engine: Engine, session: Any, fetches: Any, feeds: Any = None) -> dict[str, str]:
    """The device of each node that is no transfer, feed or fetch."""
    graphs = await partition_graphs(engine, session, fetches, feeds)
    return {node.name: node.device for graph in graphs for node in graph.node if not node.op.startswith("_")}


async def transfers(
    engine: Engine, session: Any, fetches: Any, feeds: Any = None
) -> Counter[tuple[str, str]]:
    """How many sends there are from a device to another; each has its receive."""
    graphs = await partition_graphs(engine, session, fetches, feeds)
    sent, received = (
        Counter(
            (node.attr["send_device"].s.decode(), node.attr["recv_device"].s.decode())
            for graph in graphs
            for node in graph.node
            if node.op == op
        )
        for op in ("_Send", "_Recv")
    )
    assert sent == received
    return sent
