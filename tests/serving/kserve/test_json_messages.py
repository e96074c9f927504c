"""Bodies of inferences over HTTP: JSON and binary, and what is refused."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.serving.kserve.inference import InferReply
from aioexec.serving.kserve.json_messages import decode_body, encode_body

JSON: dict[str, Any] = {
    "BOOL": ([True, False], np.bool_),
    "INT8": ([-128, 127], np.int8),
    "UINT64": ([0, 2**64 - 1], np.uint64),
    "INT64": ([-(2**63), 1], np.int64),
    "FP16": ([0.5, 1], np.float16),
    "BF16": ([0.5, 1], None),
    "FP32": ([0.5, 1], np.float32),
    "FP64": ([0.1, 1e300], np.float64),
    "BYTES": (["a", "ü"], object),
}


def body(*inputs, **fields):
    return json.dumps({"inputs": inputs, **fields}).encode()


def tensor(data=None, datatype="FP32", shape=(2,), **fields):
    given = {} if data is None else {"data": data}
    return {"name": "x", "datatype": datatype, "shape": shape, **given, **fields}


@pytest.mark.parametrize("datatype", JSON)
def test_json_is_decoded_and_encoded(datatype):
    data, kind = JSON[datatype]

    asked = decode_body(body(tensor(data, datatype), id="7"), None, "m", "2")
    value = asked.request.inputs["x"]
    answer, length = encode_body(InferReply("m", "2", "7", {"y": value.reshape(1, 2)}), asked)

    expected = [each.encode() for each in data] if datatype == "BYTES" else data
    assert kind is None or value.dtype == kind
    assert value.tolist() == expected
    assert length is None
    assert json.loads(answer) == {
        "model_name": "m",
        "model_version": "2",
        "id": "7",
        "outputs": [{"name": "y", "datatype": datatype, "shape": [1, 2], "data": data}],
    }


def test_nested_and_flat_data_have_the_shape_of_the_tensor():
    nested = decode_body(body(tensor([[1, 2], [3, 4]], shape=[2, 2])), None, "m", "")
    flat = decode_body(body(tensor([1, 2, 3, 4], shape=[2, 2])), None, "m", "")
    empty = decode_body(body(tensor([], shape=[0, 3])), None, "m", "")

    assert nested.request.inputs["x"].tolist() == flat.request.inputs["x"].tolist() == [[1, 2], [3, 4]]
    assert empty.request.inputs["x"].shape == (0, 3)


def test_binary_tensors_follow_the_json_in_its_order():
    x, s = np.array([1.5, 2.5], np.float32), b"\2\0\0\0ab"
    head = body(
        tensor(parameters={"binary_data_size": 8}),
        {
            "name": "s",
            "datatype": "BYTES",
            "shape": [1],
            "parameters": {"binary_data_size": len(s)},
        },
        outputs=[{"name": "a", "parameters": {"binary_data": False}}, {"name": "b"}],
        parameters={"binary_data_output": True, "signature_name": "other"},
    )

    asked = decode_body(head + x.tobytes() + s, len(head), "m", "")
    reply = InferReply("m", "1", "", {"a": x, "b": np.array([b"ab"], object)})
    answer, length = encode_body(reply, asked)

    assert asked.request.signature == "other"
    assert asked.request.inputs["x"].tolist() == [1.5, 2.5]
    assert asked.request.inputs["s"].tolist() == [b"ab"]
    assert length is not None
    described = json.loads(answer[:length])["outputs"]
    assert described[0]["data"] == [1.5, 2.5]
    assert described[1]["parameters"] == {"binary_data_size": 6}
    assert answer[length:] == s


def test_numbers_that_json_lacks_are_strings():
    asked = decode_body(body(tensor([1, 2])), None, "m", "")

    answer, _ = encode_body(InferReply("m", "1", "", {"y": np.array([np.nan, -np.inf, np.inf, 1])}), asked)

    assert json.loads(answer)["outputs"][0]["data"] == ["NaN", "-Infinity", "Infinity", 1]


def test_bytes_that_are_no_text_must_be_binary():
    asked = decode_body(body(tensor([1, 2])), None, "m", "")

    with pytest.raises(UnimplementedError, match=r"output 'y': JSON cannot carry bytes .* as binary_data"):
        encode_body(InferReply("m", "1", "", {"y": np.array([b"\xff"], object)}), asked)


BINARY = {"binary_data_size": 8}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "the request is not JSON"),
        (b"\xff", "the request is not JSON"),
        (b"[" * 100_000, "the request is not JSON: nested too deeply"),
        (b"[]", r"the request must be a JSON object, got \[\]"),
        (b"{}", "'inputs' must be a list, got None"),
        (body(tensor([1, float("nan")])), "the request is not JSON: NaN is no JSON number"),
        (body(more=1), r"the request has unknown keys: \['more'\]"),
        (body(1), r"inputs\[0\] must be a JSON object, got 1"),
        (body({}), "'name' in 'inputs' must be a string, got None"),
        (body({"name": "x"}), "input 'x': expected a datatype of .*, got None"),
        (body(tensor([1, 2], "FP8")), "input 'x': expected a datatype of .*, got 'FP8'"),
        (body(tensor([1], shape=2)), "input 'x': expected a 'shape' as a list of integers, got 2"),
        (
            body(tensor([1], shape=[True])),
            r"input 'x': expected a 'shape' as a list of integers, got \[True\]",
        ),
        (body(tensor([1], shape=[-1])), "input 'x': expected dimensions of 0 or more"),
        (body(tensor()), "input 'x': expected 'data' as a list, got None"),
        (body(tensor([1])), r"input 'x': expected 2 elements for shape \[2\], got an array of shape \[1\]"),
        (body(tensor([[1, 2], [3]], shape=[3])), "input 'x': .*"),
        (body(tensor([1.5, 2], "INT32")), "input 'x': Expected int32"),
        (body(tensor([1, 300], "UINT8")), "input 'x': "),
        (body(tensor([1, "a"])), "input 'x': "),
        (body(tensor([1, 1e39])), "input 'x': expected numbers that float32 can hold"),
        (body(tensor([1, 2]), tensor([1, 2])), "input 'x': expected it once"),
        (body(outputs=[{"name": "y"}, {"name": "y"}]), "output 'y': expected it once"),
        (body(id=7), "'id' must be a string, got 7"),
        (body(parameters=[]), r"'parameters' must be a JSON object, got \[\]"),
        (
            body(parameters={"binary_data_output": 1}),
            "parameter 'binary_data_output': expected true or false",
        ),
        (
            body(tensor(parameters={"binary_data_size": -1})),
            "input 'x': expected 'binary_data_size' as a number",
        ),
        (body(tensor([1, 2], parameters=BINARY)), "input 'x': expected either 'data' or 'binary_data_size'"),
        (body(tensor(parameters=BINARY)), "input 'x': expected 8 bytes after the JSON at 0, got 0"),
    ],
)
def test_what_contradicts_itself_is_refused(text, message):
    with pytest.raises(InvalidArgumentError, match=message):
        decode_body(text, None, "m", "")


def test_bytes_that_no_input_claims_are_refused():
    text = body(tensor([1, 2]))

    with pytest.raises(InvalidArgumentError, match="expected 0 bytes of binary inputs, got 3"):
        decode_body(text + b"abc", len(text), "m", "")
    with pytest.raises(InvalidArgumentError, match="Inference-Header-Content-Length: expected at most 1"):
        decode_body(b"{", 2, "m", "")


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "data", "shape", "datatype", "parameters", "inputs", "outputs", "id"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=10,
)


@given(value=ANY_JSON, tail=st.binary(max_size=8))
def test_any_json_is_a_request_or_an_invalid_argument(value, tail):
    text = json.dumps(value).encode()

    with suppress(InvalidArgumentError):
        decode_body(text + tail, len(text), "m", "")
