"""Random streams run after run, seeds, and the functions over the random ops.

Golden numbers were printed by tensorflow-cpu 2.21: those of `golden_random` as said there, the others by the same lines of
`tf.compat.v1` in one graph and session.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import GraphValueError, InternalError, InvalidArgumentError, ResourceExhaustedError
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.graph.graph import Graph
from aioexec.ops.random import philox, philox_lanes, philox_truncated, random_ops
from tests import tiers
from tests.ops.evaluate import Evaluator, evaluate
from tests.ops.random.golden_random import CLASSES, INTEGERS, PROBABILITIES, REAL, SEEDS, SHUFFLED


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def two_runs(fetches: Any) -> tuple[Any, Any]:
    session = Evaluator()
    return session.run(fetches), session.run(fetches)


TOLERANCE = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.mark.parametrize(("op", "name"), REAL)
def test_each_run_continues_the_stream(graph, op, name):
    drawn = apply_any_op(op, [6], dtype=dtypes.as_dtype(name), **SEEDS)

    runs = two_runs(drawn)

    for actual, expected in zip(runs, REAL[op, name], strict=True):
        np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=TOLERANCE[name], atol=1e-7)


@pytest.mark.parametrize("name", INTEGERS)
def test_each_run_draws_other_integers(graph, name):
    low, high = (np.array(limit, name) for limit in (-1000, 1000))

    runs = two_runs(apply_op("RandomUniformInt", [6], low, high, **SEEDS))

    assert [run.tolist() for run in runs] == list(INTEGERS[name])


def test_each_run_shuffles_anew(graph):
    runs = two_runs(apply_op("RandomShuffle", np.arange(8), **SEEDS))

    assert [run.tolist() for run in runs] == list(SHUFFLED)


def test_each_run_draws_other_classes(graph):
    runs = two_runs(apply_op("Multinomial", np.log(np.array(PROBABILITIES, np.float32)), 6, **SEEDS))

    assert [run.tolist() for run in runs] == list(CLASSES)


def test_a_large_draw_is_the_same_as_in_pieces_of_any_size(graph):
    seeds: dict[str, Any] = {"seed": -5, "seed2": 2**40}
    uniform = apply_op("RandomUniform", [100003], dtype=dtypes.float32, **seeds)
    normal = apply_op("TruncatedNormal", [100003], dtype=dtypes.float64, **seeds)

    runs = two_runs([uniform, normal])

    sums = [float(drawn.astype(np.float64).sum()) for drawn, _ in runs]
    assert sums == pytest.approx([50095.71140396595, 49963.06694197655], rel=1e-12)
    ends = [drawn[-3:] for _, drawn in runs]
    np.testing.assert_allclose(
        ends[0], [-0.809642045981608, 0.3579803663481635, 0.6162145533788049], rtol=1e-13
    )
    np.testing.assert_allclose(
        ends[1], [0.11967133700112739, 0.30236836621822516, -0.8071826306568748], rtol=1e-13
    )


def test_counters_carry_through_all_128_bits():
    everywhere = philox.words(7, 2**128 - 2, np.arange(4, dtype=np.uint64))

    np.testing.assert_array_equal(everywhere[2:], philox.words(7, 0, np.arange(2, dtype=np.uint64)))
    np.testing.assert_array_equal(
        philox.words(7, 2**64 - 1, np.arange(2, dtype=np.uint64))[1],
        philox.words(7, 2**64, np.zeros(1, np.uint64))[0],
    )


def test_philox_gives_the_numbers_of_its_authors():
    """The known answers that come with Random123, for philox4x32 with 10 rounds."""
    zeros = philox.words(0, 0, np.zeros(1, np.uint64))
    ones = philox.words(2**64 - 1, 2**128 - 1, np.zeros(1, np.uint64))

    assert [hex(word) for word in zeros[0]] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]
    assert [hex(word) for word in ones[0]] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]


def test_without_seeds_streams_differ(graph):
    drawn = [apply_op("RandomUniform", [8], dtype=dtypes.float64) for _ in range(2)]

    one, other = evaluate(drawn)
    again = evaluate(drawn)[0]

    assert not np.array_equal(one, other)
    assert not np.array_equal(one, again)


# Seeds


def test_the_same_program_with_the_same_seed_draws_what_tensorflow_draws(graph):
    random_ops.set_random_seed(7)
    drawn = [
        random_ops.random_uniform([3]),
        random_ops.random_uniform([3], seed=3),
        random_ops.truncated_normal([3], stddev=0.5),
        random_ops.random_normal([3], 1.0, 2.0),
        random_ops.random_shuffle(np.arange(6)),
        random_ops.random_uniform([3], 10, 20, dtypes.int32),
    ]

    first, second = two_runs(drawn)

    expected: Any = (
        (
            [0.7537285089492798, 0.07793760299682617, 0.45880913734436035],
            [0.4010878801345825, 0.37683892250061035, 0.3092927932739258],
            [-0.2704026997089386, 0.5610164999961853, 0.5870869755744934],
            [-1.9433634281158447, -0.2329111099243164, 0.2586498260498047],
            [3, 4, 2, 0, 1, 5],
            [15, 11, 16],
        ),
        (
            [0.7915035486221313, 0.510116696357727, 0.5416638851165771],
            [0.5707436800003052, 0.5799131393432617, 0.1443091630935669],
            [0.4365595579147339, -0.5449442267417908, 0.2206820249557495],
            [-3.252159595489502, -0.7012314796447754, 1.4160687923431396],
            [2, 5, 4, 1, 0, 3],
            [13, 10, 16],
        ),
    )
    for run, wanted in zip((first, second), expected, strict=True):
        for actual, numbers in zip(run, wanted, strict=True):
            np.testing.assert_allclose(actual, numbers, rtol=2e-6)


def test_an_op_seed_alone_goes_with_the_default_graph_seed(graph):
    drawn = random_ops.random_uniform([3], seed=3)

    np.testing.assert_array_equal(
        evaluate(drawn), np.array([0.38692939281463623, 0.3600262403488159, 0.9768795967102051], np.float32)
    )
    assert random_ops.get_seed(3) == (random_ops.DEFAULT_GRAPH_SEED, 3)


def test_seeds_are_never_both_zero_when_one_was_given(graph):
    assert random_ops.get_seed(None) == (None, None)

    random_ops.set_random_seed(0)

    assert random_ops.get_seed(0) == (0, 2**31 - 1)
    assert random_ops.get_seed(2**31) == (0, 1)
    assert random_ops.get_seed(-1) == (0, 2**31 - 2)


def test_unseeded_ops_of_a_seeded_graph_get_seeds_in_turn(graph):
    random_ops.set_random_seed(5)

    assert [random_ops.get_seed(None) for _ in range(3)] == [(5, 0), (5, 1), (5, 2)]
    assert random_ops.get_seed(9) == (5, 9)
    assert random_ops.get_seed(None) == (5, 3)


# Functions


def test_nodes_have_tensorflows_names(graph):
    assert random_ops.random_uniform([2]).name == "random_uniform/RandomUniform:0"
    assert random_ops.random_uniform([2], 1.0, 2.0).name == "random_uniform_1:0"
    assert random_ops.random_uniform([2], 1, 5, dtypes.int64).op.type == "RandomUniformInt"
    assert random_ops.random_normal([2], name="noise").name == "noise:0"
    assert random_ops.truncated_normal([2]).name == "truncated_normal:0"
    assert {"noise/shape", "noise/mean", "noise/stddev", "noise/RandomStandardNormal", "noise/mul"} <= {
        op.name for op in graph.get_operations()
    }


def test_bounds_are_kept(graph):
    uniform = evaluate(random_ops.random_uniform([1000], -3.0, -1.0, seed=1))
    integers = evaluate(random_ops.random_uniform([1000], -3, 3, dtypes.int64, seed=1))
    normal = evaluate(random_ops.truncated_normal([1000], mean=5.0, stddev=0.5, seed=1))

    assert uniform.min() >= -3
    assert uniform.max() < -1
    assert set(integers.tolist()) == {-3, -2, -1, 0, 1, 2}
    assert abs(normal - 5).max() < 1


def test_the_shape_may_be_a_tensor(graph):
    shape = graph.create_op("Placeholder", (), attrs={"dtype": dtypes.int32, "shape": (2,)}).outputs[0]
    drawn = random_ops.random_uniform(shape)

    assert drawn.shape.as_list() == [None, None]
    assert evaluate(drawn, {shape: np.array([3, 2], np.int32)}).shape == (3, 2)


def test_integers_need_an_upper_limit(graph):
    with pytest.raises(GraphValueError, match="maxval must be specified"):
        random_ops.random_uniform([2], dtype=dtypes.int32)
    with pytest.raises(GraphValueError, match="invalid dtype uint8"):
        random_ops.random_uniform([2], 1, 2, dtypes.uint8)
    with pytest.raises(GraphValueError, match="expected a floating dtype"):
        random_ops.random_normal([2], dtype=dtypes.int32)


# Dropout


def test_dropout_scales_what_it_keeps(graph):
    result = evaluate(random_ops.dropout(np.ones((100, 10), np.float32), rate=0.25, seed=4))

    kept = result != 0
    np.testing.assert_allclose(result[kept], 1 / 0.75, rtol=1e-6)
    assert 600 < kept.sum() < 900


def test_dropout_takes_the_probability_to_keep_as_well(graph):
    x = np.ones((8, 8), np.float32)

    by_rate = evaluate(random_ops.dropout(x, rate=0.5, seed=4))
    by_keep = evaluate(random_ops.dropout(x, keep_prob=0.5, seed=4))

    np.testing.assert_array_equal(by_rate, by_keep)


def test_dropout_drops_together_where_the_noise_shape_is_one(graph):
    result = evaluate(random_ops.dropout(np.ones((50, 4), np.float32), rate=0.5, noise_shape=[50, 1], seed=2))

    assert (result == result[:, :1]).all()
    assert 0 < (result[:, 0] == 0).sum() < 50


def test_dropout_of_nothing_is_the_value_itself(graph):
    x = graph.create_op("Placeholder", (), attrs={"dtype": dtypes.float32, "shape": (None, 2)}).outputs[0]

    assert random_ops.dropout(x, rate=0) is x
    assert random_ops.dropout(x, rate=0.5).shape.as_list() == [None, 2]


@pytest.mark.parametrize(
    "how", [{}, {"rate": 0.5, "keep_prob": 0.5}, {"rate": 1.0}, {"rate": -0.1}, {"keep_prob": 2}]
)
def test_dropout_refuses_a_rate_that_makes_no_sense(graph, how):
    with pytest.raises(GraphValueError, match="dropout"):
        random_ops.dropout(np.ones(3, np.float32), **how)


@pytest.mark.parametrize("mean", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_a_normal_number_between_limits_that_it_never_reaches_is_refused_as_tensorflow_does(graph, mean):
    """After a thousand numbers; a mean of 1e4 is far, too, and TensorFlow gives the limit."""
    far, beyond = (
        apply_op("ParameterizedTruncatedNormal", [5], *np.float32([[each], [1], [-2], [2]]), **SEEDS)
        for each in (1e4, mean)
    )

    np.testing.assert_array_equal(evaluate(far), [2.0] * 5)
    with pytest.raises(InternalError, match="TruncatedNormal"):
        evaluate(beyond)


@pytest.mark.parametrize("rate", [1e30, 5e9])
def test_a_poisson_number_that_no_integer_of_its_dtype_can_be_is_not_looked_for(rate):
    used = []

    def words(*arguments: Any) -> Any:
        used.append(arguments)
        return philox.words(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(philox_lanes, "words", words)
        drawn = philox_lanes.poisson(1, 2, np.array([rate]), 10, 2**31 - 1)

    assert np.isnan(drawn).all()
    assert not used


def test_a_shape_of_more_dimensions_than_tensorflow_has_is_refused(graph):
    with pytest.raises(InvalidArgumentError, match="at most 254 dimensions"):
        evaluate(apply_op("RandomUniform", np.full(10_000, 2), dtype=dtypes.float32))


def test_random_numbers_that_no_memory_can_hold_are_refused_before_they_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def words(*arguments: Any) -> Any:
        calls.append(arguments)
        assert len(calls) == 1, "more was drawn than it takes to know the dtype"
        return np.zeros((len(arguments[2]), 4), np.uint32)

    monkeypatch.setattr(philox, "words", words)

    for distribution in ("Normal", "Uniform", "TruncatedNormal"):
        calls.clear()
        with pytest.raises(MemoryError):
            philox.DISTRIBUTIONS[distribution](np.dtype(np.float32))(1, 0, 2**46)


def address_space() -> int:
    """Bytes of addresses that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


async def test_normal_numbers_that_no_memory_holds_are_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(philox_truncated.Batches, "draw", lambda self, size, *limits: drawn.append(size))
    usual = resource.getrlimit(resource.RLIMIT_AS)
    with tiers.graph() as g:
        limits = (tiers.constant(each, "float64") for each in ([0, 1], 1, -1, 1))
        y = tiers.op("ParameterizedTruncatedNormal", tiers.constant([2, 2**31 - 1], "int32"), *limits, seed=1)

    async with tiers.session_on(g, "off") as session:
        resource.setrlimit(resource.RLIMIT_AS, (address_space() + (1 << 30), usual[1]))
        try:
            with pytest.raises(ResourceExhaustedError):
                await session.run(y)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, usual)

    assert drawn == []
