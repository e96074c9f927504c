"""JSON of requests and replies."""

import json

import numpy as np
import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.serving.json_text import parse_json, write_json


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_request_is_parsed_as_pythons_json_does(encoding):
    body = '{"é": [1, 2.5, "😀", null, true]}'.encode(encoding)

    assert parse_json(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "Expecting value"),
        (b"{} {}", "Extra data"),
        (b"[NaN]", "NaN is no JSON number"),
        (b"[-Infinity]", "-Infinity is no JSON number"),
        (b'"\xff"', "can't decode byte 0xff"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused_with_its_reason(body, reason):
    with pytest.raises(InvalidArgumentError, match=f"the request is not JSON: .*{reason}"):
        parse_json(body)


def test_a_reply_has_numpys_floats_as_numbers():
    assert write_json({"y": [np.float32(0.5), 1]}) == b'{"y": [0.5, 1]}'


def test_a_reply_cannot_have_infinite_numbers():
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"y": [float("inf")]})
