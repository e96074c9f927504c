"""JSON requests are converted to arrays that fit their inputs, or refused with an error that names the cause."""

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import aioexec as ax
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.saved_model.signature import Signature
from aioexec.serving.rest import predict
from aioexec.serving.rest.predict import encode_answer
from tests.serving.signatures import Fake, served_version

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2])
    N = ax.placeholder(ax.int32, [None])
    HALF = ax.placeholder(ax.bfloat16, [None])
    TEXT = ax.placeholder(ax.string, [None])
    SCALAR = ax.placeholder(ax.float32, [])


UNUSED: Any = None
"""The session of signatures that are not run."""


def decode_request(inputs, body):
    return predict.decode_request(served_version(Fake(inputs, inputs)), body)


def request(instances, **more):
    return json.dumps({"instances": instances, **more}).encode()


def test_rows_of_one_input_are_its_values():
    decoded = decode_request({"x": X}, request([[1, 2.5], [3, 4]]))

    assert decoded.count == 2
    assert decoded.inputs["x"].dtype == np.float32
    assert decoded.inputs["x"].tolist() == [[1, 2.5], [3, 4]]


def test_rows_of_one_input_may_be_objects_too():
    decoded = decode_request({"n": N}, request([{"n": 3}, {"n": 4}]))

    assert decoded.inputs["n"].tolist() == [3, 4]


def test_rows_of_several_inputs_are_objects():
    decoded = decode_request({"x": X, "n": N}, request([{"n": 3, "x": [1, 2]}, {"x": [3, 4], "n": 5}]))

    assert decoded.inputs["x"].tolist() == [[1, 2], [3, 4]]
    assert decoded.inputs["n"].tolist() == [3, 5]


def test_strings_are_fed_as_bytes():
    decoded = decode_request({"text": TEXT}, request(["ä", "b"]))

    assert decoded.inputs["text"].tolist() == ["ä".encode(), b"b"]


def test_the_default_signature_may_be_named():
    decoded = decode_request({"n": N}, request([1], signature_name="serving_default"))

    assert decoded.count == 1


@pytest.mark.parametrize(
    ("body", "given"),
    [
        ({"instances": [[1, 2]]}, {"x": [[1, 2]]}),
        ({"instances": [{"x": [1, 2], "n": 3}]}, {"x": [[1, 2]], "n": [3]}),
        ({"inputs": [[1, 2]]}, {"x": [[1, 2]]}),
        ({"inputs": {"x": [[1, 2]]}}, {"x": [[1, 2]]}),
    ],
)
def test_an_input_with_a_default_may_be_left_out(body, given):
    signature = Signature("serving_default", {"x": X, "n": N}, {"x": X}, UNUSED, defaults={"n": [7]})

    decoded = predict.decode_request(served_version(signature), json.dumps(body).encode())

    assert {name: value.tolist() for name, value in decoded.inputs.items()} == given


def test_every_instance_has_the_same_inputs():
    signature = Signature("serving_default", {"x": X, "n": N}, {"x": X}, UNUSED, defaults={"n": [7]})
    body = request([{"x": [1, 2], "n": 3}, {"x": [1, 2]}])

    with pytest.raises(InvalidArgumentError, match="instance 1: expected the keys of instance 0"):
        predict.decode_request(served_version(signature), body)


@pytest.mark.parametrize("format", ["instances", "inputs"])
def test_bytes_are_base64(format):
    body = json.dumps({format: ["a", {"b64": "/w=="}]}).encode()

    assert decode_request({"text": TEXT}, body).inputs["text"].tolist() == [b"a", b"\xff"]


def test_columns_have_a_value_for_each_input():
    decoded = decode_request({"x": X, "s": SCALAR}, json.dumps({"inputs": {"x": [[1, 2]], "s": 3}}).encode())

    assert decoded.count is None
    assert {name: value.tolist() for name, value in decoded.inputs.items()} == {"x": [[1, 2]], "s": 3}


