"""Datasets whose elements functions generate, with a state between them."""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import OutOfRangeError
from aioexec.resources.datasets.dataset import Dataset, Memory, Pass
from aioexec.resources.datasets.mapping import Function
from aioexec.resources.datasets.work import Call, Element, Request, Work
from aioexec.shapes import Dims


@dataclass(frozen=True, slots=True, eq=False)
class GeneratorDataset:
    """Calls `start` once, then `advance` with its results until that raises OutOfRangeError.

    `finish` is called with the same when the pass ends or is given up.
    """

    start: Function
    advance: Function
    finish: Function
    dtypes: tuple[DType, ...]
    dims: tuple[Dims, ...]

    def begin(self, memory: Memory) -> Pass:
        return _Generated(self)


class _Generated:
    """A pass over generated elements.

    `_state` are the results of `start`, once there; `_call` is the pending call of `start` or `advance`; `_finishing` the call
    of `finish`, which `_finisher` makes if the pass is given up; `_has_ended` is set when there are no more elements.
    """

    def __init__(self, dataset: GeneratorDataset) -> None:
        self._dataset = dataset
        self._state: Element | None = None
        self._call: Request | None = None
        self._finisher: Call | None = None
        self._finishing: Request | None = None
        self._has_ended = False

    def next(self, work: Work) -> Element | Request | None:
        while not self._has_ended:
            if self._call is None:
                self._call = self._begun(work)
            if self._call.is_open:
                return self._call
            call, self._call = self._call, None
            if self._state is None:
                self._started(work, call.outcome())
                continue
            try:
                return call.outcome()
            except OutOfRangeError:
                self._has_ended = True
                self._end(work)
        if self._finishing is not None and self._finishing.is_open:
            return self._finishing
        return None

    def _begun(self, work: Work) -> Request:
        if self._state is None:
            return self._dataset.start.call(work, ())
        return self._dataset.advance.call(work, self._state)

    def _started(self, work: Work, state: Element) -> None:
        self._state = state
        finish = self._dataset.finish
        self._finisher = Call(finish.body, (*state, *finish.captured))
        work.finalize_with(self._finisher)

    def _end(self, work: Work) -> None:
        assert self._state is not None
        assert self._finisher is not None
        work.release(self._finisher)
        self._finishing = self._dataset.finish.call(work, self._state)


@dataclass(frozen=True, slots=True, eq=False)
class ScanDataset:
    """The outputs of a function of a state and each element; it returns the next state, then the outputs."""

    source: Dataset
    function: Function
    state: Element
    dtypes: tuple[DType, ...]
    dims: tuple[Dims, ...]

    def begin(self, memory: Memory) -> Pass:
        return _Scanned(self.source.begin(memory), self.function, self.state)


class _Scanned:
    """A pass over scanned elements: `_call` is the pending request."""

    def __init__(self, source: Pass, function: Function, state: Element) -> None:
        self._source = source
        self._function = function
        self._state = state
        self._call: Request | None = None

    def next(self, work: Work) -> Element | Request | None:
        if self._call is None:
            found = self._source.next(work)
            if found is None or isinstance(found, Request):
                return found
            self._call = self._function.call(work, (*self._state, *found))
        if self._call.is_open:
            return self._call
        call, self._call = self._call, None
        outputs = call.outcome()
        self._state = outputs[: len(self._state)]
        return outputs[len(self._state) :]
