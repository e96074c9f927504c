"""Checkpoints in graphs: a step restores what another saved, slices, errors, and cancelled steps."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, InvalidArgumentError, NotFoundError
from aioexec.formats.checkpoint_files import OutputFile
from aioexec.graph.apply import apply_list_op, apply_no_output_op, apply_op
from aioexec.ops.io import checkpoints
from tests.tiers import Tier, tier as tier

VALUES = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([True, False]),
    "s": np.array([b"x", b"yz"], object),
    "n": np.int64(7),
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


@pytest.fixture
def prefix(tmp_path) -> str:
    return str(tmp_path / "model.ckpt-1")


def unknown(value: Any) -> ax.Tensor:
    """A tensor whose shape is not known before it is computed."""
    return ax.placeholder_with_default(ax.constant(value), None)


def save(prefix: Any, values: dict[str, Any], places: list[str] | None = None) -> ax.Operation:
    names = list(values)
    return apply_no_output_op("SaveV2", prefix, names, places or [""] * len(names), list(values.values()))


def restore(prefix: Any, names: Any, *types: Any, places: Any = None) -> Any:
    places = [""] * len(types) if places is None else places
    return apply_list_op("RestoreV2", prefix, names, places, dtypes=list(types))


async def test_what_one_step_saves_another_restores(prefix, graph, tier: Tier):
    saved = save(prefix, VALUES)
    restored = restore(prefix, list(VALUES), ax.float32, ax.bool, ax.string, ax.int64)

    async with tier.session(graph) as session:
        assert await session.run(saved) is None
        results = await session.run(restored)

    for result, value in zip(results, VALUES.values(), strict=True):
        np.testing.assert_array_equal(result, value, strict=True)


@pytest.mark.parametrize("use_resource", [False, True])
async def test_variables_are_saved_as_they_are_and_restored_into_others(prefix, use_resource):
    variable = ax.get_variable("v", initializer=np.arange(4.0), use_resource=use_resource)
    saved = save(prefix, {"v": variable})
    (value,) = restore(prefix, ["v"], ax.float64)
    assigned = variable.assign(np.zeros(4)), variable.assign(ax.reshape(value, [4]))

    async with ax.Session() as session:
        await session.run(variable.initializer)
        await session.run(saved)
        await session.run(assigned[0])
        assert (await session.run(variable)).tolist() == [0, 0, 0, 0]
        await session.run(assigned[1])
        assert (await session.run(variable)).tolist() == [0, 1, 2, 3]


async def test_several_workers_read_a_large_checkpoint(prefix, monkeypatch):
    monkeypatch.setattr(checkpoints, "_BYTES_FOR_A_WORKER", 8)
    monkeypatch.setattr(checkpoints, "_MOST_WORKERS", 3)
    values = {f"v{k}": np.full(k, k) for k in range(20)}
    saved = save(prefix, values)
    restored = restore(prefix, list(values), *[ax.int64] * 20)
    damaged = restore(prefix, [*values, "v7"], *[ax.int64] * 20, ax.float32)

    async with ax.Session() as session:
        await session.run(saved)
        for result, value in zip(await session.run(restored), values.values(), strict=True):
            np.testing.assert_array_equal(result, value, strict=True)
        with pytest.raises(InvalidArgumentError, match="tensor_name = v7; expected dtype float"):
            await session.run(damaged)


async def test_parts_are_saved_under_one_name_and_restored_as_any_part(prefix):
    value = np.arange(20.0).reshape(5, 4)
    parts = ["5 4 0,2:-", "5 4 2,3:-"]
    saved = apply_no_output_op("SaveV2", prefix, ["p", "p"], parts, [value[:2], value[2:]])
    wanted = ["", "5 4 1,3:0,2", parts[1]]
    restored = restore(prefix, ["p"] * 3, *[ax.float64] * 3, places=wanted)

    async with ax.Session() as session:
        await session.run(saved)
        whole, middle, second = await session.run(restored)

    assert [tensor.shape.as_list() if tensor.shape.ndims is not None else None for tensor in restored] == [
        None,
        [3, 2],
        [3, 4],
    ]
    np.testing.assert_array_equal(whole, value)
    np.testing.assert_array_equal(middle, value[1:4, :2])
    np.testing.assert_array_equal(second, value[2:])


async def test_the_first_format_is_written_and_read_by_its_own_nodes_and_read_by_the_later_ones(prefix):
    value = np.arange(4)
    saved = apply_no_output_op("Save", prefix, ["w", "s"], [np.eye(2), ax.constant(["a"])])
    parted = apply_no_output_op(
        "SaveSlices", f"{prefix}-parts", ["p", "p"], ["4 0,2", "4 2,2"], [value[:2], value[2:]]
    )
    restored = [
        apply_op("Restore", prefix, "w", dt=ax.float64),
        apply_op("RestoreSlice", f"{prefix}-pa*", "p", "4 1,2", dt=ax.int64),
        apply_op("RestoreSlice", f"{prefix}-parts", "p", "", dt=ax.int64),
        restore(prefix, ["w"], ax.float64, places=["2 2 0,1:-"])[0],
    ]

    async with ax.Session() as session:
        await session.run([saved, parted])
        whole, part, all_of_it, later = await session.run(restored)

    assert whole.tolist() == [[1, 0], [0, 1]]
    assert part.tolist() == [1, 2]
    assert all_of_it.tolist() == [0, 1, 2, 3]
    assert later.tolist() == [[1, 0]]


async def test_shards_are_merged_and_their_folders_go_if_that_is_wished(tmp_path):
    prefixes = [str(tmp_path / f"part{k}" / "x") for k in range(2)]
    saved = [save(prefix, {f"v{k}": np.float32(k)}) for k, prefix in enumerate(prefixes)]
    all_of_it = str(tmp_path / "model")
    merged = apply_no_output_op("MergeV2Checkpoints", prefixes, all_of_it)
    restored = restore(all_of_it, ["v0", "v1"], ax.float32, ax.float32)

    async with ax.Session() as session:
        await session.run(saved)
        await session.run(merged)
        assert await session.run(restored) == [0, 1]

    assert sorted(os.listdir(tmp_path)) == [
        "model.data-00000-of-00002",
        "model.data-00001-of-00002",
        "model.index",
    ]


async def test_folders_stay_if_that_is_wished_or_something_is_in_them(tmp_path):
    kept, shared = tmp_path / "kept", tmp_path / "shared"
    saved = [save(str(folder / "x"), {folder.name: np.float32(1)}) for folder in (kept, shared)]
    merges = [
        apply_no_output_op(
            "MergeV2Checkpoints", [str(kept / "x")], str(tmp_path / "a"), delete_old_dirs=False
        ),
        apply_no_output_op("MergeV2Checkpoints", [str(shared / "x")], str(tmp_path / "b")),
    ]

    async with ax.Session() as session:
        await session.run(saved)
        (shared / "other").write_bytes(b"")
        await session.run(merges)

    assert os.listdir(kept) == []
    assert os.listdir(shared) == ["other"]


# Refusals


@pytest.mark.parametrize(
    ("names", "places", "values", "message"),
    [
        (
            ["a", "b"],
            [""],
            [1.0],
            "tensor_names and shape_and_slices have different number of elements: 2 vs. 1",
        ),
        (["a", "b"], ["", ""], [1.0], "Got 2 tensor names but 1 tensors."),
        ([["a"]], [""], [1.0], r"should be an 1-D tensors, got \[1,1\] and \[1\] instead"),
        (
            ["a"],
            ["4 4 0,2:0,2"],
            [1.0],
            "does not match the shape of the tensor to  save: 4 4 0,2:0,2, tensor: ",
        ),
        (["a"], ["4 x"], [1.0], "Expected a pair of numbers or '-' but got 'x'"),
        (["a", "a"], ["", ""], [1.0, 2.0], "Adding duplicate key: a"),
        ([""], [""], [1.0], "needs a name"),
    ],
)
async def test_names_and_parts_must_fit_what_is_saved(prefix, tmp_path, names, places, values, message):
    saved = apply_no_output_op("SaveV2", unknown(prefix), unknown(names), unknown(places), values)

    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match=message):
            await session.run(saved)

    assert [name for name in os.listdir(tmp_path) if name.endswith(".index")] == []


async def test_a_prefix_is_one_string(prefix):
    several = save(unknown([prefix, prefix]), VALUES)
    one = save(unknown([prefix]), VALUES)

    async with ax.Session() as session:
        with pytest.raises(
            InvalidArgumentError, match=r"Input prefix should have a single element, got 2 instead\."
        ):
            await session.run(several)
        await session.run(one)


def test_what_cannot_fit_is_told_when_the_graph_is_built(prefix):
    with pytest.raises(GraphValueError, match="Dimension must be 1 but is 2"):
        apply_no_output_op("SaveV2", prefix, ["a", "b"], [""], [1.0])
    with pytest.raises(GraphValueError, match="must have rank"):
        apply_no_output_op("SaveV2", [prefix], ["a"], [""], [1.0])
    with pytest.raises(GraphValueError, match="out of bounds"):
        restore(prefix, ["a"], ax.float32, places=["2 2 1,3:-"])


async def test_what_is_missing_is_not_found_and_nothing_else_is_restored(prefix):
    saved = save(prefix, VALUES)
    missing = restore(prefix, ["w", "zz"], ax.float32, ax.float32)
    nowhere = restore(f"{prefix}0", ["w"], ax.float32)
    other_type = restore(prefix, ["w"], ax.int32)

    async with ax.Session() as session:
        await session.run(saved)
        with pytest.raises(NotFoundError, match="Key zz not found in checkpoint"):
            await session.run(missing)
        with pytest.raises(NotFoundError, match="Failed to find any matching files for"):
            await session.run(nowhere)
        with pytest.raises(
            InvalidArgumentError, match="expected dtype int32 does not equal original dtype float"
        ):
            await session.run(other_type)


@pytest.mark.parametrize("bad", ["x", "4 x 0,2:-", "2 2 9,1:-"])
@pytest.mark.parametrize("place", [0, 1])
async def test_what_is_missing_is_reported_before_a_bad_slice(prefix, bad, place):
    places = unknown([bad, ""] if place == 0 else ["", bad])
    table, value, types = f"{prefix}-table", VALUES["w"], [ax.float32] * 2
    saved = save(prefix, {"v": value, "w": value}), apply_no_output_op("Save", table, ["v"], [value])
    nowhere = restore(f"{prefix}0", ["v", "w"], *types, places=places)
    missing = restore(prefix, ["v", "zz"], *types, places=places)
    missing_in_table = apply_op("RestoreSlice", table, "zz", unknown(bad), dt=ax.float32)
    present = restore(prefix, ["v", "w"], *types, places=places)

    async with ax.Session() as session:
        await session.run(saved)
        for restored in (nowhere, missing, missing_in_table):
            with pytest.raises(NotFoundError):
                await session.run(restored)
        with pytest.raises(InvalidArgumentError):
            await session.run(present)


# Steps that are given up


class Held:
    """A disk that is waited for: the file is put in its place when `go_on` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        first = OutputFile.write

        def write(file: Any, data: Any) -> None:
            self.reached.set()
            assert self.go_on.wait(10)
            first(file, data)

        monkeypatch.setattr(OutputFile, "write", write)


