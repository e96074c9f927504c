"""Saver: saved variables, names and paths, and the checkpoints it keeps."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as tf
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError, NotFoundError
from aioexec.formats.bundle_reader import BundleReader
from aioexec.train import Saver, get_checkpoint_state, latest_checkpoint
from aioexec.train.checkpoints.saveables import SaveableObject, SaveSpec
from aioexec.train.checkpoints.saver import _get_saver_or_default
from aioexec.train.off_loop import off_loop
from tests.train.saving import Model


@pytest.fixture(autouse=True)
def nothing_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def names_in(path: str | None) -> list[str]:
    assert path is not None
    with BundleReader(path) as reader:
        return [name for name, _, _ in reader.tensors()]


def files_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def checkpoints_in(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(".index") for path in folder.glob("*.index"))


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"sharded": True}, {"reshape": True}, {"write_version": 1}, {"restore_sequentially": True}],
)
async def test_what_is_saved_is_restored(tmp_path: Path, use_resource: bool, options: dict[str, Any]) -> None:
    model = Model(use_resource, **options)
    async with model.session() as session:
        path = await model.save(session, tmp_path / "model", 7)

        assert path == str(tmp_path / "model")
        assert await model.restored(session, path) == 7


async def test_variables_that_were_never_initialized_are_restored(tmp_path: Path) -> None:
    model = Model()
    async with model.session() as session:
        path = await model.save(session, tmp_path / "model", 7)
    async with model.session() as session:
        await model.saver.restore(session, path)

        assert await model.value(session) == 7


async def test_variables_are_saved_under_the_names_of_their_nodes(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        with tf.name_scope("a"):
            first = tf.Variable(1.0, name="x")
        second = tf.Variable(2.0, name="x", use_resource=True)
        with tf.variable_scope("b"):
            tf.get_variable("p", [5, 2], partitioner=tf.fixed_size_partitioner(2))
        saver, initializer = Saver(), tf.global_variables_initializer()
        chosen, renamed = Saver([second], name="chosen"), Saver({"n": first, "m": second}, name="renamed")
    async with tf.Session(graph=graph) as session:
        await session.run(initializer)
        paths = [
            await each.save(session, tmp_path / "m", k) for k, each in enumerate((saver, chosen, renamed))
        ]

    assert names_in(paths[0]) == ["a/x", "b/p", "x"]
    assert names_in(paths[1]) == ["x"]
    assert names_in(paths[2]) == ["m", "n"]


async def test_a_partitioned_variable_is_restored_into_other_parts(tmp_path: Path) -> None:
    values: list[Any] = []
    for parts, use_resource in ((2, False), (3, True), (1, False)):
        with tf.Graph().as_default() as graph:
            variable = tf.get_variable(
                "p", [7, 2], partitioner=tf.fixed_size_partitioner(parts), use_resource=use_resource
            )
            whole = tf.convert_to_tensor(variable)
            saver, initializer = Saver(), tf.global_variables_initializer()
        async with tf.Session(graph=graph) as session:
            if values:
                await saver.restore(session, tmp_path / "m")
            else:
                await session.run(initializer)
            values.append(await session.run(whole))
            await saver.save(session, tmp_path / "m")

    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


async def test_tables_are_saved_and_restored(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, name="words")
        fill, forget = table.insert(["a", "b"], [1, 2]), table.remove(["a"])
        found = table.lookup(tf.constant(["a", "b", "c"]))
        saver = Saver()
    async with tf.Session(graph=graph) as session:
        await session.run(fill)
        path = await saver.save(session, tmp_path / "m")
        await session.run(forget)
        await saver.restore(session, path)

        assert (await session.run(found)).tolist() == [1, 2, -1]
    assert names_in(path) == ["words-keys", "words-values"]


async def test_programs_define_what_is_saved(tmp_path: Path) -> None:
    class Doubled(SaveableObject):
        def __init__(self, variable: Any) -> None:
            spec = SaveSpec(variable * 2.0, "", "doubled")
            super().__init__(variable, [spec], "doubled")

        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            return self.op.assign(restored_tensors[0] / 2.0)

    with tf.Graph().as_default() as graph:
        variable = tf.Variable(3.0, name="x")
        saver, change = Saver([Doubled(variable)]), variable.assign(0.0)
    async with tf.Session(graph=graph) as session:
        await session.run(variable.initializer)
        path = await saver.save(session, tmp_path / "m")
        await session.run(change)
        await saver.restore(session, path)

        assert await session.run(variable) == 3.0


async def test_values_of_another_shape_are_restored_if_reshaped(tmp_path: Path) -> None:
    model = Model()
    with tf.Graph().as_default() as graph:
        variable = tf.Variable(tf.zeros([6]), name="v")
        strict, loose = Saver(), Saver(reshape=True, name="loose")
    async with model.session() as session:
        path = await model.save(session, tmp_path / "m", 4)
    async with tf.Session(graph=graph) as session:
        with pytest.raises(InvalidArgumentError, match="a mismatch between the current graph and the graph"):
            await strict.restore(session, path)
        await loose.restore(session, path)

        assert (await session.run(variable)).tolist() == [4] * 6


# Errors


def test_there_must_be_something_to_save() -> None:
    with tf.Graph().as_default():
        with pytest.raises(GraphValueError, match="No variables to save"):
            Saver()
        with pytest.raises(GraphValueError, match="No variables to save"):
            Saver(defer_build=True).build()


async def test_a_saver_of_nothing_does_nothing_if_that_is_allowed(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0)
        saver = Saver(allow_empty=True)
    async with tf.Session(graph=graph) as session:
        assert await saver.save(session, tmp_path / "m") is None
        await saver.restore(session, tmp_path / "m")

    assert files_in(tmp_path) == ["m.meta"]


@pytest.mark.parametrize(
    ("var_list", "kind", "message"),
    [
        (lambda v: [v, tf.constant(1.0)], GraphTypeError, "Variable to save is not a Variable"),
        (lambda v: 3, GraphTypeError, "should be passed in a dict or a list"),
        (lambda v: {1: v}, GraphTypeError, "Name is not a string"),
        (lambda v: {"a": v, "b": v}, GraphValueError, "restored with two names"),
        (lambda v: [v, v], GraphValueError, "the same name: v"),
        (lambda v: {"a": tf.constant(1.0)}, GraphTypeError, "is not a Variable"),
        (lambda v: {"a": [v]}, GraphValueError, "Slices must all be slices"),
        (lambda v: {"a": [3]}, GraphValueError, "Slices must all be Variables"),
    ],
)
def test_what_cannot_be_saved_is_refused(var_list: Any, kind: type[Exception], message: str) -> None:
    with tf.Graph().as_default():
        variable = tf.Variable(1.0, name="v")

        with pytest.raises(kind, match=message):
            Saver(var_list(variable))


async def test_arguments_that_cannot_be_are_refused(tmp_path: Path) -> None:
    model = Model()
    with model.graph.as_default(), pytest.raises(GraphValueError, match="build cannot be deferred"):
        Saver(model.variables, defer_build=True)
    with model.graph.as_default():
        deferred = Saver(defer_build=True, name="later")
    async with model.session() as session:
        with pytest.raises(RuntimeError, match="should be called before save"):
            await deferred.save(session, tmp_path / "m")
        with pytest.raises(TypeError, match="must be a Session"):
            await model.saver.save(3, tmp_path / "m")
        with pytest.raises(ValueError, match="must not contain path components"):
            await model.saver.save(session, tmp_path / "m", latest_filename="a/b")
        with pytest.raises(ValueError, match="collides with 'save_path'"):
            await model.saver.save(session, tmp_path / "checkpoint")
        with pytest.raises(ValueError, match="when it is None"):
            await model.saver.restore(session, None)
        with pytest.raises(ValueError, match=r"not a valid checkpoint: .*nothing"):
            await model.saver.restore(session, tmp_path / "nothing")
    assert files_in(tmp_path) == []


async def test_a_variable_that_the_checkpoint_lacks_is_named(tmp_path: Path) -> None:
    model = Model()
    with tf.Graph().as_default() as graph:
        tf.Variable(0.0, name="other")
        saver = Saver()
    async with model.session() as session:
        path = await model.save(session, tmp_path / "m", 4)
    async with tf.Session(graph=graph) as session:
        with pytest.raises(NotFoundError, match=r"(?s)Restoring from checkpoint failed.*Key other not found"):
            await saver.restore(session, path)


# Numbers, and how many are kept


async def test_the_number_of_the_step_is_in_the_path(tmp_path: Path) -> None:
    model, padded = Model(), Model(pad_step_number=True)
    with model.graph.as_default():
        step = tf.Variable(41, name="step", trainable=False, dtype=tf.int64)
        tensor = step + 1
    async with model.session() as session:
        await session.run(step.initializer)
        for number, expected in (
            (3, "3"),
            (np.int64(4), "4"),
            (step, "41"),
            (tensor, "42"),
            ("step:0", "41"),
        ):
            path = await model.save(session, tmp_path / "m", 1, global_step=number)
            assert path == str(tmp_path / f"m-{expected}")
    async with padded.session() as session:
        path = await padded.save(session, tmp_path / "m", 1, global_step=3)
        assert path == str(tmp_path / "m-00000003")


async def test_the_latest_checkpoints_are_kept(tmp_path: Path) -> None:
    model = Model(max_to_keep=2)
    async with model.session() as session:
        for step in range(1, 5):
            await model.save(session, tmp_path / "m", step, global_step=step)
        await model.save(session, tmp_path / "m", 9, global_step=3)  # again: it is the latest now

    paths = [str(tmp_path / f"m-{step}") for step in (4, 3)]
    assert model.saver.last_checkpoints == paths
    assert checkpoints_in(tmp_path) == ["m-3", "m-4"]
    state = await off_loop(get_checkpoint_state, tmp_path)
    assert list(state.all_model_checkpoint_paths) == paths
    assert await off_loop(latest_checkpoint, tmp_path) == paths[-1]
    assert len(files_in(tmp_path)) == 8  # the one saved again has an empty data file more


@pytest.mark.parametrize("max_to_keep", [None, 0])
async def test_all_are_kept_where_there_is_no_limit_and_the_latest_is_listed(
    tmp_path: Path, max_to_keep: int | None
) -> None:
    model = Model(max_to_keep=max_to_keep)
    async with model.session() as session:
        for step in range(3):
            await model.save(session, tmp_path / "m", step, global_step=step)

    assert checkpoints_in(tmp_path) == ["m-0", "m-1", "m-2"]
    assert list(get_checkpoint_state(tmp_path).all_model_checkpoint_paths) == [str(tmp_path / "m-2")]
    assert model.saver.last_checkpoints == []


async def test_one_each_so_many_hours_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr(time, "time", lambda: now)
    model = Model(max_to_keep=1, keep_checkpoint_every_n_hours=2)
    async with model.session() as session:
        for step in range(7):
            await model.save(session, tmp_path / "m", step, global_step=step)
            now += 3600

    assert checkpoints_in(tmp_path) == ["m-3", "m-5", "m-6"]


async def test_a_checkpoint_need_not_be_listed(tmp_path: Path) -> None:
    model = Model(max_to_keep=1)
    async with model.session() as session:
        await model.save(session, tmp_path / "a", 1, write_state=False, write_meta_graph=False)
        await model.save(session, tmp_path / "b", 1, write_state=False, meta_graph_suffix="graph")

    assert files_in(tmp_path) == [
        *("a.data-00000-of-00001", "a.index", "b.data-00000-of-00001", "b.graph", "b.index")
    ]
    assert model.saver.last_checkpoints == []


async def test_paths_are_relative_where_asked_for_and_the_folder_may_be_moved(tmp_path: Path) -> None:
    model = Model(save_relative_paths=True)
    (tmp_path / "old").mkdir()
    async with model.session() as session:
        await model.save(session, tmp_path / "old" / "m", 5, global_step=1, latest_filename="list")
        (tmp_path / "old").rename(tmp_path / "new")

        path = await off_loop(latest_checkpoint, tmp_path / "new", "list")

        assert path == str(tmp_path / "new" / "m-1")
        assert await model.restored(session, path) == 5


async def test_a_former_runs_checkpoints_are_kept_and_deleted_in_their_turn(tmp_path: Path) -> None:
    first, second = Model(max_to_keep=2), Model(max_to_keep=2)
    async with first.session() as session:
        for step in (1, 2):
            await first.save(session, tmp_path / "m", step, global_step=step)
    paths = [str(tmp_path / f"m-{step}") for step in (0, 1, 2)]
    await off_loop(second.saver.recover_last_checkpoints, paths)
    assert second.saver.last_checkpoints == first.saver.last_checkpoints
    async with second.session() as session:
        await second.save(session, tmp_path / "m", 3, global_step=3)

    assert checkpoints_in(tmp_path) == ["m-2", "m-3"]


async def test_checkpoints_that_were_set_without_a_time_are_never_deleted(tmp_path: Path) -> None:
    model = Model(max_to_keep=1)
    async with model.session() as session:
        old = await model.save(session, tmp_path / "old", 1, write_state=False)
        model.saver.set_last_checkpoints([old])
        for step in (1, 2):
            await model.save(session, tmp_path / "m", step, global_step=step)

    assert checkpoints_in(tmp_path) == ["m-2", "old"]
    no_list: Any = ("a",)
    with pytest.raises(TypeError, match="must be a list"):
        model.saver.set_last_checkpoints_with_time(no_list)


# As a message


async def test_a_saver_is_made_of_its_message(tmp_path: Path) -> None:
    model = Model(max_to_keep=3, sharded=True)

    with model.graph.as_default():
        again = Saver.from_proto(model.saver.to_proto())
    async with model.session() as session:
        path = await model.save(session, tmp_path / "m", 8)
        await session.run(model.set_all, {model.number: 0})
        await again.restore(session, path)

        assert await model.value(session) == 8
    assert again.as_saver_def() == model.saver.saver_def
    assert (again.saver_def.max_to_keep, again.saver_def.sharded) == (3, True)


def test_a_message_is_as_of_a_scope() -> None:
    with tf.Graph().as_default():
        tf.Variable(1.0, name="v")
        with tf.name_scope("outer"):
            saver = Saver()
        message = saver.to_proto("outer")

        assert message.restore_op_name == "save/restore_all"
        assert saver.saver_def.restore_op_name == "outer/save/restore_all"
        assert saver.to_proto("elsewhere") is None
        assert Saver.from_proto(message, "outer").saver_def == saver.saver_def


def test_a_message_must_name_its_nodes() -> None:
    with tf.Graph().as_default():
        with pytest.raises(GraphValueError, match="save_tensor_name"):
            Saver(saver_def=tf.train.SaverDef())
        with pytest.raises(GraphValueError, match="must be a SaverDef"):
            Saver(saver_def="save/Const")


def test_the_default_saver_is_that_of_the_collection() -> None:
    with tf.Graph().as_default() as graph:
        tf.Variable(1.0)
        made = _get_saver_or_default()
        assert made is _get_saver_or_default()
        assert made.saver_def.sharded

        graph.add_to_collection(tf.GraphKeys.SAVERS, made)
        with pytest.raises(RuntimeError, match="More than one item in collection"):
            _get_saver_or_default()
