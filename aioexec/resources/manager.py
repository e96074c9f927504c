"""Resource manager: containers of named resources; each type has a name space of its own.

Resource edges carry the resource itself, bare or in a scalar array, never its name.
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
    """The container and name of a node's resource."""

    container: str
    name: str


def place_of(attrs: Mapping[str, Any], node_name: str, shared_by_node_name: bool = False) -> Place:
    """Return the container and name of a stateful node, by its attributes `container` and `shared_name`.

    Without a shared name the resource is private to the node, under a unique name; with `shared_by_node_name` the name of the
    node is used.

    Raises:
        InvalidArgumentError: the container or shared name is malformed.
    """
    container, shared_name = attrs["container"], attrs["shared_name"]
    if isinstance(container, bytes) or (container and not re.fullmatch(_CONTAINER, container)):
        raise InvalidArgumentError(f"container contains invalid characters: {container!r} (of {node_name!r})")
    if isinstance(shared_name, bytes):  # attributes that are not UTF-8 are bytes
        shared_name = shared_name.decode(errors="surrogateescape")
    if shared_name.startswith("_"):
        raise InvalidArgumentError(f"shared_name cannot start with '_': {shared_name!r} (of {node_name!r})")
    if shared_name or shared_by_node_name:
        return Place(container, shared_name or node_name)
    return Place(container, f"_{next(_private_names)}_{node_name}")


def resource_of_handle(kind: type[Resource], handle: Any, device: str) -> Resource:
    """Return the resource of a handle, for a kernel on `device`.

    Raises:
        InvalidArgumentError: the resource has another type, or is on another device.
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

    `_containers` maps container -> (type, name) -> resource. It is accessed by the event loop's thread and by kernels on
    workers; each method is atomic under the GIL.
    """

    def __init__(self, default_container: str = "localhost") -> None:
        self.default_container = default_container
        self._containers: dict[str, dict[tuple[type, str], Any]] = {}

    def lookup(self, kind: type[Resource], container: str, name: str) -> Resource:
        """Return the resource of that type and name.

        Raises:
            NotFoundError: there is no such resource.
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
        """Add a resource under a name.

        Raises:
            AlreadyExistsError: a resource of this type has the name.
        """
        held = self._held(container)
        if held.setdefault((type(resource), name), resource) is not resource:
            raise AlreadyExistsError(
                f"Resource {container or self.default_container}/{name}/{type(resource).__name__} exists already"
            )

    def lookup_or_create(
        self, kind: type[Resource], container: str, name: str, make: Callable[[], Resource]
    ) -> Resource:
        """Return the resource of that type and name, created by `make` if missing; all callers get the same one."""
        held = self._held(container)
        found: Resource | None = held.get((kind, name))
        if found is None:
            found = held.setdefault((kind, name), make())  # plans are built on a thread
        return found

    def delete(self, kind: type[Any], container: str, name: str) -> None:
        """Remove a resource.

        Raises:
            NotFoundError: there is no such resource.
        """
        self.lookup(kind, container, name)
        del self._containers[container or self.default_container][kind, name]

    def cleanup(self, container: str = "") -> None:
        """Remove all resources of a container."""
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
