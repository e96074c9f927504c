"""A partial run as a pure state machine: the announced feeds and fetches, those done, and those that are allowed next.

No step, no task: `partial_runs.py` drives the step that belongs to it. Elements are identified by name: tensors "a:0",
operations "a".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.subgraph import Signature


class PartialRun:
    """The state of one partial run.

    Constant: `feeds` and `fetches` as announced (the latter include operations), `needs`, the feeds each fetch depends on.
    Changing: `fed` and `fetched`, those done, each once. Invariant: all feeds that `fetched` needs are in `fed`.
    """

    __slots__ = ("fed", "feeds", "fetched", "fetches", "needs")

    def __init__(
        self, feeds: frozenset[str], fetches: frozenset[str], needs: Mapping[str, frozenset[str]]
    ) -> None:
        self.feeds = feeds
        self.fetches = fetches
        self.needs = needs
        self.fed: set[str] = set()
        self.fetched: set[str] = set()

    @property
    def is_done(self) -> bool:
        """Whether everything announced was fed and fetched."""
        return self.fed == self.feeds and self.fetched == self.fetches

    def allows(self, feeds: frozenset[str], fetches: frozenset[str], needs: frozenset[str]) -> bool:
        """Whether these, announced and without duplicates, may be fed and fetched next; `needs` are those of the fetches."""
        return (
            self.fed.isdisjoint(feeds)
            and self.fetched.isdisjoint(fetches)
            and needs.difference(feeds) <= self.fed
        )

    def check(self, feeds: Sequence[str], fetches: Sequence[str]) -> None:
        """Raise unless these may be fed and fetched next; nothing changes.

        Raises:
            InvalidArgumentError: an element was not announced, is used twice, or cannot be computed yet.
        """
        for place, feed in enumerate(feeds):
            if feed not in self.feeds:
                raise InvalidArgumentError(f"The feed {feed} was not specified in partial_run_setup.")
            if feed in self.fed or feed in feeds[:place]:
                raise InvalidArgumentError(f"The feed {feed} has already been fed.")
        for place, fetch in enumerate(fetches):
            if fetch not in self.fetches:
                raise InvalidArgumentError(f"The fetch {fetch} was not specified in partial_run_setup.")
            if fetch in self.fetched or fetch in fetches[:place]:
                raise InvalidArgumentError(f"The fetch {fetch} has already been fetched.")
        self._check_computable(self.fed.union(feeds), fetches)

    def _check_computable(self, fed: set[str], fetches: Sequence[str]) -> None:
        for fetch in fetches:
            missing = self.needs[fetch] - fed
            if missing:
                raise InvalidArgumentError(
                    f"Fetch {fetch} can't be computed from the feeds that have been fed so far; "
                    f"missing: {', '.join(sorted(missing))}"
                )

    def begin(self, feeds: Iterable[str], fetches: Iterable[str]) -> None:
        """Mark feeds as fed and fetches as fetched, which the caller has checked: no other call can use them any more."""
        self.fed.update(feeds)
        self.fetched.update(fetches)

    def check_invariants(self) -> None:
        assert self.fed <= self.feeds
        assert self.fetched <= self.fetches
        assert all(self.needs[fetch] <= self.fed for fetch in self.fetched)


def needs_of(signature: Signature) -> dict[str, frozenset[str]]:
    """The feeds that each fetch and target of a signature depends on, through data and control edges, cut at the feeds."""
    feeds = frozenset(signature.feeds)
    elements: list[Tensor | Operation] = [*signature.fetches, *signature.targets]
    return {element.name: _feeds_above(element, feeds) for element in elements}


def _feeds_above(element: Tensor | Operation, feeds: frozenset[Tensor]) -> frozenset[str]:
    found: set[str] = set()
    seen: set[Operation] = set()
    stack = [element.op if isinstance(element, Tensor) else element]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        for tensor in op.inputs:
            if tensor in feeds:
                found.add(tensor.name)
            else:
                stack.append(tensor.op)
        stack.extend(waited_for for waited_for in op.control_inputs if waited_for not in seen)
        if op.row.role is Role.PLACEHOLDER and op.outputs[0] in feeds:
            found.add(op.outputs[0].name)  # a fed operation is complete once its output is fed
    return frozenset(found)
