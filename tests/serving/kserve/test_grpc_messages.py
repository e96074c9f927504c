"""ModelInfer over gRPC: bytes to requests and replies to bytes."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.serving.kserve.grpc_messages import INLINE, decode_request, encode_reply
from aioexec.serving.kserve.inference import InferReply
from aioexec.serving.protos.inference_pb2 import InferTensorContents, ModelInferRequest, ModelInferResponse

Input = ModelInferRequest.InferInputTensor

TYPED: dict[str, Any] = {
    "BOOL": ("bool_contents", [True, False], np.bool_),
    "INT8": ("int_contents", [-128, 127], np.int8),
    "INT16": ("int_contents", [-(2**15), 1], np.int16),
    "INT32": ("int_contents", [-(2**31), 1], np.int32),
    "INT64": ("int64_contents", [-(2**63), 1], np.int64),
    "UINT8": ("uint_contents", [0, 255], np.uint8),
    "UINT16": ("uint_contents", [0, 2**16 - 1], np.uint16),
    "UINT32": ("uint_contents", [0, 2**32 - 1], np.uint32),
    "UINT64": ("uint64_contents", [0, 2**64 - 1], np.uint64),
    "FP32": ("fp32_contents", [0.5, -1.5], np.float32),
    "FP64": ("fp64_contents", [0.1, -1e300], np.float64),
    "BYTES": ("bytes_contents", [b"a", b""], object),
}


def request(*inputs, raw=(), **fields):
    return ModelInferRequest(
        model_name="m", inputs=inputs, raw_input_contents=raw, **fields
    ).SerializeToString()


async def test_raw_inputs_are_views_of_the_bytes():
    x = np.arange(40_000, dtype=np.float32).reshape(2, -1)
    data = request(
        Input(name="x", datatype="FP32", shape=x.shape),
        Input(name="s", datatype="BYTES", shape=[1]),
        raw=[x.tobytes(), b"\2\0\0\0ab"],
        model_version="3",
        id="7",
        outputs=[{"name": "y"}],
        parameters={"signature_name": {"string_param": "other"}, "timeout": {"int64_param": 5}},
    )

    decoded = await decode_request(data)

    assert (decoded.model, decoded.version, decoded.id, decoded.signature) == ("m", "3", "7", "other")
    assert list(decoded.outputs) == ["y"]
    np.testing.assert_array_equal(decoded.inputs["x"], x)
    assert np.shares_memory(decoded.inputs["x"], np.frombuffer(data, np.uint8))
    assert decoded.inputs["s"].tolist() == [b"ab"]


@pytest.mark.parametrize("datatype", TYPED)
async def test_typed_contents_are_decoded(datatype):
    field, elements, kind = TYPED[datatype]
    contents = InferTensorContents(**{field: elements})

    decoded = await decode_request(
        request(Input(name="x", datatype=datatype, shape=[2, 1], contents=contents))
    )

    assert decoded.inputs["x"].dtype == kind
    assert decoded.inputs["x"].tolist() == [[each] for each in elements]


async def test_large_contents_are_decoded_in_a_thread():
    numbers = np.arange(INLINE, dtype=np.float32)
    strings = [b"x" * INLINE, b"y"]
    contents = InferTensorContents(fp32_contents=numbers)
    raw = b"".join(len(each).to_bytes(4, "little") + each for each in strings)

    typed = await decode_request(request(Input(name="x", datatype="FP32", shape=[INLINE], contents=contents)))
    decoded = await decode_request(request(Input(name="s", datatype="BYTES", shape=[2]), raw=[raw]))

    np.testing.assert_array_equal(typed.inputs["x"], numbers)
    assert decoded.inputs["s"].tolist() == strings


async def test_an_input_without_elements_needs_no_content():
    decoded = await decode_request(request(Input(name="x", datatype="FP32", shape=[0, 3])))

    assert decoded.inputs["x"].shape == (0, 3)


def typed(datatype="FP32", shape=(1,), **contents):
    return Input(name="x", datatype=datatype, shape=shape, contents=InferTensorContents(**contents))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0a\x05ab", "expected a ModelInferRequest, got malformed bytes"),
        (b"\x3a\x7f", "expected a ModelInferRequest, got malformed bytes"),
        (request(Input(name="x", datatype="F", shape=[1])), "input 'x': expected a datatype of .*, got 'F'"),
        (request(Input(name="x", datatype="FP32", shape=[1])), "input 'x': expected 4 bytes .*, got 0"),
        (
            request(Input(name="x", datatype="FP32", shape=[1]), raw=[b"", b""]),
            "raw_input_contents: expected one for each of 1 inputs and no other contents, got 2",
        ),
        (
            request(typed(fp32_contents=[1]), raw=[b"\0\0\0\0"]),
            r"raw_input_contents: .* got 1, and contents in \['x'\]",
        ),
        (request(typed(int_contents=[1])), "input 'x': expected fp32_contents for float32, got int_contents"),
        (request(typed("FP16", fp32_contents=[1])), "input 'x': expected raw contents for float16"),
        (request(typed("FP16")), "input 'x': expected raw contents for float16, got contents"),
        (
            request(typed(fp32_contents=[1, 2])),
            r"expected 1 elements in fp32_contents for shape \[1\], got 2",
        ),
        (request(typed("INT8", int_contents=[128])), "input 'x': expected elements that int8 can hold"),
        (
            request(typed("UINT16", uint_contents=[2**16])),
            "input 'x': expected elements that uint16 can hold",
        ),
        (request(typed(shape=[2**62, 4])), "input 'x': expected a shape that can be addressed"),
        (request(typed(fp32_contents=[1]), typed(fp32_contents=[1])), "input 'x': expected it once"),
        (request(outputs=[{"name": "y"}, {"name": "y"}]), "output 'y': expected it once"),
        (
            request(parameters={"signature_name": {"bool_param": True}}),
            "parameter 'signature_name': expected a string, got True",
        ),
    ],
)
async def test_what_contradicts_itself_is_refused(data, message):
    with pytest.raises(InvalidArgumentError, match=message):
        await decode_request(data)


async def test_a_reply_has_raw_contents():
    outputs = {
        "y": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "s": np.array([b"ab"], object),
        "b": np.array(True),
    }

    data = await encode_reply(InferReply("m", "2", "7", outputs))
    reply = ModelInferResponse.FromString(data)

    assert (reply.model_name, reply.model_version, reply.id) == ("m", "2", "7")
    assert [(each.name, each.datatype, list(each.shape)) for each in reply.outputs] == [
        ("y", "INT16", [3, 2]),
        ("s", "BYTES", [1]),
        ("b", "BOOL", []),
    ]
    assert list(reply.raw_output_contents) == [outputs["y"].tobytes(), b"\2\0\0\0ab", b"\1"]


async def test_a_large_reply_is_encoded_in_a_thread():
    value = np.arange(INLINE, dtype=np.float64)

    reply = ModelInferResponse.FromString(await encode_reply(InferReply("m", "1", "", {"y": value})))

    assert reply.raw_output_contents[0] == value.tobytes()


async def test_an_output_without_a_datatype_is_unimplemented():
    with pytest.raises(UnimplementedError, match=r"output 'y': .* has no datatype for complex64"):
        await encode_reply(InferReply("m", "1", "", {"y": np.zeros(1, np.complex64)}))


VALID = request(
    Input(name="x", datatype="FP32", shape=[2]),
    Input(name="s", datatype="BYTES", shape=[1]),
    raw=[b"\0" * 8, b"\1\0\0\0a"],
    outputs=[{"name": "y"}],
    parameters={"signature_name": {"string_param": "a"}},
)


async def check_mutant(position, cut, inserted):
    with suppress(InvalidArgumentError):
        await decode_request(VALID[:position] + inserted + VALID[position + cut :])


@given(position=st.integers(0, len(VALID)), cut=st.integers(0, 8), inserted=st.binary(max_size=8))
async def test_damaged_bytes_are_a_request_or_an_invalid_argument(position, cut, inserted):
    await check_mutant(position, cut, inserted)


@pytest.mark.sweep
@settings(max_examples=50_000)
@given(position=st.integers(0, len(VALID)), cut=st.integers(0, 8), inserted=st.binary(max_size=16))
async def test_damaged_bytes_are_a_request_or_an_invalid_argument_many_times(position, cut, inserted):
    await check_mutant(position, cut, inserted)