async def test_the_loop_goes_on_while_a_checkpoint_is_written(prefix, tmp_path, monkeypatch):
    disk = Held(monkeypatch)
    saved, other = save(prefix, VALUES), ax.constant(3) + 4

    async with ax.Session() as session:
        saving = asyncio.create_task(session.run(saved))
        await asyncio.to_thread(disk.reached.wait)
        assert await session.run(other) == 7
        assert not saving.done()

        disk.go_on.set()
        await saving

    assert sorted(os.listdir(tmp_path)) == ["model.ckpt-1.data-00000-of-00001", "model.ckpt-1.index"]


async def test_a_step_given_up_while_it_saves_leaves_the_former_checkpoint(prefix, tmp_path, monkeypatch):
    value = ax.placeholder(ax.float64, [None])
    saved, restored = save(prefix, {"v": value}), restore(prefix, ["v"], ax.float64)[0]

    async with ax.Session() as session:
        await session.run(saved, {value: [1.0]})
        disk = Held(monkeypatch)
        saving = asyncio.create_task(session.run(saved, {value: [2.0]}))
        await asyncio.to_thread(disk.reached.wait)
        saving.cancel()
        await asyncio.sleep(0)
        disk.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await saving

        assert (await session.run(restored)).tolist() == [1.0]
    assert len(os.listdir(tmp_path)) == 2
