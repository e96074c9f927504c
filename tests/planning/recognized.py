"""Computations of several nodes, as programs write them, with their values by NumPy; for tests of their recognition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.planning.subgraph import Node, Subgraph
from tests.planning.planned import plan

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(25)


def drawn(*shape: int, dtype: str = "float32") -> Array:
    return RANDOM.uniform(-1, 1, shape).astype(dtype)


def planned(fetches: Sequence[Any], feeds: Sequence[Any] = (), targets: Sequence[Any] = ()) -> Subgraph:
    """The subgraph of a plan after all passes."""
    return plan(fetches, feeds, targets).subgraph


def count(subgraph: Subgraph, op_type: str) -> int:
    """How many nodes are of a type, inside loops too."""
    nodes = [node for node in with_inner(subgraph.nodes) if node.feed is None and not node.is_constant]
    return sum(node.row.name == op_type for node in nodes)


def with_inner(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for region in node.structure.regions if node.structure is not None else ():
            yield from with_inner(region.nodes)


async def run(
    fetches: Sequence[Any], feeds: Mapping[Any, Any], jit: str = "off", remapping: bool = True
) -> list[Array]:
    """The values of some tensors, with the passes that change the rounding of results or without."""
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    if not remapping:
        config.graph_options.rewrite_options.remapping = config.graph_options.rewrite_options.OFF
    async with ax.Session(graph=fetches[0].graph, config=config) as session:
        return list(await session.run(list(fetches), dict(feeds)))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def heads(rows: Any, count: int) -> Any:
    """Rows [batch, position, width] as [batch, head, position, depth]."""
    batch, positions, width = rows.shape
    split = [batch, positions, count, width // count]
    if isinstance(rows, np.ndarray):
        return rows.reshape(split).transpose(0, 2, 1, 3)
    return ax.transpose(ax.reshape(rows, split), [0, 2, 1, 3])


def attention_values(query: Array, key: Array, value: Array, mask: Any = 0.0, *, scale: float = 1.0) -> Array:
    """[batch, head, position, depth], in float64."""
    q, k, v = (each.astype(np.float64) for each in (query, key, value))
    return softmax(q @ k.swapaxes(-1, -2) * scale + mask) @ v


def layer_norm_values(x: Array, scale: Array, shift: Array, epsilon: float) -> Array:
    """In float64."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt(wide.var(-1, keepdims=True) + epsilon) * scale + shift)
