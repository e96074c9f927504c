"""Parses and serializes JSON. The functions of `json` make a decoder or an encoder for each call with options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from aioexec.errors import InvalidArgumentError


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER: Final = json.JSONEncoder(default=float, allow_nan=False)


def parse_json(body: bytes) -> Any:
    """Parse the body of a request.

    Raises:
        InvalidArgumentError: it is not JSON (RFC 8259, which has no infinite numbers and NaN), or nested too deeply.
    """
    try:
        return _DECODER.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (ValueError, RecursionError) as error:  # ValueError: malformed JSON or UTF-8
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgumentError(f"the request is not JSON: {reason}") from error


def write_json(reply: Mapping[str, Any]) -> bytes:
    """Serialize a reply; NumPy's floats are numbers too.

    Raises:
        ValueError: a number is not finite.
    """
    return _ENCODER.encode(reply).encode()
