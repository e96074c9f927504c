"""Predict: bytes to arrays and arrays to bytes, for every dtype, and what is refused."""

from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import DataType, TensorProto, TensorShapeProto
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor
from aioexec.serving.prediction_service.predict_messages import INLINE, decode_request, encode_reply
from aioexec.serving.protos.prediction_pb2 import ModelSpec, PredictRequest, PredictResponse

MOST = 1 << 20
KINDS = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.complex64, np.complex128,
]  # fmt: skip
FIELDS = {
    np.float32: "float_val",
    np.float64: "double_val",
    np.complex64: "scomplex_val",
    np.bool_: "bool_val",
    np.int32: "int_val",
    np.uint8: "int_val",
    np.int64: "int64_val",
    np.float16: "half_val",
}


def request(**inputs):
    message = PredictRequest(model_spec=ModelSpec(name="m", signature_name="s"), output_filter=["y"])
    for name, tensor in inputs.items():
        message.inputs[name].CopyFrom(tensor)
    return message.SerializeToString()


@pytest.mark.parametrize("kind", KINDS)
async def test_numbers_come_as_content_or_listed_and_go_listed(kind):
    array = np.array([[0, 1, 2], [3, 1, 0]]).astype(kind)
    listed = PredictResponse.FromString(await encode_reply(ModelSpec(), {"x": array})).outputs["x"]

    call = await decode_request(request(content=encode_tensor(array), listed=listed), MOST)

    assert (call.spec.name, call.spec.signature_name, call.outputs) == ("m", "s", ["y"])
    assert listed.tensor_content == b""
    for name in ("content", "listed"):
        assert call.inputs[name].dtype == array.dtype
        np.testing.assert_array_equal(call.inputs[name], array)
    if kind in FIELDS:
        np.testing.assert_array_equal(getattr(listed, FIELDS[kind])[:2], np.array([0, 1], kind).view(
            np.float32 if kind is np.complex64 else np.uint16 if kind is np.float16 else kind)[:2])  # fmt: skip


async def test_strings_come_and_go():
    array = np.array([[b"ab"], [b""]], object)

    reply = PredictResponse.FromString(
        await encode_reply(ModelSpec(name="m", signature_name="s"), {"y": array})
    )
    call = await decode_request(request(x=reply.outputs["y"]), MOST)

    assert list(reply.outputs["y"].string_val) == [b"ab", b""]
    assert reply.model_spec == ModelSpec(name="m", signature_name="s")
    assert call.inputs["x"].tolist() == array.tolist()


async def test_large_contents_are_views_of_the_bytes():
    array = np.arange(INLINE, dtype=np.float32)
    data = request(x=encode_tensor(array))

    call = await decode_request(data, MOST)
    reply = PredictResponse.FromString(await encode_reply(ModelSpec(), {"y": array}))

    assert np.shares_memory(call.inputs["x"], np.frombuffer(data, np.uint8))
    np.testing.assert_array_equal(call.inputs["x"], array)
    np.testing.assert_array_equal(decode_tensor(reply.outputs["y"]), array)


@given(
    array=st.sampled_from(KINDS).flatmap(
        lambda kind: hnp.arrays(
            np.float16 if kind is ml_dtypes.bfloat16 else kind, hnp.array_shapes(min_dims=0, min_side=0)
        )
    )
)
async def test_any_numbers_come_back(array):
    reply = PredictResponse.FromString(await encode_reply(ModelSpec(), {"x": array}))

    call = await decode_request(request(x=reply.outputs["x"]), MOST)

    assert call.inputs["x"].shape == array.shape
    assert call.inputs["x"].tobytes() == array.tobytes()


async def test_values_of_one_input_are_merged_as_protobuf_does():
    head = TensorProto(dtype=DataType.DT_FLOAT, tensor_shape=TensorShapeProto(dim=[{"size": 1}]))
    rest = TensorProto(float_val=[2.5])
    entry = b"\x0a\x01x" + b"".join(
        b"\x12" + bytes([len(part)]) + part for part in (head.SerializeToString(), rest.SerializeToString())
    )

    call = await decode_request(b"\x12" + bytes([len(entry)]) + entry, MOST)

    assert call.inputs["x"].tolist() == [2.5]


async def test_fewer_elements_than_the_shape_has_are_repeated_within_the_limit():
    small = TensorProto(
        dtype=DataType.DT_FLOAT, tensor_shape=TensorShapeProto(dim=[{"size": 3}]), float_val=[1, 2]
    )
    large = TensorProto(
        dtype=DataType.DT_FLOAT, tensor_shape=TensorShapeProto(dim=[{"size": 200_000}]), float_val=[1]
    )

    call = await decode_request(request(x=small, y=large), MOST)

    assert call.inputs["x"].tolist() == [1, 2, 2]
    assert call.inputs["y"].tolist() == [1] * 200_000
    with pytest.raises(
        InvalidArgumentError, match=r"input '.': TensorProto of float32: expected at most \d+ bytes"
    ):
        await decode_request(request(x=large, y=large), MOST)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (TensorProto(), "input 'x': TensorProto: expected a supported dtype, got number 0"),
        (TensorProto(dtype=DataType.DT_RESOURCE), "input 'x': .* expected numbers or strings, got resource"),
        (
            TensorProto(dtype=DataType.DT_FLOAT, tensor_content=b"abc"),
            "input 'x': .* expected 4 bytes of content, got 3",
        ),
        (TensorProto(dtype=DataType.DT_FLOAT, float_val=[1, 2]), "input 'x': .* expected at most 1 numbers"),
        (
            TensorProto(dtype=DataType.DT_FLOAT, tensor_shape=TensorShapeProto(unknown_rank=True)),
            "input 'x': .* expected a fully defined shape",
        ),
        (
            TensorProto(dtype=DataType.DT_STRING, tensor_shape=TensorShapeProto(dim=[{"size": 2**40}])),
            "input 'x': .* expected at most 1048576 bytes by fewer elements",
        ),
        (
            TensorProto(dtype=DataType.DT_INT64, tensor_shape=TensorShapeProto(dim=[{"size": 2**62}] * 3)),
            "input 'x': .* expected at most",
        ),
    ],
)
async def test_tensors_that_contradict_themselves_are_refused(tensor, message):
    with pytest.raises(InvalidArgumentError, match=message):
        await decode_request(request(x=tensor), MOST)


VALID = request(
    x=encode_tensor(np.arange(4, dtype=np.float32)),
    s=encode_tensor(np.array([b"ab", b"c"], object)),
    n=TensorProto(dtype=DataType.DT_INT32, tensor_shape=TensorShapeProto(dim=[{"size": 2}]), int_val=[1, -1]),
)


async def check_mutant(position, cut, inserted):
    with suppress(InvalidArgumentError):
        await decode_request(VALID[:position] + inserted + VALID[position + cut :], MOST)


@given(position=st.integers(0, len(VALID)), cut=st.integers(0, 8), inserted=st.binary(max_size=8))
async def test_damaged_bytes_are_a_request_or_an_invalid_argument(position, cut, inserted):
    await check_mutant(position, cut, inserted)


@pytest.mark.sweep
@settings(max_examples=50_000)
@given(position=st.integers(0, len(VALID)), cut=st.integers(0, 8), inserted=st.binary(max_size=16))
async def test_damaged_bytes_are_a_request_or_an_invalid_argument_many_times(position, cut, inserted):
    await check_mutant(position, cut, inserted)
