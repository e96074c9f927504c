"""Pieces of items on a device with memory of its own: as few programs as possible, in an order that is allowed."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

import aioexec as ax
from aioexec.execution.memory.pieces import cut_pieces
from aioexec.planning.plan import Item
from tests.planning.planned import plan
from tests.tiers import constant, feed, graph, op, read, resource


def shown(item: Item) -> list[tuple[bool, list[str]]]:
    return [
        (piece.is_recorded, [each.node.name for each in piece.item.instructions])
        for piece in cut_pieces(item)
    ]


def on_host(item: Item, *names: str) -> Item:
    """The item with these nodes computed by the processor."""
    for instruction in item.instructions:
        instruction.node.on_host = instruction.node.name in names
    return item


def test_random_numbers_come_before_the_program():
    with graph():
        x = feed([2])
        noise = ax.random_uniform(ax.shape(op("Neg", x, name="a")), seed=1, name="noise")
        y = op("Add", noise, x, name="b")
    (item,) = plan([y], [x]).items

    assert shown(item)[0] == (False, ["noise/RandomUniform"])
    assert [is_recorded for is_recorded, _ in shown(item)] == [False, True]


def test_what_the_host_computes_from_inputs_comes_before_the_program():
    with graph():
        x, n = feed([4]), feed([2], "int32")
        a = op("Neg", x, name="a")
        twice = op("Add", n, n, name="twice")
        y = op("Reshape", a, twice, name="y")
    (item,) = plan([y], [x, n]).items

    assert shown(on_host(item, "twice")) == [(False, ["twice"]), (True, ["a", "y"])]


def test_what_the_host_computes_from_shapes_is_in_the_program():
    with graph():
        x = feed([None, 2])
        a = op("Neg", x, name="a")
        twice = op("Add", op("Shape", a, name="s"), constant([0, 0], "int32"), name="twice")
        y = op("Reshape", a, twice, name="y")
    (item,) = plan([y], [x]).items

    assert shown(on_host(item, "twice")) == [(True, ["a", "s", "twice", "y"])]


def test_a_node_with_an_effect_keeps_its_place():
    with graph() as g:
        v = resource([])
        assign = op("AssignVariableOp", v, constant(1.0), name="assign")
        with g.control_dependencies([assign]):
            asked = ax.Assert(ax.constant(True), ["never"], name="asked")
        with g.control_dependencies([asked]):
            y = op("Neg", read(v), name="y")
    (item,) = plan([y], targets=[asked]).items

    names = [name for _, each in shown(item) for name in each]
    assert names == [each.node.name for each in item.instructions]
    assert len(shown(item)) == 3


@pytest.mark.parametrize("seed", range(20))
def test_every_order_is_one_in_which_the_nodes_may_run(seed: int):
    random = Random(seed)
    with graph():
        made: list[Any] = [feed([]), feed([])]
        for _ in range(30):
            one, other = random.choice(made), random.choice(made)
            made.append(op(random.choice(["Add", "Mul"]), one, other))
    (item,) = plan(made[-4:], made[:2]).items
    for instruction in item.instructions:
        instruction.node.on_host = random.random() < 0.5

    pieces = cut_pieces(item)

    known = set(item.inputs)
    for piece in pieces:
        assert set(piece.item.inputs) <= known
        for instruction, dropped in zip(piece.item.instructions, piece.dropped, strict=True):
            assert set(instruction.inputs) <= known
            known.update(instruction.outputs)
            known.difference_update(dropped)
    assert set(item.outputs) <= known
    order = [each for piece in pieces for each in piece.item.instructions]
    assert sorted(map(id, order)) == sorted(map(id, item.instructions))
    kinds = [piece.is_recorded for piece in pieces]
    assert all(one != other for one, other in itertools.pairwise(kinds))
