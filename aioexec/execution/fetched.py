"""Fetched values: arrays that belong to the caller alone, copied where another reference to them may exist."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.execution.feed_safety import prevent_resizing
from aioexec.execution.propagator import DEAD
from aioexec.execution.step import Step
from aioexec.planning.plan import Partition
from aioexec.planning.workload import HEAVY_BYTES
from aioexec.resources.variable import Variable


class Fetched:
    """The fetches of a step that has run.

    `values` are those of the client's partition, `fresh` those among them without another reference, `feeds` the arrays fed,
    whose memory stays fixed until the step ends.
    """

    __slots__ = ("_feeds", "_fresh", "_held", "_partition", "_values")

    def __init__(
        self, partition: Partition, values: Sequence[Any], fresh: set[int], feeds: Sequence[Any]
    ) -> None:
        self._partition = partition
        self._values = values
        self._fresh = fresh
        self._feeds = feeds
        self._held = prevent_resizing(feeds)

    def are_large(self) -> bool:
        """Whether copying them would block the event loop."""
        for value in self._partition.fetches:
            if value not in self._fresh and nbytes_of(self._values[value]) > HEAVY_BYTES:
                return True
        return False

    async def collect(self, step: Step) -> list[Any]:
        """The values as `take` gives them; large ones are copied on a worker.

        Raises:
            InvalidArgumentError: a fetch is dead.
        """
        large: list[int] = []
        results = self.take(large)
        if large:
            await step.workers.submit(partial(_copy_in_place, results, large)).result()
        return results

    def take(self, large: list[int] | None = None) -> list[Any]:
        """The arrays for the caller: a value without another reference is returned as it is, once; all others are copied.

        Args:
            large: collects the positions of values that are too large to be copied on the loop, and were not copied.

        Raises:
            InvalidArgumentError: a fetch is dead.
        """
        partition = self._partition
        results: list[Any] = []
        for position, value in enumerate(partition.fetches):
            held = self._values[value]
            if held is DEAD:
                raise no_value(partition, position)
            if position in partition.fed_fetches:
                held = self._feeds[partition.fed_fetches[position]]
            elif value in self._fresh:
                self._fresh.remove(value)
            elif is_handle(partition, position, held):
                pass
            elif large is not None and nbytes_of(held) > HEAVY_BYTES:
                held = held.read() if isinstance(held, Variable) else held
                large.append(position)
            else:
                held = copy_value(held)
            results.append(held)
        return results


def no_value(partition: Partition, position: int) -> InvalidArgumentError:
    node, index = partition.subgraph.fetches[position]
    return InvalidArgumentError(
        f"Retval[{position}] does not have value: {node.name}:{index} is dead, on a branch that was not taken"
    )


def nbytes_of(value: Any) -> int:
    content = value.buffer if isinstance(value, Variable) else value
    return content.nbytes if isinstance(content, np.ndarray) else 0


def is_handle(partition: Partition, position: int, held: Any) -> bool:
    """Whether a fetched variable is returned as a handle, which can be fed to another step; a reference is read instead."""
    return isinstance(held, Variable) and position not in partition.fetch_references


def copy_value(value: Any) -> Any:
    if isinstance(value, Variable):
        value = value.require()
    if not isinstance(value, np.ndarray):
        return value
    try:
        return np.array(value, copy=True)
    except MemoryError as error:
        raise ResourceExhaustedError(f"OOM: a fetched value takes {value.nbytes} bytes") from error


def _copy_in_place(results: list[Any], positions: Sequence[int]) -> None:
    for position in positions:
        results[position] = copy_value(results[position])
