"""The functions of `tf.sets` beside TensorFlow's: the same ops, values and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec

pytestmark = pytest.mark.interop

A = np.array([[3, 1, 3], [2, 2, 5]])
B = np.array([[1, 4], [5, 2]])


def sparse(tf: Any) -> Any:
    return tf.SparseTensor([[0, 0], [0, 1], [1, 1]], np.array([3, 1, 9]), [2, 4])


def other(tf: Any) -> Any:
    return tf.SparseTensor([[0, 0], [1, 0]], np.array([3, 8]), [2, 2])


PAIRS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda tf: (A, B),
    "strings": lambda tf: ([["a", "b"]], [["b", "c"]]),
    "dense and sparse": lambda tf: (A, sparse(tf)),
    "sparse and dense": lambda tf: (sparse(tf), A),
    "sparse": lambda tf: (sparse(tf), other(tf)),
}


def operation(name: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda tf: getattr(tf.sets, name)(*make(tf))


CASES: dict[str, Callable[[Any], Any]] = {
    "size": lambda tf: tf.sets.size(sparse(tf)),
    "set_size": lambda tf: tf.sets.set_size(sparse(tf), validate_indices=False),
    **{
        f"{kind} of {name}": operation(kind, make)
        for kind in ("intersection", "difference", "union", "set_intersection", "set_difference", "set_union")
        for name, make in PAIRS.items()
    },
    "difference the other way": lambda tf: tf.sets.difference(A, B, aminusb=False),
    "difference of sparse and dense the other way": lambda tf: tf.sets.difference(sparse(tf), A, False),
    "size of a dense tensor": lambda tf: tf.sets.size(A),
    "union of floats": lambda tf: tf.sets.union([[1.0]], [[2.0]]),
    "union of other dtypes": lambda tf: tf.sets.union([[1]], [["a"]]),
}


def built(tf: Any, make: Callable[[Any], Any]) -> Any:
    """The tensors and the kinds of nodes of what is made, or the error."""
    try:
        made = make(tf)
    except (TypeError, ValueError) as error:
        return error, []
    parts = [made.indices, made.values, made.dense_shape] if isinstance(made, tf.SparseTensor) else [made]
    return parts, [
        (part.op.type, part.op.name, part.shape.as_list() if part.shape else None) for part in parts
    ]


@pytest.mark.parametrize("name", CASES)
async def test_sets_are_those_of_tensorflow(tf, name):
    with tf.Graph().as_default(), tf.Session() as session:
        theirs, their_nodes = built(tf, CASES[name])
        expected = [] if isinstance(theirs, Exception) else session.run(theirs)
    with aioexec.Graph().as_default():
        ours, our_nodes = built(aioexec, CASES[name])
        assert our_nodes == their_nodes
        if isinstance(theirs, Exception):
            assert isinstance(ours, type(theirs))
            return
        async with aioexec.Session() as session:
            found = await session.run(ours)
    for mine, wanted in zip(found, expected, strict=True):
        assert mine.dtype == wanted.dtype
        np.testing.assert_array_equal(mine, wanted)


def test_contrib_metrics_has_the_names_of_sets():
    for name in ("size", "intersection", "difference", "union"):
        assert getattr(aioexec.contrib.metrics, f"set_{name}") is getattr(aioexec.sets, name)
