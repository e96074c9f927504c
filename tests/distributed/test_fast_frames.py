"""The protocol of the fast path, without sockets: any division of its bytes, and invalid bytes."""

import math
import random
import struct
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.events import (
    Cancel,
    Challenge,
    Closing,
    Failure,
    Greeting,
    Parts,
    Proof,
    Welcome,
)
from aioexec.distributed.transport.fast.frames import Reader
from aioexec.distributed.transport.fast.outbox import Outbox
from aioexec.distributed.transport.fast.tensors import write
from aioexec.errors import DataLossError, InternalError, ResourceExhaustedError

MOST_TENSOR = 1 << 20
METHOD = "MasterService/RunStep"
DTYPES = [np.float32, np.int64, np.bool_, np.complex128, np.uint8, np.float16, ml_dtypes.bfloat16]


def reader_of(kinds=frames.BY_CLIENT, expected=frozenset(), most_message=MOST_TENSOR):
    reader = Reader(most_message, MOST_TENSOR, expected)
    if kinds is not None:
        reader.kinds = kinds
    return reader


def feed(reader, data, most=1 << 30):
    """Pass bytes to a reader, at most so many at a time; return its events."""
    events = []
    at = 0
    while at < len(data):
        buffer = reader.buffer()
        assert len(buffer) > 0
        count = min(len(buffer), len(data) - at, most() if callable(most) else most)
        buffer[:count] = data[at : at + count]
        at += count
        events += reader.parse(count)
    return events


def bytes_of(sent, choose=lambda: 1):
    """The bytes of requests that are sent at once: their frames, and their chunks in the outbox's order between them."""
    outbox = Outbox()
    data = b""
    for call, (frame, stream) in enumerate(sent, 1):
        data += frame
        if stream:
            outbox.add(call, stream)
        for _ in range(choose()):
            if outbox:
                head, chunk = outbox.next()
                data += head + bytes(chunk)
    while outbox:
        head, chunk = outbox.next()
        data += head + bytes(chunk)
    return data


def same(received, sent):
    sent = np.asarray(sent)
    assert received.dtype == sent.dtype
    assert received.shape == sent.shape
    if sent.dtype.hasobject:
        assert received.tolist() == sent.tolist()
    else:
        assert received.tobytes() == sent.tobytes()
        assert received.flags.writeable


shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
large = st.sampled_from([(65_000,), (3, 20_000), (9, 9, 700)])
strings = st.lists(st.binary(max_size=300), max_size=20)


@st.composite
def arrays(draw):
    if draw(st.booleans()):
        elements = draw(strings)
        array = np.empty(len(elements), np.object_)
        array[:] = elements
        return array
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.one_of(shapes, shapes, large))
    array = (np.arange(math.prod(shape)) % draw(st.integers(1, 300))).reshape(shape).astype(dtype)
    return array[::-1] if array.ndim and draw(st.booleans()) else array


@st.composite
def alike(draw):
    """One of few arrays, several of which have the same number of bytes."""
    array = np.arange(draw(st.sampled_from([0, 4, 8])), dtype=np.uint8) % 2
    dtype = draw(st.sampled_from([np.uint8, np.int8, np.bool_, np.float16, np.float32, ml_dtypes.bfloat16]))
    return array.view(dtype) if draw(st.booleans()) else array.view(dtype).reshape(-1, 1)


@given(
    st.lists(st.tuples(st.binary(max_size=200), st.lists(arrays(), max_size=3)), min_size=1, max_size=3),
    st.builds(random.Random, st.integers(0, 1 << 32)),
)
def test_requests_arrive_as_they_were_sent_however_the_bytes_are_cut(requests, randomness):
    sent = [
        frames.request(call, 1.5, METHOD, message, [write(each) for each in tensors])
        for call, (message, tensors) in enumerate(requests, 1)
    ]
    data = bytes_of(sent, lambda: randomness.randrange(3))
    reader = reader_of()

    events = feed(reader, data, lambda: randomness.choice([1, 7, 100, 20_000, 1 << 20]))

    assert sorted(event.call for event in events) == list(range(1, len(requests) + 1))
    assert not reader.incoming
    for event in events:
        message, tensors = requests[event.call - 1]
        assert (event.method, event.timeout, bytes(event.message)) == (METHOD, 1.5, message)
        for received, tensor in zip(event.values(), tensors, strict=True):
            same(received, tensor)


