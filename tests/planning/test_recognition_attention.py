"""Attention becomes one node, in the forms in which programs write it, and only where nothing else uses its parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.planning.passes import BUILT_IN, DefaultOptions
from aioexec.planning.recognition.attention import recognize_attention
from aioexec.planning.recognition.input_products import move_input_products
from aioexec.planning.recognition.layer_norm import recognize_layer_norm
from aioexec.planning.recognition.softmax import recognize_softmax
from tests.planning.planned import by_name
from tests.planning.recognized import attention_values, count, drawn, heads, planned, run
from tests.tiers import feed, graph, op

B, T, S, H, D = 2, 5, 7, 3, 4
QUERY, KEY, VALUE = drawn(B, T, H * D), drawn(B, S, H * D), drawn(B, S, H * D)
MASK = np.where(np.arange(S) < S - 2, 0, -10000).astype(np.float32)
SCALE = 0.5


def inputs() -> list[Any]:
    return [feed(list(each.shape)) for each in (QUERY, KEY, VALUE)]


def feeds(tensors: list[Any]) -> dict[Any, Any]:
    return dict(zip(tensors, (QUERY, KEY, VALUE), strict=True))


def bert(tensors: list[Any], mask: Any = MASK, scores: Any = None) -> Any:
    """As BERT writes it, merged to rows."""
    query, key, value = (heads(each, H) for each in tensors)
    scores = ax.matmul(query, key, transpose_b=True) * np.float32(SCALE) if scores is None else scores
    weights = ax.nn.softmax(scores + mask)
    return ax.transpose(ax.matmul(weights, value), [0, 2, 1, 3])


def expected(mask: Any = MASK, scale: float = SCALE) -> Any:
    query, key, value = (heads(each, H) for each in (QUERY, KEY, VALUE))
    return attention_values(query, key, value, mask, scale=scale).transpose(0, 2, 1, 3)


def divided(tensors: list[Any]) -> Any:
    query, key, value = (heads(each, H) for each in tensors)
    scores = ax.matmul(query, key, transpose_b=True) / np.float32(2) - ax.constant(-MASK)
    return ax.transpose(ax.matmul(ax.nn.softmax(scores), value), [0, 2, 1, 3])


def with_transposed_keys(tensors: list[Any]) -> Any:
    query, key, value = tensors
    split = ax.transpose(ax.reshape(key, [B, S, H, D]), [0, 2, 3, 1])
    scores = np.float32(SCALE) * ax.matmul(heads(query, H), split)
    return ax.transpose(ax.matmul(ax.nn.softmax(MASK + scores), heads(value, H)), [0, 2, 1, 3])


def with_scaled_queries(tensors: list[Any]) -> Any:
    query, key, value = (heads(each, H) for each in tensors)
    scores = ax.matmul(query * np.float32(SCALE), key, transpose_b=True)
    return ax.transpose(ax.matmul(ax.nn.softmax(scores + MASK), value), [0, 2, 1, 3])


def with_exponentials(tensors: list[Any]) -> Any:
    query, key, value = (heads(each, H) for each in tensors)
    scores = ax.matmul(query, key, transpose_b=True) * np.float32(SCALE) + MASK
    powers = ax.exp(scores - ax.reduce_max(scores, axis=-1, keepdims=True))
    weights = powers / ax.reduce_sum(powers, axis=3, keepdims=True)
    return ax.transpose(ax.matmul(weights, value), [0, 2, 1, 3])


@pytest.mark.parametrize(
    "build", [bert, divided, with_transposed_keys, with_scaled_queries, with_exponentials]
)
@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_attention_is_one_node_without_transpositions(build, jit):
    with graph():
        tensors = inputs()
        y = build(tensors)

    made = planned([y], tensors)
    (result,) = await run([y], feeds(tensors), jit)

    assert [count(made, each) for each in ("_Attention", "Transpose", "Softmax", "BatchMatMulV2")] == [
        1,
        0,
        0,
        0,
    ]
    np.testing.assert_allclose(result, expected(), rtol=1e-5, atol=1e-6)


async def test_without_scale_mask_and_permutations_it_is_one_node_too():
    with graph():
        tensors = [feed([B * H, each, D]) for each in (T, S, S)]
        query, key, value = tensors
        y = ax.matmul(ax.nn.softmax(ax.matmul(query, key, transpose_b=True)), value)
    values = [drawn(B * H, T, D), drawn(B * H, S, D), drawn(B * H, S, D)]

    made = planned([y], tensors)
    (result,) = await run([y], dict(zip(tensors, values, strict=True)))

    assert count(made, "_Attention") == 1
    np.testing.assert_allclose(result, attention_values(*values), rtol=1e-5, atol=1e-6)


async def test_the_bits_are_the_same_each_time_and_differ_little_from_the_nodes():
    with graph():
        tensors = inputs()
        y = bert(tensors)

    apart = (await run([y], feeds(tensors), "eager", remapping=False))[0]
    first, second = [(await run([y], feeds(tensors), "eager"))[0] for _ in range(2)]

    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, apart, rtol=2e-6, atol=2e-7)


def test_recognition_is_off_with_the_passes_that_change_rounding():
    passes = {each.run: each.condition for each in BUILT_IN}

    for each in (recognize_softmax, recognize_attention, recognize_layer_norm, move_input_products):
        assert passes[each](DefaultOptions())
        assert not passes[each](DefaultOptions(remapping=False))


def fetched_weights(tensors: list[Any]) -> list[Any]:
    y = bert(tensors)
    return [y, y.op.inputs[0].op.inputs[0]]


def with_weights_waited_for(tensors: list[Any]) -> list[Any]:
    y = bert(tensors)
    weights = y.op.inputs[0].op.inputs[0]
    with ax.control_dependencies([weights]):
        return [y, ax.identity(tensors[0])]


def trained(tensors: list[Any]) -> list[Any]:
    y = bert(tensors)
    return [y, *ax.gradients(ax.reduce_sum(y * y), tensors)]


def over_another_axis(tensors: list[Any]) -> list[Any]:
    query, key, value = (heads(each, H) for each in tensors)
    scores = ax.matmul(query, key, transpose_b=True)
    return [ax.matmul(ax.nn.softmax(scores, axis=1), value)]


def with_transposed_weights(tensors: list[Any]) -> list[Any]:
    query, key, value = (heads(each, H) for each in tensors)
    scores = ax.matmul(key, query, transpose_b=True)
    return [ax.matmul(ax.nn.softmax(scores), value, transpose_a=True)]


def with_a_factor_for_each_head(tensors: list[Any]) -> list[Any]:
    query, key, value = (heads(each, H) for each in tensors)
    scores = ax.matmul(query, key, transpose_b=True) * drawn(H, 1, 1)
    return [ax.matmul(ax.nn.softmax(scores), value)]


@pytest.mark.parametrize(
    "build",
    [
        fetched_weights,
        with_weights_waited_for,
        trained,
        over_another_axis,
        with_transposed_weights,
        with_a_factor_for_each_head,
    ],
)
async def test_it_is_left_as_it_is_where_its_parts_are_used_or_it_is_something_else(build):
    with graph():
        tensors = inputs()
        fetches = build(tensors)

    kept = await run(fetches, feeds(tensors), remapping=False)

    assert count(planned(fetches, tensors), "_Attention") == 0
    for one, other in zip(await run(fetches, feeds(tensors)), kept, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_node_waits_for_what_its_parts_waited_for_and_has_the_name_of_the_last():
    with graph():
        tensors = inputs()
        query, key, value = (heads(each, H) for each in tensors)
        with ax.control_dependencies([op("NoOp", name="before")]):
            scores = ax.matmul(query, key, transpose_b=True)
        y = op("Identity", ax.matmul(ax.nn.softmax(scores), value, name="context"), name="y")
        with ax.control_dependencies([y.op.inputs[0]]):
            after = op("NoOp", name="after")

    made = by_name(planned([], tensors, [after, y.op]))

    assert made["context"].row.name == "_Attention"
    assert [each.name for each in made["context"].controls] == ["before"]
    assert [each.name for each in made["after"].controls] == ["context"]


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_wrong_shapes_are_refused_with_the_name_of_the_node(jit):
    with graph():
        tensors = [feed([None, None, None, None]) for _ in range(3)]
        query, key, value = tensors
        y = ax.matmul(ax.nn.softmax(ax.matmul(query, key, transpose_b=True)), value, name="context")
    wrong = dict(zip(tensors, (drawn(1, 2, 3, 4), drawn(1, 2, 3, 5), drawn(1, 2, 3, 4)), strict=True))

    with pytest.raises(InvalidArgumentError, match=r"context.*same depth, got 4 and 5"):
        await run([y], wrong, jit)


async def test_batches_that_broadcast_are_computed_by_the_reference_kernel():
    with graph():
        tensors = [feed([None, None, None, None]) for _ in range(3)]
        query, key, value = tensors
        y = ax.matmul(ax.nn.softmax(ax.matmul(query, key, transpose_b=True)), value)
    values = [drawn(2, 3, 4, 5), drawn(1, 3, 6, 5), drawn(2, 1, 6, 2)]

    (result,) = await run([y], dict(zip(tensors, values, strict=True)), "eager")

    np.testing.assert_allclose(result, attention_values(*values), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize(
    ("dims", "key", "mask"),
    [
        ([3, 3, 3, 4], (B, S, D), (3, B, T, S)),
        ([3, 3, 3, None], (B, S, D), (3, B, T, S)),
        ([3, None, 3, 3], (3, B, S, D), (B, T, S)),
        ([3, 3, 3, 3], (B, 1, D), (B, T, S)),
    ],
    ids=["more dimensions", "unknown mask", "unknown keys", "more columns"],
)
async def test_scores_may_broadcast_to_the_mask_and_operands_to_each_other(dims, key, mask, jit):
    values = [drawn(*shape) for shape in ((B, T, D), key, (B, S, D), mask)]
    with graph():
        tensors = [feed(None if rank is None else [None] * rank) for rank in dims]
        scores = ax.matmul(tensors[0], tensors[1], transpose_b=True) + tensors[3]
        y = ax.matmul(ax.nn.softmax(scores), tensors[2])

    (result,) = await run([y], dict(zip(tensors, values, strict=True)), jit)

    np.testing.assert_allclose(result, attention_values(*values), rtol=1e-5, atol=1e-6)


def test_orders_of_an_imported_node_must_be_permutations():
    with graph():
        x = feed([2, 3, 4, 5])
        orders = {f"{name}_order": [0, 1, 2, 3] for name in ("query", "key", "value", "output")}

        with pytest.raises(ax.errors.GraphValueError, match="key_order must permute 4 axes"):
            op("_Attention", x, x, x, [], **orders | {"key_order": [0, 0, 0, 3]}, name="attention")