def test_the_column_of_one_input_is_its_value():
    assert decode_request({"x": X}, b'{"inputs": [[1, 2]]}').inputs["x"].tolist() == [[1, 2]]
    assert decode_request({"x": X}, b'{"inputs": {"x": [[1, 2]]}}').inputs["x"].tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("inputs", "body", "message"),
    [
        ({"x": X}, b"", "the request is not JSON"),
        ({"x": X}, b"\xff\xfe\xff", "the request is not JSON"),
        ({"x": X}, b"[" * 100_000, "nested too deeply"),
        ({"x": X}, b"[[1, 2]]", r"must be a JSON object, got \[\[1, 2\]\]"),
        ({"x": X}, b'{"examples": []}', r"the request has unknown keys: \['examples'\]"),
        (
            {"x": X},
            request([[1, 2]], inputs=3),
            r"either 'instances' or 'inputs', got the keys \['inputs', 'instances'\]",
        ),
        (
            {"x": X},
            request([[1, 2]], signature_name="train"),
            r"no signature 'train', only \['serving_default'\]",
        ),
        ({"x": X}, request([[1, 2]], signature_name=[]), r"'signature_name' must be a string, got \[\]"),
        ({"x": X}, request([]), r"'instances' must be a list of at least one, got \[\]"),
        ({"x": X}, request({"x": 1}), "'instances' must be a list"),
        ({"x": X}, request([[1, 2, 3]]), r"input 'x': expected shape \(\?, 2\), got \(1, 3\)"),
        ({"x": X}, request([1, 2]), r"input 'x': expected shape \(\?, 2\), got \(2,\)"),
        ({"x": X}, request([[1, 2], [3]]), "input 'x': Expected lists of equal length"),
        ({"x": X}, request([["a", "b"]]), "input 'x': Expected float32, got 'a' of type 'str'"),
        ({"x": X}, request([[None, 1]]), "input 'x': Expected float32, got None"),
        ({"x": X}, request([{"y": [1, 2]}]), r"instance 0: expected an object with the keys \['x'\]"),
        ({"n": N}, request([1.5]), "input 'n': Expected int32, got 1.5 of type 'float'"),
        ({"n": N}, request([2**40]), "input 'n': Expected int32, got 1099511627776, which does not fit"),
        ({"x": X}, request([[1, 10**400]]), "input 'x': Expected float32, got 1000.*, which does not fit"),
        ({"text": TEXT}, rb'{"instances": ["\ud800"]}', "input 'text': Expected text that UTF-8 can encode"),
        ({"x": X}, b'{"instances": [[1, 1e999]]}', "input 'x': expected numbers that float32 can hold"),
        ({"x": X}, b'{"instances": [[1, -3.5e38]]}', "input 'x': expected numbers that float32 can hold"),
        ({"h": HALF}, b'{"instances": [1e39]}', "input 'h': expected numbers that bfloat16 can hold"),
        ({"x": X}, b'{"instances": [[1, NaN]]}', "the request is not JSON: NaN is no JSON number"),
        ({"x": X}, b'{"instances": [[1, -Infinity]]}', "the request is not JSON"),
        ({"n": N}, request([1, {"n": 2}]), "input 'n': Expected int32, got {'n': 2}"),
        ({"text": TEXT}, request([{"b64": "?"}]), r"expected base64, got '\?'"),
        ({"text": TEXT}, request([{"b64": 3}]), "expected base64, got 3"),
        (
            {"x": X},
            b'{"inputs": {"y": 1}}',
            r"'inputs': expected an object with the keys \['x'\], got the keys \['y'\]",
        ),
        (
            {"n": N, "x": X},
            b'{"inputs": [1]}',
            r"'inputs': expected an object with the keys \['n', 'x'\], got \[1\]",
        ),
        ({"x": X}, b"[" * 100_000, "the request is not JSON: nested too deeply"),
        ({"n": N, "x": X}, request([{"n": 1, "x": [1, 2]}, 7]), r"instance 1: .* \['n', 'x'\], got 7"),
    ],
)
def test_a_bad_request_is_an_invalid_argument_that_says_why(inputs, body, message):
    with pytest.raises(InvalidArgumentError, match=message):
        decode_request(inputs, body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text("aä", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xn"), inner, max_size=2),
    max_leaves=8,
)


@given(st.sampled_from([{"x": X}, {"n": N}, {"text": TEXT}, {"x": X, "n": N}]), st.lists(JSON, max_size=3))
def test_whatever_the_instances_are_they_fit_or_are_an_invalid_argument(inputs, instances):
    try:
        decoded = decode_request(inputs, request(instances))
    except InvalidArgumentError:
        return

    for name, tensor in inputs.items():
        assert tensor.shape.is_compatible_with(decoded.inputs[name].shape)
        assert decoded.inputs[name].dtype == tensor.dtype.as_numpy_dtype


@pytest.mark.parametrize(
    ("outputs", "predictions"),
    [
        ({"y": np.array([[1, 2], [3, 4]])}, [[1, 2], [3, 4]]),
        (
            {"y": np.array([1.5, 2.5], np.float32), "z": np.array([True, False])},
            [{"y": 1.5, "z": True}, {"y": 2.5, "z": False}],
        ),
        ({"y": np.array([b"ab", b"\xff"], object)}, [{"b64": "YWI="}, {"b64": "/w=="}]),
        ({"y": np.array([[b"ab"], ["ä".encode()]], object)}, [["ab"], ["ä"]]),
        ({"y_bytes": np.array([b"ab", b"c"], object)}, [{"b64": "YWI="}, {"b64": "Yw=="}]),
        ({"y": np.array([0.5, 2], ml_dtypes.bfloat16)}, [0.5, 2]),
        ({"y": np.array([[1.5, np.nan], [np.inf, -np.inf]])}, [[1.5, "NaN"], ["Infinity", "-Infinity"]]),
        ({"y": np.array([0.5, np.nan], ml_dtypes.bfloat16)}, [0.5, "NaN"]),
        (
            {"y": np.array([np.nan, 1]), "z": np.array([True, False])},
            [{"y": "NaN", "z": True}, {"y": 1, "z": False}],
        ),
    ],
)
def test_an_answer_has_a_row_for_each_instance(outputs, predictions):
    answer = json.loads(encode_answer(outputs, 2), parse_constant=pytest.fail)

    assert answer == {"predictions": predictions}


@pytest.mark.parametrize("value", [np.zeros(3), np.float32(1)])
def test_an_output_without_a_row_for_each_instance_needs_columns(value):
    with pytest.raises(
        FailedPreconditionError, match=r"output 'y': expected 2 rows, got shape .*; use 'inputs'"
    ):
        encode_answer({"y": np.asarray(value)}, 2)


@pytest.mark.parametrize(
    ("outputs", "columns"),
    [
        ({"y": np.float32(1.5)}, 1.5),
        ({"y": np.zeros((2, 1)), "z": np.array(b"a", object)}, {"y": [[0], [0]], "z": "a"}),
    ],
)
def test_columns_are_answered_in_columns(outputs, columns):
    answer = encode_answer({name: np.asarray(value) for name, value in outputs.items()}, None)

    assert json.loads(answer) == {"outputs": columns}


def test_values_that_json_does_not_have_are_refused():
    with pytest.raises(FailedPreconditionError, match="output 'y': JSON has no values of complex64"):
        encode_answer({"y": np.zeros(2, np.complex64)}, 2)
