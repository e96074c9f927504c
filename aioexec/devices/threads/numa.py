"""The NUMA nodes of the machine: sets of processors that share local memory."""

from __future__ import annotations

import os
from functools import cache

from aioexec.data_classes import dataclass
from aioexec.devices.threads.workers import processors

SYSTEM = "/sys/devices/system/node"


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A node, and its processors by number."""

    number: int
    processors: frozenset[int]

    def usable(self) -> frozenset[int]:
        """The node's processors that this process may use; if there are none, all that it may use."""
        allowed = os.sched_getaffinity(0)
        return frozenset(self.processors & allowed or allowed)


@cache
def numa_nodes() -> tuple[NumaNode, ...]:
    """The machine's nodes; one node with every processor if the system does not report them. Reads files, once."""
    return read_nodes(SYSTEM) or (NumaNode(0, frozenset(range(processors()))),)


def read_nodes(folder: str) -> tuple[NumaNode, ...]:
    """The nodes described in a folder such as /sys/devices/system/node; none if there is no description."""
    try:
        online = _numbers(f"{folder}/online")
        return tuple(
            NumaNode(number, frozenset(_numbers(f"{folder}/node{number}/cpulist"))) for number in online
        )
    except (OSError, ValueError):
        return ()


def _numbers(path: str) -> list[int]:
    """The numbers of a file that holds a list such as "0-3,8"."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers
