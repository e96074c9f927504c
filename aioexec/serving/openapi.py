"""The OpenAPI 3.1 description of an application's routes, at /openapi.json.

It is made from the routes themselves, so that it has all of them: the path and its parameters from the route's pattern, the
summary from the first line of the handler's docstring, and the bodies from what `described` says of the handler.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from aiohttp import web

Handler = TypeVar("Handler", bound=Callable[..., Any])
Schema = Mapping[str, Any]

_ATTRIBUTE: Final = "_openapi_schemas"
_PARAMETER: Final = re.compile(r"\(\?P<(\w+)>([^)]*)\)")
_ANY_SEGMENT: Final = "[^{}/]+"
_ERROR: Final = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def described(*, body: Schema | None = None, reply: Schema | None = None) -> Callable[[Handler], Handler]:
    """Say of a handler which JSON it takes, and which it returns with status 200."""

    def decorate(handler: Handler) -> Handler:
        setattr(handler, _ATTRIBUTE, (body, reply))
        return handler

    return decorate


def add_routes(app: web.Application) -> None:
    """Add the route of the description."""
    app.router.add_get("/openapi.json", _description)


def description(app: web.Application) -> dict[str, Any]:
    """Describe the routes of an application."""
    paths: dict[str, dict[str, Any]] = {}
    for route in app.router.routes():
        resource = route.resource
        if resource is not None and route.method in ("GET", "POST", "PUT", "DELETE"):
            operations = paths.setdefault(resource.canonical, {})
            operations[route.method.lower()] = _operation(route.handler, resource)
    return {
        "openapi": "3.1.0",
        "info": {"title": "aioexec", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


@described(reply={"type": "object", "required": ["openapi", "paths"]})
async def _description(request: web.Request) -> web.Response:
    """Describe the server's routes."""
    return web.json_response(description(request.app))


def _operation(handler: Any, resource: web.AbstractResource) -> dict[str, Any]:
    body, reply = getattr(handler, _ATTRIBUTE, (None, None))
    operation: dict[str, Any] = {
        "summary": (inspect.getdoc(handler) or "").partition("\n")[0].rstrip("."),
        "parameters": _parameters(resource),
        "responses": {
            "200": {"description": "success", **_content(reply)},
            "default": {"description": "an error", **_content({"$ref": "#/components/schemas/Error"})},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, **_content(body)}
    return operation


def _parameters(resource: web.AbstractResource) -> list[dict[str, Any]]:
    pattern = resource.get_info().get("pattern")
    if pattern is None:
        return []
    found = []
    for name, allowed in _PARAMETER.findall(pattern.pattern):
        schema = {"type": "string"}
        if allowed != _ANY_SEGMENT:
            schema["pattern"] = f"^{allowed}$"
        found.append({"name": name, "in": "path", "required": True, "schema": schema})
    return found


def _content(schema: Schema | None) -> dict[str, Any]:
    return {} if schema is None else {"content": {"application/json": {"schema": schema}}}
