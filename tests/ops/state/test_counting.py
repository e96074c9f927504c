"""CountUpTo for both kinds of variables."""

from __future__ import annotations

import pytest

import aioexec as ax
from aioexec.errors import OutOfRangeError


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
async def test_a_variable_counts_up_to_its_limit(use_resource):
    with ax.Graph().as_default():
        variable = ax.Variable(5, use_resource=use_resource)
        counted = variable.count_up_to(7)
    async with ax.Session(graph=counted.graph) as session:
        await session.run(variable.initializer)

        assert [await session.run(counted) for _ in range(2)] == [5, 6]
        with pytest.raises(OutOfRangeError, match="Reached limit of 7"):
            await session.run(counted)
        assert await session.run(variable) == 7
