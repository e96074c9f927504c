"""Variables: a buffer that steps read as a snapshot and write under a lease.

A buffer that was returned by `read` is never written again: the next update writes another buffer and swaps. A native program
pins the buffer instead, while it runs. A reader thus keeps its value without a copy.

State: `buffer` is the current value, None before initialisation. `escaped`: code outside of native programs may hold `buffer`.
`pins`: the number of programs, and kernels on workers, that read `buffer`. `spare`: a buffer without readers, for the next
update. `deviates`: `buffer` has another shape than declared (assigned without validation), so that programs for the declared
shape do not fit. `leased`: a running step has the right to write; others wait in `waiters`, in FIFO order.

All state changes on the event loop or, for kernels of a step that holds the lease or a pin, on the worker that runs them: such
a reader may set `escaped` for a buffer that was just replaced, but never miss to set it.
"""

from __future__ import annotations

import itertools
from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.resources.memory import aligned_copy, aligned_empty
from aioexec.shapes import Dims, compatible

_ids = itertools.count()


class Variable:
    """The state of a variable op."""

    __slots__ = (
        "__weakref__",
        "buffer",
        "deviates",
        "dims",
        "dtype",
        "escaped",
        "id",
        "leased",
        "name",
        "pins",
        "spare",
        "waiters",
    )

    def __init__(self, name: str, dtype: DType, dims: Dims) -> None:
        self.id = next(_ids)
        self.name = name
        self.dtype = dtype
        self.dims = dims
        self.buffer: np.ndarray[Any, Any] | None = None
        self.spare: np.ndarray[Any, Any] | None = None
        self.escaped = False
        self.deviates = False
        self.pins = 0
        self.leased = False
        self.waiters: deque[Future[None]] = deque()

    @property
    def is_initialized(self) -> bool:
        return self.buffer is not None

    def require(self) -> np.ndarray[Any, Any]:
        """Return the current buffer, which must not be kept.

        Raises:
            FailedPreconditionError: the variable is not initialised.
        """
        if self.buffer is None:
            raise FailedPreconditionError(
                f"Attempting to use uninitialized value {self.name}: run its initializer, "
                f"or global_variables_initializer(), first"
            )
        return self.buffer

    def read(self) -> np.ndarray[Any, Any]:
        """Return the current value as a snapshot, which must not be modified."""
        value = self.require()
        self.escaped = True
        return value

    def assign(self, value: np.ndarray[Any, Any], validate_shape: bool = True) -> None:
        """Replace the value by a copy of `value`.

        Raises:
            InvalidArgumentError: shape or dtype differ from the variable's.
        """
        self._check(value, validate_shape)
        self._replace(aligned_copy(value))

    def keep(self, value: np.ndarray[Any, Any], validate_shape: bool = True) -> None:
        """Replace the value by `value`, which has no other reference; raises as `assign` does."""
        self._check(value, validate_shape)
        self._replace(np.require(value, requirements=["C", "A", "W"]))

    def _check(self, value: np.ndarray[Any, Any], validate_shape: bool) -> None:
        if value.dtype != self.dtype.numpy:
            raise InvalidArgumentError(
                f"Assign to variable {self.name!r}: expected dtype {self.dtype.name}, got {value.dtype}"
            )
        if validate_shape and not compatible(self.dims, value.shape):
            raise InvalidArgumentError(
                f"Assign requires shapes of both tensors to match: variable {self.name!r} has shape {self.dims}, "
                f"the value {value.shape}"
            )

    def _replace(self, buffer: np.ndarray[Any, Any]) -> None:
        self.swap(buffer)
        self.deviates = not compatible(self.dims, buffer.shape)  # a reader compares the shape of its value

    def update(self, compute: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> None:
        """Replace the value by `compute(value)`, a new array."""
        present = self.require()
        fresh = np.asarray(compute(present), present.dtype, order="C")
        if fresh.shape != present.shape:
            raise InvalidArgumentError(
                f"update of variable {self.name!r}: expected shape {present.shape}, got {fresh.shape}"
            )
        self.swap(aligned_copy(fresh) if fresh is present else fresh)

    def next_buffer(self, in_place: bool) -> np.ndarray[Any, Any]:
        """Return a buffer of the declared shape for the next value: the current one if `in_place` and not read elsewhere."""
        if in_place and self.buffer is not None and not (self.escaped or self.pins or self.deviates):
            return self.buffer
        fresh, self.spare = self.spare, None
        if fresh is not None:
            return fresh
        return aligned_empty([dim or 0 for dim in self.dims or ()], self.dtype.numpy)

    def publish(self, buffer: np.ndarray[Any, Any]) -> None:
        """Make the result of `next_buffer`, now written, the current value."""
        if buffer is self.buffer:
            return
        if not (self.escaped or self.pins or self.deviates):
            self.spare = self.buffer
        self.swap(buffer)
        self.deviates = False

    def swap(self, buffer: np.ndarray[Any, Any]) -> None:
        """Make `buffer`, which has no other reference, the current value."""
        self.escaped = (
            False  # first: a reader on another thread may intervene, and what it reads must stay marked
        )
        self.buffer = buffer
