"""Messages and their tensors as bytes: equal to those of TensorFlow's classes, and all input is checked."""

import tracemalloc
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec.distributed.transport.message_codec import decode, encode
from aioexec.distributed.transport.message_pieces import written
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import InternalError, InvalidArgumentError, ResourceExhaustedError
from aioexec.formats.message_fields import PIECE
from aioexec.formats.protos import (
    DataType,
    RecvTensorResponse,
    RegisterGraphRequest,
    RunCallableRequest,
    RunStepRequest,
    TensorProto,
    TensorShapeProto,
)
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor

LARGE = np.arange(PIECE, dtype=np.float32).reshape(2, -1)
ARRAYS = {
    "float matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.array(1.5),
    "empty": np.zeros((0, 3), np.int8),
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j], np.complex64),
    "bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16),
    "strings": np.array([[b"ab", b"\xff\x00"]], np.object_),
    "large": LARGE,
    "large transposed": LARGE.T,
    "large bool": np.tile(np.array([True, False, True]), PIECE),
    "large strings": np.array([b"x" * 1000] * 200, np.object_),
}  # fmt: skip


def step(*arrays):
    request = RunStepRequest(session_handle="handle", fetch=["y:0", "z:0"], target=["t"], request_id=7)
    for index in range(len(arrays)):
        request.feed.add(name=f"x{index}:0")
    return Payload(request, arrays)


def tensor_proto(dims, dtype=DataType.DT_FLOAT, **fields):
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in dims])
    return TensorProto(dtype=dtype, tensor_shape=shape, **fields)


def with_feed(proto):
    request = RunStepRequest(session_handle="handle")
    request.feed.add(name="x:0", tensor=proto)
    return request.SerializeToString()


def decoded(data, limits=None, *, writable=False):
    return decode(data, RunStepRequest, "feed", limits or Limits(), writable)


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_protobuf_reads_what_is_spliced_together(array):
    request = RunStepRequest.FromString(encode(step(array), "feed"))

    read = decode_tensor(request.feed[0].tensor)

    assert request.feed[0].name == "x0:0"
    assert (request.session_handle, request.request_id) == ("handle", 7)
    assert list(request.fetch) == ["y:0", "z:0"]
    assert read.dtype == array.dtype
    assert np.array_equal(read, array)


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("writable", [True, False])
def test_tensors_survive_the_way_there_and_their_places_are_empty(array, writable):
    payload = decoded(encode(step(array, ARRAYS["scalar"]), "feed"), writable=writable)

    assert [feed.name for feed in payload.message.feed] == ["x0:0", "x1:0"]
    assert not any(feed.tensor.ByteSize() for feed in payload.message.feed)
    assert payload.tensors[0].dtype == array.dtype
    assert payload.tensors[0].shape == array.shape
    assert np.array_equal(payload.tensors[0], array)
    assert payload.tensors[1] == 1.5


def test_the_message_is_left_as_it_is_and_can_be_sent_again():
    payload = step(LARGE)
    before = payload.message.SerializeToString()

    first, second = encode(payload, "feed"), encode(payload, "feed")

    assert first == second
    assert payload.message.SerializeToString() == before


def test_a_reply_with_one_tensor():
    reply = RecvTensorResponse(send_start_micros=5, is_dead=False)

    payload = decode(
        encode(Payload(reply, [LARGE]), "tensor"), RecvTensorResponse, "tensor", Limits(), writable=True
    )

    assert payload.message.send_start_micros == 5
    assert np.array_equal(payload.tensors[0], LARGE)


def test_positional_tensors_make_their_own_places():
    request = RunCallableRequest(session_handle="handle", handle=3)

    payload = decode(
        encode(Payload(request, [LARGE, np.array(2)]), "feed"),
        RunCallableRequest,
        "feed",
        Limits(),
        writable=False,
    )

    assert payload.message.handle == 3
    assert np.array_equal(payload.tensors[0], LARGE)
    assert payload.tensors[1] == 2


