"""The aiohttp application: the routes of every protocol over HTTP, for the models of a repository.

Every error is returned as {"error": message} with the HTTP status of its class. A program with an aiohttp server of its own
mounts this application there: `own.add_subapp("/ml", application({"digits": model}))`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from aiohttp import web

from aioexec.serving import health, openapi
from aioexec.serving.admission import Admission
from aioexec.serving.application_keys import ADMISSION, DECOMPRESSES, LIMITS, METRICS, REPOSITORY
from aioexec.serving.guard import guard
from aioexec.serving.kserve.http_routes import add_routes as add_kserve_routes
from aioexec.serving.limits import Limits
from aioexec.serving.models.served_version import Model, Signature
from aioexec.serving.page.routes import add_routes as add_page_routes
from aioexec.serving.repository import Repository
from aioexec.serving.rest.routes import add_routes as add_rest_routes
from aioexec.serving.telemetry.loop_lag import measured_lag
from aioexec.serving.telemetry.metrics import Metrics
from aioexec.serving.telemetry.tracing import RunSpans

_PROTOCOLS: Final[tuple[Callable[[web.Application], None], ...]] = (
    health.add_routes,
    openapi.add_routes,
    add_rest_routes,
    add_page_routes,
    add_kserve_routes,
)
"""What adds routes; handlers find what they share by `application_keys`."""


def application(
    models: Repository | Mapping[str, Model | Signature], *, limits: Limits | None = None
) -> web.Application:
    """Return an application that serves the models of a repository, or given ones by name.

    At the application's cleanup given models are released; the caller closes them then.
    """
    is_owner = not isinstance(models, Repository)
    repository = models if isinstance(models, Repository) else Repository(models)
    limits = limits or Limits()
    app = web.Application(middlewares=[guard], client_max_size=limits.request_bytes)
    app[REPOSITORY] = repository
    app[LIMITS] = limits
    app[ADMISSION] = Admission(limits)
    app[METRICS] = Metrics(repository, app[ADMISSION])
    app.cleanup_ctx.append(_observe)
    app[DECOMPRESSES] = False
    for add_routes in _PROTOCOLS:
        add_routes(app)
    if is_owner:
        app.on_cleanup.append(_release)
    return app


async def _observe(app: web.Application) -> AsyncIterator[None]:
    """Have the repository's runs and the loop's lag recorded, from startup to cleanup."""
    listeners = (app[METRICS], RunSpans())
    app[REPOSITORY].listeners.extend(listeners)
    try:
        async with measured_lag(app[METRICS].on_lag):
            yield
    finally:
        for listener in listeners:
            app[REPOSITORY].listeners.remove(listener)


async def _release(app: web.Application) -> None:
    """Release the given models: aiohttp keeps references to the last 1,024 applications of a process, stopped ones too."""
    app[REPOSITORY].stop()
