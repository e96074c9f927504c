"""Odd operands: TensorFlow's class of error, or shapes, on every tier, for static and dynamic operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.errors import OpError
from tests.campaigns.operand_calls import CONSTANT, KNOWN, UNKNOWN, Call, Leaf, copied
from tests.campaigns.operand_runs import Builder, Built
from tests.ops.odd_operands import INVALID, REFUSED_WHEN_CONSTANT, REFUSED_WHEN_KNOWN, Expected
from tests.ops.odd_pairs import ODD
from tests.tiers import Tier, tier  # noqa: F401


def known_as(call: Call, static: str) -> Call:
    """A copy of a call, of whose operands so much is known when the graph is built."""
    made = copied(call)
    for operand in made.operands():
        if isinstance(operand, Leaf):
            operand.static = static
    return made


@pytest.mark.parametrize("static", [UNKNOWN, KNOWN, CONSTANT])
@pytest.mark.parametrize("name", ODD)
async def test_odd_operands_fail_or_succeed_as_in_tensorflow(name: str, static: str, tier: Tier) -> None:  # noqa: F811
    call, expected = ODD[name]
    if name in REFUSED_WHEN_KNOWN and static != UNKNOWN:
        expected = INVALID
    if name in REFUSED_WHEN_CONSTANT and static == CONSTANT:
        expected = INVALID
    outcomes: list[Expected] = []

    built = _built(known_as(call, static))
    if isinstance(built, str):
        outcomes.append(built)
        expected = INVALID if isinstance(expected, str) else expected  # a run might fail in another way
    else:
        async with tier.session(built.graph) as session:
            for _ in range(2):
                try:
                    if built.init:
                        await session.run(built.init)
                    values = await session.run(built.steps[0], built.feeds)
                    if built.reads:
                        values += await session.run(built.reads)
                    outcomes.append(_shapes(values))
                except OpError as error:
                    outcomes.append(_canonical(error))

    assert set(outcomes) == {expected}


def _built(call: Call) -> Built | str:
    """The graph, or the class of the error that building it raises."""
    try:
        return Builder(call, None, "plain", taken=True).build()
    except OpError as error:
        return _canonical(error)


def _canonical(error: OpError) -> str:
    """The class of TensorFlow's: those of building are subclasses."""
    return next(kind.__name__ for kind in type(error).__mro__ if OpError in kind.__bases__)


def _shapes(values: list[Any]) -> Expected:
    return tuple(np.shape(value) for value in values if value is not None)
