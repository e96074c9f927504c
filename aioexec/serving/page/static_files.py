"""The page's own files, with headers that let a browser run and request nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aiohttp import web

from aioexec.in_thread import in_thread

_FOLDER: Final = Path(__file__).parent / "files"

_CONTENT_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_SUFFIXES: Final = tuple(_CONTENT_TYPES)

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def is_static(path: str) -> bool:
    """Whether a URL path is the page or one of its files: what a browser requests without a token, and what has no secrets."""
    return path == "/" or (path.count("/") == 2 and path.startswith("/page/") and path.endswith(_SUFFIXES))


class StaticFiles:
    """The files by name; read from the package in a thread, on first use."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] | None = None  # None until they are read

    async def reply(self, name: str) -> web.Response:
        """Return a file as a reply.

        Raises:
            web.HTTPNotFound: there is none of that name.
        """
        if self._files is None:
            self._files = await in_thread(_read_all)
        content = self._files.get(name)
        if content is None:
            raise web.HTTPNotFound
        content_type = _CONTENT_TYPES[Path(name).suffix]
        return web.Response(body=content, content_type=content_type, charset="utf-8", headers=_HEADERS)


def _read_all() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _SUFFIXES}
