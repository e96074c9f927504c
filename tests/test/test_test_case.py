"""`ax.test.TestCase`: test methods that await sessions, and assertions about values."""

from __future__ import annotations

import random
import unittest
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError


def run(case: type[ax.test.TestCase], method: str = "test_it") -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.TestSuite([case(method)]).run(result)
    return result


def check(case: type[ax.test.TestCase], method: str = "test_it") -> None:
    result = run(case, method)

    assert (result.errors, result.failures, result.testsRun) == ([], [], 1)


def test_a_test_awaits_a_session():
    class Case(ax.test.TestCase):
        async def test_it(self):
            x = ax.placeholder(ax.float32, [])
            async with self.session() as session:
                assert ax.get_default_session() is session
                self.assertEqual(ax.constant(1.0).op.device, "")
                self.assertAllEqual(await session.run(x + 1.0, {x: 2.0}), 3.0)
                self.assertAllEqual(await self.evaluate([ax.constant(2.0)]), [2.0])

    check(Case)


def test_a_session_may_be_kept_off_the_gpu_or_run_another_graph():
    class Case(ax.test.TestCase):
        async def test_it(self):
            other = ax.Graph()
            async with self.session(graph=other, use_gpu=False) as session:
                one = ax.constant(1.0)
                self.assertDeviceEqual(one.device, "/device:CPU:0")
                self.assertIs(one.graph, other)
                self.assertEqual(await session.run(one), 1.0)
            async with self.test_session(graph=other) as session:
                self.assertEqual(await session.run(one), 1.0)

    check(Case)


def test_a_cached_session_is_shared_and_closed_after_the_test():
    sessions = []

    class Case(ax.test.TestCase):
        async def test_it(self):
            variable = ax.Variable(3.0)
            async with self.cached_session() as session:
                await session.run(ax.global_variables_initializer())
            async with self.test_session() as again:
                self.assertIs(again, session)
            self.assertEqual(await self.evaluate(variable), 3.0)
            sessions.append(session)

    check(Case)
    assert sessions[0]._closed


def test_each_test_has_an_empty_graph_and_the_same_random_numbers():
    drawn = []

    class Case(ax.test.TestCase):
        async def test_it(self):
            self.assertEqual(ax.get_default_graph().get_operations(), [])
            drawn.append(
                (random.random(), np.random.rand(), float(await self.evaluate(ax.random_uniform([]))))
            )

    check(Case)
    check(Case)
    assert drawn[0] == drawn[1]


