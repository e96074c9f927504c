"""The part of the driver's stub that captures work as graphs, and launches them."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Callable
from typing import Any

Run = Callable[[], object]


class StubGraphs(abc.ABC):
    """See the module.

    Changing: `captures`, what streams that capture were given; `executables`, what can be launched; `_graphs`.
    """

    counts: Counter[str]

    def __init__(self) -> None:
        self.captures: dict[int, list[Run]] = {}
        self.executables: dict[int, list[Run]] = {}
        self._graphs: dict[int, list[Run]] = {}

    @abc.abstractmethod
    def _handle(self, kind: str) -> int: ...

    @abc.abstractmethod
    def _submit(self, stream: int, run: Run) -> None: ...

    def _cuStreamBeginCapture(self, stream: int, mode: Any) -> None:
        self.captures[stream] = []

    def _cuStreamEndCapture(self, stream: int) -> int:
        graph = self._handle("graph")
        self._graphs[graph] = self.captures.pop(stream)
        return graph

    def _cuGraphInstantiate(self, graph: int, flags: int) -> int:
        executable = self._handle("executable")
        self.executables[executable] = self._graphs[graph]
        return executable

    def _cuGraphDestroy(self, graph: int) -> None:
        del self._graphs[graph]
        self.counts["graph"] -= 1

    def _cuGraphLaunch(self, executable: int, stream: int) -> None:
        captured = self.executables[executable]

        def run() -> None:
            for work in captured:
                work()

        self._submit(stream, run)

    def _cuGraphExecDestroy(self, executable: int) -> None:
        del self.executables[executable]
        self.counts["executable"] -= 1
