"""Signatures in batches: values are checked at admission, and results have the bits of those of unbatched steps."""

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.saved_model.signature import Signature
from tests.tiers import TIERS, Tier, session_on

SIZES = (40, 70, 70, 10)


@pytest.fixture(params=TIERS)
def tier(request):
    return Tier(request.param)


@pytest.fixture(scope="module")
def network():
    """A multilayer perceptron: its graph, input and output."""
    generator = np.random.default_rng(3)
    with ax.Graph().as_default() as graph:
        x = y = ax.placeholder(ax.float32, [None, SIZES[0]], name="x")
        for rows, columns in itertools.pairwise(SIZES):
            w = ax.constant(generator.standard_normal((rows, columns)).astype(np.float32))
            y = ax.nn.relu(ax.matmul(y, w))
        y = ax.nn.softmax(y)
    return graph, x, y


def batcher(model, *, max_batch_size=8, max_queue=1000, buckets=None):
    return ax.batching.Batcher(
        model, max_batch_size=max_batch_size, max_delay=0, max_queue=max_queue, buckets=buckets
    )


@pytest.mark.parametrize("size", [8, 64])
async def test_results_are_those_of_an_unbatched_step_of_the_same_bucket(network, tier, size):
    graph, x, y = network
    generator = np.random.default_rng(size)
    requests = [generator.standard_normal((rows, SIZES[0])).astype(np.float32) for rows in (1, 3, 1, 5, 2, 9)]
    with tier.chosen():
        async with tier.session(graph) as session:
            expected = []
            for value in requests:
                whole = -(-len(value) // size) * size
                padded = np.concatenate([value, np.repeat(value[:1], whole - len(value), axis=0)])
                parts = [await session.run(y, {x: padded[i : i + size]}) for i in range(0, whole, size)]
                expected.append(np.concatenate(parts)[: len(value)])

            async with batcher(
                Signature("serving_default", {"x": x}, {"y": y}, session), max_batch_size=size, buckets=[size]
            ) as batched:
                answers = await asyncio.gather(*(batched(x=value) for value in requests))

    assert [answer["y"].tobytes() for answer in answers] == [value.tobytes() for value in expected]


@pytest.fixture
async def session():
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        scale = ax.placeholder_with_default(ax.constant(2.0), [], name="scale")
        ax.reduce_sum(x * scale, axis=1, name="sums")
        ax.reduce_sum(x, name="total")
        ax.placeholder(ax.float32, [1, 2], name="fixed")
        ax.placeholder(ax.string, [None], name="text")
    async with session_on(graph, "off") as session:
        yield session


def signature(session, inputs=("x",), outputs=("sums",), **options):
    graph = session.graph
    return Signature(
        "serving_default",
        {name: graph.get_tensor_by_name(f"{name}:0") for name in inputs},
        {name: graph.get_tensor_by_name(f"{name}:0") for name in outputs},
        session,
        **options,
    )


async def test_the_default_signature_of_a_model_is_run(session):
    sums = signature(session)
    model = SimpleNamespace(signature=lambda: sums)

    async with batcher(model) as batched:
        answers = await asyncio.gather(batched(x=[[1, 2]]), batched(x=[[3, 4], [5, 6]]))

    assert [answer["sums"].tolist() for answer in answers] == [[6], [14, 22]]


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"y": [[1, 2]]}, None, r"expected inputs \['x'\] of signature 'serving_default', got \['y'\]"),
        ({}, None, r"expected inputs \['x'\] of signature 'serving_default', got \[\]"),
        (
            {"x": [[1, 2, 3]]},
            None,
            r"input 'x' of signature 'serving_default': Cannot feed value of shape \(1, 3\)",
        ),
        ({"x": [["a", "b"]]}, None, "input 'x' of signature 'serving_default': "),
        ({"x": [[1, 2]]}, ["product"], r"expected outputs among \['sums', 'total'\] .* got 'product'"),
        (
            {"x": [[1, 2]]},
            ["total"],
            "output 'total' of signature 'serving_default' must have a batch of any size",
        ),
        (
            {"x": [[1, 2]]},
            None,
            "output 'total' of signature 'serving_default' must have a batch of any size",
        ),
    ],
)
async def test_what_does_not_fit_the_signature_fails_alone(session, inputs, outputs, message):
    async with batcher(signature(session, outputs=["sums", "total"])) as batched:
        answers: Any = await asyncio.gather(
            batched.run({"x": [[1, 2]]}, ["sums"]), batched.run(inputs, outputs), return_exceptions=True
        )

    good, bad = answers
    assert good["sums"].tolist() == [6]
    with pytest.raises(InvalidArgumentError, match=message):
        raise bad


