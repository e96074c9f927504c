"""Work estimates: expensive calls with small inputs run on workers, calls of usual size do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aioexec  # noqa: F401  (states the work of kernels)
from aioexec import dtypes
from aioexec.formats.tensor_codec import make_tensor_proto
from aioexec.graph import registry
from aioexec.graph.graph import Graph
from aioexec.planning.workload import HEAVY_BYTES, takes_long
from tests.campaigns import loop_holds
from tests.ops.sources import placeholder

TEXT = np.array([b"some text"] * 500, object)
SAMPLER = {"num_true": 1, "num_sampled": 5, "range_max": 1000, "unique": False, "seed": 1, "seed2": 2}
CLASSES = np.zeros((2, 1), np.int64)
BATCH = np.array([1, 1], np.int64)


def floats(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def sizes(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def scalar(number: int) -> Any:
    return np.array(number, np.int32)


def places(count: int) -> Any:
    return np.array([[0, k] for k in range(count)])


def sequences(count: int) -> list[Any]:
    """A pair of sparse batches of one sequence."""
    return [places(count), np.arange(count), BATCH * count] * 2


def serialized(value: Any, shape: tuple[int, ...] | None = None) -> Any:
    """A scalar that holds a TensorProto, which lists fewer elements than it has if it is of a larger shape."""
    return np.array(make_tensor_proto(value, shape=shape).SerializeToString(), object)


PARAMETERS = [floats(1), floats(1), -floats(1), floats(1)]

LONG: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("EditDistance", sequences(1500), {}),
    ("Svd", [floats(64, 64)], {}),
    ("SelfAdjointEigV2", [floats(64, 64)], {}),
    ("MatrixLogarithm", [floats(16, 16).astype(np.complex64)], {}),
    ("MatrixExponential", [floats(1000, 3, 3)], {}),
    ("Einsum", [floats(128, 128), floats(128, 128)], {"equation": "ij,jk->ik"}),
    ("BatchMatMulV2", [floats(16_000, 1), floats(1, 16_000)], {}),
    ("Add", [floats(1, 16_000), floats(16_000, 1)], {}),
    ("MatrixDiag", [floats(16_000)], {}),
    ("Fill", [sizes(1000, 1000), floats()], {}),
    ("Tile", [floats(100), sizes(10_000)], {}),
    ("BroadcastTo", [floats(1), sizes(1000, 1000)], {}),
    ("Range", [scalar(0), scalar(10**8), scalar(1)], {}),
    ("LinSpace", [floats(), floats(), scalar(10**8)], {}),
    ("OneHot", [sizes(1), scalar(10**6), floats(), floats()], {}),
    ("Conv2D", [floats(1, 2, 2, 2), floats(100, 100, 2, 1)], {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    (
        "Dilation2D",
        [floats(1, 1, 4, 1), floats(1, 1000, 1)],
        {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"},
    ),
    ("MaxPoolV2", [floats(1, 100, 100, 1), sizes(1, 50, 50, 1), sizes(1, 1, 1, 1)], {"padding": "SAME"}),
    ("ResizeArea", [floats(1, 10, 10, 1), sizes(10_000, 1)], {}),
    ("RandomShuffle", [floats(10_000)], {}),
    ("TruncatedNormal", [sizes(2000)], {"dtype": dtypes.float32}),
    ("RandomUniform", [sizes(100, 1000)], {"dtype": dtypes.float32}),
    ("RandomGamma", [sizes(1), floats(1)], {}),
    ("RandomPoissonV2", [sizes(1), floats(1)], {}),
    ("ParameterizedTruncatedNormal", [sizes(1), *PARAMETERS], {}),
    ("Multinomial", [floats(100, 3), scalar(1)], {}),
    (
        "LogUniformCandidateSampler",
        [CLASSES],
        SAMPLER | {"num_sampled": 8192, "range_max": 793_471, "unique": True},
    ),
    ("UniformCandidateSampler", [CLASSES], SAMPLER | {"num_sampled": 999, "unique": True}),
    ("LearnedUnigramCandidateSampler", [CLASSES], SAMPLER),
    ("FixedUnigramCandidateSampler", [CLASSES], SAMPLER | {"range_max": 2, "unigrams": [1.0, 1.0]}),
    ("RegexReplace", [TEXT[:50], np.array(b"o", object), np.array(b"x", object)], {}),
    ("StringJoin", [[TEXT, TEXT]], {"N": 2}),
    ("StringUpper", [np.array(b"a" * HEAVY_BYTES, object)], {}),
    ("DecodePng", [np.array(b"", object)], {}),
    ("AsString", [floats(1000)], {"T": dtypes.float32}),
    ("UniqueV2", [floats(1000, 3), np.array([0])], {}),
    ("ParseTensor", [serialized(sizes(1, 2), (2**25,))], {"out_type": dtypes.int32}),
    ("ParseTensor", [serialized(TEXT)], {"out_type": dtypes.string}),
    ("LowerBound", [floats(1000, 4), floats(1000, 4)], {}),
]

SHORT: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("EditDistance", sequences(5), {}),
    ("Svd", [floats(3, 3)], {}),
    ("Cholesky", [floats(10, 10)], {}),
    ("MatMul", [floats(32, 100), floats(100, 10)], {}),
    ("Einsum", [floats(8, 8), floats(8, 8)], {"equation": "ij,jk->ik"}),
    ("Add", [floats(1, 100), floats(100, 1)], {}),
    ("Fill", [sizes(10, 10), floats()], {}),
    ("Conv2D", [floats(1, 5, 5, 1), floats(3, 3, 1, 2)], {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    ("RandomUniform", [sizes(10, 100)], {"dtype": dtypes.float32}),
    ("RandomShuffle", [floats(100)], {}),
    (
        "UniformCandidateSampler",
        [CLASSES],
        SAMPLER | {"num_sampled": 64, "range_max": 10_000, "unique": True},
    ),
    ("StringJoin", [[TEXT[:50], TEXT[:50]]], {"N": 2}),
    ("RegexReplace", [TEXT[:5], np.array(b"o", object), np.array(b"x", object)], {}),
    ("AsString", [floats(20)], {"T": dtypes.float32}),
    ("ParseTensor", [serialized(floats(500))], {"out_type": dtypes.float32}),
    ("ParseTensor", [serialized(TEXT[:10])], {"out_type": dtypes.string}),
]


def runs_on_a_worker(op_type: str, inputs: list[Any], attrs: dict[str, Any]) -> bool:
    flat = [each for value in inputs for each in (value if isinstance(value, list) else [value])]
    with Graph().as_default() as graph:
        tensors = [placeholder(dtypes.string if each.dtype == object else each.dtype.name) for each in flat]
        op = graph.create_op(op_type, tensors, attrs=attrs)
    instruction: Any = SimpleNamespace(node=SimpleNamespace(op=op, row=op.row), sizes={}, structure=None)
    return takes_long(instruction, flat)


@pytest.mark.parametrize(("op_type", "inputs", "attrs"), [pytest.param(*each, id=each[0]) for each in LONG])
def test_what_takes_long_with_little_input_runs_on_a_worker(op_type: str, inputs: Any, attrs: Any):
    assert runs_on_a_worker(op_type, inputs, attrs)


@pytest.mark.parametrize(("op_type", "inputs", "attrs"), [pytest.param(*each, id=each[0]) for each in SHORT])
def test_what_is_short_runs_on_the_loop(op_type: str, inputs: Any, attrs: Any):
    assert not runs_on_a_worker(op_type, inputs, attrs)


def test_only_ops_that_have_a_kernel_state_their_work():
    stated = [name for name, fields in registry._registry.completions.items() if "work" in fields]

    assert len(stated) > 100
    assert [name for name in stated if registry.lookup(name).kernel is None] == []


@pytest.mark.parametrize("op_type", ["Neg", "AsString"])
def test_the_campaign_calls_kernels_with_much_that_still_runs_on_the_loop(op_type: str):
    milliseconds, call = loop_holds.longest_hold(op_type)

    assert milliseconds > 0
    assert call