def test_a_plain_test_method_works_too(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_TMPDIR", str(tmp_path))

    class Case(ax.test.TestCase):
        def test_it(self):
            self.assertEqual(self.get_temp_dir(), self.get_temp_dir())
            self.assertStartsWith(self.get_temp_dir(), str(tmp_path))

    check(Case)


def test_a_failure_is_reported():
    class Case(ax.test.TestCase):
        async def test_it(self):
            self.assertAllEqual(await self.evaluate(ax.constant([1, 2])), [1, 3])

    result = run(Case)

    assert len(result.failures) == 1
    assert "Mismatched elements: 1 / 2" in result.failures[0][1]


CASE = ax.test.TestCase()
MESSAGE = ax.GraphDef(versions={"producer": 3})
HOLD: dict[str, list[tuple[Any, ...]]] = {
    "assertAllEqual": [([1, 2], np.array([1, 2])), (np.nan, np.nan)],
    "assertNotAllEqual": [([1, 2], [1, 3]), ([1], [1, 1])],
    "assertAllClose": [
        ([1.0], [1.0 + 1e-7]),
        ({"a": [1.0], "b": 2.0}, {"a": [1.0], "b": 2.0}),
        ([[1.0], [1.0, 2.0]], [[1.0], [1.0, 2.0]]),
    ],
    "assertNotAllClose": [([1.0], [1.1])],
    "assertAllCloseAccordingToType": [
        (np.array([1.0], np.float16), np.array([1.001], np.float16)),
        (np.array([1.0], ax.bfloat16.as_numpy_dtype), [1.01]),
    ],
    "assertAllGreater": [([2, 3], 1)],
    "assertAllLess": [([2, 3], 4)],
    "assertAllGreaterEqual": [([2, 3], 2)],
    "assertAllLessEqual": [([2, 3], 3)],
    "assertAllInRange": [([2, 3], 2, 3), ([2, 3], 1, 4, True, True)],
    "assertAllInSet": [([2, 3], {1, 2, 3})],
    "assertNear": [(1.0, 1.1, 0.2), (np.inf, np.inf, 0.0)],
    "assertArrayNear": [([1.0], [1.1], 0.2)],
    "assertNDArrayNear": [(np.ones(2), np.ones(2), 1e-9)],
    "assertShapeEqual": [(np.ones((2, 3)), np.zeros((2, 3)))],
    "assertDTypeEqual": [(np.ones(2), np.float64), (np.ones(2, np.int32), ax.int32)],
    "assertDeviceEqual": [("/cpu:0", "/device:CPU:0")],
    "assertStartsWith": [("abc", "ab")],
    "assertProtoEquals": [("versions { producer: 3 }", MESSAGE), (MESSAGE, MESSAGE)],
    "assertItemsEqual": [([1, 2], [2, 1])],
}
FAIL: dict[str, list[tuple[Any, ...]]] = {
    "assertAllEqual": [([1, 2], [1, 3]), ([1], [[1]])],
    "assertNotAllEqual": [([1, 2], [1, 2])],
    "assertAllClose": [
        ([1.0], [1.1]),
        ([1.0], [1.0, 1.0]),
        ({"a": 1.0}, {"b": 1.0}),
        ([[1.0], [1.0, 2.0]], [[1.0]]),
    ],
    "assertNotAllClose": [([1.0], [1.0])],
    "assertAllCloseAccordingToType": [([1.0], [1.001])],
    "assertAllGreater": [([2, 3], 2)],
    "assertAllLess": [([2, 3], 3)],
    "assertAllGreaterEqual": [([2, 3], 3)],
    "assertAllLessEqual": [([2, 3], 2)],
    "assertAllInRange": [([2, 3], 2, 3, True), ([2, 3], 2, 3, False, True)],
    "assertAllInSet": [([2, 3], {3})],
    "assertNear": [(1.0, 1.1, 0.01)],
    "assertArrayNear": [([1.0], [1.1], 0.01), ([1.0], [], 1.0)],
    "assertNDArrayNear": [(np.ones(2), np.zeros(2), 0.1)],
    "assertShapeEqual": [(np.ones((2, 3)), np.zeros((3, 2)))],
    "assertDTypeEqual": [(np.ones(2), np.float32)],
    "assertDeviceEqual": [("/cpu:0", "/gpu:0")],
    "assertStartsWith": [("abc", "b")],
    "assertProtoEquals": [("versions { producer: 4 }", MESSAGE)],
    "assertItemsEqual": [([1, 2], [2, 2])],
}


@pytest.mark.parametrize(
    ("name", "arguments"), [(name, each) for name, cases in HOLD.items() for each in cases]
)
def test_an_assertion_holds(name, arguments):
    getattr(CASE, name)(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments"), [(name, each) for name, cases in FAIL.items() for each in cases]
)
def test_an_assertion_fails(name, arguments):
    with pytest.raises(AssertionError):
        getattr(CASE, name)(*arguments)


def test_errors_are_matched():
    error = ax.errors.NotFoundError("no such file")

    with CASE.assertRaisesOpError("such"):
        raise error
    with CASE.assertRaisesWithPredicateMatch(ax.OpError, lambda raised: raised is error):
        raise error
    with pytest.raises(AssertionError, match="does not match"), CASE.assertRaisesOpError("other"):
        raise error
    with pytest.raises(AssertionError, match="not raised"), CASE.assertRaisesOpError("other"):
        pass


def test_a_tensor_is_not_a_value():
    with ax.Graph().as_default(), pytest.raises(GraphTypeError, match=r"await self.evaluate\(tensor\)"):
        CASE.assertAllEqual(ax.constant(1.0), 1.0)


def test_shapes_and_dtypes_of_tensors_are_known():
    with ax.Graph().as_default():
        CASE.assertShapeEqual(np.ones((2, 3)), ax.zeros([2, 3]))
        CASE.assertDTypeEqual(ax.zeros([2]), np.float32)
