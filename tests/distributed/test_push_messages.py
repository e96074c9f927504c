"""The notification of a pushed value has protobuf's bytes, and both implementations read those of the other."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, strategies as st

from aioexec.distributed.transport.push_messages import Pushed
from aioexec.formats.protos import PushResponse

FIELDS = ("step_id", "rendezvous_key", "is_dead", "is_kept")
said = st.tuples(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.one_of(st.sampled_from(["", "key"]), st.text(max_size=2000)),
    st.booleans(),
    st.booleans(),
)


def fields(message: object) -> tuple[object, ...]:
    return tuple(getattr(message, name) for name in FIELDS)


@given(said)
def test_protobuf_and_this_read_what_the_other_has_written(values: tuple[int, str, bool, bool]):
    step_id, key, is_dead, is_kept = values
    theirs = PushResponse(step_id=step_id, rendezvous_key=key, is_dead=is_dead, is_kept=is_kept)

    assert fields(PushResponse.FromString(Pushed(*values).SerializeToString())) == values
    assert fields(Pushed.FromString(theirs.SerializeToString())) == values
    assert fields(Pushed.FromString(Pushed(*values).SerializeToString())) == values


def test_the_step_may_stand_anywhere_and_the_last_one_counts():
    first = PushResponse(step_id=1).SerializeToString()
    second = PushResponse(step_id=2).SerializeToString()
    key = PushResponse(rendezvous_key="key").SerializeToString()

    for data in (key + second, first + key + second, first + second + key):
        assert fields(Pushed.FromString(data)) == (2, "key", False, False)


@pytest.mark.parametrize("data", [b"\x09", b"\x09" + bytes(7), b"\xff\xff", b"\x09" + bytes(8) + b"\xff"])
def test_what_says_nothing_is_an_error(data: bytes):
    with pytest.raises(DecodeError):
        Pushed.FromString(data)
