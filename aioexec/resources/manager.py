"""Where state lives between steps: named containers of named resources, one type apart from another.

What a graph passes along its resource edges is the resource itself, bare or as a scalar array of it, never a name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from aioexec.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError

Resource = TypeVar("Resource")

_CONTAINER = r"[A-Za-z0-9.][A-Za-z0-9./-]*"
_private_names = itertools.count()


class Place(NamedTuple):
    """Where the resource of a node is kept."""

    container: str
    name: str


def place_of(attrs: Mapping[str, Any], node_name: str, shared_by_node_name: bool = False) -> Place:
    """The container and name that a stateful node asks for by its attrs `container` and `shared_name`.

    Without a shared name the resource is the node's own, under a name no other node has, in this session or another one;
    with `shared_by_node_name` the node's name stands for it.

    Raises:
        InvalidArgumentError: a bad container or shared name.
    """
    container, shared_name = attrs["container"], attrs["shared_name"]
    if isinstance(container, bytes) or (container and not re.fullmatch(_CONTAINER, container)):
        raise InvalidArgumentError(f"container contains invalid characters: {container!r} (of {node_name!r})")
    if isinstance(shared_name, bytes):  # as attributes are that are not UTF-8
        shared_name = shared_name.decode(errors="surrogateescape")
    if shared_name.startswith("_"):
        raise InvalidArgumentError(f"shared_name cannot start with '_': {shared_name!r} (of {node_name!r})")
    if shared_name or shared_by_node_name:
        return Place(container, shared_name or node_name)
    return Place(container, f"_{next(_private_names)}_{node_name}")


def resource_behind(kind: type[Resource], handle: Any, device: str) -> Resource:
    """The resource a handle stands for, to be used by a kernel on `device`.

    Raises:
        InvalidArgumentError: it is of another type, or is kept on another device.
    """
    if isinstance(handle, np.ndarray) and handle.size == 1:
        handle = handle.item()
    if not isinstance(handle, kind):
        raise InvalidArgumentError(
            f"Trying to access a handle's resource using the wrong type: expected a {kind.__name__}, "
            f"the handle points to {getattr(handle, 'name', handle)!r}, a {type(handle).__name__}"
        )
    kept_on = getattr(handle, "device", device)
    if kept_on != device:
        raise InvalidArgumentError(
            f"Trying to access resource {getattr(handle, 'name', handle)!r} located in device {kept_on} "
            f"from device {device}"
        )
    return handle


class ResourceManager:
    """The resources of a device or session.

    `_containers` maps container -> (type, name) -> resource. Only the event loop's thread and kernels under the interpreter
    lock touch it; every method is one uninterrupted look-up or change.
    """

    def __init__(self, default_container: str = "localhost") -> None:
        self.default_container = default_container
        self._containers: dict[str, dict[tuple[type, str], Any]] = {}

    def lookup(self, kind: type[Resource], container: str, name: str) -> Resource:
        """The resource of that type and name.

        Raises:
            NotFoundError: there is none.
        """
        found: Resource | None = self._containers.get(container or self.default_container, {}).get(
            (kind, name)
        )
        if found is None:
            raise NotFoundError(
                f"Resource {container or self.default_container}/{name}/{kind.__name__} does not exist"
            )
        return found

    def create(self, container: str, name: str, resource: Any) -> None:
        """Keep a resource under a name.

        Raises:
            AlreadyExistsError: the name is taken by a resource of this type.
        """
        held = self._held(container)
        if held.setdefault((type(resource), name), resource) is not resource:
            raise AlreadyExistsError(
                f"Resource {container or self.default_container}/{name}/{type(resource).__name__} exists already"
            )

    def lookup_or_create(
        self, kind: type[Resource], container: str, name: str, make: Callable[[], Resource]
    ) -> Resource:
        """The resource of that type and name, made if there is none; all callers get the same one."""
        held = self._held(container)
        found: Resource | None = held.get((kind, name))
        if found is None:
            found = held.setdefault((kind, name), make())  # plans are made in a thread
        return found

    def delete(self, kind: type[Any], container: str, name: str) -> None:
        """Forget a resource.

        Raises:
            NotFoundError: there is none.
        """
        self.lookup(kind, container, name)
        del self._containers[container or self.default_container][kind, name]

    def cleanup(self, container: str = "") -> None:
        """Forget everything in one container."""
        self._containers.pop(container or self.default_container, None)

    def clear(self) -> None:
        self._containers.clear()

    def _held(self, container: str | bytes) -> dict[tuple[type, str], Any]:
        container = container or self.default_container
        if (
            not isinstance(container, str)
            or container.startswith("/")
            or any(char.isspace() for char in container)
        ):
            raise InvalidArgumentError(f"container contains invalid characters: {container!r}")
        return self._containers.setdefault(container, {})
