"""The partial runs of a direct session: each is a step that is open from its setup until everything announced is done.

A call that fails before it has fed anything leaves its run unchanged. After that an error, the cancellation of the call or its
deadline ends the run, since feeds cannot be revoked. Runs without a pending call are abandoned when the session closes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import CancelledError, InvalidArgumentError, SessionClosedError
from aioexec.execution.executor import Executor
from aioexec.execution.step import StepSettings
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation
from aioexec.planning.workload import HEAVY_BYTES
from aioexec.sessions.feeds import FeedConverter, convert_feeds
from aioexec.sessions.named_steps import LocalRuntime
from aioexec.sessions.names import canonical, signature_of
from aioexec.sessions.partial_runs.partial_run import PartialRun, needs_of
from aioexec.sessions.reordering import Reordered
from aioexec.sessions.run_options import DEFAULT

Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Call:
    """The request of one `partial_run`: feeds and outputs by canonical name, and their positions in the signature.

    Attributes:
        fed, asked: the names, in order; `fed_set` and `asked_set` are the same as sets.
        converters, feeds: of each feed, its converter and its position in the signature.
        fetches, operations: the outputs, as positions in the signature, and those that are operations.
        is_announced: everything was announced, and occurs once; then `needs` are the feeds on which the outputs depend.
        results: for each output its position among `fetches`, None for an operation.
        are_in_order: the outputs are the fetches, in their order.
    """

    fed: tuple[str, ...]
    asked: tuple[str, ...]
    is_announced: bool
    fed_set: frozenset[str]
    asked_set: frozenset[str]
    needs: frozenset[str]
    converters: tuple[FeedConverter, ...]
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    operations: tuple[Operation, ...]
    results: tuple[int | None, ...]
    are_in_order: bool

    def picked(self, fetched: list[Any]) -> list[Any]:
        """Select the outputs from the fetched values."""
        return [None if place is None else fetched[place] for place in self.results]


@dataclass(frozen=True, slots=True)
class _Form:
    """The shared part of all partial runs with the same names: the executor, and the positions in its signature.

    Attributes:
        settings: of the steps.
        prefix: of the handles of the runs.
        converters: of the feeds, by name.
        feeds, fetches: the positions in the signature, by name.
        targets: the operations, by name.
        fed, announced: the names of all feeds, and of all outputs.
        needs: for each output the feeds on which it depends.
        calls: caches the requests of calls, by their names.
    """

    executor: Executor
    settings: StepSettings
    prefix: str
    converters: Mapping[str, FeedConverter]
    feeds: Mapping[str, int]
    fetches: Mapping[str, int]
    targets: Mapping[str, Operation]
    fed: frozenset[str]
    announced: frozenset[str]
    needs: Mapping[str, frozenset[str]]
    calls: dict[tuple[tuple[str, ...], tuple[str, ...]], _Call] = field(default_factory=dict)

    def call(self, feed_names: tuple[str, ...], output_names: tuple[str, ...]) -> _Call:
        """The request of a call with these names; names that were not announced are refused by `PartialRun.check`."""
        known = self.calls.get((feed_names, output_names))
        if known is not None:
            return known
        fed = tuple(canonical(name) for name in feed_names)
        asked = tuple(name if name in self.targets else canonical(name) for name in output_names)
        tensors = [name for name in asked if name in self.fetches]
        fed_set, asked_set = frozenset(fed), frozenset(asked)
        is_announced = self.feeds.keys() >= fed_set and self.announced >= asked_set
        results = tuple(tensors.index(name) if name in self.fetches else None for name in asked)
        made = _Call(
            fed,
            asked,
            is_announced and len(fed_set) == len(fed) and len(asked_set) == len(asked),
            fed_set,
            asked_set,
            frozenset().union(*(self.needs[name] for name in asked_set)) if is_announced else frozenset(),
            tuple(self.converters[name] for name in fed if name in self.converters),
            tuple(self.feeds[name] for name in fed if name in self.feeds),
            tuple(self.fetches[name] for name in tensors),
            tuple(self.targets[name] for name in asked if name in self.targets),
            results,
            results == tuple(range(len(tensors))),
        )
        if is_announced:
            self.calls[feed_names, output_names] = made
        return made


class _Open:
    """An open run of a `form`; the call that ends the step holds the lock `ending`, if that takes long."""

    __slots__ = ("ending", "form", "run", "step")

    def __init__(self, form: _Form) -> None:
        self.form = form
        self.run = PartialRun(form.fed, form.announced, form.needs)
        self.step = form.executor.open(form.settings)
        self.ending: asyncio.Lock | None = None


class PartialRuns:
    """The partial runs of a `_session`.

    `_open` are the open runs by handle, `_forms` the forms by names; `_handles` numbers the runs.
    """

    def __init__(self, session: LocalRuntime) -> None:
        self._session = session
        self._open: dict[str, _Open] = {}
        self._forms: dict[Names, _Form] = {}
        self._handles = itertools.count()

    def open(self, names: Names) -> str | None:
        """Open a step for these feeds, outputs and targets, and return its handle; None: there is no form for the names."""
        form = self._forms.get(names)
        return None if form is None else self._opened(form)

    async def setup(self, graph: Graph, names: Names) -> str:
        """Open a step for names that have no form yet.

        Raises:
            OpError: there is no such signature.
        """
        session = self._session
        with session.scope_of(DEFAULT):
            found = await session.executor(signature_of(graph, *names, is_partial=True))
            planned = found.executor if isinstance(found, Reordered) else found
            form = self._forms[names] = _form_of(planned, names, session)
        return self._opened(form)

    def _opened(self, form: _Form) -> str:
        handle = f"{form.prefix}{next(self._handles)}"
        self._open[handle] = _Open(form)
        return handle

    def forget_plans(self) -> None:
        """Discard all plans, so that runs set up from now on are planned again."""
        self._forms.clear()

    def is_open(self, handle: str) -> bool:
        """Whether there is an open run with this handle; there are none once the session is closed."""
        return handle in self._open

    def begin(
        self, handle: str, feed_names: tuple[str, ...], given: Sequence[Any], output_names: tuple[str, ...]
    ) -> list[Any] | Awaitable[list[Any]] | None:
        """Do what `run` does without suspending: returns the outputs, or an awaitable of them.

        None: the run is not open, the request is not allowed, or a feed is not a small array; nothing was done.

        Raises:
            OpError: a feed does not fit; nothing was done.
        """
        found = self._open.get(handle)
        if found is None:
            return None
        call = found.form.call(feed_names, output_names)
        if not (call.is_announced and found.run.allows(call.fed_set, call.asked_set, call.needs)):
            return None
        values: list[Any] = []
        for place, converter in enumerate(call.converters):  # a strict `zip` takes longer than all passes
            value = given[place]
            if value.__class__ is not np.ndarray or value.nbytes > HEAVY_BYTES:
                return None
            values.append(converter.convert(value).copy())  # the caller gets control back before it is used
        return self._go_on(handle, found, call, values)

    async def run(
        self, handle: str, feed_names: tuple[str, ...], given: Sequence[Any], output_names: tuple[str, ...]
    ) -> list[Any]:
        """Feed a run and wait for some of its outputs; a name that was set up as a target waits for the operation.

        Raises:
            InvalidArgumentError: see `PartialRun.check`; no run has this handle.
            OpError: the step failed, with this call or before.
        """
        begun = self.begin(handle, feed_names, given, output_names)
        if begun is not None:
            return begun if isinstance(begun, list) else await begun
        found = self._open.get(handle)
        if found is None:
            raise InvalidArgumentError("Must run 'setup' before performing partial runs!")
        call = found.form.call(feed_names, output_names)
        found.run.check(call.fed, call.asked)
        with self._session.scope_of(DEFAULT):
            values = await self._values(call, given)
            found.run.check(call.fed, call.asked)  # other calls may have fed while these feeds were converted
            outputs = self._go_on(handle, found, call, values)
            return outputs if isinstance(outputs, list) else await outputs

    def _go_on(
        self, handle: str, found: _Open, call: _Call, values: Sequence[Any]
    ) -> list[Any] | Awaitable[list[Any]]:
        """Feed a run: returns its outputs, or an awaitable of them."""
        run, step = found.run, found.step
        try:
            run.begin(call.fed, call.asked)
            for place, feed in enumerate(call.feeds):
                step.feed(feed, values[place])
            outputs = step.fetch_nowait(call.fetches, call.operations)
            if outputs is not None and run.is_done:
                if step.close_if_over():
                    self._open.pop(handle, None)
                else:
                    outputs = None
        except BaseException as error:
            return self._fail(handle, found, error)
        if outputs is None:
            return self._rest(handle, found, call)
        return outputs if call.are_in_order else call.picked(outputs)

    async def _rest(self, handle: str, found: _Open, call: _Call) -> list[Any]:
        """Wait for the outputs of a call, and for the end of the step, if everything announced is done."""
        try:
            with self._session.scope_of(DEFAULT):
                outputs = await found.step.fetch(call.fetches)
                if call.operations:
                    await found.step.wait_for_targets(call.operations)
                await self._finish(handle, found)
        except BaseException as error:
            await self._end(handle, found, error)
            raise
        return call.picked(outputs)

    async def _fail(self, handle: str, found: _Open, error: BaseException) -> list[Any]:
        await self._end(handle, found, error)
        raise error

    async def _finish(self, handle: str, found: _Open) -> None:
        """Close the run if everything announced is done."""
        if found.run.is_done:
            if not found.step.close_if_over():
                found.ending = found.ending or asyncio.Lock()
                async with found.ending:
                    await found.step.finish()
            self._open.pop(handle, None)

    async def _values(self, call: _Call, given: Sequence[Any]) -> list[Any]:
        """The feeds as arrays of the run's own, since the caller may write to its arrays before the run uses them."""
        values = await convert_feeds(call.converters, given, self._session.convert)
        return [
            np.array(value, copy=True) if value is one else value
            for value, one in zip(values, given, strict=True)
        ]

    async def _end(self, handle: str, found: _Open, error: BaseException) -> None:
        """End a run with an error; other calls that wait for it fail with the same error."""
        self._open.pop(handle, None)
        reason = error if isinstance(error, Exception) else CancelledError("the partial run was cancelled")
        found.ending = found.ending or asyncio.Lock()
        async with found.ending:
            await found.step.cancel(reason)

    async def abandon(self) -> None:
        """End the runs without a pending call."""
        while self._open:
            handle, found = next(iter(self._open.items()))
            await self._end(handle, found, SessionClosedError("Session has been closed."))


def _form_of(executor: Executor, names: Names, session: LocalRuntime) -> _Form:
    signature = executor.plan.signature
    feeds = {tensor.name: place for place, tensor in enumerate(signature.feeds)}
    fetches = {tensor.name: place for place, tensor in enumerate(signature.fetches)}
    targets = {op.name: op for op in signature.targets}
    return _Form(
        executor,
        StepSettings(None, session.pools[0]),
        f"{';'.join(itertools.chain(*names))}/{session.session_handle}/",
        {tensor.name: FeedConverter(tensor) for tensor in signature.feeds},
        feeds,
        fetches,
        targets,
        frozenset(feeds),
        frozenset([*fetches, *targets]),
        needs_of(signature),
    )
