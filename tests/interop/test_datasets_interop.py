"""Input pipelines built by TensorFlow yield the same elements and errors here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from aioexec.errors import OpError
from tests.interop.comparing import difference, imported, session_here

pytestmark = pytest.mark.interop

_STEPS = 9

Make = Callable[[Any], Any]
"""TensorFlow to a dataset of its own."""


def _scaled(tf: Any) -> Any:
    scale, shift = tf.constant(10), tf.constant([0.5, 1.5])
    pairs = (tf.range(5), tf.ones([5, 2]))
    mapped = tf.data.Dataset.from_tensor_slices(pairs).map(lambda a, b: (a * scale, b + shift))
    return mapped.batch(2).repeat(2)


def _strings(tf: Any) -> Any:
    words = tf.data.Dataset.from_tensor_slices(["a", "bb", "ccc"])
    return words.map(lambda word: tf.strings.join([word, "!"])).batch(2, drop_remainder=True)


def _nested(tf: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(np.arange(12.0).reshape(6, 2)).batch(2).batch(2).repeat(2)


def _conditional(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(tf.range(6))
    return numbers.map(lambda x: tf.cond(x > 2, lambda: x * 100, lambda: -x)).batch(4)


def _looping(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(tf.range(4))
    return numbers.map(lambda x: tf.while_loop(lambda y: y < 10, lambda y: y + 4, [x])).repeat(2)


def _failing(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(np.array([1, 0, 2], np.int32))
    return numbers.map(lambda x: 6 // x)


def _failing_in_a_batch(tf: Any) -> Any:
    return _failing(tf).repeat(2).batch(2)


def _empty(tf: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(np.zeros([0, 3], np.float32)).repeat(-1)


def _uneven(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(tf.range(1, 5))
    return numbers.map(lambda x: tf.zeros([x // 2])).batch(2)


def _no_batch(tf: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(tf.range(3)).batch(tf.constant(0, tf.int64))


def _captured(tf: Any) -> Any:
    offset = tf.get_variable("offset", initializer=5, use_resource=True)
    return tf.data.Dataset.from_tensor_slices(tf.range(3)).map(lambda x: x + offset)


BY_VALUE: list[Make] = [_scaled, _strings, _nested, _conditional, _looping, _failing, _empty]
DATASETS: list[Make] = [*BY_VALUE, _failing_in_a_batch, _uneven, _no_batch, _captured]


class Pipeline(NamedTuple):
    """A graph with an iterator, and the fetches of steps: the element comes before there is one, and beyond the last."""

    graph_def: Any
    steps: list[Any]


def built(tf: Any, make: Make, is_one_shot: bool) -> Pipeline:
    with tf.Graph().as_default() as graph:
        dataset = make(tf)
        initial = [variable.initializer.name for variable in tf.global_variables()]
        if is_one_shot:
            iterator = tf.data.make_one_shot_iterator(dataset)
        else:
            iterator = tf.data.make_initializable_iterator(dataset)
            initial.append(iterator.initializer.name)
        element = [tensor.name for tensor in tf.nest.flatten(iterator.get_next())]
        early = [] if is_one_shot else [element]
        return Pipeline(graph.as_graph_def(), [*early, *initial, *[element] * _STEPS])


def elements_there(tf: Any, pipeline: Pipeline) -> list[Any]:
    """The results of steps in TensorFlow: values, or the names of the classes of errors."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(pipeline.graph_def, name="")
    found: list[Any] = []
    with tf.Session(graph=graph) as session:
        for fetches in pipeline.steps:
            try:
                found.append(session.run(fetches))
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
    return found


async def elements_here(pipeline: Pipeline, jit: str) -> list[Any]:
    """The same of ours."""
    found: list[Any] = []
    async with session_here(imported(pipeline.graph_def), jit) as session:
        for fetches in pipeline.steps:
            try:
                found.append(await session.run(fetches))
            except OpError as error:
                found.append(type(error).__name__)
    return found


def assert_equal(here: list[Any], there: list[Any]) -> None:
    for ours, theirs in zip(here, there, strict=True):
        if isinstance(theirs, str) or isinstance(ours, str) or theirs is None:
            assert ours == theirs
        else:
            assert [difference(*pair, 1) for pair in zip(ours, theirs, strict=True)] == [""] * len(theirs)


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("make", DATASETS, ids=lambda make: make.__name__)
async def test_an_initialized_iterator_gives_the_same(tf, make: Make, jit: str):
    pipeline = built(tf, make, is_one_shot=False)

    assert_equal(await elements_here(pipeline, jit), elements_there(tf, pipeline))


@pytest.mark.parametrize("make", BY_VALUE, ids=lambda make: make.__name__)
async def test_an_iterator_of_one_shot_gives_the_same(tf, make: Make):
    pipeline = built(tf, make, is_one_shot=True)

    assert_equal(await elements_here(pipeline, "off"), elements_there(tf, pipeline))
