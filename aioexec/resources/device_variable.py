"""Variables whose content is in the memory of a device."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.resources.buffer import Buffer
from aioexec.resources.variable import Variable
from aioexec.shapes import compatible


class DeviceVariable(Variable):
    """A variable that holds a `Buffer`. Nothing copies it: a buffer never changes, so a reader may keep it.

    Kernels of its device call `content` and `replace`; the methods with arrays are not for it.
    """

    __slots__ = ()

    def content(self) -> Buffer:
        """The current content.

        Raises:
            FailedPreconditionError: the variable is not initialised.
        """
        return cast(Buffer, self.require())

    def replace(self, buffer: Buffer, validate_shape: bool = True) -> None:
        """Make a buffer the content.

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
        self.swap(cast("np.ndarray[Any, Any]", buffer))
