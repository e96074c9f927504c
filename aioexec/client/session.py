"""Sessions under the name of `tensorflow.python.client.session`."""

from __future__ import annotations

from aioexec.sessions.conversions import (
    register_session_run_conversion_functions as register_session_run_conversion_functions,
)
from aioexec.sessions.interactive import InteractiveSession as InteractiveSession
from aioexec.sessions.session import Session as Session