@given(st.lists(st.tuples(st.binary(max_size=3), st.lists(alike(), max_size=2)), max_size=20))
def test_frames_that_are_almost_alike_are_not_taken_for_each_other(sent):
    reader = reader_of(frames.BY_SERVER, {1})

    for message, tensors in sent:
        (event,) = feed(reader, frames.notification(1, message, [*map(write, tensors)]))
        assert bytes(event.message) == message
        for received, tensor in zip(event.values(), tensors, strict=True):
            same(received, tensor)


def test_lies_in_a_frame_like_those_before_end_it():
    frame = frames.notification(1, b"text", [write(np.zeros(3, np.int32))])
    header = frame.index(struct.pack("<q", 3))
    lies = (
        frame[: header - 10] + b"\x63" + frame[header - 9 :],
        frame.replace(struct.pack("<QI", 4, 1), struct.pack("<QI", 9, 1)),
    )

    for lie in lies:
        reader = reader_of(frames.BY_SERVER, {1})
        for _ in range(3):
            (event,) = feed(reader, frame)
            same(event.values()[0], np.zeros(3, np.int32))
        with pytest.raises(DataLossError):
            feed(reader, lie)


def test_what_may_not_be_long_is_refused_however_often_it_fitted():
    reader = Reader(100, 100, most_of={METHOD: 3})
    reader.kinds = frames.BY_CLIENT
    other = METHOD[::-1]

    for call in range(1, 4):
        assert feed(reader, frames.request(call, 1.0, other, b"text", [])[0])[0].refused is None

    (event,) = feed(reader, frames.request(4, 1.0, METHOD, b"text", [])[0])
    assert isinstance(event.refused, ResourceExhaustedError)


def test_a_byte_at_a_time():
    sent = frames.request(1, 1.0, METHOD, b"abc", [write(np.arange(20_000, dtype=np.float32))])

    (event,) = feed(reader_of(), bytes_of([sent]), 1)

    same(event.values()[0], np.arange(20_000, dtype=np.float32))


def test_a_message_may_be_large():
    message = random.Random(3).randbytes(500_000)

    (event,) = feed(reader_of(), bytes_of([frames.request(1, math.inf, METHOD, message, [])]))

    assert bytes(event.message) == message


def test_many_small_tensors_find_a_place():
    tensors = [np.full(5000, k, np.uint8) for k in range(200)]

    (event,) = feed(reader_of(), bytes_of([frames.request(1, math.inf, METHOD, b"", [*map(write, tensors)])]))

    for received, tensor in zip(event.values(), tensors, strict=True):
        same(received, tensor)


def test_what_is_no_value_has_no_bytes():
    (event,) = feed(reader_of(), bytes_of([frames.request(1, 0.0, METHOD, b"", [write(None), write(3.0)])]))

    assert event.values() == [None, 3.0]


def test_the_other_frames():
    server, client = reader_of(None), reader_of(None)

    nonce, proof = bytes(range(32)), bytes(range(32, 64))
    assert feed(server, frames.greeting(1, 1 << 63, nonce)) == [Greeting(1, 1 << 63, nonce)]
    assert feed(client, frames.challenge(nonce, proof)) == [Challenge(nonce, proof)]
    assert feed(server, frames.proof(proof)) == [Proof(proof)]
    assert feed(client, frames.welcome()) == [Welcome()]
    server.kinds, client.kinds = frames.BY_CLIENT, frames.BY_SERVER
    assert feed(server, frames.cancel(7)) == [Cancel(7)]
    assert feed(client, frames.failure(7, 3, "wröng", {"url": b"\0\1"})) == [
        Failure(7, 3, "wröng", {"url": b"\0\1"})
    ]
    assert feed(client, frames.failure(8, 5, "no file 'a\udcff'", {})) == [Failure(8, 5, "no file 'a?'", {})]
    assert feed(client, frames.closing("enough")) == [Closing("enough")]