def test_resource_handles_stay_in_the_message():
    handle = tensor_proto([], DataType.DT_RESOURCE)
    handle.resource_handle_val.add(name="variable")
    payload = step(None, np.array(2))
    payload.message.feed[0].tensor.CopyFrom(handle)

    received = decoded(encode(payload, "feed"))

    assert received.tensors == [None, 2]
    assert received.message.feed[0].tensor == handle


def test_large_replies_are_the_callers_to_write_to_and_large_requests_are_views():
    data = encode(step(LARGE), "feed")

    reply, request = decoded(data, writable=True).tensors[0], decoded(data).tensors[0]

    assert reply.flags.writeable
    assert reply.flags.owndata
    assert request.flags.aligned
    assert not request.flags.writeable or request.flags.owndata


def test_one_element_that_stands_for_all_is_written_out_for_the_caller():
    (value,) = decoded(with_feed(tensor_proto([100_000], float_val=[2.0])), writable=True).tensors

    assert value.flags.writeable
    assert np.array_equal(value, np.full(100_000, 2.0))


@pytest.mark.slow
@given(st.data())
def test_what_is_parsed_in_pieces_is_what_protobuf_parses_at_once(data):
    names = st.text(max_size=20)
    request = RegisterGraphRequest(session_handle=data.draw(names))
    for _ in range(data.draw(st.integers(0, 6))):
        node = request.graph_def.node.add(
            name=data.draw(names), op="Const", input=data.draw(st.lists(names, max_size=3))
        )
        size = data.draw(st.sampled_from([0, 1, PIECE // 4 - 1, PIECE // 4, PIECE]))
        node.attr["value"].tensor.CopyFrom(encode_tensor(np.arange(size, dtype=np.float32)))
        node.attr["padding"].s = b"x" * data.draw(st.sampled_from([0, 10, PIECE, 2 * PIECE]))
    request.config_proto.graph_options.rewrite_options.custom_optimizers.add(
        name="x" * data.draw(st.sampled_from([0, PIECE + 1]))
    )

    payload = decode(request.SerializeToString(), RegisterGraphRequest, "", Limits(), writable=False)

    assert payload.message == request


def test_what_is_written_in_pieces_is_the_message():
    request = RegisterGraphRequest(session_handle="handle", create_worker_session_called=True)
    for name in "ab":
        node = request.graph_def.node.add(name=name, op="Add", input=["x", "y"])
        node.attr["T"].type = DataType.DT_FLOAT
    request.graph_def.versions.producer = 5
    function = request.graph_def.library.function.add(ret={"out": "a:z:0"})
    function.signature.name = "f"
    config = request.config_proto
    config.device_count["CPU"] = 3
    config.device_filters.extend(["/job:ps", "/job:worker"])
    config.graph_options.SetInParent()
    config.session_inter_op_thread_pool.add(num_threads=3)

    assert RegisterGraphRequest.FromString(b"".join(written(request))) == request


MALFORMED = {
    "nonsense": b"\xff\xff\xff",
    "cut short": encode(step(ARRAYS["float matrix"]), "feed")[:-3],
    "a length beyond the end": b"\x0a\xff\xff\xff\xff\x07abc",
    "a large one cut short": encode(step(LARGE), "feed")[:-3],
    "large nonsense": b"\xff" * (2 * PIECE),
    "a large length beyond the end": b"\x0a\xff\xff\xff\xff\x07" + b"a" * PIECE,
    "an unfinished group": b"\x0b" + b"\x0a\x01a" * PIECE,
    "no field": b"\x02" + b"\x00" * (2 * PIECE),
    "text that is none": b"\x0a\x02\xff\xfe",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_bytes_that_are_no_message_are_an_internal_error_as_tensorflows_servers_say(data):
    with pytest.raises(InternalError, match="Unable to parse"):
        decoded(data)


@pytest.mark.slow
@given(st.binary(max_size=300), st.integers(0, 3 * PIECE))
def test_any_bytes_are_a_message_or_an_error(noise, place):
    data = bytearray(encode(step(LARGE, ARRAYS["float matrix"]), "feed"))
    data[place : place + len(noise)] = noise

    with suppress(InternalError, InvalidArgumentError, ResourceExhaustedError):
        decoded(bytes(data))


LIES = {
    "too little content": tensor_proto([1000], tensor_content=b"\0" * 8),
    "too much content": tensor_proto([1], tensor_content=b"\0" * 8),
    "much too much content": tensor_proto([1], tensor_content=b"\0" * 2 * PIECE),
    "more than memory": tensor_proto([1 << 32], float_val=[1.0, 2.0]),
    "more than addresses": tensor_proto([1 << 40, 1 << 40], float_val=[1.0]),
    "a negative size": tensor_proto([-5], float_val=[1.0]),
    "no dtype": tensor_proto([1], DataType.DT_INVALID),
    "a reference": tensor_proto([1], DataType.DT_FLOAT_REF, float_val=[1.0]),
    "strings beyond the end": tensor_proto([1000], DataType.DT_STRING, tensor_content=b"\xff\xff"),
    "large strings beyond the end": tensor_proto(
        [1000], DataType.DT_STRING, tensor_content=b"\xff" * 2 * PIECE
    ),
    "too many listed": tensor_proto([1], float_val=[1.0, 2.0]),
}


@pytest.mark.parametrize("proto", LIES.values(), ids=LIES)
def test_a_tensor_that_lies_is_an_invalid_argument_and_takes_no_memory(proto):
    data = with_feed(proto)
    limits = Limits(tensor_bytes=1 << 62) if "memory" not in str(proto) else Limits()

    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError, match="Invalid TensorProto for feed value 0"):
            decoded(data, limits)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_a_tensor_over_the_limit_is_refused_before_memory_is_taken_for_it():
    with pytest.raises(
        InvalidArgumentError, match=r"float32\[1024, 1024\].* at most 1000000 bytes, got 4194304"
    ):
        decoded(with_feed(tensor_proto([1024, 1024], float_val=[1.0])), Limits(tensor_bytes=1_000_000))
    with pytest.raises(ResourceExhaustedError, match=f"at most 1000 bytes, got {LARGE.nbytes}"):
        decoded(encode(step(LARGE), "feed"), Limits(tensor_bytes=1000))


def test_a_message_that_protobuf_could_not_hold_is_not_made():
    huge = np.broadcast_to(np.zeros(1, np.uint8), (1 << 31,))

    with pytest.raises(ResourceExhaustedError, match="at most 2147483647 bytes"):
        encode(step(huge), "feed")


@pytest.mark.parametrize(("writable", "listed"), [(False, [1.0, 2.0]), (True, [1.0, 2.0]), (True, [1.0])])
def test_few_elements_that_stand_for_many_take_a_bounded_memory_in_one_message(writable, listed):
    request = RunStepRequest()
    for _ in range(10):
        feed = request.feed.add(name="x:0").tensor
        feed.CopyFrom(TensorProto(dtype=DataType.DT_FLOAT, float_val=listed))
        feed.tensor_shape.dim.add(size=1 << 22)
    data = request.SerializeToString()

    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError, match="Invalid TensorProto for"):
            decode(data, RunStepRequest, "feed", Limits(), writable)
        assert tracemalloc.get_traced_memory()[1] < 70 << 20
    finally:
        tracemalloc.stop()


def test_bytes_that_a_message_has_do_not_count_as_elements_that_are_not_listed():
    request = RunStepRequest()
    whole = np.arange(1 << 18, dtype=np.float32)
    request.feed.add(name="x:0").tensor.CopyFrom(encode_tensor(whole))
    request.feed.add(name="y:0").tensor.CopyFrom(TensorProto(dtype=DataType.DT_FLOAT, float_val=[1.0, 2.0]))
    request.feed[1].tensor.tensor_shape.dim.add(size=4)

    payload = decode(request.SerializeToString(), RunStepRequest, "feed", Limits(), False, 1 << 10)

    assert np.array_equal(payload.tensors[0], whole)
    assert payload.tensors[1].tolist() == [1, 2, 2, 2]
