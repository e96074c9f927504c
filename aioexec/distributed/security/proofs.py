"""Proofs of possession of the token, which itself is never sent.

On the fast path both sides prove it to each other by HMAC-SHA256 over two random numbers, one of each side (`fast.frames`:
GREETING, CHALLENGE, PROOF). A gRPC call without TLS carries `authorization: AIOEXEC-HMAC-SHA256 <seconds>:<random>:<mac>` over
the method; a server accepts each such value once, and only while its clock differs from the caller's by less than
`MOST_SKEW_SECONDS`. Proofs do not encrypt or authenticate the content of messages; TLS does.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import deque
from typing import Final

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
MOST_SKEW_SECONDS: Final = 300

SERVER: Final = b"aioexec server"
CLIENT: Final = b"aioexec client"
_CALL: Final = b"aioexec call"

_SCHEME: Final = "AIOEXEC-HMAC-SHA256 "
_MOST_REMEMBERED: Final = 1 << 17
"""The most proofs of calls that a server remembers; a caller without the token cannot add any."""


def new_nonce() -> bytes:
    """Fresh random bytes."""
    return secrets.token_bytes(NONCE_BYTES)


def prove(token: str, role: bytes, *parts: bytes) -> bytes:
    """The HMAC-SHA256 of these parts in this role, keyed by the token; the encoding of parts is unambiguous."""
    return hmac.digest(token.encode(), b"\0".join((role, b"".join(parts))), "sha256")


def is_proof(proof: bytes, token: str, role: bytes, *parts: bytes) -> bool:
    """Whether a proof is valid, in constant time."""
    return hmac.compare_digest(proof, prove(token, role, *parts))


def authorization_of_call(token: str, path: str) -> str:
    """The value of `authorization` for one call of a method."""
    given = f"{int(time.time())}:{secrets.token_hex(16)}"
    return f"{_SCHEME}{given}:{prove(token, _CALL, given.encode(), path.encode()).hex()}"


class CallProofs:
    """The proofs of calls that a listener has seen: each is valid for one call.

    Changing: `_seen`, the random parts of the last minutes; `_in_order`, the same with their expiry, in order of arrival. For
    use in one event loop.
    """

    def __init__(self, token: str) -> None:
        self._token = token  # by which the proofs are checked
        self._seen: set[str] = set()
        self._in_order: deque[tuple[float, str]] = deque()

    def admits(self, authorization: str, path: str) -> bool:
        """Whether this is a valid proof for this method that was not used before."""
        now = time.time()
        if not authorization.startswith(_SCHEME):
            return False
        given, _, proof = authorization.removeprefix(_SCHEME).rpartition(":")
        try:
            mac = bytes.fromhex(proof)
        except ValueError:
            return False
        if not is_proof(mac, self._token, _CALL, given.encode(), path.encode()):
            return False
        seconds, _, nonce = given.partition(":")
        if abs(int(seconds) - now) > MOST_SKEW_SECONDS or nonce in self._seen:
            return False
        self._forget(now)
        if len(self._seen) >= _MOST_REMEMBERED:
            return False
        self._seen.add(nonce)
        self._in_order.append((int(seconds) + MOST_SKEW_SECONDS, nonce))
        return True

    def _forget(self, now: float) -> None:
        while self._in_order and self._in_order[0][0] < now:
            self._seen.discard(self._in_order.popleft()[1])