def test_notifications_come_whole_and_in_order_and_only_for_open_calls():
    reader = reader_of(frames.BY_SERVER, {2})
    data = b"".join(
        frames.notification(call, b"text", [write(np.full(3, call, np.int32)), write(np.float32(k))])
        for k, call in enumerate((1, 2, 1, 2))
    )

    events = feed(reader, data + frames.reply(2, b"", [])[0], most=7)

    assert [(event.call, event.is_notification) for event in events] == [(2, True), (2, True), (2, False)]
    assert [event.message for event in events] == [b"text", b"text", b""]
    assert [event.values()[1] for event in events[:2]] == [1.0, 3.0]
    np.testing.assert_array_equal(events[0].values()[0], [2, 2, 2])


def test_a_notification_is_small():
    most = write(np.zeros(frames.INLINE_BYTES, np.uint8))

    assert len(frames.notification(1, b"", [most])) > frames.INLINE_BYTES
    for message, tensors in (
        (b"", [write(np.zeros(frames.INLINE_BYTES + 1, np.uint8))]),
        (bytes(frames.INLINE_BYTES + 1), []),
        (b"", [most] * 5),
    ):
        with pytest.raises(InternalError, match="one frame"):
            frames.notification(1, message, tensors)


def test_small_calls_pass_between_the_chunks_of_large_ones_which_take_turns():
    outbox = Outbox()
    outbox.add(1, [memoryview(bytes(10 * frames.CHUNK_BYTES))])
    outbox.add(2, [memoryview(bytes(frames.CHUNK_BYTES + 5)), memoryview(b"x")])
    outbox.add(3, [memoryview(bytes(frames.CHUNK_BYTES))])

    order = [struct.unpack("<IBQ", outbox.next()[0])[::2] for _ in range(6)]

    whole = frames.CHUNK_BYTES
    assert order == [(whole, 1), (whole, 2), (whole, 3), (whole, 1), (5, 2), (whole, 1)]
    outbox.drop(1)
    assert struct.unpack("<IBQ", outbox.next()[0])[::2] == (1, 2)
    assert not outbox


def test_frames_of_cancelled_calls_are_skipped():
    large_reply = frames.reply(1, b"", [write(np.zeros(300_000, np.uint8))])
    reader = reader_of(frames.BY_SERVER, {2})

    events = feed(reader, bytes_of([large_reply, frames.reply(2, b"wanted", [])]))

    assert [event.call for event in events] == [2]


def test_a_call_that_is_forgotten_half_way_passes():
    data = bytes_of([frames.request(1, 1.0, METHOD, b"", [write(np.zeros(900_000, np.uint8))])])
    reader = reader_of()

    assert feed(reader, data[:500_000]) == []
    reader.forget(1)

    assert [type(event) for event in feed(reader, data[500_000:] + frames.cancel(9))] == [Cancel]


def test_so_many_tensors_that_reading_them_would_hold_the_loop_are_refused():
    nothing = write(None)
    most = frames.request(1, 1.0, METHOD, b"", [nothing] * frames.MOST_TENSORS)
    more = frames.request(2, 1.0, METHOD, b"", [nothing] * (frames.MOST_TENSORS + 1))

    fits, refused = feed(reader_of(), bytes_of([most, more]))

    assert fits.refused is None
    assert len(fits.tensors) == frames.MOST_TENSORS
    assert isinstance(refused.refused, ResourceExhaustedError)


