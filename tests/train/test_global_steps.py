"""The global step: its shared read, and its increments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.train import global_step
from aioexec.train.global_steps import _get_or_create_global_step_read, _increment_global_step

KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def test_it_is_read_as_an_integer():
    step = ax.train.create_global_step()
    init = ax.global_variables_initializer()
    async with ax.Session() as session:
        await session.run(init)

        assert await global_step(session, step) == 0


@KINDS
async def test_all_share_one_read(use_resource: bool):
    with ax.variable_scope("", use_resource=use_resource):
        ax.train.get_or_create_global_step()
    read = _get_or_create_global_step_read()

    assert read is _get_or_create_global_step_read()
    assert read.op.name.startswith("global_step/")
    init = ax.global_variables_initializer()
    async with ax.Session() as session:
        await session.run(init)
        assert await session.run(read) == 0


async def test_it_is_counted_after_it_was_read():
    step = ax.train.get_or_create_global_step()
    read, counted = _get_or_create_global_step_read(), _increment_global_step(3)
    init = ax.global_variables_initializer()
    async with ax.Session() as session:
        await session.run(init)
        for before in (0, 3):
            assert await session.run([read, counted]) == [before, before + 3]
        assert await session.run(step) == 6


def test_without_one_there_is_nothing_to_read_or_count():
    assert _get_or_create_global_step_read() is None
    with pytest.raises(GraphValueError, match="should be created"):
        _increment_global_step(1)


def test_several_reads_are_refused(graph: ax.Graph):
    for _ in range(2):
        graph.add_to_collection("global_step_read_op_cache", ax.constant(1))

    with pytest.raises(RuntimeError, match="There should be only one"):
        _get_or_create_global_step_read()
