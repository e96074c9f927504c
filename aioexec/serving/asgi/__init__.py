"""The model server's application as an ASGI application, for programs with Starlette, FastAPI or another framework of ASGI."""

from aioexec.serving.asgi.asgi_application import AsgiApplication

__all__ = ["AsgiApplication"]
