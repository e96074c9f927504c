"""Where state lives between steps: named containers of named resources, one type apart from another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from aioexec.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError

Resource = TypeVar("Resource")


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
        found = self._containers.get(container or self.default_container, {}).get((kind, name))
        if found is None:
            raise NotFoundError(
                f"Resource {container or self.default_container}/{name}/{kind.__name__} does not exist"
            )
        return found  # type: ignore[no-any-return]

    def create(self, container: str, name: str, resource: Any) -> None:
        """Keep a resource under a name.

        Raises:
            AlreadyExistsError: the name is taken by a resource of this type.
        """
        held = self._held(container)
        if (type(resource), name) in held:
            raise AlreadyExistsError(f"Resource {container or self.default_container}/{name} exists already")
        held[type(resource), name] = resource

    def lookup_or_create(
        self, kind: type[Resource], container: str, name: str, make: Callable[[], Resource]
    ) -> Resource:
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

    def _held(self, container: str) -> dict[tuple[type, str], Any]:
        container = container or self.default_container
        if container.startswith("/") or any(char.isspace() for char in container):
            raise InvalidArgumentError(f"{container!r} is not a valid container name")
        return self._containers.setdefault(container, {})
