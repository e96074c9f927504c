"""Costs of nodes, learned over the steps of a session: their time and the memory of their outputs.

A model is fed the records of some steps (see `is_measured`) and yields, for each node, the mean and the minimum time and the
maximum memory; as a CostGraphDef it is returned in `RunMetadata.cost_graph`. The minimum is the better estimate of the time
that a node needs, since other load only ever adds to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from aioexec.data_classes import dataclass
from aioexec.observability.step_stats import NodeRecord, OutputRecord

if TYPE_CHECKING:
    from aioexec.formats.protos import CostGraphDef, GraphDef, NodeDef


def is_measured(step: int, every: int, after: int = 0) -> bool:
    """Whether a step feeds the cost model: the last of each `every` steps (`GraphOptions.build_cost_model`; 0: none).

    Args:
        step: the number of earlier steps of this signature.
        after: the number of first steps to leave out (`build_cost_model_after`), as a warm-up.
    """
    return every > 0 and step >= after and (step - after + 1) % every == 0


@dataclass(slots=True, eq=False)
class NodeCost:
    """The cost of one node over `count` executions: total and minimum nanoseconds, and the maximum bytes of outputs."""

    count: int = 0
    total: int = 0
    least: int = 0
    nbytes: int = 0
    outputs: dict[int, OutputRecord] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    def record(self, record: NodeRecord) -> None:
        spent = record.end - record.start
        self.least = spent if self.count == 0 else min(self.least, spent)
        self.count += 1
        self.total += spent
        self.nbytes = max(self.nbytes, record.nbytes)
        for output in record.outputs:
            known = self.outputs.get(output.slot)
            if known is None or output.nbytes >= known.nbytes:
                self.outputs[output.slot] = output


class CostModel:
    """The costs of the nodes of one graph.

    State: `steps`, the number of recorded steps; `nodes`, costs by the node's name.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.nodes: dict[str, NodeCost] = {}

    def record_step(self, records: Iterable[NodeRecord]) -> None:
        """Record a step. A node in a loop has a record for each execution."""
        self.steps += 1
        for record in records:
            cost = self.nodes.get(record.name)
            if cost is None:
                cost = self.nodes[record.name] = NodeCost()
            cost.record(record)

    def least(self, name: str) -> int | None:
        """The minimum time of a node in nanoseconds; None if it was never measured."""
        cost = self.nodes.get(name)
        return None if cost is None else cost.least

    def add_to_cost_graph(self, cost_graph: CostGraphDef, graph: GraphDef) -> None:
        """Append the nodes of a graph, for example one partition, with their known costs."""
        first = len(cost_graph.node)
        ids = {node.name: first + position for position, node in enumerate(graph.node)}
        used = {_tensor(name)[0] for node in graph.node for name in node.input}
        for node in graph.node:
            self._add(cost_graph, node, ids, is_final=node.name not in used)

    def _add(self, cost_graph: CostGraphDef, node: NodeDef, ids: Mapping[str, int], is_final: bool) -> None:
        made = cost_graph.node.add(name=node.name, device=node.device, id=ids[node.name], is_final=is_final)
        for name in node.input:
            producer, port = _tensor(name)
            if port < 0:
                made.control_input.append(ids[producer])
            else:
                made.input_info.add(preceding_node=ids[producer], preceding_port=port)
        cost = self.nodes.get(node.name)
        if cost is None:
            made.inaccurate = True
            return
        made.compute_cost = -(
            -cost.total // (1000 * cost.count)
        )  # less than a microsecond is rounded up to one
        for slot in range(max(list(cost.outputs), default=-1) + 1):
            _add_output(made, cost.outputs.get(slot))


def _add_output(made: CostGraphDef.Node, output: OutputRecord | None) -> None:
    from aioexec.dtypes import as_dtype
    from aioexec.formats.tensor_codec import shape_to_proto

    if output is None:
        made.output_info.add(size=-1, alias_input_port=-1, shape=shape_to_proto(None))
        return
    made.output_info.add(
        size=output.nbytes,
        alias_input_port=-1,
        shape=shape_to_proto(output.shape),
        dtype=as_dtype(output.dtype).as_datatype_enum,
    )


def _tensor(name: str) -> tuple[str, int]:
    """An input of a NodeDef as (node, output); -1 for a control input."""
    if name.startswith("^"):
        return name[1:], -1
    node, _, port = name.partition(":")
    return node, int(port or 0)


class CostModelManager:
    """The cost models of a session: one for each graph it runs, by any key that identifies the graph."""

    def __init__(self) -> None:
        self._models: dict[Hashable, CostModel] = {}

    def find_or_create(self, graph: Hashable) -> CostModel:
        return self._models.setdefault(graph, CostModel())

    def remove(self, graph: Hashable) -> None:
        """Remove the model of a graph."""
        self._models.pop(graph, None)

    def export(self) -> dict[Hashable, CostModel]:
        """The models by graph, not copied; they continue to change."""
        return dict(self._models)
