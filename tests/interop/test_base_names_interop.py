"""Functions that programs use here and there, beside TensorFlow's: the same values, the same errors."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.graph import registry

pytestmark = pytest.mark.interop

X = np.array([[1.0, 0.0, -3.0], [0.0, 5.0, 6.0]], np.float32)


def sparse(tf: Any) -> Any:
    return tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.5, -2.0, 7.0], [3, 4])


def ids(tf: Any, dtype: str = "int64") -> Any:
    return tf.SparseTensor([[0, 0], [1, 0], [1, 1]], tf.constant([1, 0, 3], dtype), [2, 2])


CASES: dict[str, Callable[[Any], Any]] = {
    "sort": lambda tf: tf.sort(X),
    "sort along a dimension": lambda tf: tf.sort(X, axis=0, direction="DESCENDING"),
    "sort integers": lambda tf: tf.sort(tf.constant([3, -(2**31), 5, 3], tf.int32)),
    "sort unsigned": lambda tf: tf.sort(tf.constant([3, 0, 255], tf.uint8)),
    "argsort": lambda tf: tf.argsort([[2.0, 1.0, 2.0, 1.0]]),
    "argsort downwards": lambda tf: tf.argsort([2, 1, 2, 3], direction="DESCENDING", stable=True),
    "argsort along a dimension": lambda tf: tf.argsort(np.arange(24).reshape(2, 3, 4) % 5, axis=-2),
    "sort in an unknown direction": lambda tf: tf.sort(X, direction="UP"),
    "repeat": lambda tf: tf.repeat(X, 2),
    "repeat along a dimension": lambda tf: tf.repeat(X, 3, axis=1),
    "repeat by numbers": lambda tf: tf.repeat(X, [2, 0], axis=0),
    "repeat flat by numbers": lambda tf: tf.repeat([1, 2, 3], [0, 2, 1]),
    "batch_gather": lambda tf: tf.batch_gather(X, [[2, 0], [1, 1]]),
    "batch_gather of slices": lambda tf: tf.batch_gather(np.arange(12).reshape(2, 3, 2), [[2], [0]]),
    "math.polyval": lambda tf: tf.math.polyval([1.0, -2.0, 0.5], X),
    "math.polyval of nothing": lambda tf: tf.math.polyval([], X),
    "math.polyval of a number": lambda tf: tf.math.polyval(3.0, X),
    "math.reciprocal_no_nan": lambda tf: tf.math.reciprocal_no_nan(X),
    "string_strip": lambda tf: tf.string_strip([" a ", "b"]),
    "numpy_function": lambda tf: tf.numpy_function(lambda x, y: x + y, [X, 1.0], tf.float32),
    "raw_ops": lambda tf: tf.raw_ops.Split(axis=1, value=X, num_split=3)[2],
    "raw_ops of attributes": lambda tf: tf.raw_ops.Sum(input=X, axis=[1], keep_dims=True, name="total"),
    "sequence_mask": lambda tf: tf.sequence_mask([1, 3, 2]),
    "sequence_mask of a matrix": lambda tf: tf.sequence_mask([[1, 3], [2, 0]], 5, tf.float32),
    "sequence_mask of int64": lambda tf: tf.sequence_mask(tf.constant([1, 2], tf.int64), 3, tf.int32),
    "sequence_mask without a known shape": lambda tf: tf.sequence_mask(
        tf.placeholder_with_default([0, 2], None)
    ),
    "sequence_mask of negative lengths": lambda tf: tf.sequence_mask([-1, -2]),
    "arg_max": lambda tf: tf.arg_max(X, 1),
    "arg_min": lambda tf: tf.arg_min(X, 0, tf.int32),
    "histogram_fixed_width_bins": lambda tf: tf.histogram_fixed_width_bins(
        [-1.0, 0.0, 1.5, 2.0, 5.0, 15], [0.0, 5.0], 5
    ),
    "histogram_fixed_width_bins of a matrix": lambda tf: tf.histogram_fixed_width_bins(X, [-1.0, 6.0]),
    "histogram_fixed_width_bins of integers": lambda tf: tf.histogram_fixed_width_bins(
        tf.constant([[1, 7], [9, 3]], tf.float64), tf.constant([0, 10], tf.float64), nbins=3
    ),
    "sparse.from_dense": lambda tf: tf.sparse.from_dense(X),
    "sparse.from_dense of strings": lambda tf: tf.sparse.from_dense(["a", "", "b"]),
    "sparse.eye": lambda tf: tf.sparse.eye(2, 3, tf.int32),
    "sparse.eye square": lambda tf: tf.sparse.eye(2),
    "sparse.expand_dims": lambda tf: tf.sparse.expand_dims(sparse(tf), 1),
    "sparse.expand_dims at the end": lambda tf: tf.sparse.expand_dims(sparse(tf)),
    "sparse.expand_dims by -2": lambda tf: tf.sparse.expand_dims(sparse(tf), -2),
    "sparse.reset_shape": lambda tf: tf.sparse.reset_shape(sparse(tf)),
    "sparse.reset_shape to larger sizes": lambda tf: tf.sparse.reset_shape(sparse(tf), [5, 5]),
    "sparse.reset_shape to sizes of the step": lambda tf: tf.sparse.reset_shape(
        sparse(tf), tf.placeholder_with_default(np.array([3, 9], np.int64), [2])
    ),
    "sparse.to_indicator": lambda tf: tf.sparse.to_indicator(ids(tf), 4),
    "sparse.to_indicator of int32": lambda tf: tf.sparse.to_indicator(ids(tf, "int32"), 5),
    "sparse.merge": lambda tf: tf.sparse.merge(
        ids(tf), tf.SparseTensor([[0, 0], [1, 0], [1, 1]], [1.0, 2.0, 3.0], [2, 2]), 5
    ),
    "sparse.merge of two": lambda tf: tf.sparse_merge(
        [ids(tf), ids(tf)],
        tf.SparseTensor([[0, 0], [1, 0], [1, 1]], [1.0, 2.0, 3.0], [2, 2]),
        [5, 4],
        already_sorted=True,
    ),
    "sparse.reduce_sum_sparse": lambda tf: tf.sparse.reduce_sum_sparse(sparse(tf), 0),
    "sparse.reduce_sum_sparse keeping dims": lambda tf: tf.sparse.reduce_sum_sparse(
        sparse(tf), [1], keepdims=True
    ),
    "sparse.reduce_max_sparse": lambda tf: tf.sparse_reduce_max_sparse(sparse(tf), 1),
    "sparse_mask": lambda tf: (
        tf.sparse_mask(tf.IndexedSlices(tf.constant(X), tf.constant([4, 7])), tf.constant([4])).values
    ),
    "serialize_sparse": lambda tf: tf.serialize_sparse(sparse(tf)),
    "deserialize_many_sparse": lambda tf: tf.deserialize_many_sparse(
        tf.serialize_many_sparse(sparse(tf)), tf.float32, 1
    ),
    "tensor_scatter_nd_add": lambda tf: tf.tensor_scatter_nd_add(tf.constant(X), [[1]], [[1.0, 1.0, 1.0]]),
    "make_ndarray": lambda tf: tf.constant(tf.make_ndarray(tf.make_tensor_proto([[1, 2]], tf.int64))),
    "get_static_value": lambda tf: tf.constant(tf.get_static_value(tf.constant([2, 3]))),
    "assert_shapes": lambda tf: checked(
        tf,
        [
            (tf.zeros([2, 3]), ("N", "D")),
            (tf.zeros([5, 2, 3]), (..., "N", 3)),
            (1.0, ()),
            (tf.zeros([3]), ["D"]),
            (tf.zeros([4, 3]), (None, ".")),
            (tf.zeros([7]), None),
            (sparse(tf), (3, "M")),
        ],
    ),
    "assert_shapes of unknown sizes": lambda tf: checked(
        tf,
        {
            tf.placeholder_with_default(np.zeros((2, 3), np.float32), [None, None]): ("N", "D"),
            tf.placeholder_with_default(np.zeros((3, 2), np.float32), [3, None]): ("D", "N"),
        }.items(),
    ),
    "assert_shapes that fails": lambda tf: checked(
        tf,
        [
            (tf.placeholder_with_default(np.zeros((2, 3), np.float32), [None, None]), ("N", "N")),
        ],
    ),
    "assert_shapes that fails by an unknown rank": lambda tf: checked(
        tf, [(tf.placeholder_with_default(np.zeros((2, 3), np.float32), None), ("N", "D", 1))]
    ),
    "assert_shapes that is statically wrong": lambda tf: checked(tf, [(tf.zeros([2, 3]), ("N", "N"))]),
    "assert_shapes of a wrong rank": lambda tf: checked(tf, [(tf.zeros([2, 3]), ("N",))]),
    "assert_shapes of a wrong number": lambda tf: checked(tf, [(tf.zeros([2, 3]), (2, 4))]),
    "assert_shapes without a sequence": lambda tf: checked(tf, [(tf.zeros([2, 3]), 2)]),
    "assert_shapes with a late ellipsis": lambda tf: checked(tf, [(tf.zeros([2, 3]), ("N", ...))]),
    "sequence_mask with a vector": lambda tf: tf.sequence_mask([1], [2]),
    "sparse.reset_shape to smaller sizes": lambda tf: tf.sparse.reset_shape(sparse(tf), [2, 4]),
    "sparse.merge of unequal numbers": lambda tf: tf.sparse_merge([ids(tf)], ids(tf), [4, 5]),
    "sparse.expand_dims out of range": lambda tf: tf.sparse.expand_dims(sparse(tf), 4),
}


def checked(tf: Any, shapes: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_shapes(shapes)]):
        return tf.constant(1.0) + 1.0


def outcome(tf: Any, build: Callable[[Any], Any], run: Callable[[Any, Any], Any]) -> Any:
    """The values of what is built, or the kind of the error."""
    try:
        with tf.Graph().as_default() as graph:
            return run(graph, build(tf))
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__


def run_theirs(tf: Any) -> Callable[[Any, Any], Any]:
    def run(graph: Any, fetched: Any) -> Any:
        with tf.Session(graph=graph) as session:
            return session.run(fetched)

    return run


def run_ours(graph: Any, fetched: Any) -> Any:
    async def main() -> Any:
        async with aioexec.Session(graph=graph) as session:
            return await session.run(fetched)

    return asyncio.run(main())


@pytest.mark.parametrize("name", CASES)
def test_a_function_computes_what_tensorflows_does(tf, name):
    theirs = outcome(tf, CASES[name], run_theirs(tf))
    ours = outcome(aioexec, CASES[name], run_ours)

    if isinstance(theirs, str):
        assert ours == theirs
    else:
        assert not isinstance(ours, str), ours
        for mine, yours in zip(parts(ours), parts(theirs), strict=True):
            assert (mine.dtype, mine.shape) == (yours.dtype, yours.shape)
            np.testing.assert_array_equal(mine, yours)


def parts(value: Any) -> list[Any]:
    return [np.asarray(part) for part in (value if isinstance(value, tuple) else [value])]


STRUCTURES = [3, [], [1, (2, {"b": 3, "a": [4]})], {"x": (1, 2)}, [[1], 2], ((1,), 2)]


@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_structures_are_flattened_and_packed_as_by_tensorflow(tf, structure):
    for module in (tf.nest, aioexec.nest):
        flat = module.flatten(structure)
        assert module.pack_sequence_as(structure, flat) == structure
    assert aioexec.nest.flatten(structure) == tf.nest.flatten(structure)
    assert aioexec.nest.is_nested(structure) == tf.nest.is_nested(structure)
    assert aioexec.nest.map_structure(lambda x, y: (x, y), structure, structure) == tf.nest.map_structure(
        lambda x, y: (x, y), structure, structure
    )


@pytest.mark.parametrize("check_types", [True, False])
@pytest.mark.parametrize("other", STRUCTURES, ids=repr)
@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_structures_are_compared_as_by_tensorflow(tf, structure, other, check_types):
    def kind(module: Any) -> str:
        try:
            module.assert_same_structure(structure, other, check_types)
        except (TypeError, ValueError) as error:
            return "TypeError" if isinstance(error, TypeError) else "ValueError"
        return ""

    assert kind(aioexec.nest) == kind(tf.nest)


@pytest.mark.parametrize(
    "call",
    [
        lambda nest: nest.map_structure(1, [1]),
        lambda nest: nest.map_structure(abs),
        lambda nest: nest.map_structure(abs, [1], other=True),
        lambda nest: nest.pack_sequence_as([1, 2], [1]),
        lambda nest: nest.pack_sequence_as([1, 2], 1),
        lambda nest: nest.map_structure(lambda x, y: x, [1], (1,)),
    ],
)
def test_wrong_structures_are_errors_as_in_tensorflow(tf, call):
    for module in (tf.nest, aioexec.nest):
        with pytest.raises((TypeError, ValueError)) as raised:
            call(module)
        kinds = isinstance(raised.value, TypeError), isinstance(raised.value, ValueError)
        if module is tf.nest:
            expected = kinds
    assert kinds == expected


def test_composites_are_structures_if_asked(tf):
    def counts(module: Any) -> list[int]:
        with module.Graph().as_default():
            value = [sparse(module), module.constant(1)]
            return [len(module.nest.flatten(value)), len(module.nest.flatten(value, expand_composites=True))]

    assert counts(aioexec) == counts(tf) == [2, 4]


def test_text_is_converted_as_by_tensorflow(tf):
    for function in ("as_bytes", "as_text", "as_str", "as_str_any", "path_to_str"):
        for value in ("é", b"ab", 3, bytearray(b"q"), None):

            def result(module: Any, function: str = function, value: Any = value) -> Any:
                try:
                    return getattr(module.compat, function)(value)
                except TypeError:
                    return "TypeError"

            assert result(aioexec) == result(tf), (function, value)


@pytest.mark.parametrize("value", [1, [1.0], np.zeros(2)])
def test_what_is_a_tensor_is_what_tensorflow_calls_one(tf, value):
    def answers(module: Any) -> list[bool]:
        with module.Graph().as_default():
            made = [module.constant(1.0), module.Variable(1.0), sparse(module), module.constant("a"), value]
            return [
                *(bool(module.is_tensor(each)) for each in made),
                *(bool(module.is_numeric_tensor(each)) for each in (made[0], made[3], value)),
            ]

    assert answers(aioexec) == answers(tf)


def test_raw_ops_take_tensorflows_arguments(tf):
    for name in dir(aioexec.raw_ops):
        theirs = getattr(tf.raw_ops, name, None)
        if theirs is None:
            continue
        definition = registry.lookup(name).definition
        renamed = {ours: theirs for theirs, ours in aioexec.raw_ops._RENAMED.get(name, {}).items()}
        names = [each.name for each in definition.inputs] + [each.name for each in definition.attrs]
        ours = {renamed.get(each, each) for each in names}
        assert {*inspect.signature(theirs).parameters} - {"name"} <= ours, name
