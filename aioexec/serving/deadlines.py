"""The time limit that a client gives its request."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Final

from aioexec.errors import InvalidArgumentError

_UNITS: Final = {"X-Request-Timeout": 1.0, "X-Envoy-Expected-Rq-Timeout-Ms": 1e-3}
"""Headers with a time limit, and their unit in seconds; the second one is set by Envoy in front of a server."""


def timeout_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a request may take, None without a limit.

    Raises:
        InvalidArgumentError: a header is no positive number.
    """
    found = [unit * _number(name, headers[name]) for name, unit in _UNITS.items() if name in headers]
    return min(found, default=None)


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise InvalidArgumentError(f"{name}: expected a positive number, got {reprlib.repr(text)}")
    return number
