"""Vocabulary files of candidate samplers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    ResourceExhaustedError,
)


def sampled(path: Path) -> Any:
    return ax.nn.fixed_unigram_candidate_sampler([[0]], 1, 1, False, 2, vocab_file=str(path))


async def test_the_last_field_of_each_line_is_a_weight_whatever_else_there_is(tmp_path):
    (tmp_path / "words").write_bytes(b"\xff,0\r\na,b,3\n")
    with ax.Graph().as_default() as graph:
        drawn = sampled(tmp_path / "words")

    async with ax.Session(graph=graph) as session:
        assert list((await session.run(drawn))[0]) == [1]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("missing", NotFoundError),
        ("folder", FailedPreconditionError),
        ("pipe", InvalidArgumentError),
        ("no number", InvalidArgumentError),
    ],
)
async def test_a_file_that_has_no_weights_is_a_canonical_error(
    tmp_path: Path, kind: str, expected: type[OpError]
) -> None:
    path = tmp_path / "words"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "no number":
        path.write_bytes(b"a,b\n")
    with ax.Graph().as_default() as graph:
        drawn = sampled(path)

    async with ax.Session(graph=graph) as session:
        with pytest.raises(expected):
            await session.run(drawn)


@pytest.mark.parametrize(
    ("count", "expected"), [(2**50, ResourceExhaustedError), (2**61, InvalidArgumentError)]
)
async def test_more_samples_than_memory_holds_are_refused_before_any_is_drawn(
    count: int, expected: type[OpError]
) -> None:
    with ax.Graph().as_default() as graph:
        drawn = ax.nn.uniform_candidate_sampler([[0]], 1, count, False, 4)

    async with ax.Session(graph=graph) as session:
        with pytest.raises(expected):
            await session.run(drawn)
