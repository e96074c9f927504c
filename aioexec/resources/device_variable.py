"""Variables whose content is in the memory of a device.

An update makes a buffer the content at once, before the device has done the work that writes it; so later work reads it, in the
device's order. If that work fails, the variable has the content before the update again. The contents that may be needed for
this are kept until the update, or a later one, is certain. The event loop's thread only.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, cast

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.resources.buffer import Buffer, Event
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims, compatible


@dataclass(slots=True, eq=False)
class _Update:
    """An update whose work may fail: the content `after` it, and the one `before` it, None if the variable had none."""

    before: Buffer | None
    after: Buffer


class DeviceVariable(Variable):
    """A variable that holds a `Buffer`, which a reader may keep: only a buffer that nothing else refers to is written again.

    Kernels of its device call `content` and `replace`; the methods with arrays are not for it.

    State: `_uncertain` are the updates whose work may fail, in order; with those before it, an update leaves at its success.
    """

    __slots__ = ("_uncertain",)

    def __init__(self, name: str, dtype: DType, dims: Dims) -> None:
        super().__init__(name, dtype, dims)
        self._uncertain: list[_Update] = []

    def content(self) -> Buffer:
        """The current content.

        Raises:
            FailedPreconditionError: the variable is not initialised.
        """
        return cast(Buffer, self.require())

    def may_be_written(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
        """Whether the present content has this dtype and shape and no error, and nothing refers to it but the variable.

        References are counted: values of steps, work that is held or copies what the buffer has, views, and updates that are
        uncertain have one each.
        """
        if self.buffer is None or self.buffer.dtype != dtype or self.buffer.shape != shape:
            return False
        if self.content().ready.error is not None:
            return False
        return sys.getrefcount(self.buffer) <= 2  # the variable's and the call's

    def replace(self, buffer: Buffer, validate_shape: bool = True, accepted: Event | None = None) -> None:
        """Make a buffer the content, unless the work that writes it fails.

        Args:
            accepted: the event after which that work fails only if the device is lost; by default its end.

        Raises:
            InvalidArgumentError: shape or dtype differ from the variable's.
        """
        if buffer.dtype != self.dtype.numpy:
            raise InvalidArgumentError(
                f"Assign to variable {self.name!r}: expected dtype {self.dtype.name}, got {buffer.dtype}"
            )
        if validate_shape and not compatible(self.dims, buffer.shape):
            raise InvalidArgumentError(
                f"Assign requires shapes of both tensors to match: variable {self.name!r} has shape {self.dims}, "
                f"the value {buffer.shape}"
            )
        event = accepted or buffer.ready
        update = _Update(cast("Buffer | None", self.buffer), buffer)
        self._uncertain.append(update)
        self._hold(buffer)
        if event.is_done:
            self._settle(update, event)
        else:
            event.add_done_callback(partial(self._settle, update, event))

    def _settle(self, update: _Update, event: Event) -> None:
        """Keep an update that has succeeded, or undo one that has failed."""
        if update not in self._uncertain:
            return
        position = self._uncertain.index(update)
        if event.error is None:
            for each in self._uncertain[: position + 1]:
                each.before = None  # the callback refers to the update until its work has ended
            del self._uncertain[: position + 1]
            return
        del self._uncertain[position]
        for later in self._uncertain[position:]:
            if later.before is update.after:
                later.before = update.before
        if self.buffer is cast(Any, update.after):
            self._hold(update.before)

    def _hold(self, buffer: Buffer | None) -> None:
        self.swap(cast("np.ndarray[Any, Any]", buffer))
