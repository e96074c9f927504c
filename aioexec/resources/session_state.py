"""Tensors kept in a session between steps, each under a handle "<node>;<number>;<device>"."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.resources.manager import ResourceManager

Array = np.ndarray[Any, Any]


class SessionState:
    """The tensors kept on one device.

    `_tensors` maps handles to copies, which are never modified; `_numbers` yields unique numbers.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, Array] = {}
        self._numbers = itertools.count()

    def keep(self, value: Array, node_name: str, device: str) -> str:
        """Keep a copy of a value; return its handle."""
        kept = np.array(value, copy=True, order="C")
        kept.setflags(write=False)
        handle = f"{node_name};{next(self._numbers)};{device}"
        self._tensors[handle] = kept
        return handle

    def find(self, handle: str) -> Array:
        """Return the value of a handle, which must not be modified.

        Raises:
            InvalidArgumentError: the handle is unknown or deleted.
        """
        value = self._tensors.get(handle)
        if value is None:
            raise InvalidArgumentError(f"The tensor with handle {handle!r} is not in the session store")
        return value

    def delete(self, handle: str) -> None:
        """Delete a value.

        Raises:
            InvalidArgumentError: the handle is unknown or deleted.
        """
        if self._tensors.pop(handle, None) is None:
            raise InvalidArgumentError(
                f"Failed to delete a tensor with handle {handle!r} in the session store: there is none"
            )

    def discard(self, handle: str) -> None:
        """Delete a value if it exists."""
        self._tensors.pop(handle, None)

    def __len__(self) -> int:
        return len(self._tensors)


def session_state(resources: ResourceManager) -> SessionState:
    """Return the session state among a device's resources."""
    return resources.lookup_or_create(SessionState, "", "session_state", SessionState)


def device_of(handle: str) -> str:
    """Return the full name of the device that keeps the tensor of a handle.

    Raises:
        InvalidArgumentError: the text is not a handle.
    """
    parts = handle.rsplit(";", 2)
    if len(parts) != 3:
        raise InvalidArgumentError(f"expected a handle '<node>;<number>;<device>', got {handle!r}")
    return parts[2]
