"""Both engines, and TensorFlow's control flow in the form of 1.x."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.interop.behaviours.both import Program, agreed, apart


@pytest.fixture(scope="package")
def tf_of_1x(tf) -> Iterator[Any]:
    """`tensorflow.compat.v1`, whose conditionals and loops are made of Switch and Merge."""
    was_enabled = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    yield tf
    if was_enabled:
        tf.enable_control_flow_v2()


@pytest.fixture
def agree(tf_of_1x) -> Callable[[Program], Awaitable[Any]]:
    """Runs a program with both engines; returns their common result."""
    return partial(agreed, tf_of_1x)


@pytest.fixture
def differ(tf_of_1x) -> Callable[[Program], Awaitable[tuple[Any, Any]]]:
    """Runs a program whose result differs on purpose; returns ours and TensorFlow's."""
    return partial(apart, tf_of_1x)
