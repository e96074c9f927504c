"""Step stats as a trace, under the name of `tensorflow.python.client.timeline`."""

from __future__ import annotations

from aioexec.observability.timeline import Timeline as Timeline