@pytest.mark.parametrize("name", ["scale", "fixed"])
async def test_an_input_without_a_batch_is_refused(session, name):
    with pytest.raises(GraphValueError, match=f"input '{name}' .* must have a batch of any size"):
        batcher(signature(session, inputs=["x", name]))


async def test_an_input_without_a_batch_may_have_a_default(session):
    scaled = signature(session, inputs=["x", "scale"], defaults={"scale": 3.0})

    async with batcher(scaled) as batched:
        assert (await batched(x=[[1, 2]]))["sums"].tolist() == [9]
        with pytest.raises(InvalidArgumentError, match=r"got \['scale', 'x'\]"):
            await batched(x=[[1, 2]], scale=4.0)


async def test_long_lists_are_converted_off_the_loop(session, monkeypatch):
    monkeypatch.setattr("aioexec.sessions.feeds.LARGE", 3)

    async with batcher(signature(session)) as batched:
        answers = await asyncio.gather(batched(x=[[1, 2]] * 4), batched(x=np.ones([3, 2], np.float16)))

    assert [answer["sums"].tolist() for answer in answers] == [[6] * 4, [4] * 3]


async def test_a_dtype_that_loses_values_is_refused(session):
    async with batcher(signature(session, inputs=["text"], outputs=["text"])) as batched:
        with pytest.raises(GraphTypeError, match="input 'text' of signature 'serving_default'"):
            await batched(text=np.ones(3))
        text = np.array([b"a"], object)
        assert (await batched(text=text))["text"].tolist() == [b"a"]
        with pytest.raises(GraphTypeError, match="input 'text' of signature 'serving_default'"):
            await batched(text=np.array([1], object))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": np.ones([1, 3], np.float32), "w": np.ones([1, 2], np.float32)}, r"shape \(1, 3\)"),
        ({"x": np.ones([0, 2], np.float32), "w": np.ones([0, 2], np.float32)}, "at least one row"),
        ({"x": np.ones([1, 2], np.float32), "w": np.ones([2, 2], np.float32)}, "as many rows as 'x', 1"),
        ({"x": np.ones([1, 2], np.float32), "v": np.ones([1, 2], np.float32)}, "got .'v', 'x'."),
        ({"x": np.ones([1, 2], np.float32)}, r"expected inputs \['w', 'x'\]"),
        ({"x": np.float32(1), "w": np.float32(1)}, r"shape \(\)"),
        ({"x": np.array([["a", "b"]]), "w": np.ones([1, 2], np.float32)}, "input 'x'"),
    ],
)
async def test_requests_are_checked_after_one_that_fits(wrong, message):
    with ax.Graph().as_default() as graph:
        x, w = (ax.placeholder(ax.float32, [None, 2], name=name) for name in "xw")
        y = x + w
    async with (
        session_on(graph, "off") as session,
        batcher(Signature("serving_default", {"x": x, "w": w}, {"y": y}, session)) as batched,
    ):
        for _ in range(2):
            ones = np.ones([2, 2], np.float32)
            assert (await batched(x=ones, w=ones))["y"].tolist() == [[2, 2]] * 2

            with pytest.raises(InvalidArgumentError, match=message):
                await batched.run(wrong)

        assert (await batched(w=[[1, 2]], x=ones[:1]))["y"].tolist() == [[2, 3]]


async def test_functions_get_the_dtypes_and_shapes_of_each_request():
    seen = []

    async def model(x):
        seen.append((x.dtype.name, x.shape))
        return {"y": x}

    values = [
        np.ones([1, 2], np.float32),
        np.ones([1, 2], np.float64),
        np.ones([1, 3]),
        [[1.0, 2.0]],
        np.ones([1, 2]),
    ]
    async with batcher(model) as batched:
        for value in values:
            assert (await batched(x=value))["y"].tolist() == np.asarray(value).tolist()

    assert seen == [
        ("float32", (1, 2)),
        ("float64", (1, 2)),
        ("float64", (1, 3)),
        ("float32", (1, 2)),
        ("float64", (1, 2)),
    ]


async def test_the_outputs_of_a_request_are_not_those_of_the_one_before():
    async def model(x):
        return {"y": x, "z": -x}

    x = np.ones(1)
    async with batcher(model) as batched:
        chosen = [[*await batched.run({"x": x}, names)] for names in (None, ["z"], ["y"], None)]

    assert chosen == [["y", "z"], ["z"], ["y"], ["y", "z"]]
