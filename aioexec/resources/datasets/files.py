"""Datasets of the records of files, which workers read in pieces.

No file stays open between two pieces, so there is none to close when a pass is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import DataLossError
from aioexec.resources.datasets.dataset import Memory, Pass
from aioexec.resources.datasets.work import Array, Element, InWorker, Request, Work
from aioexec.shapes import Dims


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Records that were read at once, and the rest of the file, None at its end.

    An error that comes after the records is raised by the rest.
    """

    records: Sequence[bytes]
    rest: Rest | None


Rest = Callable[[], Piece]
"""Reads the next piece of a file; called on a worker, and again if the result was lost."""
Open = Callable[[bytes], Piece]
"""Reads the first piece of the file of that name."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordsDataset:
    """The records of files, one file after another, as strings."""

    names: tuple[bytes, ...]
    open: Open

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return (dt.string,)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return ((),)

    def begin(self, memory: Memory) -> Pass:
        return _Records(self.names, self.open)


class _Records:
    """A pass over records: `_records` of the present piece, `_position` the next; `_rest` of the file; `_reading` a piece."""

    def __init__(self, names: Sequence[bytes], open: Open) -> None:
        self._names = iter(names)
        self._open = open
        self._records: Sequence[bytes] = ()
        self._position = 0
        self._rest: Rest | None = None
        self._reading: _Reading | None = None

    def next(self, work: Work) -> Element | Request | None:
        while self._position >= len(self._records):
            if self._reading is None:
                rest = self._rest or self._next_file()
                if rest is None:
                    return None
                self._reading, self._rest = _Reading(rest), None
            if self._reading.is_open:
                return self._reading
            reading, self._reading = self._reading, None
            if reading.error is not None and not isinstance(reading.error, DataLossError):
                self._rest = reading.rest  # as in TensorFlow, a file that cannot be opened is not passed over
            reading.outcome()
            piece = reading.piece
            assert piece is not None
            self._records, self._position, self._rest = piece.records, 0, piece.rest
        record = self._records[self._position]
        self._position += 1
        return (string_scalar(record),)

    def _next_file(self) -> Rest | None:
        name = next(self._names, None)
        return None if name is None else partial(self._open, name)


def string_scalar(value: bytes) -> Array:
    """Return a scalar of dtype string."""
    return dt.to_array(value, dt.string)


class _Reading(InWorker):
    """Reads a piece of a file."""

    __slots__ = ("piece", "rest")

    def __init__(self, rest: Rest) -> None:
        super().__init__(self._read)
        self.rest = rest
        self.piece: Piece | None = None

    def _read(self) -> Element:
        self.piece = self.rest()
        return ()
