"""What nodes cost, learned over the steps of a session: how long they take and how much they put out.

A model is fed the records of some steps (`is_measured` says of which) and gives, for each node, the mean and the least time and
the most memory; as a CostGraphDef it goes to `RunMetadata.cost_graph`. The least is the better estimate of what a node
needs, for a busy machine only ever adds; the mean is what it took.
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
    """Whether a step feeds the cost model: the last of each `every` steps (`GraphOptions.build_cost_model`; 0: none does).

    Args:
        step: how many steps of this signature there were before.
        after: steps to leave out first (`build_cost_model_after`), while everything warms up.
    """
    return every > 0 and step >= after and (step - after + 1) % every == 0


@dataclass(slots=True, eq=False)
class NodeCost:
    """What one node cost over `count` executions: nanoseconds in sum and at least, and the most memory it put out."""

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

    State: `steps`, how many steps fed it; `nodes`, what they reported, by the node's name.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.nodes: dict[str, NodeCost] = {}

    def record_step(self, records: Iterable[NodeRecord]) -> None:
        """Learn from a step. A node in a loop has a record for each time it ran."""
        self.steps += 1
        for record in records:
            cost = self.nodes.get(record.name)
            if cost is None:
                cost = self.nodes[record.name] = NodeCost()
            cost.record(record)

    def least(self, name: str) -> int | None:
        """The least a node took, in nanoseconds; None: it was never measured."""
        cost = self.nodes.get(name)
        return None if cost is None else cost.least

    def add_to_cost_graph(self, cost_graph: CostGraphDef, graph: GraphDef) -> None:
        """Append the nodes of a graph, one partition for instance, with what is known of their costs."""
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
        )  # what takes less than a microsecond is not free
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
    """The cost models of a session: one for each graph it runs, under whatever key stands for that graph."""

    def __init__(self) -> None:
        self._models: dict[Hashable, CostModel] = {}

    def find_or_create(self, graph: Hashable) -> CostModel:
        return self._models.setdefault(graph, CostModel())

    def remove(self, graph: Hashable) -> None:
        """Forget a graph that is not run any more."""
        self._models.pop(graph, None)

    def export(self) -> dict[Hashable, CostModel]:
        """The models by their graphs, as they are; they go on learning."""
        return dict(self._models)
