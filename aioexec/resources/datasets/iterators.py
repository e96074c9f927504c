"""Iterators: passes over datasets that several steps share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aioexec.dtypes import DType
from aioexec.errors import FailedPreconditionError, OutOfRangeError
from aioexec.resources.datasets.dataset import Dataset, Pass, check_components
from aioexec.resources.datasets.work import Background, Element, Request, Work
from aioexec.shapes import Dims


class Iterator:
    """Iterates over a dataset for several callers, one at a time, and for several sessions.

    Constant: name, container, device, dtypes, dims. Changing: `_pass`, None before initialisation; `_works`, the work of each
    session for it. `_lock` is held by the caller that waits for an element.
    """

    def __init__(
        self, name: str, container: str, device: str, dtypes: Sequence[DType], dims: Sequence[Dims]
    ) -> None:
        self.name = name
        self.container = container
        self.device = device
        self.dtypes = tuple(dtypes)
        self.dims = tuple(dims)
        self._pass: Pass | None = None
        self._works: list[Work] = []
        self._lock = asyncio.Lock()

    def begin(self, dataset: Dataset) -> None:
        """Start to iterate over a dataset.

        Raises:
            InvalidArgumentError: its dtypes or shapes differ from the iterator's.
        """
        check_components(self.dtypes, self.dims, dataset.dtypes, dataset.dims)
        self._pass = dataset.begin({})
        for work in self._works:
            work.stop()
        self._works = []

    async def begin_once(self, make: Callable[[], Awaitable[Dataset]]) -> None:
        """Start to iterate over the result of `make`, unless the iterator is initialised."""
        async with self._lock:
            if self._pass is None:
                self.begin(await make())

    def next_nowait(self, background: Background) -> Element | None:
        """Return the next element if it is available without waiting, else None.

        Raises:
            FailedPreconditionError: the iterator is not initialised.
            OutOfRangeError: there are no more elements.
        """
        if self._lock.locked():
            return None
        found = self._begun().next(self._work_of(background))
        return None if isinstance(found, Request) else _element(found)

    async def next(self, background: Background) -> Element:
        """Return the next element.

        Raises:
            FailedPreconditionError: the iterator is not initialised.
            OutOfRangeError: there are no more elements.
        """
        async with self._lock:
            while isinstance(found := self._begun().next(self._work_of(background)), Request):
                await self._work_of(background).wait(found)
            return _element(found)

    def _work_of(self, background: Background) -> Work:
        """Return the work of a session for the present pass."""
        for work in self._works:
            if work.background is background:
                return work
        self._works = [work for work in self._works if not work.is_closed]
        self._works.append(Work(background))
        return self._works[-1]

    def _begun(self) -> Pass:
        if self._pass is None:
            raise FailedPreconditionError(
                "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                "initializer operation for this iterator before getting the next element."
            )
        return self._pass


def _element(found: Element | None) -> Element:
    if found is None:
        raise OutOfRangeError("End of sequence")
    return found


async def next_of(through: Pass, work: Work) -> Element | None:
    """Return the next element of a pass, None at the end."""
    while isinstance(found := through.next(work), Request):
        await work.wait(found)
    return found
