"""The notification of a pushed value: a PushResponse, encoded without protobuf because each edge between tasks sends one per
step.

Its bytes are protobuf's. Outside of loops all of them except the step id are the same in each step, so they are cached.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from aioexec.formats.protos import PushResponse
from aioexec.text_cache import cached_by_text

_STEP: Final = Struct("<Bq")  # the key of an sfixed64, and the number
_STEP_KEY: Final = PushResponse.STEP_ID_FIELD_NUMBER << 3 | 1
_MOST_REMEMBERED: Final = 1 << 12
_LONG: Final = 1 << 10
"""Longer messages are not cached, since a peer could fill the memory with them."""


class Pushed:
    """A value that was made; without a key, the first notification, after which values are pushed; see PushResponse.

    `step_id` and `rendezvous_key` identify the value; `is_dead`: there is none; `is_kept`: it is announced, not sent.
    """

    __slots__ = ("is_dead", "is_kept", "rendezvous_key", "step_id")

    def __init__(
        self, step_id: int = 0, rendezvous_key: str = "", is_dead: bool = False, is_kept: bool = False
    ) -> None:
        self.step_id = step_id
        self.rendezvous_key = rendezvous_key
        self.is_dead = is_dead
        self.is_kept = is_kept

    def SerializeToString(self) -> bytes:
        return _STEP.pack(_STEP_KEY, self.step_id) + _written(self.rendezvous_key, self.is_dead, self.is_kept)

    @staticmethod
    def FromString(data: bytes) -> Pushed:
        """Parse the bytes.

        Raises:
            DecodeError: malformed bytes.
        """
        if _STEP.size <= len(data) <= _LONG:
            key, step_id = _STEP.unpack_from(data)
            known = _read(data[_STEP.size :])
            if key == _STEP_KEY and known is not None:
                return Pushed(step_id, *known)
        message = PushResponse.FromString(data)
        return Pushed(message.step_id, message.rendezvous_key, message.is_dead, message.is_kept)


@cached_by_text(_MOST_REMEMBERED)
def _written(key: str, is_dead: bool, is_kept: bool) -> bytes:
    return PushResponse(rendezvous_key=key, is_dead=is_dead, is_kept=is_kept).SerializeToString()


@cached_by_text(_MOST_REMEMBERED)
def _read(rest: bytes) -> tuple[str, bool, bool] | None:
    """Parse the fields after the step id; None if they are not in the order written here."""
    try:
        message = PushResponse.FromString(rest)
    except DecodeError:
        return None
    fields = message.rendezvous_key, message.is_dead, message.is_kept
    return fields if _written(*fields) == rest else None
