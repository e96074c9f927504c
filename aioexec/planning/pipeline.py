"""Compiles a signature to a plan: prune, place, optimise, partition, divide into items."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from aioexec.devices.device import Device
from aioexec.devices.device_set import DeviceSet
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Compute, Role
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.control_flow.fold_control_flow import fold_control_flow
from aioexec.planning.control_flow.frames import check_fetches, frames
from aioexec.planning.control_flow.inline import inline_bodies
from aioexec.planning.control_flow.lower_control_flow import LOWERINGS
from aioexec.planning.free_constants import free_constants
from aioexec.planning.host_copies import insert_copies
from aioexec.planning.items import cut_items
from aioexec.planning.partition import join_parts, partition, sent_feeds
from aioexec.planning.passes import DEFAULTS, Dump, Grouping, OptimizerOptions, optimises, optimization_passes
from aioexec.planning.place import Log, Placement, place, set_devices, stateful_placements
from aioexec.planning.plan import Partition, Plan, RemotePartition, assemble
from aioexec.planning.prune import prune
from aioexec.planning.subgraph import Bind, Signature, Subgraph

logger = logging.getLogger(__name__)


class Planner:
    """Plans the signatures of one session, all in its planner thread.

    Constant: `graph`, `bind`, `devices` (the client device first), `options`. Changing: `assigned`, the devices of stateful
    nodes that were placed, which are final; `_placement`, that of the whole graph when it had `_placed_at` nodes and mutations;
    `_names`, which makes names of transfers unique.

    Args:
        bind: makes or looks up the reference kernel of an operation for this session.
        place_pruned_graph: place the nodes that a signature needs; otherwise the whole graph, and a node that cannot be placed
            fails every run.
        log: called for every operation placed.
        dump: called after every pass; by default the logger, if level DEBUG is enabled when the planner is made.
        numbers: makes names of transfers unique among several planners.
    """

    def __init__(
        self,
        graph: Graph,
        bind: Bind,
        devices: DeviceSet,
        *,
        allow_soft_placement: bool = False,
        place_pruned_graph: bool = False,
        optimizer: OptimizerOptions = DEFAULTS,
        log: Log | None = None,
        dump: Dump | None = None,
        numbers: Iterator[int] | None = None,
    ) -> None:
        self.graph = graph
        self.bind = bind
        self.devices = devices
        self.assigned: Placement = {}
        self._place = partial(place, devices=devices, allow_soft_placement=allow_soft_placement, log=log)
        self._place_pruned_graph = place_pruned_graph
        if dump is None and logger.isEnabledFor(logging.DEBUG):
            dump = partial(logger.debug, "%s:\n%s")
        self._run_passes = partial(
            optimization_passes.run_grouping, bind=self._bind_on_host, options=optimizer, dump=dump
        )
        self._optimizer = optimizer
        self._placement: Placement = {}
        self._placed_at = (-1, -1)
        self._names = numbers or itertools.count()

    def plan(self, signature: Signature) -> Plan:
        """Plan a signature.

        Raises:
            InvalidArgumentError: a cycle, a malformed loop, or a node that no device can run.
        """
        while True:
            mutations = self.graph.mutations
            plan = self._plan(signature)
            if self.graph.mutations == mutations:
                return plan

    def _plan(self, signature: Signature) -> Plan:
        subgraph = prune(signature)
        inline_bodies(subgraph, LOWERINGS)
        if any(node.feed is None and node.row.role is Role.ENTER for node in subgraph.nodes):
            # Refuses malformed loops before passes traverse them, and fetches that would be sent from another device.
            check_fetches(subgraph, frames(subgraph))
        self._run_passes(Grouping.PRE_PLACEMENT, subgraph)
        client = self.devices.devices[0].name
        set_devices(subgraph, self._place_subgraph(subgraph), client)
        self._run_passes(Grouping.POST_PLACEMENT, subgraph)
        self._run_passes(Grouping.POST_REWRITE_FOR_EXEC, subgraph)
        incarnations = {device.name: device.attributes.incarnation for device in self.devices.devices}
        parts = partition(subgraph, incarnations, self._new_name, client)
        local, remote = self._split_by_process(parts)
        # The client's partition comes first, even if it is empty.
        local = {client: Subgraph([], [], [], [])} | local
        return Plan(
            signature,
            tuple(self._partition(name, part, signature, local[client]) for name, part in local.items()),
            tuple(RemotePartition(task, part) for task, part in remote.items()),
        )

    def _split_by_process(
        self, parts: Mapping[str, Subgraph]
    ) -> tuple[dict[str, Subgraph], dict[str, Subgraph]]:
        """Split the subgraphs of devices into those of this process, and one for each other task."""
        local: dict[str, Subgraph] = {}
        remote: dict[str, Subgraph] = {}
        for name, part in parts.items():
            if self._device(name).is_remote:
                task = name.rpartition("/device:")[0]
                remote[task] = join_parts(remote[task], part) if task in remote else part
            else:
                local[name] = part
        return local, remote

    def _device(self, name: str) -> Device:
        found = self.devices.find_device_by_name(name)
        assert found is not None, name
        return found

    def _place_subgraph(self, subgraph: Subgraph) -> Mapping[str, str]:
        """Place the operations of a subgraph; the placement of stateful ones is final."""
        operations = [node.op for node in subgraph.nodes if node.feed is None]
        fed = {node.feed for node in subgraph.feeds if node.feed is not None}
        if self._place_pruned_graph:
            return self._place_and_record(operations, self.assigned, fed)
        placed_at = (self.graph.version, self.graph.mutations)
        if placed_at != self._placed_at:
            whole = self.graph.get_operations()[: placed_at[0]]
            self._placement, self._placed_at = self._place_and_record(whole, self.assigned), placed_at
        known = self._placement
        if all(op.name in known for op in operations):
            return known
        return self._place_and_record(operations, {**self.assigned, **known}, fed)  # bodies of functions

    def _place_and_record(
        self, operations: Sequence[Operation], assigned: Placement, fed: Collection[Tensor] = ()
    ) -> Placement:
        placement = self._place(operations, assigned=assigned, fed=fed)
        self.assigned.update(stateful_placements(operations, placement))
        return placement

    def _bind_on_host(self, op: Operation, device: str) -> Compute:
        """The kernel with which passes compute a node: that of the processor, if its device has memory of its own."""
        found = self.devices.find_device_by_name(device)
        return self.bind(op, "" if found is not None and found.has_own_memory else device)

    def _new_name(self, prefix: str) -> str:
        return f"{prefix}/_{next(self._names)}"

    def _partition(self, device: str, part: Subgraph, signature: Signature, client: Subgraph) -> Partition:
        self._run_passes(Grouping.POST_PARTITIONING, part)
        found = self._device(device)
        found.rewrite(part)
        whole, fed = part, frozenset[str]()
        if found.has_own_memory:
            free_constants(part)
            insert_copies(part, device, found.device_type, self._new_name)
            fed = frozenset() if signature.is_partial else sent_feeds(client)
        elif optimises(self._optimizer):
            whole = fold_control_flow(part, self._new_name)
        items = cut_items(whole, signature.is_partial, fed)
        return assemble(whole, items, self.bind, device, signature.is_partial, part)
