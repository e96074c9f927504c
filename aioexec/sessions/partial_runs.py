"""The partial runs of a direct session: each is a step that is open from its setup until all that was announced is done.

A call that fails before it has fed anything leaves its run as it was. Once it has fed, an error, its cancellation and its
deadline end the run: what it fed cannot be taken back. Runs that nobody goes on with are abandoned when the session closes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.errors import CancelledError, InvalidArgumentError, SessionClosedError
from aioexec.execution.executor import Executor, PartialStep
from aioexec.execution.step import StepSettings
from aioexec.graph.graph import Graph
from aioexec.sessions.feeds import FeedConverter, converted
from aioexec.sessions.names import canonical, signature_of
from aioexec.sessions.partial_run import PartialRun, needs_of
from aioexec.sessions.reordered import Reordered
from aioexec.sessions.run_options import DEFAULT

if TYPE_CHECKING:
    from aioexec.sessions.direct import DirectSession

Names = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Form:
    """What all partial runs with the same names share: the executor, and where things are in its signature."""

    executor: Executor
    converters: Mapping[str, FeedConverter]
    feeds: Mapping[str, int]
    fetches: Mapping[str, int]
    targets: frozenset[str]
    needs: Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Open:
    """A run that is open; `ending` is held by the one of its callers who ends the step."""

    run: PartialRun
    step: PartialStep
    form: _Form
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)


class PartialRuns:
    """`_open` are the runs by handle, `_forms` what was set up before by names; `_handles` numbers them."""

    def __init__(self, session: DirectSession) -> None:
        self._session = session
        self._open: dict[str, _Open] = {}
        self._forms: dict[Names, _Form] = {}
        self._handles = itertools.count()

    async def setup(self, graph: Graph, names: Names) -> str:
        """Open a step for these feeds, outputs and targets.

        Raises:
            OpError: there is no such signature.
        """
        session = self._session
        with session.scope_of(DEFAULT):
            form = self._forms.get(names)
            if form is None:
                found = await session.executor(signature_of(graph, *names, is_partial=True))
                planned = found.executor if isinstance(found, Reordered) else found
                form = self._forms[names] = _form_of(planned)
            step = form.executor.open(StepSettings(None, session.pools[0]))
        handle = f"{';'.join(itertools.chain(*names))}/{session.session_handle}/{next(self._handles)}"
        run = PartialRun(form.feeds, [*form.fetches, *form.targets], form.needs)
        self._open[handle] = _Open(run, step, form)
        return handle

    async def run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], output_names: Sequence[str]
    ) -> list[Any]:
        """Feed a run and wait for some of its outputs; a name that was set up as a target waits for the operation.

        Raises:
            InvalidArgumentError: see `PartialRun.check`; no run has this handle.
            OpError: the step failed, with this call or before.
        """
        found = self._open.get(handle)
        if found is None:
            raise InvalidArgumentError("Must run 'setup' before performing partial runs!")
        fed = [canonical(name) for name, _ in feeds]
        asked = [name if name in found.form.targets else canonical(name) for name in output_names]
        found.run.check(fed, asked)
        with self._session.scope_of(DEFAULT):
            values = await self._values(found.form, fed, [value for _, value in feeds])
            found.run.check(fed, asked)  # others may have fed while these were converted
            try:
                return await self._go_on(handle, found, dict(zip(fed, values, strict=True)), asked)
            except BaseException as error:
                await self._end(handle, found, error)
                raise

    async def _go_on(
        self, handle: str, found: _Open, values: Mapping[str, Any], asked: Sequence[str]
    ) -> list[Any]:
        form, step = found.form, found.step
        found.run.begin(list(values), asked)
        for name, value in values.items():
            step.feed(form.feeds[name], value)
        tensors = [name for name in asked if name not in form.targets]
        outputs = await step.fetch([form.fetches[name] for name in tensors])
        operations = [op for op in form.executor.plan.signature.targets if op.name in asked]
        if operations:
            await step.ran(operations)
        if found.run.is_done:
            async with found.ending:
                await step.finish()
            self._open.pop(handle, None)
        results = dict(zip(tensors, outputs, strict=True))
        return [results.get(name) for name in asked]

    async def _values(self, form: _Form, names: Sequence[str], given: Sequence[Any]) -> list[Any]:
        """What is fed as arrays of the run's own: the caller gets control back before they are used."""
        known = [(form.converters[name], value) for name, value in zip(names, given, strict=True)]
        values = await converted(
            [converter for converter, _ in known], [value for _, value in known], self._session.convert
        )
        return [
            np.array(value, copy=True) if value is one else value
            for value, one in zip(values, given, strict=True)
        ]

    async def _end(self, handle: str, found: _Open, error: BaseException) -> None:
        """An error ends a run; whoever else waits for it gets the same."""
        self._open.pop(handle, None)
        told = error if isinstance(error, Exception) else CancelledError("the partial run was cancelled")
        async with found.ending:
            await found.step.cancel(told)

    async def abandon(self) -> None:
        """End the runs nobody goes on with."""
        while self._open:
            handle, found = next(iter(self._open.items()))
            await self._end(handle, found, SessionClosedError("Session has been closed."))


def _form_of(executor: Executor) -> _Form:
    signature = executor.plan.signature
    return _Form(
        executor,
        {tensor.name: FeedConverter(tensor) for tensor in signature.feeds},
        {tensor.name: place for place, tensor in enumerate(signature.feeds)},
        {tensor.name: place for place, tensor in enumerate(signature.fetches)},
        frozenset(op.name for op in signature.targets),
        needs_of(signature),
    )
