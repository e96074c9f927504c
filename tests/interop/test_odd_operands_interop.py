"""TensorFlow's results for the table of odd operands are those in the table."""

from __future__ import annotations

import contextlib

import pytest

from tests.campaigns.error_classes import request_of
from tests.campaigns.operand_calls import UNKNOWN
from tests.campaigns.operand_runs import Builder
from tests.campaigns.tensorflow_child import TensorFlowChild
from tests.ops.odd_pairs import ODD
from tests.ops.odd_sizes import ACCEPTED_BY_ONEDNN
from tests.ops.test_odd_operands import known_as

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


BY_ONEDNN = ("depthwise, dilations [1, 1, 1, 2]", "depthwise, dilations [2, 1, 1, 1]")
"""Here TensorFlow's class depends on whether it takes oneDNN's kernel, which is decided by the machine and its environment."""


def test_tensorflow_does_with_odd_operands_what_the_table_says() -> None:
    found = {}
    with contextlib.closing(TensorFlowChild()) as tensorflow:
        for name, (call, _) in ODD.items():
            built = Builder(known_as(call, UNKNOWN), None, "plain", taken=True).build()
            answer = tensorflow.answer(request_of(built))
            found[name] = answer.error or answer.shapes

    expected = {name: expected for name, (_, expected) in ODD.items()}
    for name in BY_ONEDNN:
        assert {found.pop(name), expected.pop(name)} <= {"InvalidArgumentError", "UnimplementedError"}
    for name in ACCEPTED_BY_ONEDNN:
        if isinstance(found[name], tuple):
            del found[name], expected[name]
    assert found == expected
