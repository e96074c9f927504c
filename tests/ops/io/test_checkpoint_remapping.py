"""Matrices of checkpoints reordered by another vocabulary: invalid arguments are refused before memory is allocated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, UnimplementedError
from aioexec.graph.apply import apply_any_op, apply_no_output_op

MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
async def checkpoint(tmp_path: Path) -> str:
    path = f"{tmp_path}/model"
    with aioexec.Graph().as_default() as graph:
        saving = apply_no_output_op("SaveV2", path, ["m", "i"], ["", ""], [MATRIX, np.int32(1)])
        async with aioexec.Session(graph=graph) as session:
            await session.run(saving)
    return path


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    listed = {"old": "a b c d", "new": "c x a", "twice": "a b a", "gap": "a  b"}
    for name, text in listed.items():
        (tmp_path / name).write_text(text.replace(" ", "\n") + "\n")
    return {name: str(tmp_path / name) for name in [*listed, "absent"]}


async def run(op_type: str, *inputs: Any, **attrs: Any) -> Any:
    with aioexec.Graph().as_default() as graph:
        outputs = apply_any_op(op_type, *inputs, **attrs)
        async with aioexec.Session(graph=graph) as session:
            return await session.run(outputs)


async def remapped(new: str, old: str, offset: int, count: int, old_size: int = -1) -> Any:
    return await run(
        "GenerateVocabRemapping",
        new,
        old,
        new_vocab_offset=offset,
        num_new_vocab=count,
        old_vocab_size=old_size,
    )


async def loaded(path: str, name: str, rows: Any, columns: Any, fill: Any, shape: tuple[int, int]) -> Any:
    given = np.array(rows, np.int64), np.array(columns, np.int64), np.array(fill, np.float32)
    return await run("LoadAndRemapMatrix", path, name, *given, num_rows=shape[0], num_cols=shape[1])


async def test_words_are_found_where_they_stood(words: dict[str, str]) -> None:
    found, count = await remapped(words["new"], words["old"], 0, 3)
    rest, rest_count = await remapped(words["new"], words["old"], 1, 2, old_size=2)

    assert (found.tolist(), count) == ([2, -1, 0], 2)
    assert (rest.tolist(), rest_count) == ([-1, 0], 1)


@pytest.mark.parametrize(
    ("new", "old", "count", "error"),
    [
        ("new", "twice", 3, FailedPreconditionError),
        ("new", "old", 4, InvalidArgumentError),
        ("gap", "old", 1, InvalidArgumentError),
        ("new", "twice", 0, FailedPreconditionError),
        ("absent", "old", 1, NotFoundError),
        ("new", "absent", 1, NotFoundError),
    ],
)
async def test_vocabularies_that_do_not_fit_are_refused(
    words: dict[str, str], new: str, old: str, count: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await remapped(words[new], words[old], 0, count)


async def test_a_matrix_is_put_together_of_what_is_there_and_what_is_given(checkpoint: str) -> None:
    found = await loaded(checkpoint, "m", [2, -1, 0], [1, -1], [91, 92, 93, 94], (3, 2))

    np.testing.assert_array_equal(found, [[7, 91], [92, 93], [1, 94]])


@pytest.mark.parametrize(
    ("name", "rows", "columns", "fill", "shape", "error"),
    [
        ("m", [0], [], [], (2, 3), InvalidArgumentError),
        ("m", [0], [], [], (1, 2), InvalidArgumentError),
        ("m", [4], [], [], (1, 3), InvalidArgumentError),
        ("m", [0], [3], [], (1, 1), InvalidArgumentError),
        ("m", [0, 0], [], [], (2, 3), UnimplementedError),
        ("m", [0, -1], [], [1, 2], (2, 3), InvalidArgumentError),
        ("m", [-1] * 1000, [-1] * 1000, [1], (1000, 1000), InvalidArgumentError),
        ("i", [0], [], [], (1, 3), InvalidArgumentError),
        ("absent", [0], [], [], (1, 3), NotFoundError),
    ],
)
async def test_a_matrix_that_cannot_be_put_together_is_refused(
    checkpoint: str,
    name: str,
    rows: Any,
    columns: Any,
    fill: Any,
    shape: tuple[int, int],
    error: type[Exception],
) -> None:
    with pytest.raises(error):
        await loaded(checkpoint, name, rows, columns, fill, shape)
