"""The status of a listener for gRPC's health checking protocol (grpc.health.v1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from aioexec.errors import NotFoundError
from aioexec.formats.protos import HealthCheckResponse

Status = HealthCheckResponse.ServingStatus


class Health:
    """Serving from the start until it is drained; service "" is the whole server.

    Args:
        services: full names of services, "tensorflow.MasterService".
    """

    def __init__(self, services: Iterable[str]) -> None:
        self._services = frozenset({"", *services})
        self._drained = asyncio.Event()

    def drain(self) -> None:
        """Report NOT_SERVING from now on, also to watches under way."""
        self._drained.set()

    @property
    def is_serving(self) -> bool:
        """Whether the status is SERVING."""
        return not self._drained.is_set()

    def check(self, service: str) -> Status:
        """The status of a service.

        Raises:
            NotFoundError: the service is unknown here.
        """
        if service not in self._services:
            raise NotFoundError(f"unknown service {service!r}")
        return HealthCheckResponse.SERVING if self.is_serving else HealthCheckResponse.NOT_SERVING

    async def watch(self, service: str) -> AsyncIterator[Status]:
        """Yield the status of a service, and then each change of it, until the listener stops."""
        if service not in self._services:
            yield HealthCheckResponse.SERVICE_UNKNOWN
            await self._drained.wait()
            return
        if self.is_serving:
            yield HealthCheckResponse.SERVING
            await self._drained.wait()
        yield HealthCheckResponse.NOT_SERVING