def test_what_is_too_much_is_refused_and_the_rest_goes_on():
    much = frames.request(1, 1.0, METHOD, b"", [write(np.zeros(MOST_TENSOR + 1, np.uint8))])
    message = frames.request(2, 1.0, METHOD, bytes(MOST_TENSOR + 1), [])
    fine = frames.request(3, 1.0, METHOD, b"", [write(np.zeros(MOST_TENSOR, np.uint8))])
    many_strings = np.full(MOST_TENSOR // 40, b"", np.object_)  # few bytes, but much memory
    strings = frames.request(4, 1.0, METHOD, b"", [write(many_strings)])

    events = feed(reader_of(), bytes_of([much, message, fine, strings]))

    refused = {event.call: type(event.refused) for event in events}
    assert refused == {
        1: ResourceExhaustedError,
        2: ResourceExhaustedError,
        3: type(None),
        4: ResourceExhaustedError,
    }


def header(number, dims, length, rank=None):
    return struct.pack(f"<BBQ{len(dims)}q", number, len(dims) if rank is None else rank, length, *dims)


def request_with(tensor_header, elements=b""):
    return frames.request(1, 1.0, METHOD, b"", [(tensor_header, elements)])[0]


HEAD = struct.Struct("<IBQ")
BEGIN = frames.request(1, 1.0, METHOD, b"", [(header(4, (1 << 19,), 1 << 19), np.zeros(1 << 19, np.uint8))])[
    0
]
LIES = {
    "unknown kind": HEAD.pack(0, 99, 1),
    "kind zero": bytes(13),
    "a reply from a client": HEAD.pack(0, frames.REPLY, 1),
    "a second greeting": frames.greeting(1, 1, bytes(32)),
    "frame too long": HEAD.pack(frames.MOST_FRAME + 1, frames.REQUEST, 1),
    "frame of 4 GiB": HEAD.pack(0xFFFFFFFF, frames.REQUEST, 1),
    "frame too short": HEAD.pack(3, frames.REQUEST, 1) + b"abc",
    "chunk too long": HEAD.pack(frames.MOST_CHUNK + 1, frames.CHUNK, 1),
    "empty chunk": HEAD.pack(0, frames.CHUNK, 1),
    "chunk longer than the part": BEGIN + HEAD.pack((1 << 19) + 1, frames.CHUNK, 1),
    "a call begun twice": BEGIN + BEGIN,
    "unknown dtype": request_with(header(77, (), 4)),
    "a reference dtype": request_with(header(101, (), 4)),
    "a resource": request_with(header(20, (), 4)),
    "bytes of nothing": request_with(header(0, (), 4)),
    "negative dimension": request_with(header(1, (-1,), 4)),
    "negative product": request_with(header(1, (-2, -2), 16)),
    "too many dimensions": request_with(header(1, (1,) * 65, 4)),
    "dimensions beyond the frame": request_with(header(1, (1,), 4, rank=60)),
    "count mismatch": request_with(header(1, (3,), 4), bytes(4)),
    "overflowing shape": request_with(header(1, (1 << 40, 1 << 40), 0)),
    "overflowing empty shape": request_with(header(1, (1 << 62, 1 << 62, 0), 0)),
    "fewer bytes than strings": request_with(header(7, (1000,), 10), bytes(10)),
    "elements beyond the frame": request_with(header(4, (1000,), 1000), bytes(10)),
    "elements left over": request_with(header(4, (1,), 1), bytes(10)),
    "seconds that are no number": frames.request(1, math.nan, METHOD, b"", [])[0],
    "negative seconds": frames.request(1, -1.0, METHOD, b"", [])[0],
    "method that is no text": HEAD.pack(25, frames.REQUEST, 1) + struct.pack("<dB", 1.0, 5) + b"\xff" * 16,
}


def notification_with(body):
    return HEAD.pack(len(body), frames.NOTIFICATION, 1) + body


NO_TENSORS = struct.Struct("<QI")
FALSE_NOTIFICATIONS = {
    "a message that follows": notification_with(NO_TENSORS.pack(1 << 20, 0)),
    "a message over the limit": notification_with(NO_TENSORS.pack(1 << 40, 0)),
    "a message beyond the frame": notification_with(NO_TENSORS.pack(100, 0) + b"abc"),
    "a tensor that follows": notification_with(NO_TENSORS.pack(0, 1) + header(4, (1 << 19,), 1 << 19)),
    "a tensor over the limit": notification_with(NO_TENSORS.pack(0, 1) + header(4, (1 << 40,), 1 << 40)),
    "tensors that are missing": notification_with(NO_TENSORS.pack(0, 3)),
    "elements that are missing": notification_with(NO_TENSORS.pack(0, 1) + header(4, (9,), 9) + bytes(3)),
    "elements left over": notification_with(NO_TENSORS.pack(0, 1) + header(4, (1,), 1) + bytes(9)),
    "nothing at all": notification_with(b""),
}


@pytest.mark.parametrize("data", FALSE_NOTIFICATIONS.values(), ids=FALSE_NOTIFICATIONS)
def test_false_notifications_end_the_connection_and_take_no_memory(data):
    check_lies(reader_of(frames.BY_SERVER, {1}), data)


def test_a_client_may_not_send_notifications():
    with pytest.raises(DataLossError, match="not allowed now"):
        feed(reader_of(frames.BY_CLIENT, {1}), frames.notification(1, b"", []))


@pytest.mark.parametrize("data", LIES.values(), ids=LIES)
def test_lies_end_it_and_take_no_memory(data):
    check_lies(reader_of(), data)


def check_lies(reader, data):
    tracemalloc.start()
    try:
        with pytest.raises(DataLossError):
            feed(reader, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


def test_nothing_is_had_before_the_greeting():
    for data in (BEGIN, frames.cancel(1), HEAD.pack(1 << 17, frames.GREETING, 0)):
        with pytest.raises(DataLossError):
            feed(reader_of(None), data)


@pytest.mark.parametrize("content", [b"\xff\xff\xff\xff", b"\x05a\0\0", b"\0\0\0\1", b"\x80" * 4])
def test_strings_that_lie_are_an_error_of_their_call(content):
    (event,) = feed(reader_of(), request_with(header(7, (3,), 4), content))

    with pytest.raises(DataLossError, match="strings"):
        event.values()[0]


def test_bools_are_bools():
    (event,) = feed(reader_of(), request_with(header(10, (4,), 4), bytes([0, 1, 2, 255])))

    value = event.values()[0]
    assert value.view(np.uint8).tolist() == [0, 1, 1, 1]


@given(st.integers(0, 10_000), st.builds(random.Random, st.integers(0, 1 << 32)))
def test_damaged_bytes_are_an_error_or_another_call_and_never_more_than_was_said(seed, randomness):
    generator = np.random.default_rng(seed)
    sent = [
        frames.request(call, 1.0, METHOD, b"m" * 20, [write(generator.random(size)), write(np.array(b"s"))])
        for call, size in enumerate([3, 20_000, 100_000], 1)
    ]
    data = bytearray(bytes_of(sent, lambda: randomness.randrange(3)))
    places = [randomness.randrange(min(len(data), randomness.choice([200, len(data)]))) for _ in range(3)]
    for place in places:
        data[place] = randomness.randrange(256)
    if randomness.random() < 0.3:
        del data[places[0] : places[0] + randomness.randrange(50)]
    reader = reader_of()

    try:
        events = feed(reader, bytes(data), lambda: randomness.choice([50, 5000, 1 << 20]))
        for event in events:
            if isinstance(event, Parts) and event.refused is None:
                for tensor in event.values():
                    assert tensor is None or tensor.nbytes <= MOST_TENSOR
    except DataLossError:
        return
