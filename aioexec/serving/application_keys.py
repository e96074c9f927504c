"""What the handlers of an application share, by aiohttp's keys."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from aioexec.serving.admission import Admission
from aioexec.serving.limits import Limits
from aioexec.serving.repository import Repository
from aioexec.serving.telemetry.metrics import Metrics

REPOSITORY: Final = web.AppKey("REPOSITORY", Repository)
LIMITS: Final = web.AppKey("LIMITS", Limits)
ADMISSION: Final = web.AppKey("ADMISSION", Admission)
METRICS: Final = web.AppKey("METRICS", Metrics)
DECOMPRESSES: Final = web.AppKey("DECOMPRESSES", bool)
"""Whether the application decompresses bodies itself; aiohttp's own server decompresses them before."""
