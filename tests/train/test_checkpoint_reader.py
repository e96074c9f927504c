"""Checkpoints read by name, without a graph, in both formats; and waits for checkpoints, on the loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.errors import DataLossError, NotFoundError
from aioexec.train.checkpoints.checkpoint_state import write_checkpoint_state
from aioexec.train.checkpoints.waiting import wait_for_new_checkpoint
from aioexec.train.off_loop import off_loop

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(params=[2, 1])
async def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A checkpoint in each format: a number, text, truths, nothing, and a matrix in parts."""
    with aioexec.Graph().as_default() as graph:
        aioexec.get_variable("number", initializer=aioexec.constant(1.5))
        aioexec.get_variable("text", initializer=aioexec.constant("abc"))
        aioexec.get_variable("truths", initializer=aioexec.constant([True, False]))
        aioexec.get_variable(
            "nothing", shape=[0, 3], dtype=aioexec.int64, initializer=aioexec.zeros_initializer()
        )
        partitioner = aioexec.fixed_size_partitioner(2)
        aioexec.get_variable("in/matrix", initializer=aioexec.constant(MATRIX), partitioner=partitioner)
        saver = aioexec.train.Saver(write_version=request.param)
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())
            return str(await saver.save(session, f"{tmp_path}/model", global_step=1, write_meta_graph=False))


def test_a_reader_lists_names_shapes_and_dtypes(checkpoint: str) -> None:
    reader = aioexec.train.NewCheckpointReader(checkpoint)

    assert reader.get_variable_to_shape_map() == {
        "in/matrix": [3, 2],
        "nothing": [0, 3],
        "number": [],
        "text": [],
        "truths": [2],
    }
    assert reader.get_variable_to_dtype_map()["nothing"] == aioexec.int64
    assert reader.get_variable_to_dtype_map()["text"] == aioexec.string
    assert reader.has_tensor("in/matrix")
    assert reader.has_tensor(b"number")
    assert not reader.has_tensor("in/matrix/part_0")
    assert reader.debug_string().splitlines()[:2] == [
        b"in/matrix (DT_FLOAT) [3,2]",
        b"nothing (DT_INT64) [0,3]",
    ]
    reader.close()


def test_a_reader_reads_tensors_and_scalars(checkpoint: str) -> None:
    with aioexec.train.load_checkpoint(checkpoint) as reader:
        number, text = reader.get_tensor("number"), reader.get_tensor("text")
        np.testing.assert_array_equal(reader.get_tensor("in/matrix"), MATRIX)
        np.testing.assert_array_equal(reader.get_tensor("truths"), [True, False])
        assert reader.get_tensor("nothing").shape == (0, 3)

    assert (type(number), number) == (np.float32, 1.5)
    assert text == b"abc"


def test_variables_are_listed_and_loaded_from_the_latest_checkpoint_of_a_folder(checkpoint: str) -> None:
    folder = Path(checkpoint).parent

    names = [name for name, _ in aioexec.train.list_variables(folder)]

    assert names == ["in/matrix", "nothing", "number", "text", "truths"]
    assert aioexec.train.load_variable(folder, "number:0") == 1.5


def test_what_is_not_there_is_said(checkpoint: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").write_bytes(b"no checkpoint" * 9)

    with (
        aioexec.train.load_checkpoint(checkpoint) as reader,
        pytest.raises(NotFoundError, match="Key absent not found in checkpoint"),
    ):
        reader.get_tensor("absent")
    with pytest.raises(NotFoundError, match="Failed to find any matching files for"):
        aioexec.train.NewCheckpointReader(tmp_path / "absent")
    with pytest.raises(DataLossError, match="not an sstable"):
        aioexec.train.NewCheckpointReader(tmp_path / "other")
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"):
        aioexec.train.load_checkpoint(tmp_path / "empty")


@pytest.mark.parametrize("checkpoint", [2], indirect=True)
def test_a_damaged_tensor_is_an_error_and_others_are_read(checkpoint: str) -> None:
    data = Path(f"{checkpoint}.data-00000-of-00001")
    content = bytearray(data.read_bytes())
    content[0] ^= 1  # of the matrix, which comes first
    data.write_bytes(content)

    with aioexec.train.load_checkpoint(checkpoint) as reader:
        with pytest.raises(DataLossError, match="Checksum does not match"):
            reader.get_tensor("in/matrix")
        assert reader.get_tensor("number") == 1.5


# Waiting


class Writer:
    """Makes checkpoints that are there by name alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: list[str] = []

    async def write(self, delay: float, name: str) -> None:
        await asyncio.sleep(delay)
        await off_loop(self._write, str(self.folder / name))

    def _write(self, path: str) -> None:
        Path(f"{path}.index").touch()
        self.paths.append(path)
        write_checkpoint_state(str(self.folder), path, self.paths)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    return Writer(tmp_path)


async def test_a_new_checkpoint_is_waited_for(writer: Writer, virtual_clock: Any) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.write(2.5, "model-1"))
        first = await wait_for_new_checkpoint(writer.folder, seconds_to_sleep=1)
        group.create_task(writer.write(10.5, "model-2"))
        second = await wait_for_new_checkpoint(writer.folder, first, seconds_to_sleep=2)

    assert [Path(each or "").name for each in (first, second)] == ["model-1", "model-2"]
    assert virtual_clock.time() == 3 + 12


async def test_waiting_for_a_checkpoint_ends_at_its_time(writer: Writer, virtual_clock: Any) -> None:
    assert await wait_for_new_checkpoint(writer.folder, timeout=4.5) is None
    assert virtual_clock.time() == 4


async def test_checkpoints_are_iterated_as_they_come(writer: Writer, virtual_clock: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for when in (1, 2, 20):
            group.create_task(writer.write(when - 0.5, f"model-{when}"))
        checkpoints = aioexec.train.checkpoints_iterator(writer.folder, min_interval_secs=5, timeout=30)
        seen = [(Path(path).name, virtual_clock.time()) async for path in checkpoints]

    assert seen == [("model-1", 1), ("model-2", 6), ("model-20", 20)]
    assert virtual_clock.time() == 20 + 5 + 30


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_caller_of_an_iteration_says_whether_there_will_be_more(
    writer: Writer, virtual_clock: Any, is_async: bool
) -> None:
    asked: list[float] = []

    def is_over() -> bool:
        asked.append(virtual_clock.time())
        return len(asked) == 3

    async def is_over_later() -> bool:
        return is_over()

    over: Callable[[], Any] = is_over_later if is_async else is_over
    found = [
        path async for path in aioexec.train.checkpoints_iterator(writer.folder, timeout=10, timeout_fn=over)
    ]

    assert found == []
    assert asked == [10, 20, 30]


async def test_waiting_for_a_checkpoint_can_be_cancelled(writer: Writer, virtual_clock: Any) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3.5):
            await wait_for_new_checkpoint(writer.folder)

    assert virtual_clock.time() == 3.5
