"""The propagator without an event loop: the test decides the order in which activations begin and end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.devices.cpu import ThreadPoolDevice
from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import DeviceSet
from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs.structures import store
from aioexec.execution.propagator import Activation, Propagator, dead_outputs
from aioexec.planning.items import Kind
from aioexec.planning.passes import L0, DefaultOptions
from aioexec.planning.pipeline import Planner
from aioexec.planning.plan import Partition
from aioexec.planning.subgraph import Signature
from tests.planning.planned import DEVICE, Binder

IN_PIECES = DefaultOptions(opt_level=L0, do_common_subexpression_elimination=True, do_constant_folding=True)
"""Options under which loops and conditionals stay with the executor."""


def partition_of(fetches: Sequence[Any], feeds: Sequence[Any] = (), is_partial: bool = False) -> Partition:
    """The one partition of a plan for one device."""
    devices = DeviceSet([ThreadPoolDevice(DeviceAttributes(DEVICE, "CPU"), Workers(1, "unused"))])
    planner = Planner(fetches[0].graph, Binder(), devices, optimizer=IN_PIECES)
    (made,) = planner.plan(Signature(tuple(feeds), tuple(fetches), (), is_partial)).partitions
    return made


class Schedule:
    """One step of a partition. Its invariants are checked after each event.

    Attributes:
        running: activations that have begun.
        runs: how often each item of the outermost frame has run, dead or alive.
        story: what has happened, to be read when a test fails.
    """

    def __init__(self, partition: Partition, feeds: Sequence[int]) -> None:
        self.partition = partition
        self.values: list[Any] = list(partition.values)
        self.propagator = Propagator(partition, self.values)
        self.running: list[Activation] = []
        self.runs: Counter[int] = Counter()
        self.story: list[str] = []
        self._to_come = dict(
            zip(partition.feeds, (np.array(value, np.int32) for value in feeds), strict=True)
        )
        if not any(item.kind is Kind.FEED for item in partition.items):
            while self._to_come:
                self._bring(*self._to_come.popitem())
        self.propagator.start()
        self._happened("start")

    # Events

    def begin(self, place: int = 0) -> Activation:
        """Take one of those that are ready."""
        ready = self.propagator.ready
        activation = ready[place]
        del ready[place]
        self.running.append(activation)
        return activation

    def end(self, place: int = 0) -> None:
        """Compute one of the begun activations, and report its end."""
        activation = self.running.pop(place)
        if activation.iteration is self.propagator.outermost:
            self.runs[activation.item.index] += 1
        live_port = 0
        if activation.dead:
            dead_outputs(activation.item, activation.iteration.values)
        else:
            live_port = _compute(activation)
        self.propagator.on_finished(activation, live_port)
        self._happened(f"{activation!r} ended")

    def feed(self) -> None:
        """Bring a feed of a partial run."""
        value, fed = self._to_come.popitem()
        self._bring(value, fed)
        place = self.partition.producers.get(value)
        if place is not None:
            self.propagator.on_feed_arrived(self.partition.items[place])
        self._happened(f"feed {value} came")

    def run(self, choose: random.Random) -> None:
        """Let everything happen that can, in random order."""
        ready, running = self.propagator.ready, self.running
        while events := len(ready) + len(running) + len(self._to_come):
            event = int(choose.random() * events)
            if event < len(ready):
                self.begin(event)
            elif event < len(ready) + len(running):
                self.end(event - len(ready))
            else:
                self.feed()

    def run_all_but(self, *names: str) -> None:
        """Let everything happen, but nodes of these names go on running, or being dead."""
        while True:
            while self.propagator.ready:
                self.begin()
            place = next((k for k, each in enumerate(self.running) if _name(each) not in names), None)
            if place is None:
                return
            self.end(place)

    # Observation

    def fetched(self) -> list[Any]:
        return [self.values[value] for value in self.partition.fetches]

    def begun(self, name: str) -> list[Activation]:
        return [activation for activation in self.running if _name(activation) == name]

    def place(self, name: str, iteration: int = 0) -> int:
        """Where in `running` a node is."""
        return next(
            k
            for k, each in enumerate(self.running)
            if _name(each) == name and each.iteration.number == iteration
        )

    def check_end(self) -> None:
        """Every item of the outermost frame has run once, and nothing is left."""
        outermost = self.propagator.outermost
        assert not outermost.outstanding, self.story
        assert not outermost.children, self.story
        items = (item for item in self.partition.items if item.kind is not Kind.FEED)
        expected = {item.index: 1 for item in items if item.frame == 0}
        assert self.runs == expected, self.story

    def _bring(self, value: int, fed: Any) -> None:
        self.values[value] = fed

    def _happened(self, event: str) -> None:
        self.story.append(event)
        self.propagator.check_invariants()


def _name(activation: Activation) -> str:
    return activation.item.instructions[-1].node.name


def _compute(activation: Activation) -> int:
    """Do what an item does, with the reference kernels; of a Switch, the output taken."""
    item, values = activation.item, activation.iteration.values
    if item.kind is Kind.PROGRAM or item.kind is Kind.ASYNCHRONOUS:
        step = [None] if item.kind is Kind.ASYNCHRONOUS else []
        for instruction in item.instructions:
            inputs = (values[value] for value in instruction.inputs)
            store(values, instruction, instruction.compute(*step, *inputs))
    instruction = item.instructions[0]
    if item.kind is Kind.SWITCH:
        data, pred = (values[value] for value in instruction.inputs)
        values[instruction.outputs[int(pred)]] = data
        return int(pred)
    if item.kind is Kind.MERGE:
        position = activation.iteration.merged[item.index]
        values[instruction.outputs[0]] = values[instruction.inputs[position]]
        values[instruction.outputs[1]] = np.array(position, np.int32)
    return 0
